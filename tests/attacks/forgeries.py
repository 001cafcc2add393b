"""Messages that a kernel never sent, as data: what code that has got hold of its kernel's channels makes of them.

Each is code for a cell. `OWN` is the cell's own request, `EARLIER` one of the same session that is over, `SIBLING` one of
another session, whose number the code has read in /content. Whatever it forges has the word FORGED in it; `seen` says where
that word is to be found afterwards, which is also the proof that the forgery reached the service.
"""

from dataclasses import dataclass
from typing import Final

from cellhouse.model import Outcome

OWN = "own"
"""In the forger's own result or events."""
LATE = "late"
"""Among what came after the end of the earlier execution, whose result stays what it was."""
LOG = "log"
"""In the log of the forger's session."""

OK: Final = (Outcome.OK,)
LOST: Final = (Outcome.KERNEL_DIED,)


@dataclass(frozen=True, slots=True)
class Forgery:
    """`outcomes` are what may become of the forger itself: about itself it may lie. `reason` is its cause, where one is due.

    `quick` ones are in every run of the tests.
    """

    name: str
    code: str
    outcomes: tuple[Outcome, ...] = OK
    reason: str = ""
    seen: str = OWN
    quick: bool = False


NATIVE_PRELUDE: Final = """
import json, os, select, socket, struct
link = get_ipython().sink.link
OWN, EARLIER, SIBLING = get_ipython().kernel.get_parent()["header"]["msg_id"], {earlier!r}, {sibling!r}
LAST, FRAMES = 2**64 - 1, [link._frames]
def frame(msg_type, content, parent=OWN, channel="iopub", epoch=0, **header):
    FRAMES[0] += 1  # the number that the kernel's own next one would have
    header.setdefault("number", FRAMES[0])
    head = json.dumps(dict(header, type=msg_type, channel=channel, parent=parent, epoch=epoch)).encode()
    body = content if type(content) is bytes else json.dumps(content).encode()
    return struct.pack(">IIQ", len(head), len(body), 0) + head + body
def put(data, fd=None):
    fd, view = link.sock.fileno() if fd is None else fd, memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view):]
        except BlockingIOError:
            select.select([], [fd], [], 1)
def mark(epoch, number, *pipes):
    for pipe in pipes or (0, 1):
        put(link._mark + struct.pack(">QQ", epoch, number), link.pipes[pipe].fd)
def stream(text, parent=OWN, name="stdout"):
    return frame("stream", dict(name=name, text=text), parent)
def display(html, parent=OWN):
    return frame("display_data", {{"data": {{"text/html": html}}, "metadata": {{}}, "transient": {{}}}}, parent)
def error(value, parent=OWN):
    return frame("error", dict(ename="Forged", evalue=value, traceback=[value]), parent)
def reply(status="ok", parent=OWN, forked=False, **content):
    given = dict(content, status=status, execution_count=1, user_expressions={{}})
    return frame("execute_reply", given, parent, "shell", forked=forked)
def status(state, parent=OWN):
    return frame("status", dict(execution_state=state), parent)
def the_next_one_waits():
    assert select.select([link.sock], [], [], 10)[0], "nobody sent anything more"
"""

JUPYTER_PRELUDE: Final = """
import os, socket, sys, threading
kernel = get_ipython().kernel
session, header = kernel.session, kernel.get_parent()
OWN, EARLIER, SIBLING = header["header"]["msg_id"], {earlier!r}, {sibling!r}
ident, shell = kernel._parent_ident["shell"], kernel.shell_stream
def put(msg_type, content, parent=OWN, channel="iopub"):
    about = header if parent == OWN else {{"header": {{"msg_id": parent}}, "msg_id": parent}}
    if channel == "iopub":
        session.send(kernel.iopub_socket, msg_type, content, parent=about)
        return
    sent = threading.Event()
    def send():
        session.send(shell, msg_type, content, parent=about, ident=ident)
        sent.set()
    shell.io_loop.add_callback(send)  # its socket is another thread's
    assert sent.wait(10)
def stream(text, parent=OWN, name="stdout"):
    put("stream", dict(name=name, text=text), parent)
def display(html, parent=OWN):
    put("display_data", {{"data": {{"text/html": html}}, "metadata": {{}}, "transient": {{}}}}, parent)
def error(value, parent=OWN):
    put("error", dict(ename="Forged", evalue=value, traceback=[value]), parent)
def reply(status="ok", parent=OWN, **content):
    put("execute_reply", dict(content, status=status, execution_count=1, user_expressions={{}}), parent, "shell")
def status(state, parent=OWN):
    put("status", dict(execution_state=state), parent)
def connections():
    for name in map(int, os.listdir("/proc/self/fd")):
        try:
            sock = socket.socket(fileno=os.dup(name))
            if sock.family == socket.AF_UNIX and sock.getpeername() is not None and sock.getsockname():
                yield sock
        except OSError:
            continue
"""


def _both(name: str, native: str, jupyter: str = "", **more: object) -> tuple[Forgery | None, Forgery | None]:
    """The same lie told over either channel. The words of both preludes are the same; `put` sends what they make."""
    made = Forgery(name, native, **more)  # type: ignore[arg-type]
    return made, Forgery(name, jupyter, **more) if jupyter else None  # type: ignore[arg-type]


_BOTH: Final = (
    _both(
        "idle-before-the-end",
        "put(status('idle')); print('FORGED')",
        "status('idle'); print('FORGED')",
        quick=True,
    ),
    _both(
        "reply-that-says-error",
        "put(reply('error', ename='FORGED', evalue='', traceback=[]))",
        "reply('error', ename='FORGED', evalue='', traceback=[])",
        outcomes=(Outcome.ERROR,),
    ),
    _both("error", "put(error('FORGED'))", "error('FORGED')"),
    _both("display", "put(display('a lie') + stream('FORGED'))", "display('a lie'); stream('FORGED')"),
    _both(
        "display-of-an-earlier-one",
        "put(display('<b>FORGED</b>', EARLIER) + stream('FORGED', EARLIER))",
        "display('<b>FORGED</b>', EARLIER); stream('FORGED', EARLIER)",
        seen=LATE,
        quick=True,
    ),
    _both(
        "error-of-an-earlier-one",
        "put(error('FORGED', EARLIER) + reply('error', EARLIER, ename='FORGED') + status('idle', EARLIER))",
        "error('FORGED', EARLIER); reply('error', EARLIER, ename='FORGED'); status('idle', EARLIER)",
        seen=LATE,
    ),
    _both(
        "everything-of-a-sibling",
        "put(stream('FORGED', SIBLING) + display('FORGED', SIBLING) + error('FORGED', SIBLING)"
        " + reply('error', SIBLING, ename='FORGED') + status('idle', SIBLING))",
        "stream('FORGED', SIBLING); display('FORGED', SIBLING); error('FORGED', SIBLING);"
        " reply('error', SIBLING, ename='FORGED'); status('idle', SIBLING)",
        seen=LOG,
        quick=True,
    ),
    _both(
        "everything-of-nobody",
        "[put(stream('FORGED', who) + display('FORGED', who) + reply('ok', who)) for who in ('', 'nobody', 'x' * 256)]",
        "[(stream('FORGED', who), display('FORGED', who), reply('ok', who)) for who in ('', 'nobody', 'x' * 256)]",
        seen=LOG,
    ),
    _both(
        "another-number",
        "put(frame('execute_input', dict(code='FORGED', execution_count=2**31)) + stream('FORGED'))",
        "put('execute_input', dict(code='FORGED', execution_count=2**31)); stream('FORGED')",
    ),
    _both(
        "a-question-that-nobody-may-ask",
        "put(stream('FORGED') + frame('input_request', dict(prompt='FORGED', password=False), channel='stdin'))",
    ),
    _both(
        "a-wish-to-leave",
        "print('FORGED'); put(reply(payload=[dict(source='ask_exit', keepkernel=False)]) + status('idle')); the_next_one_waits()",
        "print('FORGED', flush=True); reply(payload=[dict(source='ask_exit', keepkernel=False)]); status('idle')\n"
        "import time; time.sleep(30)",
        outcomes=LOST,
        reason="KERNEL_LOST",
    ),
)

_TALK: Final = """
import time
{say}
until = time.monotonic() + 0.5
number = 0
while time.monotonic() < until:
    number += 1
    print("FORGED", number, flush=True)
    print("FORGED", number, file=sys.stderr, flush=True)
    {besides}
    time.sleep(0.005)
"""

NATIVE: Final = (
    *(pair[0] for pair in _BOTH if pair[0] is not None),
    # The frame too many ends the kernel, and nobody hears of the exception.
    Forgery(
        "reply-before-an-exception",
        "put(reply() + status('idle')); the_next_one_waits(); raise ValueError('FORGED')",
        seen="",
        quick=True,
    ),
    Forgery(
        "reply-and-then-goes-on-printing",
        "import sys\n"
        + _TALK.format(
            say="put(reply() + status('idle')); the_next_one_waits()",
            besides="put(display('FORGED'))\n    os.write(1, b'FORGED raw\\n')\n    os.write(2, b'FORGED raw\\n')",
        ),
        quick=True,
    ),
    Forgery(
        "reply-and-then-prints-from-elsewhere",
        # A child that was started before, and a thread, print while the next one runs and after it.
        """
import subprocess, sys, threading, time
child = subprocess.Popen(["/bin/sh", "-c", "while :; do echo FORGED; echo FORGED >&2; sleep 0.01; done"])
def talk():
    for number in range(100):
        print("FORGED", number)
        time.sleep(0.01)
    child.kill()
threading.Thread(target=talk).start()
put(reply(forked=False) + status('idle'))
the_next_one_waits()
""",
    ),
    Forgery(
        "busy-of-an-earlier-one",
        "put(status('busy', EARLIER)); print('FORGED', flush=True); os.write(2, b'FORGED')",
        seen="",
    ),
    Forgery(
        "busy-of-a-sibling",
        "put(status('busy', SIBLING)); print('FORGED', flush=True); os.write(2, b'FORGED')",
        seen="",
    ),
    Forgery(
        "no-frame-at-all",
        "print('FORGED', flush=True); put(b'\\xff' * 4096)",
        (Outcome.RESOURCE_KILLED,),
        "MESSAGE_SIZE",
    ),
    Forgery(
        "a-header-that-is-no-json",
        "print('FORGED', flush=True); put(struct.pack('>IIQ', 9, 0, 0) + b'{not json')",
        LOST,
        "KERNEL_LOST",
        quick=True,
    ),
    Forgery(
        "a-channel-that-is-none",
        "print('FORGED', flush=True); put(frame('x', {}, channel='heartbeat'))",
        LOST,
        "KERNEL_LOST",
    ),
    Forgery(
        "an-epoch-that-is-none",
        "print('FORGED', flush=True); put(frame('x', {}, epoch=-1))",
        LOST,
        "KERNEL_LOST",
    ),
    Forgery(
        "buffers-that-do-not-add-up",
        "print('FORGED', flush=True); put(frame('x', {}, buffers=[2**62, -(2**62)]))",
        LOST,
        "KERNEL_LOST",
    ),
    Forgery(
        "a-huge-frame-announced",
        "print('FORGED', flush=True); put(struct.pack('>IIQ', 2, 0, 2**63))",
        (Outcome.RESOURCE_KILLED,),
        "MESSAGE_SIZE",
        quick=True,
    ),
    Forgery(
        "a-huge-frame-sent",
        "print('FORGED', flush=True); put(struct.pack('>IIQ', 2, 129 << 20, 0) + b'{}'); put(bytes(129 << 20))",
        (Outcome.RESOURCE_KILLED, Outcome.EXITED),
        "",
    ),
    Forgery("content-that-is-no-json", "put(frame('stream', b'[' * 100_000)); print('FORGED')"),
    Forgery(
        "content-of-another-shape",
        "put(frame('stream', b'5') + frame('error', []) + frame('display_data', {'data': 5})); print('FORGED')",
    ),
    Forgery(
        # Everything that follows is taken for the rest of it.
        "a-length-that-is-not-kept",
        'print(\'FORGED\', flush=True); put(struct.pack(\'>IIQ\', 37, 100 << 20, 0) + b\'{"channel":"iopub","type":"stream"}  \')',
        (Outcome.TIMED_OUT,),
        "EXECUTION_TIMEOUT",
    ),
    Forgery(
        "the-channel-closed",
        "print('FORGED', flush=True); link.sock.shutdown(socket.SHUT_RDWR)",
        (Outcome.EXITED, Outcome.KERNEL_DIED),
    ),
    Forgery("descriptors-sent", "print('FORGED'); socket.send_fds(link.sock, [stream('FORGED')], [0] * 200)"),
    # Marks, which order text against frames.
    Forgery("marks-of-the-last-epoch", "print('FORGED', flush=True); mark(LAST, 0)", quick=True),
    Forgery("marks-that-wait-for-every-frame", "print('FORGED', flush=True); mark(LAST, LAST)", quick=True),
    Forgery("a-mark-in-one-pipe", "print('FORGED', flush=True); mark(LAST, 0, 0)"),
    Forgery("a-mark-in-the-other", "print('FORGED', flush=True); mark(1 << 40, LAST, 1)"),
    Forgery("a-piece-of-the-last-number", "print('FORGED', flush=True); mark(0, LAST)"),
    Forgery("half-a-mark", "print('FORGED', flush=True); put(link._mark, link.pipes[0].fd)"),
    Forgery(
        "a-thousand-marks",
        "print('FORGED', flush=True); [mark((n * 7919) % 1000 + 1, n) for n in range(1000)]",
    ),
    Forgery(
        "a-frame-of-the-last-epoch", "put(frame('stream', dict(name='stdout', text='FORGED'), epoch=LAST))"
    ),
    # Memory that the service looks into when the kernel has ended.
    Forgery(
        "memory-full-of-text",
        """
for printed in get_ipython().sink.streams.printed:
    size = len(printed) - 64
    printed[:] = bytes(64) + b"FORGED\\n" * (size // 7) + b"x" * (size % 7)
os.kill(os.getpid(), 9)
""",
        LOST,
        "KERNEL_SIGNALLED",
    ),
    Forgery(
        "memory-with-a-false-head",
        """
import itertools
for printed, (number, start, length) in zip(get_ipython().sink.streams.printed, ((LAST, LAST, LAST), (0, 1, LAST))):
    printed[:100] = struct.pack("<QQQ", number, start, length) + b"FORGED" * 12 + bytes(4)
os.kill(os.getpid(), 9)
""",
        LOST,
        "KERNEL_SIGNALLED",
        seen="",
    ),
)

JUPYTER: Final = (
    *(pair[1] for pair in _BOTH if pair[1] is not None),
    Forgery(
        "reply-before-an-exception",
        "reply(); status('idle'); raise ValueError('FORGED')",
        quick=True,
    ),
    Forgery(
        "reply-and-then-goes-on-printing",
        _TALK.format(say="reply(); status('idle')", besides="display('FORGED')"),
        quick=True,
    ),
    Forgery(
        "a-huge-message",
        "print('FORGED', flush=True); import time; time.sleep(0.2); put('display_data', {'data': {'text/html': 'x' * (129 << 20)}}); time.sleep(30)",
        (Outcome.RESOURCE_KILLED,),
        "MESSAGE_SIZE",
    ),
    Forgery(
        "no-messages-at-all",
        "print('FORGED', flush=True); import time; time.sleep(0.2)\n"
        "for sock in connections(): sock.setblocking(False); sock.send(b'\\xff' * 4096)\n"
        "time.sleep(30)",
        (Outcome.KERNEL_DIED, Outcome.RESOURCE_KILLED),
    ),
    Forgery(
        "wrong-signatures",
        "import hashlib, hmac\n"
        "session.auth = hmac.HMAC(b'another key', digestmod=hashlib.sha256)\n"
        "before, session.key = session.key, b'another key'\n"
        "display('a lie'); session.key = before\n"
        "print('FORGED')",
    ),
)
