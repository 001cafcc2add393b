"""Promise 5: big data never enters the window."""

import pytest

from cellhouse.model import CallReason, DropReason, NotFound
from tests.promises.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE = """
import matplotlib.pyplot as plt, numpy as np, pandas as pd
from IPython.display import HTML, Image, display
figure, axes = plt.subplots()
axes.imshow(np.random.default_rng(1).random((100, 100)))
display(figure)
plt.close(figure)
display(HTML("<!--" + "x" * 3_000_000 + "-->"))
frame = pd.DataFrame(np.arange(40_000).reshape(2_000, 20))
frame.to_csv("frame.csv")
frame
"""


async def test_it_is_described_and_handed_over_by_reference(caller: Caller) -> None:
    result = await caller.run(CODE)
    assert result.execution_error is None, result.execution_error
    figure, large, table = result.rich_outputs
    assert len(result.to_json()) < 10_000
    assert "base64" not in result.to_json()

    assert [output.index for output in result.rich_outputs] == [0, 1, 2]
    assert "image/png" in figure.mime_types
    assert "text/plain" not in figure.mime_types
    assert table.mime_types == ("text/html",)
    assert figure.file_path is not None
    assert figure.file_path.startswith("/content/.dsm_outputs/")
    png = await caller.house.get_output_data(result.execution, 0, "image/png")
    assert png.data.startswith(b"\x89PNG\r\n\x1a\n")
    assert figure.size_bytes > len(png.data)
    bundle = await caller.house.get_bundle(result.execution, 2)
    assert "<table" in str(bundle["data"]["text/html"])

    # What was dropped keeps its place, and says why, with the figures.
    assert (large.mime_types, large.file_path, large.size_bytes) == (("text/html",), None, 0)
    assert large.error_info is not None
    assert large.error_info.reason == DropReason.OUTPUT_TOO_LARGE
    assert int(large.error_info.metadata["sizeBytes"]) > 3_000_000
    assert large.error_info.metadata["limitBytes"] == str(1 << 20)
    with pytest.raises(NotFound) as dropped:
        await caller.house.get_bundle(result.execution, 1)
    assert dropped.value.reason == CallReason.NO_SUCH_OUTPUT

    assert result.artifacts is not None
    (csv,) = result.artifacts
    assert (csv.name, csv.media_type) == ("frame.csv", "text/csv")
    assert csv.bytes == len(caller.file("frame.csv").encode())
    assert csv.sha256 is not None


async def test_events_hold_no_data_either(caller: Caller) -> None:
    result = await caller.run("from IPython.display import HTML\nHTML('<i>' + 'x' * 500_000)")
    events = [event.to_json() async for event in caller.house.events(result.execution)]
    assert max(len(event) for event in events) < 5_000
    assert "xxxx" not in "".join(events)
