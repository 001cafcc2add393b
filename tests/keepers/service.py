"""A process with a KeptHouse in it, to be killed: `python service.py STATE ENVIRONMENTS`.

It answers lines of JSON: `{"run": code, "session": …, "id": …}` hands code in, `{"make": runtime}` makes a runtime,
`{"leave": true}` lets go of all and ends.
"""

import asyncio
import json
import sys
from pathlib import Path

from cellhouse import ExecuteCodeRequest
from cellhouse.keepers import KeptHouse
from cellhouse.runtime import Settings


async def main(state: Path, environments: Path) -> None:
    own = Settings(state_dir=state, environments=(environments,), start="fresh", preload=(), spares=0)
    loop = asyncio.get_running_loop()
    async with KeptHouse(own) as house:
        say({"runtimes": [runtime.name for runtime in await house.list_runtimes()]})
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            asked = json.loads(line)
            if "make" in asked:
                made = await house.create_runtime(runtime_id=asked["make"])
                say({"made": made.name})
            elif "run" in asked:
                request = ExecuteCodeRequest(
                    code=asked["run"], session=asked["session"], execution_id=asked["id"]
                )
                say({"name": str((await house.execute(request)).name)})
            else:
                say({"left": await house.leave()})
                return


def say(document: object) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
