"""Code that has got hold of its kernel's channels can lie about its own execution, and about nothing else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import (
    Event,
    ExecuteCodeResult,
    Outcome,
    RuntimeSpec,
    SessionLimits,
    StreamEvent,
    TailFrame,
)
from cellhouse.runtime import ExecutionHandle, Settings
from tests.attacks.forgeries import JUPYTER, JUPYTER_PRELUDE, LATE, LOG, NATIVE, NATIVE_PRELUDE, OWN, Forgery
from tests.promises.conftest import warm_threads
from tests.promises.support import SECONDS, Caller
from tests.runtime.support import quiet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.native]

LATER = [pytest.mark.walls, pytest.mark.slow]
MINE = """
from IPython.display import HTML
print("earlier")
display(HTML("<b>earlier</b>"))
get_ipython().kernel.get_parent()["header"]["msg_id"]
"""
NEXT = "print('next'); 1 + 1"
# In all the ways in which text can come, and displays between.
WOVEN = """
import os, sys
from IPython.display import display as show
for number in range(20):
    print("out", number)
    show({"text/html": str(number)}, raw=True)
    print("err", number, file=sys.stderr)
    os.write(1, b"raw %d\\n" % number)
"""


@dataclass(frozen=True)
class Scene:
    """A runtime with one session that goes on, and beside it one for each forgery."""

    sibling: Caller
    sibling_uid: str
    prelude: str

    async def forger(self, name: str) -> Caller:
        made = self.sibling.in_session(f"forger-{name}")
        await made.house.create_session(self.sibling.runtime, session_id=f"forger-{name}")
        return made


async def scene(house: House, kernel: str) -> Scene:
    start = "zygote" if kernel == "native" else None
    runtime = await house.create_runtime(RuntimeSpec(kernel=kernel, start=start))  # type: ignore[arg-type]
    caller = Caller(house, runtime.name, f"{runtime.name}/sessions/sibling")
    result = await caller.run(f"kept = 'kept'{MINE}")
    await quiet(house)
    prelude = NATIVE_PRELUDE if kernel == "native" else JUPYTER_PRELUDE
    return Scene(caller, result.result.strip("'"), prelude)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("forged") / "state",
        environments=(environment.prefix.parent,),
        session=SessionLimits(interrupt_grace=0.3, settle_seconds=2, exit_seconds=0.5),
        preload=(),
        spares=0,
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def native(house: House) -> Scene:
    return await scene(house, "native")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def jupyter(house: House) -> Scene:
    return await scene(house, "python3")


def told(forgeries: tuple[Forgery, ...]) -> list[object]:
    return [pytest.param(each, id=each.name, marks=[] if each.quick else LATER) for each in forgeries]


async def ended(handle: ExecutionHandle) -> ExecuteCodeResult:
    async with asyncio.timeout(SECONDS):
        return await handle


async def events(house: House, result: ExecuteCodeResult) -> list[Event]:
    async with asyncio.timeout(SECONDS):
        found = house.events(result.execution, late=False)
        return [event async for event in found if not isinstance(event, TailFrame)]


async def late_of(house: House, result: ExecuteCodeResult) -> str:
    late = (await house.get_execution(result.execution)).late
    return repr(late) if late is not None else ""


def frozen(result: ExecuteCodeResult) -> ExecuteCodeResult:
    """What its end has fixed: all but the count of what came afterwards."""
    return result.model_copy(update={"late": None})


async def lie(scene: Scene, forgery: Forgery) -> None:
    """Tell it, and see that nobody else is lied about."""
    house, sibling = scene.sibling.house, scene.sibling
    forger = await scene.forger(forgery.name)
    try:
        earlier = await forger.run(MINE)
        before = await events(house, earlier)
        prelude = scene.prelude.format(earlier=earlier.result.strip("'"), sibling=scene.sibling_uid)
        first = await forger.start(prelude + forgery.code, execution_timeout=3)
        own = await ended(first)
        # Handed in at once, as whoever believed the lie would do it.
        following = await ended(await forger.start(NEXT))
        if is_taken_over(following):
            # The frame too many was noticed with the first genuine one behind it: this one is lost, and not lied about.
            assert not is_taken_over(own)
            assert "FORGED" not in repr(following)
            assert "FORGED" not in repr(await events(house, following))
            following = await ended(await forger.start(NEXT))
        woven = await ended(await forger.start(WOVEN))

        noticed = is_taken_over(own)
        assert noticed or own.outcome in forgery.outcomes, (own.execution_error, own.outcome_info)
        if forgery.reason and not noticed:
            assert own.outcome_info is not None
            assert own.outcome_info.reason == forgery.reason
        for told, stdout, value in ((following, "next\n", "2"), (woven, None, "")):
            assert told.outcome is Outcome.OK, told.execution_error
            assert "FORGED" not in repr(told)
            assert "FORGED" not in repr(await events(house, told))
            assert told.stdout == stdout or stdout is None
            assert told.result == value
            # That its order may be wrong is no lie about it.
            assert {notice.reason for notice in told.notices or ()} <= {"FRESH_KERNEL", "OUTPUT_DISORDERED"}
        assert woven.stdout.count("\n") == 40
        assert [shown.index for shown in woven.rich_outputs] == list(range(20))

        # What is over stays as it was, and the sibling never heard of it.
        assert frozen(await house.get_execution(earlier.execution)) == frozen(earlier)
        assert await events(house, earlier) == before
        assert "FORGED" not in repr(before)
        mine = await sibling.run("kept")
        assert (mine.outcome, mine.result, mine.stdout, mine.notices) == (Outcome.OK, "'kept'", "", None)
        assert "FORGED" not in repr(house.session_log(sibling.session))

        await until_seen(house, forgery, own, earlier, forger.session)
    finally:
        await house.delete_session(forger.session)


def is_taken_over(result: ExecuteCodeResult) -> bool:
    """Whether it ended because frames came that the kernel did not count: its code writes where only the kernel may."""
    return (
        result.outcome is Outcome.KERNEL_DIED
        and result.outcome_info is not None
        and result.outcome_info.reason == "KERNEL_LOST"
        and "taken it over" in (result.execution_error.value if result.execution_error else "")
    )


def in_order(found: list[Event]) -> bool:
    """Whether both streams and the displays of `WOVEN` came each in its place."""
    said = ""
    for event in found:
        if isinstance(event, StreamEvent):
            said += event.text
        elif event.type == "display":
            said += "shown\n"
    return said == "".join(f"out {n}\nshown\nerr {n}\nraw {n}\n" for n in range(20))


async def until_seen(
    house: House, forgery: Forgery, own: ExecuteCodeResult, earlier: ExecuteCodeResult, session: str
) -> None:
    """The forgery came to where it may come: what never got out of the kernel would prove nothing."""
    if forgery.seen == OWN:
        assert "FORGED" in repr(own) or await late_of(house, own)
    elif forgery.seen == LATE:
        assert await late_of(house, earlier)
    elif forgery.seen == LOG:
        assert "FORGED" in repr(house.session_log(session))
        assert "FORGED" not in repr(own)


@pytest.mark.parametrize("forgery", told(NATIVE))
async def test_over_the_native_kernel(native: Scene, forgery: Forgery) -> None:
    await lie(native, forgery)


@pytest.mark.parametrize("forgery", told(JUPYTER))
async def test_over_ipykernel(jupyter: Scene, forgery: Forgery) -> None:
    await lie(jupyter, forgery)


@pytest.mark.parametrize(
    "name",
    ["nothing", "error", "marks-of-the-last-epoch", "marks-that-wait-for-every-frame", "a-mark-in-one-pipe"],
)
async def test_what_follows_is_in_order_or_says_that_it_is_not(native: Scene, name: str) -> None:
    code = next((forgery.code for forgery in NATIVE if forgery.name == name), "None")
    forger = await native.forger(f"order-{name}")
    try:
        own = await forger.run(native.prelude.format(earlier="", sibling="") + code)
        woven = await forger.run(WOVEN)
        said = {notice.reason for result in (own, woven) for notice in result.notices or ()}
        found = await events(forger.house, woven)
        assert in_order(found) or ("OUTPUT_DISORDERED" in said and name != "nothing")
    finally:
        await forger.house.delete_session(forger.session)
