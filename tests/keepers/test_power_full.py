"""Durability `full` and power that goes: nothing that was accepted or told is lost, and nothing runs twice."""

import json
from pathlib import Path
from random import Random

import pytest

from cellhouse.environments import Environment
from cellhouse.keepers import KeptHouse, Template
from cellhouse.keepers.place import Place, holder
from cellhouse.model import FinishedEvent, Outcome, StreamEvent
from tests.keepers.disk import Disk, needs_disk
from tests.keepers.support import dense, ended, kill, recorded, settings, start
from tests.keepers.test_deaths import service

pytestmark = [pytest.mark.slow, needs_disk]

LINES = 200
CODE = "for line in range({lines}): print('{n}', line, flush=True)\n{rest}"
SLEEP = "import time; time.sleep(600)"
EXECUTIONS = ((0, "s0", ""), (1, "s0", ""), (2, "s1", SLEEP), (3, "s1", ""), (4, "s2", SLEEP))
"""Number, session, how it ends: two that end, two that run, one that waits."""


def code(n: int, rest: str) -> str:
    return CODE.format(lines=LINES, n=n, rest=rest)


def text(n: int) -> str:
    return "".join(f"{n} {line}\n" for line in range(LINES))


def records(journal: Path) -> dict[Path, bytes]:
    executions = journal / "executions"
    return {
        path.relative_to(executions): path.read_bytes() for path in executions.rglob("*") if path.is_file()
    }


def write_some_more(journal: Path, after: dict[Path, bytes], random: Random) -> int:
    """Of each record, up to a random byte past what was synced, what was written to it by the end; how many were changed."""
    changed = 0
    for path, synced in records(journal).items():
        whole = after.get(path, b"")
        same = next((at for at, (a, b) in enumerate(zip(synced, whole, strict=False)) if a != b), len(synced))
        if same < len(whole):
            cut = random.randrange(same, len(whole) + 1)
            (journal / "executions" / path).write_bytes(whole[:cut] + synced[cut:])
            changed += 1
    return changed


@pytest.mark.parametrize("seed", range(3))
async def test_what_was_accepted_is_known_and_never_runs_again(
    template: Template, environment: Environment, disk: Disk, seed: int
) -> None:
    random, state = Random(seed), disk.path / "state"
    place = Place(state, "here")
    journal = place.directory / "journal"
    told = set(
        range(random.randrange(3))
    )  # these have ended, and were read to the end, before the power goes
    async with service(state, environment, "full") as served:
        await served.ask(make="here")
        names = []
        for n, session, rest in EXECUTIONS:
            asked = {"run": code(n, rest), "session": f"runtimes/here/sessions/{session}", "id": f"e{n}"}
            names.append((await served.ask(**asked))["name"])
        for n in told:
            await served.ask(printed=names[n], text="what it does not print")
        await served.ask(printed=names[2], text=f"2 {random.randrange(LINES)}")
        disk.snapshot()
        for n in (0, 1, 2, 4):
            await served.ask(printed=names[n], text=f"{n} {LINES - 1}")
        pid = holder(place.directory)
        assert pid is not None
        await served.kill()  # first: it would tidy up behind the other
        kill(pid)
        await ended(pid)
    after = records(journal)
    await disk.go_back()
    write_some_more(journal, after, random)
    if lock := (journal / "lock").read_bytes():  # else it had not been written, either
        (journal / "lock").write_text(json.dumps({**json.loads(lock), "bootId": "another run"}))

    own = settings(state, environment, durability="full")
    async with KeptHouse(own, template=template) as house:
        for n, name in enumerate(names):
            events = await recorded(house, name)
            assert dense(events)
            end = events[-1]
            assert isinstance(end, FinishedEvent)
            said = "".join(event.text for event in events if isinstance(event, StreamEvent))
            assert text(n).startswith(said)
            outcome, info = end.result.outcome, end.result.outcome_info
            if n in told:
                assert (outcome, said) == (Outcome.OK, text(n))
            elif outcome is Outcome.RUNTIME_LOST:
                assert info is not None
                assert n == 3 or info.metadata["mayHaveRun"] == "true"
            else:
                assert (outcome, n in (0, 1)) == (Outcome.OK, True) or outcome is Outcome.NEVER_STARTED
        assert (await house.census()).unfinished == 0
        for (n, session, rest), name in zip(EXECUTIONS, names, strict=True):
            again = await start(
                house, code(n, rest), f"runtimes/here/sessions/{session}", execution_id=f"e{n}"
            )
            assert (str(again.name), again.attached) == (name, True)
        assert (await house.census()).unfinished == 0
