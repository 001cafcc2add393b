"""The calls of the service, one method each, as flows. Both clients are these and a shell."""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import pydantic_core

from cellhouse.client.core import JSON, Call, Core
from cellhouse.client.steps import Flow, Reply
from cellhouse.client.streams import path_of
from cellhouse.model import (
    AlreadyExists,
    ExecuteCodeResult,
    ExecutionCode,
    ExecutionList,
    ExecutionName,
    FileList,
    InvalidArgument,
    RichOutput,
    Runtime,
    RuntimeList,
    RuntimeName,
    RuntimeSpec,
    RuntimeSpecs,
    Session,
    SessionList,
    SessionLogEntry,
    SessionLogPage,
    SessionName,
    TextPart,
    check_execution_id,
    check_id,
    mint_id,
    mint_uid,
)

T = TypeVar("T")
TextName = Literal["stdout", "stderr", "result", "traceback"]
TEXTS: Final = ("stdout", "stderr", "result", "traceback")
MODIFIED: Final = "cellhouse-modified"
PAGES: Final = 100_000
"""Pages that a listing of everything reads, at most."""

_NOT_AGAIN: Final = (
    "a second one could reach what was started meanwhile, and it is not known whether the first arrived"
)


@dataclass(frozen=True, slots=True)
class OutputData:
    """One representation: its bytes, its MIME type, and whether the code has changed the file since it was written."""

    mime_type: str
    data: bytes
    modified: bool


class Calls:
    """All but executions that run and files: those are in `executing.py` and `transfer.py`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    # runtimes

    def runtime_specs(self) -> Flow[RuntimeSpecs]:
        return self._get("runtimeSpecs", RuntimeSpecs.from_wire, seconds=self._core.timeouts.start)

    def create_runtime(
        self, spec: RuntimeSpec | None, runtime_id: str | None, request_id: str | None
    ) -> Flow[Runtime]:
        # With a requestId, which is made where none is given, a repeat gets the runtime that the first one made.
        body: dict[str, Any] = {"requestId": check_execution_id(request_id or mint_uid(), "requestId")}
        if runtime_id is not None:
            body["runtimeId"] = check_id(runtime_id, "runtimeId")
        if spec is not None:
            body["runtime"] = spec.to_wire()
        return self._post("runtimes", body, Runtime.from_wire)

    def get_runtime(self, name: str) -> Flow[Runtime]:
        return self._get(f"{RuntimeName.parse(name)}", Runtime.from_wire)

    def list_runtimes(self) -> Flow[list[Runtime]]:
        found: list[Runtime] = []
        token = ""
        for _ in range(PAGES):
            page = yield from self.page_runtimes(0, token)
            found += page.runtimes
            if not (token := page.next_page_token):
                break
        return found

    def page_runtimes(self, page_size: int, page_token: str) -> Flow[RuntimeList]:
        return self._get("runtimes", RuntimeList.from_wire, _page(page_size, page_token))

    def keep_alive(self, name: str) -> Flow[Runtime]:
        return self._post(f"{RuntimeName.parse(name)}:keepAlive", None, Runtime.from_wire)

    def delete_runtime(self, name: str) -> Flow[None]:
        return self._delete(f"{RuntimeName.parse(name)}")

    # sessions

    def create_session(self, runtime: str, session_id: str | None) -> Flow[Session]:
        name = RuntimeName.parse(runtime)
        given = session_id is not None
        session = name.session(check_id(session_id, "sessionId") if given else mint_id("s"))
        call = Call(
            "POST",
            f"/v1/{name}/sessions",
            headers={"content-type": JSON},
            body=pydantic_core.to_json({"sessionId": session.session}),
            read_seconds=self._core.timeouts.start,
            not_repeatable="a session that is there by this id then could be somebody else's"
            if given
            else "",
        )
        try:
            return (yield from self._core.document(call, Session.from_wire))
        except AlreadyExists:
            if given:
                raise
        return (yield from self.get_session(str(session)))  # an earlier attempt made it

    def get_session(self, name: str) -> Flow[Session]:
        return self._get(f"{SessionName.parse(name)}", Session.from_wire)

    def list_sessions(self, runtime: str) -> Flow[list[Session]]:
        found: list[Session] = []
        token = ""
        for _ in range(PAGES):
            page = yield from self.page_sessions(runtime, 0, token)
            found += page.sessions
            if not (token := page.next_page_token):
                break
        return found

    def page_sessions(self, runtime: str, page_size: int, page_token: str) -> Flow[SessionList]:
        path = f"{RuntimeName.parse(runtime)}/sessions"
        return self._get(path, SessionList.from_wire, _page(page_size, page_token))

    def interrupt(self, session: str) -> Flow[bool]:
        path = f"{SessionName.parse(session)}:interrupt"
        return self._post(path, None, _interrupted, not_repeatable=_NOT_AGAIN)

    def restart(self, session: str) -> Flow[None]:
        path = f"{SessionName.parse(session)}:restart"
        return self._post(path, None, _nothing, not_repeatable=_NOT_AGAIN)

    def delete_session(self, session: str) -> Flow[None]:
        return self._delete(f"{SessionName.parse(session)}")

    def session_log(self, session: str) -> Flow[list[SessionLogEntry]]:
        return self._whole_log(f"{SessionName.parse(session)}/log")

    def page_session_log(self, session: str, page_size: int, page_token: str) -> Flow[SessionLogPage]:
        return self._log(f"{SessionName.parse(session)}/log", page_size, page_token)

    def network_log(self, runtime: str) -> Flow[list[SessionLogEntry]]:
        return self._whole_log(f"{RuntimeName.parse(runtime)}/networkLog")

    def page_network_log(self, runtime: str, page_size: int, page_token: str) -> Flow[SessionLogPage]:
        return self._log(f"{RuntimeName.parse(runtime)}/networkLog", page_size, page_token)

    def _log(self, path: str, page_size: int, page_token: str) -> Flow[SessionLogPage]:
        return self._get(path, SessionLogPage.from_wire, _page(page_size, page_token))

    def _whole_log(self, path: str) -> Flow[list[SessionLogEntry]]:
        found: list[SessionLogEntry] = []
        token = ""
        for _ in range(PAGES):
            page = yield from self._log(path, 0, token)
            found += page.entries
            if not (token := page.next_page_token):
                break
        return found

    # executions

    def get_execution(self, name: str) -> Flow[ExecuteCodeResult]:
        return self._get(path_of(ExecutionName.parse(name)), ExecuteCodeResult.from_wire)

    def get_code(self, name: str) -> Flow[str]:
        path = f"{path_of(ExecutionName.parse(name))}/code"
        return self._get(path, lambda found: ExecutionCode.from_wire(found).code)

    def cancel(self, name: str) -> Flow[None]:
        return self._post(f"{path_of(ExecutionName.parse(name))}:cancel", None, _nothing)

    def provide_input(self, name: str, value: str) -> Flow[None]:
        why = "a second one could answer the next question, and it is not known whether the first arrived"
        path = f"{path_of(ExecutionName.parse(name))}:provideInput"
        return self._post(path, {"value": _encodable(value, "value")}, _nothing, not_repeatable=why)

    def list_executions(self, session: str, page_size: int, page_token: str) -> Flow[ExecutionList]:
        path = f"{SessionName.parse(session)}/executions"
        return self._get(path, ExecutionList.from_wire, _page(page_size, page_token))

    def read_text(self, name: str, which: TextName, offset: int, limit: int) -> Flow[TextPart]:
        if which not in TEXTS:
            raise InvalidArgument.of_field("which", f"{which!a} is none of {', '.join(TEXTS)}")
        path = f"{path_of(ExecutionName.parse(name))}/{which}"
        return self._get(path, TextPart.from_wire, {"offset": str(offset), "limit": str(limit)})

    # rich outputs

    def get_rich_output(self, name: str, index: int) -> Flow[RichOutput]:
        return self._get(_output(name, index), RichOutput.from_wire, {"view": "basic"})

    def get_bundle(self, name: str, index: int) -> Flow[dict[str, Any]]:
        """NOT_FOUND where it was dropped, as the service says it for its data."""
        call = Call("GET", f"/v1/{_output(name, index)}", read_seconds=self._core.timeouts.read)
        limit = self._core.limits.output_bytes
        document = yield from self._core.document(call, _object, limit=limit)
        bundle = document.get("bundle")
        if isinstance(bundle, dict):
            return bundle
        # It says why there is none.
        types = RichOutput.from_wire(document).mime_types
        yield from self.get_output_data(name, index, types[0])
        raise self._core.malformed(call.request(), "an output with data has no bundle")

    def get_output_data(self, name: str, index: int, mime_type: str) -> Flow[OutputData]:
        core = self._core
        call = Call(
            "GET",
            f"/v1/{_output(name, index)}/data",
            params={"mimeType": mime_type},
            headers={"accept": "*/*"},
            read_seconds=core.timeouts.read,
        )

        def take(reply: Reply) -> Flow[OutputData]:
            data = yield from core.whole(reply, core.limits.output_bytes, "output_bytes")
            return OutputData(mime_type, data, reply.headers.get(MODIFIED) == "true")

        return (yield from core.ask(call, take))

    # files

    def list_files(self, runtime: str, path: str, recursive: bool) -> Flow[FileList]:
        params = {"path": _encodable(path, "path"), "recursive": "true" if recursive else "false"}
        return self._get(f"{RuntimeName.parse(runtime)}/files", FileList.from_wire, params)

    def delete_file(self, runtime: str, path: str) -> Flow[None]:
        return self._delete(file_path(runtime, path))

    # within

    def _get(
        self, path: str, make: Any, params: dict[str, str] | None = None, *, seconds: float = 0.0
    ) -> Flow[Any]:
        seconds = seconds or self._core.timeouts.read
        return self._core.document(Call("GET", f"/v1/{path}", params or {}, read_seconds=seconds), make)

    def _post(self, path: str, body: Any, make: Any, *, not_repeatable: str = "") -> Flow[Any]:
        call = Call(
            "POST", f"/v1/{path}", read_seconds=self._core.timeouts.start, not_repeatable=not_repeatable
        )
        if body is not None:
            call = replace(call, headers={"content-type": JSON}, body=pydantic_core.to_json(body))
        return self._core.document(call, make)

    def _delete(self, path: str) -> Flow[None]:
        call = Call(
            "DELETE",
            f"/v1/{path}",
            read_seconds=self._core.timeouts.start,
            again={"allowMissing": "true"},  # an earlier attempt may have done it
        )
        return self._core.document(call, _nothing)


def file_path(runtime: str, path: str) -> str:
    """The path of a file's resource. Each part is escaped; what is no good path the service refuses."""
    name = RuntimeName.parse(runtime)
    if not path:
        raise InvalidArgument.of_field("path", "it is empty; it takes a path below /content")
    parts = [quote(part, safe="") for part in _encodable(path, "path").split("/")]
    return path_of(f"{name}/files/{'/'.join(parts)}")


def _encodable(text: str, field: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument.of_field(
            field,
            f"character {error.start} is a lone surrogate, which no UTF-8 can hold; send whole characters",
        ) from None
    return text


def _output(name: str, index: int) -> str:
    if isinstance(index, bool) or index < 0:
        raise InvalidArgument.of_field("index", f"{index} is no index; it takes 0 or more")
    return f"{path_of(ExecutionName.parse(name))}/richOutputs/{index}"


def _page(page_size: int, page_token: str) -> dict[str, str]:
    params = {"pageSize": str(page_size)} if page_size else {}
    return {**params, "pageToken": page_token} if page_token else params


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError(f"it is a {type(document).__name__}, not an object")
    return document


def _nothing(document: Any) -> None:
    _object(document)


def _interrupted(document: Any) -> bool:
    interrupted = document["interrupted"]
    if not isinstance(interrupted, bool):
        raise ValueError("interrupted is no bool")
    return interrupted
