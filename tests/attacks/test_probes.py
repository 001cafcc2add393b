"""Every probe is refused inside, and succeeds where there are no walls."""

import os
import shutil
from pathlib import Path

import pytest

from cellhouse.sandbox import IN_FORCE
from tests.attacks.host import Host
from tests.attacks.host_probes import HOST_PROBES
from tests.attacks.probes import PROBES, ROOT, UNSHARED, Probe

pytestmark = pytest.mark.asyncio(loop_scope="module")


ALL = (*PROBES, *HOST_PROBES)
# Slow too, so that only `make test-walls` and `make test-slow` have them.
LATER = [pytest.mark.walls, pytest.mark.slow]


def marked(probe: Probe) -> object:
    return pytest.param(probe, id=probe.name, marks=[] if probe.quick else LATER)


def needed(probe: Probe, host: Host) -> None:
    """Skip what this machine has nothing to attack for; whatever else fails, fails."""
    if probe.only and probe.only != os.uname().machine:
        pytest.skip(f"is for {probe.only}")
    if probe.needs.startswith("/") and not Path(probe.needs).exists():
        pytest.skip(f"this machine has no {probe.needs}")
    if probe.needs and not probe.needs.startswith("/") and not host.args[probe.needs]:
        pytest.skip(f"this machine has no {probe.needs}")


@pytest.mark.parametrize("probe", [marked(probe) for probe in ALL])
async def test_inside(host: Host, probe: Probe) -> None:
    needed(probe, host)
    standing = {layer.name for layer in host.walls.report.layers if layer.status == IN_FORCE}
    assert set(probe.layers) <= standing
    assert await host.inside(probe) in probe.refused
    assert not host.walls.lost.done()


@pytest.mark.parametrize("probe", [pytest.param(probe, id=probe.name, marks=LATER) for probe in ALL])
async def test_without_walls(host: Host, probe: Probe) -> None:
    needed(probe, host)
    if probe.place == ROOT and os.geteuid() != 0:
        pytest.skip("only root can do it at all, and root's run has shown it")
    if probe.place == UNSHARED and shutil.which("unshare") is None:
        pytest.fail("needs the program unshare: install util-linux")
    said = host.outside(probe)
    if said == "ENOSYS":
        pytest.skip("this kernel has no such call")
    assert said == "reached"


async def test_names_are_told_apart() -> None:
    assert len({probe.name for probe in ALL}) == len(ALL)
