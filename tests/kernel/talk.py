"""One conversation with a fake kernel, and short words for what it told."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from cellhouse.kernel import Conversation, End, ExecuteRequest, Output, Stray
from cellhouse.kernel.conversation import Remark, Step
from cellhouse.messages import RawText
from tests.kernel.fake import FakeKernel, Script, Sent

ME = "m-1"


async def converse(
    script: Script | FakeKernel,
    *,
    on_step: Callable[[Conversation, Step], None] | None = None,
    request: dict[str, Any] | None = None,
    **options: Any,
) -> list[Step]:
    """All steps of one conversation."""
    kernel = script if isinstance(script, FakeKernel) else FakeKernel(script)
    talk = Conversation(kernel, ExecuteRequest("code", ME, **request or {}), **options)
    steps = []
    async for step in talk.steps():
        steps.append(step)
        if on_step is not None:
            on_step(talk, step)
    await kernel.close()
    return steps


def end_of(steps: Sequence[Step]) -> End:
    """The one End, which is the last step."""
    *before, end = steps
    assert isinstance(end, End)
    assert not any(isinstance(step, End) for step in before)
    return end


def outputs(steps: Sequence[Step]) -> list[str]:
    """What belongs to the execution: the text of streams, the type of anything else."""
    told = []
    for step in steps:
        if isinstance(step, Output):
            item = step.item
            if isinstance(item, RawText):
                told.append(item.data.decode())
            else:
                told.append(str(item.content["text"]) if item.msg_type == "stream" else item.msg_type)
    return told


def strays(steps: Sequence[Step]) -> list[str]:
    told = []
    for step in steps:
        if isinstance(step, Stray):
            item = step.item
            told.append(
                item.data.decode() if isinstance(item, RawText) else str(getattr(item, "parent_id", item))
            )
    return told


def remarks(steps: Sequence[Step]) -> list[str]:
    return [step.reason for step in steps if isinstance(step, Remark)]


def now() -> float:
    return asyncio.get_running_loop().time()


async def done(k: FakeKernel, _: Sent) -> None:
    """The script of a kernel that runs it and has nothing to say."""
    k.busy()
    k.done()
