"""The calls of a keeper: what each asks of its house, and how what it gives travels. Names here are the protocol's.

Arguments and answers are JSON, documents in the form that the models themselves write. A keeper of an earlier version is
asked only for what is in the table of its protocol, so a name keeps its meaning for ever; new arguments have defaults.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Generic, TypeVar

import pydantic_core
from pydantic import TypeAdapter

from cellhouse.house import House
from cellhouse.journal import Page, TextPage
from cellhouse.model import (
    Event,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FinishedEvent,
    Runtime,
    RuntimeSpec,
    Session,
    SessionList,
    TailFrame,
    Wire,
    parse_event,
)
from cellhouse.runtime.host import Kernels, NetworkCounts

R = TypeVar("R")
W = TypeVar("W", bound=Wire)
Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Method(Generic[R]):
    """One call: what it asks of a house, and what travels. `breakable`: it changes nothing, so it ends with its caller."""

    name: str
    run: Callable[[House, Arguments], Awaitable[R]]
    encode: Callable[[R], Any]
    decode: Callable[[Any], R]
    breakable: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """An execution that was accepted. `unfinished`: how many run or wait in this runtime now."""

    name: str
    attached: bool
    unfinished: int


_PAGES: Final = TypeAdapter(Page)


def _same(value: Any) -> Any:
    return value


def _documents(of: type[W]) -> Callable[[Any], list[W]]:
    return lambda found: [of.from_wire(each) for each in found]


async def _execute(house: House, a: Arguments) -> Accepted:
    handle = await house.execute(ExecuteCodeRequest.from_wire(a["request"]))
    return Accepted(str(handle.name), handle.attached, len(house.unfinished))


def _accepted(found: Accepted) -> dict[str, Any]:
    return {"name": found.name, "attached": found.attached, "unfinished": found.unfinished}


async def _known(house: House, a: Arguments) -> str:
    return str(house.known(ExecuteCodeRequest.from_wire(a["request"])) or "")


async def _create_runtime(house: House, a: Arguments) -> Runtime:
    return await house.create_runtime(
        RuntimeSpec.from_wire(a["spec"]), runtime_id=a["runtimeId"], request_id=a.get("requestId")
    )


async def _get_code(house: House, a: Arguments) -> str:
    return house.get_code(a["name"])


async def _latest_output(house: House, a: Arguments) -> tuple[int, str]:
    return house.latest_output(a["name"], a["index"])


async def _get_runtime(house: House, a: Arguments) -> Runtime:
    return house.get_runtime(a["name"])


async def _get_session(house: House, a: Arguments) -> Session:
    return house.get_session(a["name"])


async def _list_sessions(house: House, a: Arguments) -> list[Session]:
    return house.list_sessions(a["name"])


async def _page_sessions(house: House, a: Arguments) -> SessionList:
    return house.page_sessions(a["name"], page_size=a["pageSize"], page_token=a["pageToken"])


async def _session_log(house: House, a: Arguments) -> list[dict[str, str]]:
    return house.session_log(a["name"])


async def _network_log(house: House, a: Arguments) -> list[dict[str, str]]:
    return house.network_log(a["name"])


async def _list_executions(house: House, a: Arguments) -> Page:
    return house.list_executions(a["name"], page_size=a["pageSize"], page_token=a["pageToken"])


async def _read_text(house: House, a: Arguments) -> TextPage:
    return house.read_text(a["name"], a["which"], offset=a["offset"], limit=a["limit"])


async def _kernels(house: House, a: Arguments) -> tuple[Kernels, NetworkCounts]:
    return house.kernels(), house.network_counts()


def _numbers(counted: tuple[Kernels, NetworkCounts]) -> list[int]:
    kernels, network = counted
    return [kernels.living, kernels.ahead, network.allowed, network.refused, network.bytes]


def _counted(found: list[int]) -> tuple[Kernels, NetworkCounts]:
    """Keepers of earlier versions tell of kernels only."""
    return Kernels(int(found[0]), int(found[1])), NetworkCounts(*map(int, found[2:5]))


async def _unfinished(house: House, a: Arguments) -> list[str]:
    return list(house.unfinished)


def _document(
    name: str, of: type[W], run: Callable[[House, Arguments], Awaitable[W]], **more: Any
) -> Method[W]:
    return Method(name, run, of.to_wire, of.from_wire, **more)


def _plain(name: str, run: Callable[[House, Arguments], Awaitable[R]], **more: Any) -> Method[R]:
    return Method(name, run, _same, _same, **more)


CREATE_RUNTIME: Final = _document("createRuntime", Runtime, _create_runtime)
GET_RUNTIME: Final = _document("getRuntime", Runtime, _get_runtime)
KEEP_ALIVE: Final = _document("keepAlive", Runtime, lambda house, a: house.keep_alive(a["name"]))
DELETE_RUNTIME: Final = _plain("deleteRuntime", lambda house, a: house.delete_runtime(a["name"]))
CREATE_SESSION: Final = _document(
    "createSession", Session, lambda house, a: house.create_session(a["name"], session_id=a["sessionId"])
)
GET_SESSION: Final = _document("getSession", Session, _get_session)
LIST_SESSIONS: Final = Method(
    "listSessions", _list_sessions, lambda found: [each.to_wire() for each in found], _documents(Session)
)
PAGE_SESSIONS: Final = _document("pageSessions", SessionList, _page_sessions)
INTERRUPT: Final = _plain("interrupt", lambda house, a: house.interrupt(a["name"]))
RESTART: Final = _plain("restart", lambda house, a: house.restart(a["name"]))
DELETE_SESSION: Final = _plain("deleteSession", lambda house, a: house.delete_session(a["name"]))
SESSION_LOG: Final = _plain("sessionLog", _session_log)
NETWORK_LOG: Final = _plain("networkLog", _network_log)
EXECUTE: Final = Method("execute", _execute, _accepted, lambda found: Accepted(**found))
KNOWN: Final = _plain("known", _known)
GET_EXECUTION: Final = _document(
    "getExecution", ExecuteCodeResult, lambda house, a: house.get_execution(a["name"])
)
GET_CODE: Final = _plain("getCode", _get_code)
RESULT: Final = _document(
    "result", ExecuteCodeResult, lambda house, a: house.result(a["name"]), breakable=True
)
CANCEL: Final = _plain("cancel", lambda house, a: house.cancel(a["name"]))
PROVIDE_INPUT: Final = _plain("provideInput", lambda house, a: house.provide_input(a["name"], a["value"]))
LIST_EXECUTIONS: Final = Method(
    "listExecutions",
    _list_executions,
    lambda page: _PAGES.dump_python(page, mode="json"),
    _PAGES.validate_python,
)
READ_TEXT: Final = Method("readText", _read_text, asdict, lambda found: TextPage(**found))
LATEST_OUTPUT: Final = Method(
    "latestOutput", _latest_output, list, lambda found: (int(found[0]), str(found[1]))
)
DELETE_FILE: Final = _plain("deleteFile", lambda house, a: house.delete_file(a["name"], a["path"]))
UNFINISHED: Final = _plain("unfinished", _unfinished)
KERNELS: Final = Method("kernels", _kernels, _numbers, _counted)
EVICT: Final = _plain("evict", lambda house, a: house.evict())
DRAIN: Final = _plain(
    "drain", lambda house, a: house.drain(seconds=a["seconds"], grace=a["grace"]), breakable=True
)

METHODS: Final[dict[str, Method[Any]]] = {
    method.name: method
    for method in (
        CREATE_RUNTIME, GET_RUNTIME, KEEP_ALIVE, DELETE_RUNTIME, CREATE_SESSION, GET_SESSION, LIST_SESSIONS,
        PAGE_SESSIONS, INTERRUPT, RESTART, DELETE_SESSION, SESSION_LOG, NETWORK_LOG, EXECUTE, KNOWN, GET_EXECUTION,
        GET_CODE, RESULT, CANCEL,
        PROVIDE_INPUT, LIST_EXECUTIONS, READ_TEXT, LATEST_OUTPUT, DELETE_FILE, UNFINISHED, KERNELS, DRAIN,
        EVICT,
    )
}  # fmt: skip

EVENTS: Final = "events"
RECEIVE_FILE: Final = "receiveFile"
STAGE_INPUT: Final = "stageInput"
CLOSE: Final = "close"
"""The calls that are no question and answer: a stream down, streams up, and the end of the keeper itself."""


def encode_page(page: list[Event | TailFrame]) -> bytes:
    """A piece of an event stream: the documents as they are on every wire."""
    return pydantic_core.to_json([event.to_wire() for event in page])


def decode_page(data: bytes) -> list[Event | TailFrame]:
    """ValueError where it is none."""
    found: list[Event | TailFrame] = []
    for document in pydantic_core.from_json(data, allow_inf_nan=False):
        tail = document.get("type") == "tail"
        found.append(TailFrame.from_wire(document) if tail else parse_event(document))
    return found


def ends(page: list[Event | TailFrame]) -> bool:
    return bool(page) and isinstance(page[-1], FinishedEvent)
