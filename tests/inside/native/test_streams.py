"""What is printed: in order, whole, and through whatever the code does to its streams."""

import re

import pytest

from cellhouse.model import DisplayEvent, Outcome, StreamEvent
from tests.contract.rig import Rig, plain
from tests.contract.truths import Told

MIXED = """
import os, subprocess, sys
for i in range(60):
    print(f'P{i}')
    subprocess.run(['sh', '-c', f'echo S{i}'])
    print(f'E{i}', file=sys.stderr)
    display({'text/html': f'D{i}'}, raw=True)
    os.write(1, f'W{i}\\n'.encode())
    os.system(f'echo Y{i}')
    sys.stderr.write(f'F{i}')
    print(f'Q{i}', end='\\n')
"""


def order(told: Told) -> list[str]:
    """The marks of MIXED as the events have them; a display is its index."""
    found: list[str] = []
    for event in told.events:
        if isinstance(event, StreamEvent):
            found += re.findall(r"[A-Z]\d+", event.text)
        elif isinstance(event, DisplayEvent):
            found.append(f"D{event.index}")
    return found


async def test_everything_keeps_its_place(native: Rig) -> None:
    told = await native.run(MIXED)
    assert order(told) == [f"{kind}{i}" for i in range(60) for kind in "PSEDWYFQ"]


@pytest.mark.parametrize(
    "breaking",
    [
        "sys.stdout.close()",
        "sys.stdout.detach()",
        "sys.stdout = None",
        "del sys.stdout",
        "os.close(1)",
        "os.close(1); os.close(2)",
        "sys.stdout = open(os.devnull, 'w'); sys.stdout.close()",
    ],
)
async def test_a_broken_stream_loses_nothing_and_is_whole_in_the_next_cell(
    native: Rig, breaking: str
) -> None:
    told = await native.run(f"import os, sys\nprint('before', end='')\n{breaking}")
    assert told.result.stdout == "before"
    assert told.result.outcome is Outcome.OK, told.result.execution_error
    told = await native.run("print('after'); print('error', file=sys.stderr); os.system('echo child');")
    assert plain(told) == (Outcome.OK, "after\nchild\n", "error\n", "")


async def test_a_replaced_stream_is_the_code_s_own(native: Rig) -> None:
    told = await native.run("import io, sys\nours = sys.stdout\nsys.stdout = io.StringIO()\nprint('kept')")
    assert told.result.stdout == ""
    assert (await native.run("sys.stdout.getvalue()")).result.result == "'kept\\n'"
    told = await native.run("sys.stdout = ours\nprint('back')")
    assert told.result.stdout == "back\n"


async def test_a_redirected_descriptor_gets_what_is_printed(native: Rig) -> None:
    code = """
import os
saved = os.dup(1)
file = os.open('redirected.txt', os.O_CREAT | os.O_WRONLY)
print('before', end='', flush=True)
os.dup2(file, 1)
print('into the file', flush=True)
os.dup2(saved, 1)
print(' and after')
print(open('redirected.txt').read(), end='')"""
    told = await native.run(code)
    assert told.result.stdout == "before and after\ninto the file\n"


async def test_a_stream_is_a_file(native: Rig) -> None:
    code = """
import sys
sys.stdout.buffer.write(b'bytes\\n')
sys.stdout.buffer.flush()
sys.stdout.writelines(['a\\n', 'b\\n'])
sys.stdout.reconfigure(errors='strict')
for s in (sys.stdout, sys.stderr): print(s.fileno(), s.isatty(), s.encoding, s.name, s.writable())"""
    told = await native.run(code)
    assert told.result.stdout.splitlines() == [
        "bytes", "a", "b", "1 False utf-8 <stdout> True", "2 False utf-8 <stderr> True"
    ]  # fmt: skip


async def test_eight_threads_lose_no_byte(native: Rig) -> None:
    code = """
import threading
def work(name):
    for i in range(5000): print(f'{name}{i:05}' * 4, flush=False)
threads = [threading.Thread(target=work, args=(c,)) for c in 'abcdefgh']
for t in threads: t.start()
for t in threads: t.join()"""
    told = await native.run(code)
    text = told.log.read_text("stdout", 0, 4 << 20).text
    assert len(text) == 8 * 5000 * 25
    assert sorted(re.findall(r"[a-h]\d{5}", text)) == sorted(
        f"{name}{i:05}" for name in "abcdefgh" for i in range(5000) for _ in range(4)
    )


async def test_text_that_looks_like_a_mark(native: Rig) -> None:
    """The code can read the mark's nonce; what it writes with it stays its own affair."""
    code = """
import sys, os
link = get_ipython().sink.link
os.write(1, b'one' + link._mark[:9]); os.write(1, b'two\\n')
sys.stdout.write('\\0\\1' * 50 + '\\n')"""
    told = await native.run(code)
    assert told.result.outcome is Outcome.OK, told.result.execution_error
    raw = told.log.read_text("stdout").text
    assert raw.startswith("one")
    assert raw.endswith("two\n" + "\0\1" * 50 + "\n")
    assert plain(await native.run("print('next')")) == (Outcome.OK, "next\n", "", "")


@pytest.mark.parametrize(
    ("death", "outcome"),
    [
        ("os._exit(3)", Outcome.EXITED),
        ("os.kill(os.getpid(), 9)", Outcome.KERNEL_DIED),
        ("os.abort()", Outcome.KERNEL_DIED),
        ("ctypes.string_at(0)", Outcome.KERNEL_DIED),
        ("os.execvp('true', ['true'])", Outcome.EXITED),
    ],
)
async def test_no_death_takes_back_what_was_printed(native: Rig, death: str, outcome: Outcome) -> None:
    lines = "for i in range(1000): print(i)"
    told = await native.run(f"import ctypes, os\n{lines}\n{death}")
    assert told.result.outcome is outcome
    assert told.result.stdout == "".join(f"{i}\n" for i in range(1000))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_line_that_has_not_ended_survives_a_death_that_nobody_saw_coming(
    native: Rig, stream: str
) -> None:
    code = f"import ctypes, sys\nfor i in range(3): print(i, end=' ', file=sys.{stream})\nctypes.CDLL(None)._exit(3)"
    told = await native.run(code)
    assert told.result.outcome is Outcome.EXITED
    assert getattr(told.result, stream) == "0 1 2 "


async def test_a_kill_in_the_middle_of_much_text_loses_none_of_it_and_tells_none_twice(native: Rig) -> None:
    for wait in range(8):
        execution = await native.started("i = 0\nwhile True:\n    print(i)\n    i += 1")
        await native.event(execution.log, lambda event, n=wait: event.seq > 3 + n)  # type: ignore[misc]
        native.kernels[-1].kill()
        told = await native.end_of(execution)
        assert told.result.outcome in (Outcome.KERNEL_DIED, Outcome.RUNTIME_LOST)
        offset, text = 0, ""
        while not (page := told.log.read_text("stdout", offset, 4 << 20)).eof:
            text, offset = text + page.text, page.next_offset
        lines = (text + page.text).split("\n")
        assert lines[:-1] == [str(i) for i in range(len(lines) - 1)]
        assert str(len(lines) - 1).startswith(lines[-1])


async def test_a_handler_that_prints_in_the_middle_of_printing_doubles_and_loses_nothing(native: Rig) -> None:
    """A signal's handler is the user's code, and runs between any two steps of ours."""
    code = """
import itertools, signal
numbers = itertools.count(1)
def handler(*_):
    number = next(numbers)  # at once, also where a handler may come in the middle of a line (Python 3.9)
    print(f'<{number}>', flush=number % 2)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
for i in range(60_000): print(f'[{i}]', flush=not i % 7)
signal.setitimer(signal.ITIMER_REAL, 0)
print(next(numbers) - 1)"""
    told = await native.run(code)
    assert told.result.outcome is Outcome.OK, told.result.execution_error
    offset, text = 0, ""
    while not (page := told.log.read_text("stdout", offset, 4 << 20)).eof:
        text, offset = text + page.text, page.next_offset
    text += page.text
    assert re.findall(r"\[(\d+)\]", text) == [str(i) for i in range(60_000)]
    count = int(text.splitlines()[-1])
    assert sorted(map(int, re.findall(r"<(\d+)>", text))) == list(range(1, count + 1))
    assert count > 50


@pytest.mark.parametrize(
    ("how", "words"),
    [("close", "I/O operation on closed file."), ("detach", "underlying buffer has been detached")],
)
async def test_a_stream_that_was_closed_stays_so_whenever_the_helper_looks(
    native: Rig, how: str, words: str
) -> None:
    """The look comes at any moment; here it comes between the two."""
    code = f"import sys\nstreams = get_ipython().sink.streams\nsys.stdout.{how}()\nstreams.flush_some()\nprint(1)"
    assert (await native.run(code)).error == ("ValueError", words)
    told = await native.run("print(2)")
    assert plain(told) == (Outcome.OK, "2\n", "", ""), told.result.execution_error


async def test_a_stream_that_is_forgotten_late_takes_nothing_with_it(native: Rig) -> None:
    """Its finalizer closes it, when its successor is there."""
    await native.run("import gc, sys\nold = [sys.stdout, sys.stderr]\nsys.stdout.close()")
    told = await native.run("old.clear(); gc.collect()\nprint('out'); print('err', file=sys.stderr)")
    assert plain(told) == (Outcome.OK, "out\n", "err\n", "")


async def test_a_line_that_has_not_ended_is_seen_while_the_code_runs(native: Rig) -> None:
    execution = await native.started("import time\nprint('waiting', end='')\nwhile True: time.sleep(0.01)")
    await native.printed(execution, "waiting")
    native.session.interrupt()
    assert (await native.end_of(execution)).result.stdout == "waiting"


async def test_c_code_that_prints(native: Rig) -> None:
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None)\nprint('a')\nlibc.puts(b'from C')\nlibc.printf(b'%d\\n', 5)"
    )
    told = await native.run(code)
    assert told.result.stdout == "a\nfrom C\n5\n"


async def test_a_fork_that_runs_off_the_end_of_its_cell(native: Rig) -> None:
    code = "import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\nif pid: os.waitpid(pid, 0);"
    told = await native.run(code)
    assert sorted(told.result.stdout.split()) == ["child", "parent"]
    assert told.result.outcome is Outcome.OK, told.result.execution_error
    assert plain(await native.run("os.getpid() != pid")) == (Outcome.OK, "", "", "True")


async def test_a_fork_while_another_thread_prints(native: Rig) -> None:
    """Whatever that thread held, the child has locks of its own."""
    code = """
import os, threading
def work():
    for i in range(20_000): print('t', i)
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        print('kid')
        os._exit(0)
    os.waitpid(pid, 0)
thread.join()"""
    told = await native.run(code)
    assert told.result.outcome is Outcome.OK, told.result.execution_error
    offset, text = 0, ""
    while not (page := told.log.read_text("stdout", offset, 4 << 20)).eof:
        text, offset = text + page.text, page.next_offset
    assert (text + page.text).count("kid") == 20


async def test_a_handler_that_prints_errors_or_raises_breaks_nothing_of_ours(native: Rig) -> None:
    code = """
import signal, sys
def prints(*_): print('S', file=sys.stderr)
class Enough(Exception): pass
def raises(*_): raise Enough
signal.signal(signal.SIGALRM, prints)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for i in range(20_000): print('m')
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, raises)
n = 0
for _ in range(50):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True:
            print(f'[{n}]')
            n += 1
    except Enough:
        n += 1
print('END', signal.getsignal(signal.SIGALRM) is raises)"""
    told = await native.run(code)
    assert told.result.outcome is Outcome.OK, told.error
    offset, text = 0, ""
    while not (page := told.log.read_text("stdout", offset, 4 << 20)).eof:
        text, offset = text + page.text, page.next_offset
    text += page.text
    assert text.endswith("END True\n")
    assert text.count("m\n") == 20_000
    numbers = re.findall(r"\[(\d+)\]", text)
    assert len(numbers) == len(set(numbers))
