"""What is printed and written, in all manners."""

from tests.kernels.cell import cell

PRINTED = [
    cell("print", "print('hello')"),
    cell("print-without-an-end", "print('no newline', end='')"),
    cell("print-sep-end-flush", "print(1, 2, sep='-', end='|', flush=True); print(3)"),
    cell("print-to-stderr", "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('out again')"),
    cell("print-nothing", "print(); print(''); print(end='')"),
    cell(
        "write",
        "import sys\nprint(sys.stdout.write('abc\\n'), sys.stderr.write('de\\n'))\nsys.stdout.write('last')",
    ),
    cell("writelines", "import sys\nsys.stdout.writelines(['a\\n', 'b', 'c\\n'])"),
    cell("write-of-no-str", "import sys\nsys.stdout.write(b'bytes')"),
    cell(
        "write-to-the-buffer",
        "import sys\nsys.stdout.buffer.write(b'bytes \\xc3\\xa9\\n')\nsys.stdout.flush()",
    ),
    cell(
        "print-to-a-file", "import io\nbuffer = io.StringIO()\nprint('kept', file=buffer)\nbuffer.getvalue()"
    ),
    cell(
        "redirected",
        """
        import contextlib, io
        with contextlib.redirect_stdout(io.StringIO()) as taken, contextlib.redirect_stderr(taken):
            print("taken")
        print("left", repr(taken.getvalue()))
        """,
    ),
    cell(
        "stdout-replaced-and-given-back",
        """
        import io, sys
        before, sys.stdout = sys.stdout, io.StringIO()
        print("into the other one")
        other, sys.stdout = sys.stdout, before
        print("back", len(other.getvalue()))
        """,
    ),
    cell("print-before-and-after-a-value", "print('before')\n'value'"),
    cell("text-between-displays", "print('a'); display(1); print('b'); display(2); print('c', end='')"),
    cell(
        "stdout-and-stderr-in-turn",
        "import sys\nfor i in range(50):\n    print('out', i)\n    print('err', i, file=sys.stderr)",
    ),
    cell("descriptor-1", "import os\nos.write(1, b'raw out\\n'); os.write(2, b'raw err\\n');", loose=True),
    cell("original-streams", "import sys\nprint('original', file=sys.__stdout__, flush=True)", loose=True),
    cell(
        "c-library",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nlibc.fflush(None);",
        loose=True,
    ),
]

HARD = [
    cell("unicode", "print('ä € 𝔘 ‮abc‬ 👩‍👩‍👧 e\\u0301 \\ufeff')\n'naïve 日本 \\u2028'"),
    cell("lone-surrogate-printed", "print('a\\ud800b')"),
    cell("lone-surrogate-as-a-value", "'a\\ud800b'"),
    cell("lone-surrogate-displayed", "display({'text/plain': 'p', 'text/html': 'a\\udc00b'}, raw=True)"),
    cell("lone-surrogate-raised", "raise ValueError('a\\udfffb')"),
    cell("nul", "print('a\\0b'); 'c\\0d'"),
    cell("controls", "print('\\x00\\x01\\x02\\x07\\x0b\\x0c\\x7f\\x9b')"),
    cell("escape-sequences", "print('\\x1b[31mred\\x1b[0m \\x1b[2K\\x1b[1A')"),
    cell("backspaces", "print('abc\\b\\bX')"),
    cell("carriage-returns", "for i in range(5):\n    print(f'\\r{i * 25} %', end='')\nprint()"),
    cell("line-ends-of-windows", "print('a\\r\\nb\\r\\n', end='')"),
    cell("line-of-3-mb", "print('x' * 3_000_000)"),
    cell("100000-lines", "for i in range(100_000):\n    print(i)"),
    cell("value-of-3-mb", "class Big:\n    def __repr__(self):\n        return 'y' * 3_000_000\nBig()"),
    cell(
        "begins-like-a-marker",
        "import os\nprint('\\x00\\x01' + 'n' * 32)\nos.write(1, b'\\x00\\x01\\x00\\x01' * 40 + b'\\n');",
        loose=True,
    ),
    cell("bytes-that-are-no-utf8", "import os\nos.write(1, b'\\xff\\xfe a \\xc3\\n');", loose=True),
    cell(
        "character-in-two-writes",
        "import os\nos.write(1, b'\\xe2\\x82')\nos.write(1, b'\\xac\\n');",
        loose=True,
    ),
]

STREAMS = [
    cell(
        "what-the-streams-say",
        """
        import sys
        for stream in sys.stdout, sys.stderr:
            print(stream.isatty(), stream.encoding, stream.fileno(), stream.errors, stream.name, stream.closed,
                  stream.writable(), stream.readable(), stream.seekable(), stream.newlines)
        """,
    ),
    cell(
        "line-buffering-of-the-streams",
        "import sys\nprint(sys.stdout.line_buffering, hasattr(sys.stdout, 'buffer'), hasattr(sys.stdout, 'reconfigure'))",
    ),
    cell("classes-of-the-streams", "import io, sys\nprint(isinstance(sys.stdout, io.TextIOBase))"),
    cell("seek-of-a-stream", "import sys\nsys.stdout.seek(0)"),
    cell("read-of-a-stream", "import sys\nsys.stdout.read()"),
    cell("stdin-at-its-end", "import sys\n[sys.stdin.read(), sys.stdin.readline(), list(sys.stdin)]"),
    cell("stdin-says", "import sys\nprint(sys.stdin.isatty(), sys.stdin.closed, sys.stdin.encoding)"),
    cell("closed-copy", "import os, sys\nos.fdopen(os.dup(1), 'w').close()\nprint('still there')"),
    cell("stdout-closed", "import sys\nsys.stdout.close()", alone=True),
    cell(
        "pprint", "from pprint import pprint\npprint({'b': list(range(40)), 'a': {'c': 'x' * 100}}, width=60)"
    ),
    cell(
        "traceback-printed", "import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()"
    ),
]

CELLS = [*PRINTED, *HARD, *STREAMS]
