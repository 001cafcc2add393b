"""A process with a KeptHouse in it, to be killed: `python service.py STATE ENVIRONMENTS DURABILITY`.

It answers lines of JSON: `{"run": code, "session": …, "id": …}` hands code in, `{"make": runtime}` makes a runtime,
`{"printed": execution, "text": …}` waits until it has printed that, `{"leave": true}` lets go of all and ends.
"""

import asyncio
import json
import sys
from pathlib import Path

from cellhouse import ExecuteCodeRequest
from cellhouse.keepers import KeptHouse
from cellhouse.model import RuntimeSpec
from cellhouse.runtime import Settings
from cellhouse.runtime.settings import Durability


async def main(state: Path, environments: Path, durability: Durability) -> None:
    own = Settings(
        state_dir=state,
        durability=durability,
        environments=(environments,),
        start="fresh",
        preload=(),
        spares=0,
    )
    loop = asyncio.get_running_loop()
    async with KeptHouse(own) as house:
        say({"runtimes": [runtime.name for runtime in await house.list_runtimes()]})
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            asked = json.loads(line)
            if "make" in asked:
                made = await house.create_runtime(
                    RuntimeSpec(minting=asked.get("minting", "off")), runtime_id=asked["make"]
                )
                say({"made": made.name})
            elif "run" in asked:
                request = ExecuteCodeRequest(
                    code=asked["run"], session=asked["session"], execution_id=asked["id"]
                )
                say({"name": str((await house.execute(request)).name)})
            elif "printed" in asked:
                await printed(house, asked["printed"], asked["text"])
                say({})
            else:
                say({"left": await house.leave()})
                return


async def printed(house: KeptHouse, name: str, text: str) -> None:
    seen = ""
    async for event in house.events(name):
        if event.type == "stream":
            seen += event.text
            if text in seen:
                return


def say(document: object) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), "full" if sys.argv[3] == "full" else "normal"))
