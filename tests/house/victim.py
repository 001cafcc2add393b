"""A process with a House in it, to be killed: `python victim.py STATE ENVIRONMENTS ISOLATION`.

It hands in two executions, says their names once the first has printed, and waits for its end.
"""

import asyncio
import json
import sys
from pathlib import Path

from cellhouse import ExecuteCodeRequest, House
from cellhouse.model import DisplayEvent, RuntimeSpec
from cellhouse.runtime import Settings

CODE = """
import subprocess, sys, time
from IPython.display import HTML, display
with open("ran.txt", "a") as file:
    file.write("once\\n")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
for percent in range(101):
    sys.stdout.write(f"\\r{percent:3}%")
print()
print("so far", flush=True)
display(HTML("<b>shown</b>"))
time.sleep(600)
print("never")
"""


async def main(state: Path, environments: Path, isolation: str) -> None:
    settings = Settings(state_dir=state, environments=(environments,))
    async with House(settings=settings) as house:
        runtime = await house.create_runtime(RuntimeSpec(isolation=isolation), runtime_id="victim")
        session = f"{runtime.name}/sessions/main"
        running = await house.execute(ExecuteCodeRequest(code=CODE, session=session, execution_id="running"))
        waiting = await house.execute(
            ExecuteCodeRequest(code="print('next')", session=session, execution_id="waiting")
        )
        async for event in running.events():
            if isinstance(event, DisplayEvent):
                print(json.dumps([str(running.name), str(waiting.name), event.seq]), flush=True)
        raise AssertionError("the code ended, though it sleeps for ten minutes")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
