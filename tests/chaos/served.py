"""A service on a unix socket, to be killed: `python served.py STATE ENVIRONMENTS SOCKET START`. Says `ready` and serves."""

import asyncio
import sys
from pathlib import Path

from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.runtime import Settings


async def main(state: Path, environments: Path, uds: Path, start: str) -> None:
    settings = Settings(
        state_dir=state,
        environments=(environments,),
        start="zygote" if start == "zygote" else "fresh",
        preload=(),
        spares=1,
    )
    limits = DoorLimits(drain_seconds=0.0, grace_seconds=5.0)
    async with Service(settings, ServeOptions(uds=uds, limits=limits, keepers=True)) as service:
        print("ready", flush=True)
        await service.run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
