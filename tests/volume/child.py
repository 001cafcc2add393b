"""Runs one cell on a House in a process of its own and tells how far that process's memory grew."""

import asyncio
import json
import sys
import threading
from pathlib import Path

from cellhouse import ExecuteCodeRequest, House, RuntimeSpec, Settings

PAGE = 4096
MIB = 1 << 20
SAMPLE_SECONDS = 0.002


class Peak(threading.Thread):
    """Samples this process's resident memory until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, resident())

    def stop(self) -> int:
        self._stopped.set()
        self.join()
        return self.peak


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


async def main(state: str, prefix: str, kernel: str, code: str, timeout: float) -> None:
    settings = Settings(state_dir=Path(state), environments=(Path(prefix).parent,))
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(kernel=kernel))
        session = f"{runtime.name}/sessions/main"
        for warm in (
            "1 + 1",
            "print('x' * 100_000)",
            "from IPython.display import HTML, display\ndisplay(HTML('x'))",
        ):
            await (await house.execute(ExecuteCodeRequest(code=warm, session=session)))
        before = resident()
        peak = Peak()
        peak.start()
        request = ExecuteCodeRequest(
            code=code, session=session, execution_timeout=timeout or None, wait_timeout=300.0
        )
        handle = await house.execute(request)
        result = await handle
        growth = peak.stop() - before
        page = house.read_text(str(handle.name), "stdout", offset=0, limit=64)
        print(
            json.dumps(
                {"growthMiB": growth / MIB, "result": result.to_wire(), "storedBytes": page.total_bytes}
            )
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5])))
