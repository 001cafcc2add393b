"""The reference kernel over our client: one live kernel for all that does not end it."""

import os
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.kernel import JupyterKernel, KernelItem
from cellhouse.messages import Message
from tests.kernel.support import (
    Kernels,
    idle_of,
    ipykernel,
    items_until,
    raw_of,
    run,
    text_of,
    until,
    until_died,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel(
    environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[JupyterKernel]:
    kernels = Kernels(tmp_path_factory.mktemp("ipykernel"))
    yield await kernels.start(ipykernel(environment))
    await kernels.close()


async def test_it_says_what_it_is(kernel: JupyterKernel) -> None:
    assert (kernel.info.implementation, kernel.info.language) == ("ipython", "python")
    assert kernel.info.protocol_version.startswith("5.")
    assert kernel.info.language_version
    assert "IPython" in kernel.info.banner


async def test_messages_of_all_channels_arrive_with_their_parent(kernel: JupyterKernel) -> None:
    assert kernel.send("shell", "execute_request", {"code": "1+1"}, msg_id="mine") == "mine"
    got = set[str]()

    def both(item: KernelItem) -> bool:
        if isinstance(item, Message) and item.msg_type == "execute_reply":
            got.add("reply")
        if idle_of("mine")(item):
            got.add("idle")
        return len(got) == 2

    items = await items_until(kernel, both)
    mine = [item for item in items if isinstance(item, Message) and item.parent_id == "mine"]
    kinds = [(item.channel, item.msg_type) for item in mine]
    assert kinds.count(("shell", "execute_reply")) == 1
    kinds.remove(("shell", "execute_reply"))
    assert kinds == [
        ("iopub", "status"),
        ("iopub", "execute_input"),
        ("iopub", "execute_result"),
        ("iopub", "status"),
    ]


async def test_text_written_to_the_descriptors_arrives(kernel: JupyterKernel) -> None:
    code = "import os; os.write(1, b'one\\xff'); os.write(2, b'two'); os.system('echo child')"
    items = await run(kernel, code)
    kernel.drain()
    while (item := await kernel.receive(0)) is not None:
        items.append(item)
    assert raw_of(items, "stdout") == b"one\xffchild\n"
    assert raw_of(items, "stderr") == b"two"


async def test_messages_are_numbered_without_a_gap(kernel: JupyterKernel) -> None:
    await run(kernel, "for i in range(200): print(i, flush=True)")
    await until(lambda: kernel.lost_messages() == 0)


async def test_an_interrupt_reaches_the_children_of_a_cell(kernel: JupyterKernel) -> None:
    script = 'trap "echo child interrupted; exit" INT; echo ready; while :; do sleep 0.02; done'
    start = f"import subprocess\nchild = subprocess.Popen(['sh', '-c', {script!r}])"
    code = f"{start}\ntry:\n    print('waits', flush=True)\n    child.wait()\nfinally: child.wait()"
    msg_id = kernel.send("shell", "execute_request", {"code": code})
    seen: list[KernelItem] = []

    def both(item: KernelItem) -> bool:
        seen.append(item)
        return raw_of(seen) == b"ready\n" and text_of(seen) == "waits\n"

    await items_until(kernel, both)
    kernel.interrupt()
    items = await items_until(kernel, idle_of(msg_id))
    kernel.drain()
    while (item := await kernel.receive(0)) is not None:
        items.append(item)
    assert _errors(items) == ["KeyboardInterrupt"]
    assert raw_of(items) == b"child interrupted\n"


def _errors(items: Sequence[KernelItem]) -> list[str]:
    return [
        str(item.content["ename"]) for item in items if isinstance(item, Message) and item.msg_type == "error"
    ]


@pytest.mark.asyncio(loop_scope="function")
async def test_what_was_flushed_and_heard_comes_before_its_exit_and_closing_gives_everything_back(
    kernels: Kernels, environment: Environment
) -> None:
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    kernel = await kernels.start(ipykernel(environment))
    code = "import os\nprint('heard', flush=True)\ninput()\nos.write(2, b'last'); os._exit(3)"
    kernel.send("shell", "execute_request", {"code": code, "allow_stdin": True})
    items = await items_until(kernel, lambda item: isinstance(item, Message) and item.channel == "stdin")
    if not text_of(items):
        items += await items_until(kernel, lambda item: bool(text_of([item])))
    kernel.send("stdin", "input_reply", {"value": ""})
    last, died = await until_died(kernel)
    assert text_of(items) == "heard\n"
    assert raw_of(last, "stderr") == b"last"
    assert (died.exit_status, died.signal) == (3, None)
    await kernel.close()
    assert set(threading.enumerate()) == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert not kernels.kernel_dir(1).exists()
