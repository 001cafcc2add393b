"""Asking about objects, asking the person, and leaving."""

from tests.kernels.cell import cell

HELP = [
    cell("inspect-value", "number?", before="number = 5"),
    cell("inspect-function", "described?", before="def described(a, *, b=2):\n    'What it does.'\n    return a"),
    cell("inspect-source", "described??", before="def described(a, *, b=2):\n    'What it does.'\n    return a"),
    cell("inspect-first", "?len"),
    cell("inspect-class", "Documented?", before="class Documented:\n    'Of a class.'\n    def __init__(self, x):\n        'Of its making.'"),
    cell("inspect-magic", "%pwd?"),
    cell("inspect-module", "json??", before="import json"),
    cell("inspect-nothing", "no_such_object?"),
    cell("inspect-pattern", "?str.*find*"),
    cell("inspect-pattern-after", "str.*split*?"),
    cell("inspect-and-run", "n = 5\nn?"),
    cell("inspect-of-an-attribute", "'abc'.upper?"),
    cell("question-alone", "?"),
    cell("help-of-a-function", "help(len)"),
    cell("help-of-own", "help(described)", before="def described(a, *, b=2):\n    'What it does.'\n    return a"),
    cell("help-asked", "help()", answers=("keywords", "quit")),
    cell("page", "from IPython.core import page\npage.page('paged text')"),
    cell("set-next-input", "get_ipython().set_next_input('x = 1')\nprint('set')"),
    cell("set-next-input-replaces", "get_ipython().set_next_input('y = 2', replace=True)"),
    cell("payloads-of-both", "number?\nget_ipython().set_next_input('z = 3')"),
]  # fmt: skip

INPUT = [
    cell("input", "input('name? ')", answers=("Ada",)),
    cell("input-without-a-prompt", "input()", answers=("",)),
    cell("input-after-text", "print('line')\nprint('half', end='')\nx = input('> ')\nprint('got', x)", answers=("a",)),
    cell("input-several", "[input(i) for i in range(3)]", answers=("a", "b c", "é\t'")),
    cell("input-of-an-object", "input([1, 2])", answers=("x",)),
    cell("input-ended", "input('end? ')", answers=("\x04",)),
    cell("input-not-allowed", "input('no')", allow_stdin=False),
    cell("getpass", "import getpass\ngetpass.getpass('secret: ')", answers=("pw",)),
    cell("getpass-not-allowed", "import getpass\ngetpass.getpass()", allow_stdin=False),
    cell("getpass-with-a-stream", "import getpass, io\ngetpass.getpass('s', io.StringIO())", answers=("pw",)),
    cell("input-in-a-thread", "import threading\ngot = []\nt = threading.Thread(target=lambda: got.append(input('t? ')))\nt.start(); t.join()\ngot", answers=("of a thread",)),
    cell("input-in-an-async-cell", "import asyncio\nawait asyncio.sleep(0)\ninput('a? ')", answers=("of async",)),
    cell("input-called-from-builtins", "import builtins\nbuiltins.input('b? ')", answers=("B",)),
    cell("raw-input-of-the-kernel", "get_ipython().kernel.raw_input('k? ')", answers=("K",)),
    cell("breakpoint", "def f(v):\n    breakpoint()\n    return v + 1\nf(1)", answers=("p v", "c")),
    cell("breakpoint-quit", "breakpoint()\nprint('after')", answers=("q",)),
    cell("set-trace-of-pdb", "import pdb\ndef g(v):\n    pdb.set_trace()\n    return v\ng(2)", answers=("p v", "c")),
    cell("set-trace-of-ipython", "from IPython.core.debugger import set_trace\ndef h(v):\n    set_trace()\n    return v\nh(3)", answers=("p v", "c")),
    cell("post-mortem", "import pdb\ntry:\n    1 / 0\nexcept Exception:\n    pdb.post_mortem()", answers=("q",)),
    cell("breakpoint-not-allowed", "breakpoint()\nprint('after')", allow_stdin=False, alone=True),
]  # fmt: skip

LEAVING = [
    cell("quit", "print('before')\nquit()\nprint('after')", alone=True),
    cell("exit", "exit()", alone=True),
    cell("exit-with-a-code", "exit(3)", alone=True),
    cell("exit-named-only", "exit", alone=True),
    cell("quit-keeping-the-kernel", "quit(keep_kernel=True)"),
    cell("after-keeping", "'still here'"),
    cell("ask-exit", "get_ipython().ask_exit()", alone=True),
    cell("os-exit", "import os, time\nprint('said', flush=True)\ntime.sleep(0.2)\nos._exit(5)", alone=True),
    cell("killed", "import os, signal, time\nprint('said', flush=True)\ntime.sleep(0.2)\nos.kill(os.getpid(), signal.SIGKILL)", alone=True),
    cell("crashed", "import ctypes, time\nprint('said', flush=True)\ntime.sleep(0.2)\nctypes.string_at(0)", alone=True),
    cell("aborted", "import faulthandler, os\nfaulthandler.enable(all_threads=False)\nos.abort()", alone=True, loose=True),
    cell("atexit", "quit()", before="import atexit\natexit.register(lambda: print('at exit', flush=True));", alone=True),
    cell("exit-in-a-thread", "import sys, threading\nt = threading.Thread(target=lambda: sys.exit(3))\nt.start(); t.join()\n'alive'"),
    cell("exit-in-an-async-cell", "import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(2)"),
]  # fmt: skip

CELLS = [*HELP, *INPUT, *LEAVING]
