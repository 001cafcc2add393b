"""Rows of the contract: content of any shape ends nothing."""

import pytest

from cellhouse.model import Outcome
from tests.contract.rig import SAY, Rig, plain, say_next, undamaged
from tests.kernel.fake import FakeKernel

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("msg_type", "content"),
    [
        ("stream", {}),
        ("stream", {"name": "stdout", "text": 5}),
        ("stream", {"name": ["stdout"], "text": "x"}),
        ("display_data", {}),
        ("display_data", {"data": [], "metadata": 5, "transient": "x"}),
        ("display_data", {"data": {"text/html": 5, "text/plain": {}}, "transient": {"display_id": {}}}),
        ("execute_result", {"data": None, "execution_count": "x"}),
        ("update_display_data", {"data": {"text/html": "x"}}),
        ("clear_output", {"wait": "maybe"}),
        ("error", {}),
        ("error", {"ename": 5, "evalue": None, "traceback": "no list"}),
        ("error", {"ename": {}, "evalue": [], "traceback": [5, {}, None]}),
        ("execute_input", {"code": 5, "execution_count": "many"}),
        ("status", {"execution_state": {}}),
        ("comm_msg", {"comm_id": 5}),
        ("no_such_type", {"x": 1}),
        ("debug_event", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_content_of_any_shape_ends_nothing(rig: Rig, msg_type: str, content: dict[str, object]) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.say(msg_type, content)
        k.stream("good\n")
        k.done()

    told = await rig.run(f"{SAY}\nsay({msg_type!r}, {content!r})\nprint('good')", act)
    assert told.result.outcome is Outcome.OK
    assert told.result.stdout.endswith("good\n")
    undamaged(told)


async def test_content_of_any_shape_that_is_nobodys_ends_nothing(rig: Rig) -> None:
    contents: list[tuple[str, dict[str, object]]] = [
        ("stream", {"text": 5}),
        ("display_data", {"data": {"text/plain": 5}}),
        ("display_data", {"data": {"text/plain": ["a", "b"]}}),
        ("display_data", {"data": {"\ud800": "x", "text/plain": "\udfff"}}),
        ("error", {"ename": {}, "evalue": "\ud800"}),
        ("update_display_data", {"data": 7}),
    ]

    def act(k: FakeKernel) -> None:
        k.echo()
        for msg_type, content in contents:
            k.say(msg_type, content, parent="nobody")
        k.stream("good\n")
        k.done()

    lines = [
        f"say({msg_type!r}, None, parent='nobody', raw=json.dumps({content!r}).encode())"
        for msg_type, content in contents
    ]
    code = "\n".join([SAY, "import json", *lines, "print('good')"])
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "good\n", "", "")
    assert plain(await rig.run("print('next')", say_next)) == (Outcome.OK, "next\n", "", "")
