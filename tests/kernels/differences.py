"""Where the native kernel is to tell otherwise than ipykernel: the reason, and the cells that show it; see docs/kernels.md."""

from collections.abc import Mapping, Sequence

WANTED: Mapping[str, Sequence[str]] = {
    "the reply names the exception that was shown, where ipykernel's says NoneType": (
        "int-too-long-to-write",
        "failing-repr",
        "repr-that-is-no-str",
        "failing-repr-in-a-list",
    ),
    "a rich repr that raises beside a good one costs only that representation": (
        "failing-repr-html",
        "failing-mimebundle",
        "failing-ipython-display",
    ),
    "a traceback names the line that raised, where ipykernel's names the last one that the block got to": (
        "cause",
        "context",
        "in-a-context-manager",
        "show-traceback",
        "asyncio-run",
        "run-until-complete",
        "output-widget-error",
    ),
    "the streams are Python's own, with a buffer, and complain as such": (
        "write-of-no-str",
        "write-to-the-buffer",
        "what-the-streams-say",
        "line-buffering-of-the-streams",
        "seek-of-a-stream",
        "read-of-a-stream",
    ),
    "a closed stream is mended, and what was written before is there": ("run-module-that-closes-stdout",),
    "an error keeps its own class also where its str fails, and is told once": (
        "custom-exception-failing-str",
    ),
    "an error is told as one also where IPython prints it to stderr": (
        "render-traceback-failing",
        "unknown-line-magic",
        "unknown-cell-magic",
        "env-missing",
        "alias-listed",
        "debug-a-statement",
        "cell-magic-without-a-body",
    ),
    "%%capture keeps what is printed, and hides no error": ("capture-of-an-error",),
    "tracebacks know the source of cells: whole statements, and the values of names where those are asked for": (
        "notes",
        "xmode-verbose",
        "xmode-context",
    ),
    "nothing that is shown fails for want of a JSON form, and a time without a zone is given none": (
        "raw-bundle-of-objects",
        "raw-bundle-not-json",
    ),
    "a syntax warning is told once": ("syntax-warning",),
    "commands run on pipes, not in a terminal: stderr stays apart": (
        "shell-stderr",
        "shell-no-such-command",
        "shell-is-no-terminal",
        "capture-of-a-child-is",
    ),
    "what a thread prints or shows later belongs to the cell that started it": (
        "thread-of-an-earlier-cell",
        "thread-that-shows-later",
        "thread-that-writes-stderr-later",
        "thread-in-a-thread",
    ),
    "an asynchronous cell can be interrupted": ("interrupted-async-cell",),
    "an interrupt has a handler of the kernel's own": ("handler-of-sigint-is",),
    "the error says what was refused, and how it would be allowed": (
        "input-ended",
        "input-not-allowed",
        "getpass-not-allowed",
        "breakpoint-not-allowed",
    ),
    "the frames below the cell are the kernel's own": ("aborted", "faulthandler"),
    "there is no front end that connects, and no loop of a window system": (
        "connect-info",
        "gui-unknown",
        "matplotlib-notebook",
    ),
    "there is no editor here, and %edit says so": ("edit", "edit-nothing"),
    "no application and no kernel of ipykernel runs here": (
        "connection-file",
        "app-instance",
        "kernel-instance",
    ),
    "the kernel says what it is": ("kernel", "kernel-info"),
    "text stands where it was printed: a hook prints before what it lets through": ("display-pub-hook",),
    "clearing the screen clears the output": ("clear-of-the-screen",),
    "classes of ipykernel that nobody reaches by their names are not imitated": (
        "display-hook-called",
        "shell-parts",
        "config-classes",
        "kernel-ident-and-session",
        "kernel-do-one-iteration",
    ),
    "no magic for a front end that saves notebooks": ("lsmagic", "lsmagic-shown", "magic-help"),
    "a banner is nobody's to print": ("shell-attributes",),
    "nothing is warned of that is not ipykernel's to take away": (
        "comm-of-ipykernel",
        "getpass-with-a-stream",
    ),
    "the directory is in the path first, as a notebook has it": ("path-begins",),
    "colours are not forced on children": ("environment-variables",),
    "filters of ipykernel's own start are not there": ("filters",),
}

DIFFERENCES: Mapping[str, str] = {name: why for why, names in WANTED.items() for name in names}
