"""Tests of IPython's that can't hold for the native kernel's shell, each with the reason.

A name is that of a file, `::`, and the start of what follows in pytest's name of the test.
"""

_NO_FILE = "there is no history file: what a session's code was, the service keeps"
_COMMANDS = (
    "commands write straight to descriptors 1 and 2, by a way of our own, which says nothing of magics"
)
_PAGERS = "%less, %more and %man are magics here, and want a name; in a terminal they are aliases"

REASONS: dict[str, str] = {
    "test_history.py::test_timestamp_type": _NO_FILE,
    "test_interactiveshell.py::InteractiveShellTestCase::test_reset_aliasing": _PAGERS,
    "test_interactiveshell.py::test_reset_aliasing": _PAGERS,
    "test_interactiveshell.py::test_enable_gui_tk_simple_prompt_message": "there is no prompt and no GUI event loop",
    "test_interactiveshell.py::TestSystemRaw::test_control_c": (
        "an interrupt of a command is an interrupt of its cell, and is told as that"
    ),
    "test_interactiveshell.py::test_magic_warnings": _COMMANDS,
    "test_magic.py::test_config_print_class": "it asks for the class of the terminal's shell",
    "test_magics_code.py::test_edit_": "there is no editor: %edit says so and does nothing",
}


def reason(nodeid: str) -> str | None:
    """Why a test can't apply; None where it has to hold."""
    path, _, rest = nodeid.partition("::")
    name = f"{path.rpartition('/')[2]}::{rest}"
    for start, why in REASONS.items():
        if name.startswith(start):
            return why
    return None
