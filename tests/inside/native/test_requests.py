"""Requests besides execute, and what libraries look for."""

from collections.abc import Mapping
from typing import Any

from cellhouse.kernel import Kernel
from cellhouse.messages import Message
from cellhouse.model import Outcome
from tests.contract.rig import Rig, plain
from tests.kernel.peer import SECONDS


async def ask(rig: Rig, msg_type: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reply's content; nothing else may use the kernel meanwhile."""
    kernel: Kernel = rig.kernels[-1]
    asked = kernel.send("shell", f"{msg_type}_request", content)
    replies = []

    async def heard(item: object) -> None:
        if isinstance(item, Message) and item.channel == "shell" and item.parent_id == asked:
            replies.append(item)

    rig.session._heard = heard  # type: ignore[method-assign]
    while not replies:
        rig.session._rouse()
        await _a_moment()
    assert replies[0].msg_type == f"{msg_type}_reply"
    return replies[0].content


async def _a_moment() -> None:
    import asyncio

    async with asyncio.timeout(SECONDS):
        await asyncio.sleep(0.001)


async def test_completion_inspection_and_history(native: Rig) -> None:
    await native.run("import os\ndef spam(egg):\n    'What it is.'\n    return egg")
    found = await ask(native, "complete", {"code": "os.path.isfi", "cursor_pos": 12})
    assert found["matches"] == ["isfile"] or "isfile" in found["matches"][0]
    assert (found["cursor_start"], found["cursor_end"]) == (8, 12)
    told = await ask(native, "inspect", {"code": "spam(1)", "cursor_pos": 2, "detail_level": 0})
    assert told["found"]
    assert "What it is." in told["data"]["text/plain"]
    assert not (await ask(native, "inspect", {"code": "nothing_there", "cursor_pos": 3}))["found"]
    assert (await ask(native, "is_complete", {"code": "for x in y:"}))["status"] == "incomplete"
    assert (await ask(native, "is_complete", {"code": "1 + 1"}))["status"] == "complete"
    assert (await ask(native, "is_complete", {"code": "1 +* 1"}))["status"] == "invalid"
    history = (await ask(native, "history", {"hist_access_type": "tail", "n": 1, "raw": True}))["history"]
    assert history[0][2].startswith("import os\ndef spam")
    assert (await ask(native, "kernel_info", {}))["implementation"] == "cellhouse"
    assert (await ask(native, "comm_info", {}))["comms"] == {}


async def test_what_libraries_look_for(native: Rig) -> None:
    code = """
import sys
shell = get_ipython()
kernel = shell.kernel
parent = kernel.get_parent()['header']['msg_id']
[type(shell).__name__, 'IPKernelApp' in shell.config, kernel.shell is shell, kernel.user_ns is shell.user_ns,
 bool(parent), shell.parent_header['msg_id'] == parent, type(shell).__module__, 'ipykernel.zmqshell' in sys.modules]"""
    told = await native.run(code)
    assert (
        told.result.result
        == "['ZMQInteractiveShell',\n True,\n True,\n True,\n True,\n True,\n 'ipykernel.zmqshell',\n True]"
    )


async def test_quit_runs_what_was_registered(native: Rig) -> None:
    code = "import atexit\natexit.register(lambda: open('left.txt', 'w').write('bye'))\nquit()\nprint('to the end')"
    told = await native.run(code)
    assert told.result.outcome is Outcome.EXITED
    assert told.result.stdout == "to the end\n"
    assert (native.content.parent / "left.txt").read_text() == "bye"


async def test_nothing_of_the_kernel_s_own_is_in_the_way(native: Rig) -> None:
    """A cell's imports find no module of ours, and its traceback shows no line of ours."""
    for name in ("kernel", "native", "zygote", "init", "host", "frames"):
        told = await native.run(f"import {name}")
        assert told.error[0] == "ModuleNotFoundError"
    told = await native.run("import sys\nsys.stdout.close()\nprint(1)")
    assert told.result.execution_error is not None
    assert not [entry for entry in told.result.execution_error.traceback if "inside" in entry]


async def test_variables_survive_and_history_counts(native: Rig) -> None:
    assert plain(await native.run("x = 41")) == (Outcome.OK, "", "", "")
    assert plain(await native.run("x + 1")) == (Outcome.OK, "", "", "42")
    assert (await native.run("In[1], Out[2], _2")).result.result == "('x = 41', 42, 42)"
