"""What is wrong with a call is told in the same words by a house and by a kept one."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from cellhouse import ExecuteCodeRequest, House, RuntimeSpec
from cellhouse.environments import Environment
from cellhouse.keepers import AnyHouse, DirectHouse, KeptHouse
from cellhouse.model import CellhouseError
from tests.keepers.support import SESSION, run, settings

NONE = f"{SESSION}/executions/none"
Call = Callable[[AnyHouse], Awaitable[object]]


async def _events(house: AnyHouse, name: str, after: int = 0) -> None:
    async with aclosing(house.events(name, after=after)) as events:
        async for _ in events:
            raise AssertionError("there are none")


async def _opened(house: AnyHouse, runtime: str, path: str) -> None:
    house.open_file(runtime, path).close()


def _execute(**fields: Any) -> Call:
    return lambda house: house.execute(ExecuteCodeRequest(**{"code": "1", **fields}))


CALLS: dict[str, Call] = {
    "no runtime": lambda house: house.get_runtime("runtimes/none"),
    "a name that is none": lambda house: house.get_runtime("runtimes/No!"),
    "taken": lambda house: house.create_runtime(runtime_id="here"),
    "an id that is none": lambda house: house.create_runtime(runtime_id="-"),
    "no environment": lambda house: house.create_runtime(RuntimeSpec(environment="none"), runtime_id="no"),
    "no kernel": lambda house: house.create_runtime(RuntimeSpec(kernel="none"), runtime_id="no"),
    "no isolation": lambda house: house.create_runtime(RuntimeSpec(isolation="none-such"), runtime_id="no"),
    "delete none": lambda house: house.delete_runtime("runtimes/none"),
    "keep none alive": lambda house: house.keep_alive("runtimes/none"),
    "no session": lambda house: house.get_session(f"{SESSION}-none"),
    "a session that is there": lambda house: house.create_session("runtimes/here", session_id="main"),
    "interrupt none": lambda house: house.interrupt(f"{SESSION}-none"),
    "restart none": lambda house: house.restart(f"{SESSION}-none"),
    "delete no session": lambda house: house.delete_session(f"{SESSION}-none"),
    "no execution": lambda house: house.get_execution(NONE),
    "no events": lambda house: _events(house, NONE),
    "a number below none": lambda house: _events(house, f"{SESSION}/executions/e", -1),
    "follow none": lambda house: house.follower(NONE),
    "cancel none": lambda house: house.cancel(NONE),
    "input for none": lambda house: house.provide_input(NONE, "x"),
    "input for what has ended": lambda house: house.provide_input(f"{SESSION}/executions/e", "x"),
    "no text": lambda house: house.read_text(NONE, "stdout"),
    "a page size below none": lambda house: house.list_executions(SESSION, page_size=-1),
    "a page token of nobody": lambda house: house.page_sessions("runtimes/here", page_token="?"),
    "a token of runtimes": lambda house: house.page_runtimes(page_token="?"),
    "no session's log": lambda house: house.page_session_log(f"{SESSION}-none"),
    "no network's log": lambda house: house.page_network_log("runtimes/none"),
    "a token of another log": lambda house: house.page_network_log("runtimes/here", page_token="eA=="),
    "a token of the log": lambda house: house.page_session_log(SESSION, page_token="eA=="),
    "no output": lambda house: house.get_rich_output(f"{SESSION}/executions/e", 7),
    "no bundle": lambda house: house.get_bundle(f"{SESSION}/executions/e", 0),
    "no file": lambda house: _opened(house, "runtimes/here", "none"),
    "a path that leads out": lambda house: _opened(house, "runtimes/here", "../x"),
    "delete no file": lambda house: house.delete_file("runtimes/here", "none"),
    "list no directory": lambda house: house.list_files("runtimes/here", "none"),
    "put where it can't be": lambda house: house.put_file("runtimes/here", "../x", [b"x"]),
    "put into none": lambda house: house.put_file("runtimes/none", "x", [b"x"]),
    "code for no runtime": _execute(runtime="runtimes/none"),
    "no target": _execute(),
    "two targets": _execute(runtime="runtimes/here", session=SESSION),
    "other code of an id": _execute(session=SESSION, execution_id="e"),
    "code that is too long": _execute(session=SESSION, code="#" * (5 << 20)),
    "a variable that is none": _execute(session=SESSION, environment={"1": "x"}),
    "a wait of nothing": _execute(session=SESSION, wait_timeout=0.0),
}


async def test_every_refusal_is_the_same(kept: KeptHouse, environment: Environment, tmp_path: Path) -> None:
    async with House(settings=settings(tmp_path / "direct", environment)) as house:
        direct: AnyHouse = DirectHouse(house)
        await direct.create_runtime(runtime_id="here")
        for each in (direct, kept):
            await run(each, "'e'", execution_id="e")
        for what, call in CALLS.items():
            told = []
            for each in (direct, kept):
                with pytest.raises(CellhouseError) as refused:
                    await call(each)
                told.append(refused.value.to_wire())
            assert told[0] == told[1], what
