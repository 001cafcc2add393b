"""A disk below the state directory that takes nothing any more: told, nothing recorded is lost, reading goes on."""

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.model import ResourceExhausted
from tests.keepers.disk import Disk, needs_disk
from tests.keepers.support import recorded, run, settings, start

pytestmark = [pytest.mark.slow, needs_disk]
NAME = "runtimes/here/sessions/main/executions/"


async def test_one_that_fails_while_it_is_used(
    template: Template, environment: Environment, disk: Disk
) -> None:
    own = settings(disk.path / "state", environment, durability="full")
    async with KeptHouse(own, template=template) as house:
        await house.create_runtime(runtime_id="here")
        assert (await run(house, "print('before')", execution_id="before")).stdout == "before\n"
        before = await recorded(house, NAME + "before")
        disk.fail()
        for asked in (start(house, "print('after')", execution_id="after"), house.create_runtime()):
            with pytest.raises(ResourceExhausted, match="read-only") as refused:
                await asked
            assert (refused.value.http, refused.value.reason) == (507, "SERVER_DISK_FULL")
        assert await recorded(house, NAME + "before") == before
        assert (await start(house, "print('before')", execution_id="before")).attached
    await disk.unmount(all_of_it=True)
    disk.mend()
    disk.mount("ro")
    with pytest.raises((ResourceExhausted, OSError), match=r"[Rr]ead-only"):
        await KeptHouse(own, template=template).__aenter__()
    await disk.unmount()
    disk.mount()
    async with KeptHouse(own, template=template) as house:
        assert await recorded(house, NAME + "before") == before
        assert (await start(house, "print('before')", execution_id="before")).attached
