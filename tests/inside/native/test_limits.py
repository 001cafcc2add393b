"""What is too large never leaves the kernel, and says so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from cellhouse.environments import Environment
from cellhouse.kernel.native import NativeKernel, SourceLimits
from cellhouse.model import Outcome
from tests.contract.native_rig import NativeKernels
from tests.contract.rig import Rig, plain


@pytest_asyncio.fixture
async def small(environment: Environment, tmp_path: Path) -> AsyncIterator[Rig]:
    kernels = NativeKernels(environment, tmp_path)

    async def make() -> NativeKernel:
        return await kernels.start(SourceLimits(bundle_bytes=10_000, text_chars=2_000))

    rig = await Rig(tmp_path, "native", make).open()
    yield rig
    await rig.close()
    await kernels.close()


async def test_a_display(small: Rig) -> None:
    code = "display({'text/html': 'x' * 20_000, 'text/plain': 'y'}, raw=True)\nprint('on')"
    told = await small.run(code)
    assert plain(told) == (Outcome.OK, "on\n", "", "")
    assert told.drop(0) == "OUTPUT_TOO_LARGE"
    assert told.result.rich_outputs[0].mime_types == ("text/html",)
    assert told.result.rich_outputs[0].error_info is not None
    assert told.result.rich_outputs[0].error_info.metadata == {"sizeBytes": "20001", "limitBytes": "10000"}


async def test_a_value_keeps_its_text(small: Rig) -> None:
    code = "class Large:\n    def _repr_html_(self): return 'x' * 20_000\n    def __repr__(self): return 'large'\nLarge()"
    told = await small.run(code)
    assert plain(told) == (Outcome.OK, "", "", "large")
    assert told.drop(0) == "OUTPUT_TOO_LARGE"


async def test_a_long_text_is_cut_and_says_by_how_much(small: Rig) -> None:
    told = await small.run("'x' * 5_000")
    assert told.result.outcome is Outcome.OK
    assert "3002 of 5002 characters are left out here" in told.result.result


async def test_what_is_hidden_in_json(small: Rig) -> None:
    """Only its encoding tells how large it is."""
    told = await small.run("display({'application/json': list(range(10_000))}, raw=True)")
    assert told.drop(0) == "OUTPUT_TOO_LARGE"
