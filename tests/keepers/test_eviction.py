"""Retention over runtimes that are over: records go, their ids stay used."""

from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.model import CallReason, NotFound, RetentionLimits
from tests.keepers.support import run, settings, start


async def test_records_that_exceed_the_bytes_go_and_their_ids_never_run_again(
    template: Template, environment: Environment, tmp_path: Path
) -> None:
    own = settings(tmp_path / "state", environment, retention=RetentionLimits(bytes=1))
    async with KeptHouse(own, template=template) as house:
        await house.create_runtime(runtime_id="here")
        result = await run(house, "'once'", execution_id="e")
        await house._eviction.evict()
        assert (
            await house.get_execution(result.execution) == result
        )  # a living runtime's are its keeper's own to evict
        await house.delete_runtime("runtimes/here")
        assert await house.get_execution(result.execution) == result
        await house._eviction.evict()
        with pytest.raises(NotFound) as gone:
            await house.get_execution(result.execution)
        assert gone.value.reason == CallReason.EVICTED
        await house.create_runtime(runtime_id="here")
        with pytest.raises(NotFound) as used:
            await start(house, "'once'", execution_id="e")
        assert used.value.reason == CallReason.EVICTED
