"""A full disk under a runtime with real walls: deleting it makes room, and leaves nothing."""

import errno
import os
from pathlib import Path

import pytest

from cellhouse import House, Settings
from cellhouse.environments import Environment
from cellhouse.model import NotFound, WallLimits
from tests.files.support import mounted_tmpfs

MIB = 1 << 20


def fill(state: Path) -> None:
    """To the last byte."""
    with (state / "filler").open("ab", buffering=0) as filler:
        size = MIB
        while size:
            try:
                filler.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's /content has a disk of its own")
async def test_a_runtime_can_be_deleted_and_its_disk_goes(environment: Environment, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with mounted_tmpfs(state, "24m"):
        settings = Settings(
            state_dir=state,
            environments=(environment.prefix.parent,),
            walls=WallLimits(content=16 * MIB),
        )
        async with House(settings=settings) as house:
            name = (await house.create_runtime(runtime_id="here")).name
            await house.put_file(name, "kept", [b"x" * MIB])
            fill(state)
            await house.delete_runtime(name)
            with pytest.raises(NotFound):
                house.get_runtime(name)
            assert [entry.name for entry in (state / "runtimes").iterdir()] == []
            assert str(state / "runtimes") not in Path("/proc/self/mounts").read_text()
