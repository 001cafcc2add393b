"""The libraries that people show things with, each with what must arrive of it; over ipykernel and the native kernel."""

import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.kernel import Kernel, KernelItem
from cellhouse.messages import LongText, Message, text_chunks
from tests.kernel.support import idle_of, items_until, raw_of, run, text_of
from tests.kernels.native import is_there
from tests.kernels.running import running

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.leaves(
        "the shared kernel gets new pipes after a cell that started a process; its fixture closes it"
    ),
]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NATIVE = pytest.param(
    "native",
    marks=[
        pytest.mark.native,
        pytest.mark.skipif(not is_there(), reason="this checkout has no native kernel yet"),
    ],
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["ipykernel", NATIVE])
async def kernel(
    request: pytest.FixtureRequest, library_environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Kernel]:
    async with running(request.param, library_environment, tmp_path_factory.mktemp("libraries")) as made:
        yield made


def whole(value: Any) -> str:
    assert isinstance(value, str | LongText)
    return "".join(text_chunks(value))


def messages(items: Sequence[KernelItem], *kinds: str) -> list[Message]:
    return [item for item in items if isinstance(item, Message) and item.msg_type in kinds]


def bundles(items: Sequence[KernelItem]) -> list[dict[str, Any]]:
    """The MIME bundles of what was shown, values of expressions too."""
    assert not messages(items, "error"), messages(items, "error")
    return [dict(message.content["data"]) for message in messages(items, "display_data", "execute_result")]


def printed(items: Sequence[KernelItem], name: str) -> str:
    return text_of(items, name) + raw_of(items, name).decode()


async def test_matplotlib_shows_a_figure_at_the_end_of_its_cell(kernel: Kernel) -> None:
    code = "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 3), dpi=100)\nplt.plot([1, 2, 3])"
    value, figure = bundles(await run(kernel, code))
    assert "Line2D" in value["text/plain"]
    assert list(figure) == ["text/plain", "image/png"]
    assert figure["text/plain"] == "<Figure size 400x300 with 1 Axes>"
    png = base64.b64decode(whole(figure["image/png"]))
    assert png.startswith(b"\x89PNG\r\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    assert not bundles(await run(kernel, "1;"))


async def test_pandas_shows_a_table_as_html_and_text(kernel: Kernel) -> None:
    code = "import pandas as pd\npd.DataFrame({'name': ['<Ada>', None], 'n': [1.5, 2]})"
    [table] = bundles(await run(kernel, code))
    assert list(table) == ["text/plain", "text/html"]
    assert table["text/plain"].split() == ["name", "n", "0", "<Ada>", "1.5", "1", "NaN", "2.0"]
    assert "<th>name</th>" in table["text/html"]
    assert "<td>&lt;Ada&gt;</td>" in table["text/html"]


async def test_plotly_shows_a_figure_as_its_own_json_and_html(kernel: Kernel) -> None:
    code = "import plotly.graph_objects as go\ngo.Figure(go.Scatter(x=[1, 2], y=[3, 4])).show()"
    *_, figure = bundles(await run(kernel, code))
    shown = figure["application/vnd.plotly.v1+json"]
    assert shown["data"][0]["type"] == "scatter"
    assert shown["layout"]["template"]
    assert next(iter(figure)) == "application/vnd.plotly.v1+json"


async def test_a_widget_opens_its_comms_shows_itself_and_takes_what_comes_back(kernel: Kernel) -> None:
    code = "import ipywidgets as w\nslider = w.IntSlider(3, max=10)\nslider.observe(lambda c: print('moved', c['new']), 'value')\nslider"
    items = await run(kernel, code)
    opened = {message.content["comm_id"]: message for message in messages(items, "comm_open")}
    assert {message.content["target_name"] for message in opened.values()} == {"jupyter.widget"}
    assert all(message.metadata["version"].startswith("2.") for message in opened.values())
    [view] = bundles(items)
    model = view[WIDGET_VIEW]["model_id"]
    assert opened[model].content["data"]["state"]["value"] == 3

    moved = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    msg_id = kernel.send("shell", "comm_msg", {"comm_id": model, "data": moved})
    items = await items_until(kernel, idle_of(msg_id))
    assert printed(items, "stdout") == "moved 7\n"
    [value] = bundles(await run(kernel, "slider.value"))
    assert value == {"text/plain": "7"}


async def test_an_output_widget_takes_what_is_printed_and_shown_in_it(kernel: Kernel) -> None:
    code = "import ipywidgets as w\nout = w.Output()\nwith out:\n    print('inside')\nprint('outside')"
    items = await run(kernel, code)
    updates = [message.content["data"]["state"] for message in messages(items, "comm_msg")]
    ids = [state["msg_id"] for state in updates if "msg_id" in state]
    assert len(ids) == 2
    assert ids[0]
    assert ids[1] == ""
    assert "outside\n" in printed(items, "stdout")


async def test_tqdm_draws_a_bar_in_text_and_one_of_widgets(kernel: Kernel) -> None:
    items = await run(kernel, "from tqdm import tqdm\nfor _ in tqdm(range(3), mininterval=60): pass")
    drawn = printed(items, "stderr")
    assert drawn.startswith("\r  0%|")
    assert "100%|██████████| 3/3 [" in drawn

    items = await run(kernel, "from tqdm.auto import tqdm\nfor _ in tqdm(range(3), mininterval=60): pass")
    [bar] = bundles(items)
    assert WIDGET_VIEW in bar
    assert bar["text/plain"].startswith("  0%|")
    last = [message.content["data"].get("state", {}) for message in messages(items, "comm_msg")]
    assert any(state.get("bar_style") == "success" for state in last)


async def test_altair_shows_a_chart_as_vega_lite(kernel: Kernel) -> None:
    code = """
import altair as alt
import pandas as pd
alt.renderers.enable("mimetype")
chart = alt.Chart(pd.DataFrame({"x": [1, 2], "y": [3, 4]})).mark_bar().encode(x="x", y="y")
chart
"""
    [chart] = bundles(await run(kernel, code))
    [kind] = [kind for kind in chart if kind.startswith("application/vnd.vegalite")]
    assert chart[kind]["mark"] == {"type": "bar"}
    assert [*chart[kind]["datasets"].values()] == [[{"x": 1, "y": 3}, {"x": 2, "y": 4}]]
    [chart] = bundles(await run(kernel, "alt.renderers.enable('default')\nchart"))
    assert "vegaEmbed" in whole(chart["text/html"])


async def test_bokeh_loads_itself_and_shows_a_plot(kernel: Kernel) -> None:
    code = """
from bokeh.io import output_notebook
from bokeh.plotting import figure, show
output_notebook()
plot = figure(width=100, height=100)
plot.scatter([1], [2])
show(plot)
"""
    shown = bundles(await run(kernel, code))
    kinds = {kind for bundle in shown for kind in bundle}
    assert {"application/vnd.bokehjs_load.v0+json", "application/vnd.bokehjs_exec.v0+json"} <= kinds
    plot = whole(shown[-1]["application/javascript"])
    assert "embed_document" in plot
    assert '"Figure"' in plot


async def test_scikit_learn_draws_an_estimator(kernel: Kernel) -> None:
    code = """
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
model = make_pipeline(StandardScaler(), LogisticRegression(C=2)).fit([[0], [1]], [0, 1])
model
"""
    [drawn] = bundles(await run(kernel, code))
    assert list(drawn) == ["text/plain", "text/html"]
    assert "LogisticRegression(C=2)" in drawn["text/plain"]
    assert "sk-estimator" in whole(drawn["text/html"])
    predicted = bundles(await run(kernel, "model.predict([[0], [1]]).tolist()"))
    assert [json.loads(bundle["text/plain"]) for bundle in predicted] == [[0, 1]]
