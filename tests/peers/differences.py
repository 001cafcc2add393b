"""What is known to differ from nbclient, and why; what is known to be refused."""

from typing import Final

KEEP_GOING: Final = frozenset({"nbclient-0.11.0/tests/files/Skip Exceptions.ipynb"})
"""Run past failures, as nbclient's own tests run them."""

_TEXT_UPDATES: Final = (
    "a display that has only text is updated: the record says that, not which display it was"
)
_NO_NETWORK: Final = "it asks a name server: in the sandbox there is none, outside there may be one"
_INPUT: Final = "the error of input() has our words"
_BROKEN_PICTURE: Final = (
    "stock ipykernel reports a picture without a file as an error of type NoneType, and nbclient stops"
)
_STOPPED: Final = "an end from outside is an error output in the cell; nbclient raises it to its caller only"
_OUR_ERROR: Final = "the error is an output of the cell; ipykernel prints it, or says nothing"

EXPECTED: Final[dict[str, str]] = {
    "nbclient-0.11.0/tests/files/Autokill.ipynb": _STOPPED,
    "nbclient-0.11.0/tests/files/Check History in Memory.ipynb": "it asks for nbclient's own setting of the history file",
    "nbclient-0.11.0/tests/files/Clear Output.ipynb": _TEXT_UPDATES,
    "nbclient-0.11.0/tests/files/Disable Stdin.ipynb": _INPUT,
    "nbclient-0.11.0/tests/files/Inline Image.ipynb": _BROKEN_PICTURE,
    "nbclient-0.11.0/tests/files/Interrupt.ipynb": _STOPPED,
    "nbclient-0.11.0/tests/files/Output.ipynb": "output captured by a widget stands in its cell, not in the widget's state",
    "nbclient-0.11.0/tests/files/update-display-id.ipynb": _TEXT_UPDATES,
    "nbconvert-7.17.2/docs/source/nbconvert_library.ipynb": _NO_NETWORK,
    "nbconvert-7.17.2/tests/exporters/files/notebook2.ipynb": "random numbers without a seed",
    "nbconvert-7.17.2/tests/exporters/files/notebook3.ipynb": _INPUT,
    "nbconvert-7.17.2/tests/files/notebook4_jpeg.ipynb": _BROKEN_PICTURE,
    "nbformat-5.11.1/tests/test2.ipynb": "it lists its directory, which holds IPython's profile there",
    "nbformat-5.11.1/tests/test3.ipynb": _NO_NETWORK,
    "nbformat-5.11.1/tests/test4.5.ipynb": _NO_NETWORK,
    "nbformat-5.11.1/tests/test4.ipynb": _NO_NETWORK,
    "nbformat-5.11.1/tests/test4docinfo.ipynb": _NO_NETWORK,
    "nbformat-5.11.1/tests/test4plus.ipynb": _NO_NETWORK,
    "papermill-2.7.0/papermill/tests/notebooks/binder.ipynb": "it prints where its interpreter is",
    "papermill-2.7.0/papermill/tests/notebooks/keyboard_interrupt.ipynb": _OUR_ERROR,
    "papermill-2.7.0/papermill/tests/notebooks/line_magic_error.ipynb": _OUR_ERROR,
}

REFUSED: Final[dict[str, str]] = {
    "nbformat-5.11.1/tests/invalid.ipynb": "nbformat 4 with a heading cell, which only 3 had",
    "nbformat-5.11.1/tests/test3_no_worksheets.ipynb": "nbformat 3 without worksheets",
    "nbformat-5.11.1/tests/test3_worksheet_with_no_cells.ipynb": "a worksheet without cells",
    "nbformat-5.11.1/tests/v4_5_invalid_metadata.ipynb": "tags that are no list of texts",
}
