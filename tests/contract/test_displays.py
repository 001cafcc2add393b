"""Rows of the contract: rich outputs, their updates, widgets."""

import base64

import pytest

from cellhouse.model import DisplayUpdatedEvent, Outcome
from tests.contract.rig import Rig, plain, undamaged
from tests.kernel.fake import FakeKernel

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nno picture").decode()


async def test_display_data(rig: Rig) -> None:
    data = {"image/png": PNG, "text/plain": "<Figure>", "application/json": {"a": [1, None]}}

    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("before\n")
        k.display(data)
        k.done()

    code = f"print('before', flush=True)\ndisplay({data!r}, raw=True)"
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "before\n", "", "")
    assert told.kinds == ["started", "stream", "display"]
    assert told.result.rich_outputs[0].mime_types == ("image/png", "application/json")
    assert told.bundle()["output_type"] == "display_data"
    assert told.bundle()["data"]["application/json"] == {"a": [1, None]}
    assert told.bundle()["data"]["text/plain"] in ("<Figure>", ["<Figure>"])
    assert base64.b64decode(told.bundle()["data"]["image/png"]).startswith(b"\x89PNG")


async def test_display_data_with_text_only_is_printed_at_its_place(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.stream("before\n")
        k.display({"text/plain": "shown"})
        k.stream("after\n")
        k.done()

    code = "print('before', flush=True)\ndisplay({'text/plain': 'shown'}, raw=True)\nprint('after')"
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "before\nshown\nafter\n", "", "")
    assert told.sources() == [None, "display", None]
    assert told.result.rich_outputs == ()


async def test_displays_keep_their_order(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        for number in range(50):
            k.display({"text/html": f"<i>{number}</i>"})
        k.done()

    told = await rig.run("for n in range(50): display({'text/html': f'<i>{n}</i>'}, raw=True)", act)
    shown = [told.bundle(index)["data"]["text/html"] for index in range(50)]
    assert shown == [f"<i>{number}</i>" for number in range(50)]
    undamaged(told)


async def test_invalid_base64(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.display({"image/png": "no base64!"})
        k.display({"image/png": "no base64!", "text/html": "<b>good</b>"})
        k.done()

    code = """
display({'image/png': 'no base64!'}, raw=True)
display({'image/png': 'no base64!', 'text/html': '<b>good</b>'}, raw=True)"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.OK
    assert told.drop(0) == "INVALID_OUTPUT"
    assert told.result.rich_outputs[1].mime_types == ("text/html",)
    assert "INVALID_OUTPUT" in told.notices


# updates


async def test_update_display_data_in_the_same_execution(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.display({"text/html": "<i>first</i>"}, "same")
        k.update({"text/html": "<i>second</i>"}, "same")
        k.done()

    code = """
display({'text/html': '<i>first</i>'}, raw=True, display_id='same')
from IPython.display import update_display
update_display({'text/html': '<i>second</i>'}, raw=True, display_id='same')"""
    told = await rig.run(code, act)
    assert len(told.result.rich_outputs) == 1
    assert told.bundle()["data"]["text/html"] == "<i>second</i>"
    updates = [(e.execution, e.index) for e in told.events if isinstance(e, DisplayUpdatedEvent)]
    assert updates == [(told.result.execution, 0)]


async def test_update_display_data_of_an_earlier_execution(rig: Rig) -> None:
    def show(k: FakeKernel) -> None:
        k.echo()
        k.display({"text/html": "<i>first</i>"}, "earlier")
        k.done()

    def update(k: FakeKernel) -> None:
        k.echo()
        k.update({"text/html": "<i>a longer second</i>"}, "earlier")
        k.done()

    earlier = await rig.run("display({'text/html': '<i>first</i>'}, raw=True, display_id='earlier')", show)
    recorded = earlier.result
    code = """
from IPython.display import update_display
update_display({'text/html': '<i>a longer second</i>'}, raw=True, display_id='earlier')"""
    told = await rig.run(code, update)
    assert told.result.rich_outputs == ()
    updates = [(e.execution, e.index) for e in told.events if isinstance(e, DisplayUpdatedEvent)]
    assert updates == [(recorded.execution, 0)]
    assert earlier.bundle()["data"]["text/html"] == "<i>a longer second</i>"
    assert earlier.log.finished == recorded
    revisions = [note for note in earlier.log.notes("revision") if note["index"] == 0]
    assert [note["revision"] for note in revisions] == [1]


async def test_update_display_data_of_an_unknown_id(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.update({"text/html": "<i>whose?</i>"}, "nobody's")
        k.done()

    code = """
from IPython.display import update_display
update_display({'text/html': '<i>whose?</i>'}, raw=True, display_id="nobody's")"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "", "", "")
    assert told.result.rich_outputs == ()
    assert told.notices == ["UNKNOWN_DISPLAY"]


async def test_update_display_data_of_one_shown_twice(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.display({"text/html": "<i>one</i>"}, "twice")
        k.display({"text/html": "<i>two</i>"}, "twice")
        k.update({"text/html": "<i>both</i>"}, "twice")
        k.done()

    code = """
from IPython.display import update_display
for text in ('one', 'two'):
    display({'text/html': f'<i>{text}</i>'}, raw=True, display_id='twice')
update_display({'text/html': '<i>both</i>'}, raw=True, display_id='twice')"""
    told = await rig.run(code, act)
    assert [told.bundle(index)["data"]["text/html"] for index in (0, 1)] == ["<i>both</i>"] * 2
    updates = [e.index for e in told.events if isinstance(e, DisplayUpdatedEvent)]
    assert updates == [0, 1]


async def test_update_display_data_with_text_only(rig: Rig) -> None:
    def act(k: FakeKernel) -> None:
        k.echo()
        k.display({"text/plain": "0 %"}, "text")
        k.stream("between\n")
        k.update({"text/plain": "100 %"}, "text")
        k.done()

    code = """
from IPython.display import update_display
display({'text/plain': '0 %'}, raw=True, display_id='text')
print('between', flush=True)
update_display({'text/plain': '100 %'}, raw=True, display_id='text')"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "100 %\nbetween\n", "", "")
    assert told.result.rich_outputs == ()


# widgets


async def test_comm_traffic(rig: Rig) -> None:
    """Comm messages are no output; what is printed beside them is."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.say("comm_open", {"comm_id": "c", "target_name": "t", "data": {}}, buffers=[b"\0" * 1000])
        k.say("comm_msg", {"comm_id": "c", "data": {"x": 1}})
        k.stream("beside\n")
        k.say("comm_close", {"comm_id": "c", "data": {}})
        k.done()

    code = """
from comm import create_comm
c = create_comm(target_name='t', data={}, buffers=[bytes(1000)])
c.send({'x': 1})
print('beside')
c.close()"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "beside\n", "", "")
    assert told.kinds == ["started", "stream"]
    undamaged(told)


async def test_widget_views(rig: Rig) -> None:
    view = "application/vnd.jupyter.widget-view+json"

    def act(k: FakeKernel) -> None:
        k.echo()
        k.say("comm_open", {"comm_id": "m", "target_name": "jupyter.widget", "data": {"state": {}}})
        model = {"version_major": 2, "version_minor": 0, "model_id": "m"}
        k.display({"text/plain": "IntSlider(value=0)", view: model})
        k.done()

    code = "import ipywidgets\ndisplay(ipywidgets.IntSlider(value=0))"
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.OK
    assert told.result.rich_outputs[0].mime_types == (view,)
    assert told.bundle()["data"][view]["version_major"] == 2
    assert told.result.stdout == ""


async def test_output_widget(rig: Rig) -> None:
    """What a page would move into the widget is printed here: nothing vanishes."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.say("comm_open", {"comm_id": "o", "target_name": "jupyter.widget", "data": {}})
        k.say("comm_msg", {"comm_id": "o", "data": {"method": "update", "state": {"msg_id": "x"}}})
        k.stream("inside\n")
        k.display({"text/html": "<b>inside</b>"})
        k.say("comm_msg", {"comm_id": "o", "data": {"method": "update", "state": {"msg_id": ""}}})
        k.stream("outside\n")
        k.done()

    code = """
import ipywidgets
out = ipywidgets.Output()
with out:
    print('inside', flush=True)
    display({'text/html': '<b>inside</b>'}, raw=True)
print('outside')"""
    told = await rig.run(code, act)
    assert plain(told) == (Outcome.OK, "inside\noutside\n", "", "")
    assert told.bundle()["data"]["text/html"] == "<b>inside</b>"


async def test_output_widget_with_an_exception_inside(rig: Rig) -> None:
    """The widget swallows it: an error message with an ok reply is output."""

    def act(k: FakeKernel) -> None:
        k.echo()
        k.error("ValueError", "inside", ["Traceback", "ValueError: inside"])
        k.stream("outside\n")
        k.done()

    code = """
import ipywidgets
with ipywidgets.Output():
    raise ValueError('inside')
print('outside')"""
    told = await rig.run(code, act)
    assert told.result.outcome is Outcome.OK
    assert told.result.stdout == "outside\n"
    assert "ValueError: inside" in told.result.stderr
    assert told.sources("stderr") == ["error"]
