"""Records what a service and a keeper of this version say to each other: `python -m tests.keepers.record ENVIRONMENTS`.

Made once for each protocol, when it is the newest; `recorded/protocol-N.jsonl` is then what every later version has to be
able to speak. A line is one frame: who sent it, its kind, the number of its call, its body.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from cellhouse import ExecuteCodeRequest
from cellhouse.keepers import KeptHouse
from cellhouse.keepers.frames import PROTOCOL, Kind
from cellhouse.keepers.link import Link
from cellhouse.runtime import Settings
from tests.keepers.support import SESSION

RECORDED = Path(__file__).with_name("recorded")


class Tape:
    """Hears both directions of every connection of this process."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        send, take = Link.send, Link._take
        tape = self

        def sent(link: Link, kind: Kind, call: int, body: bytes = b"") -> None:
            tape.hear("service", kind, call, body)
            send(link, kind, call, body)

        def taken(link: Link, kind: Kind, call: int, body: bytes) -> None:
            tape.hear("keeper", kind, call, body)
            take(link, kind, call, body)

        setattr(Link, "send", sent)  # noqa: B010 - mypy forbids the plain one
        setattr(Link, "_take", taken)  # noqa: B010

    def hear(self, who: str, kind: Kind, call: int, body: bytes) -> None:
        if kind is not Kind.CREDIT:
            self.lines.append(
                {"from": who, "kind": kind.name, "call": call, "body": json.loads(body or b"null")}
            )


async def talk(house: KeptHouse) -> dict[str, Any]:
    """What is asked of a keeper, recorded or not; what came of it, as documents."""
    handle = await house.execute(
        ExecuteCodeRequest(code="print('hello')\n6 * 7", session=SESSION, execution_id="e")
    )
    result = await handle.result()
    events = [event.to_wire() async for event in handle.events()]
    session = await house.get_session(SESSION)
    text = await house.read_text(str(handle.name), "stdout")
    page = await house.list_executions(SESSION)
    runtime = await house.get_runtime("runtimes/here")
    return {
        "attached": handle.attached,
        "result": result.to_wire(),
        "events": events,
        "session": session.to_wire(),
        "text": text.text,
        "executions": [entry.name for entry in page.entries],
        "runtime": runtime.to_wire(),
    }


async def main(environments: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            state_dir=Path(directory), environments=(environments,), start="fresh", preload=(), spares=0
        )
        async with KeptHouse(settings) as house:
            await house.create_runtime(runtime_id="here")
            await house.leave()
        house = KeptHouse(settings)
        tape = Tape()
        async with house:
            told = await talk(house)
        tape.lines.append({"told": told})
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"protocol-{PROTOCOL}.jsonl"
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in tape.lines)
    path.write_text(text.replace(sys.prefix, "/venv").replace(directory, "/state"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).absolute()))
