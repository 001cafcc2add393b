"""SessionCodeRunner: a live kernel behind walls for each key, in a house of its own or anybody's."""

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Self

from cellhouse.house import House
from cellhouse.model import (
    INPUTS_VARIABLE,
    CallReason,
    CellhouseError,
    Clock,
    CodeResult,
    DeadlineExceeded,
    ExecuteCodeRequest,
    ExecuteCodeResult,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Notice,
    NoticeReason,
    Outcome,
    RuntimeSpec,
    mint_uid,
)
from cellhouse.runners.base import (
    CodeRunner,
    CodeSession,
    Input,
    RunnerTraits,
    check_call,
    check_output_chars,
    session_gone,
)
from cellhouse.runners.houses import AnyHouse, FileChanged, Handle, read_file
from cellhouse.runners.pool import Eviction, Pool, PoolLimits
from cellhouse.runners.told import code_result

MAIN: Final = "main"
DATA_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all files of one result that are handed over with it, at most."""
_SLUG_CHARS: Final = 24
_IDLE_MARGIN: Final = 300.0
"""Seconds after which the house itself closes a runtime that its runner, gone perhaps, did not end."""
_CANCEL_SECONDS: Final = 10.0
_GONE: Final = (CallReason.NO_SUCH_RUNTIME, CallReason.RUNTIME_DELETED, CallReason.NO_SUCH_SESSION)


class SessionCodeRunner(CodeRunner):
    """Runs code in live kernels: a runtime for each key, with walls and /content of its own, and one session in it.

    Without a house it opens one of its own when it is entered, and closes it; a house or client that is given is open, and
    stays so. `spec` is what each runtime is; `max_output_chars` is for each of stdout, stderr and the last value. Files with
    at most `data_bytes` bytes come with their bytes, 16 MiB a result in all; others by reference only.
    """

    def __init__(
        self,
        house: AnyHouse | None = None,
        *,
        spec: RuntimeSpec | None = None,
        language: str = "python",
        max_output_chars: int = 65_536,
        data_bytes: int = 0,
        limits: PoolLimits | None = None,
        on_evict: Callable[[Eviction], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`language` is that of `spec`'s kernel; a kernel of another one does not start (FAILED_PRECONDITION)."""
        if type(data_bytes) is not int or data_bytes < 0:
            raise InvalidArgument.of_field(
                "data_bytes", f"{data_bytes!r} can't be; it takes bytes, 0 or more"
            )
        self._house, self._own_house = house, house is None
        self._embedded: House | None = None
        self._limits = limits or PoolLimits()
        self._data_bytes = data_bytes
        self._language = language
        given = spec or RuntimeSpec()
        self._spec = given.model_copy(
            update={
                # There is one session only: a zygote would get warm beside it for nothing.
                "start": given.start or "fresh",
                # A model reads names and refs, so what it makes has one.
                "minting": given.minting or "all",
                "idle_seconds": given.idle_seconds or self._limits.idle_seconds + _IDLE_MARGIN,
            }
        )
        self._pool: Pool[SessionCodeSession] = Pool(self._open, self._limits, clock=clock, on_evict=on_evict)
        walls = self._spec.isolation != "none"
        self._traits = RunnerTraits(
            language=language,
            description=(
                f"Code runs like a notebook cell in a live {language} kernel"
                f"{' inside a sandbox' if walls else ', without a sandbox'}. Within a session variables, imports and files "
                "stay, until a result says that it was reset. The value of the last expression is shown. Files "
                "that are written to the working directory, /content, and figures that are shown are reported with "
                "their size and a reference. There is no network and no standard input."
            ),
            state=True,
            artifacts=True,
            inputs=True,
            sandboxed=walls,
            scopes=frozenset({"call", "run", "session"}),
            max_output_chars=check_output_chars(max_output_chars),
            output_location="/content",
            inputs_found=f"the environment variable {INPUTS_VARIABLE} holds a JSON object of their names and paths",
        )

    @property
    def traits(self) -> RunnerTraits:
        return self._traits

    @property
    def house(self) -> AnyHouse:
        """Where the code runs. FAILED_PRECONDITION before the runner is entered, where the house is its own."""
        if self._house is None:
            raise FailedPrecondition(
                "this runner is not open; use it as `async with SessionCodeRunner() as runner:`",
                reason=CallReason.RUNNER_UNSUITABLE,
            )
        return self._house

    async def __aenter__(self) -> Self:
        if self._own_house and self._embedded is None:
            self._house = self._embedded = await House().__aenter__()
        return self

    async def start(self, *, key: str) -> "SessionCodeSession":
        """See CodeRunner. Returns when the runtime is up; errors of the house that can't give one are raised."""
        return await self._pool.start(key)

    async def stop(self, *, key: str) -> None:
        """See CodeRunner."""
        await self._pool.stop_key(key)

    async def close(self) -> None:
        """See CodeRunner. A house of the runner's own is closed too."""
        await self._pool.close()
        if self._embedded is not None:
            await self._embedded.close()

    async def evict_idle(self) -> None:
        """End sessions that have not been used for too long; a runner does so by itself."""
        await self._pool.evict_idle()

    async def _open(self, key: str) -> "SessionCodeSession":
        house = self.house
        runtime = await house.create_runtime(self._spec, runtime_id=runtime_id_of(key))
        try:
            session = await house.create_session(runtime.name, session_id=MAIN)
            if session.language not in (None, self._language):
                raise FailedPrecondition(
                    f"kernel {session.kernel!r} runs {session.language} and not {self._language}; say "
                    f"language={session.language!r}, or name another kernel in the spec",
                    reason=CallReason.RUNNER_UNSUITABLE,
                )
        except BaseException:
            await _delete(house, runtime.name)
            raise
        return SessionCodeSession(
            key,
            self._pool,
            house,
            runtime.name,
            max_output_chars=self._traits.max_output_chars,
            data_bytes=self._data_bytes,
        )


class SessionCodeSession(CodeSession):
    """One live kernel. Deaths of it are results, and the next call gets a fresh one and is told so."""

    def __init__(
        self,
        key: str,
        pool: Pool["SessionCodeSession"],
        house: AnyHouse,
        runtime: str,
        *,
        max_output_chars: int,
        data_bytes: int,
    ) -> None:
        super().__init__(key)
        self.runtime = runtime
        self.name = f"{runtime}/sessions/{MAIN}"
        self._pool, self._house = pool, house
        self._max_output_chars, self._data_bytes = max_output_chars, data_bytes
        self._gone = ""
        self._told: list[Notice] = []

    def tell(self, text: str) -> None:
        self._told.append(Notice(reason=NoticeReason.SESSION_EVICTED, text=text))

    def gone(self, why: str) -> None:
        self._gone = why

    async def end(self) -> None:
        await _delete(self._house, self.runtime)

    async def stop(self) -> None:
        """See CodeSession. The runtime is deleted with its files; records of executions stay in the house."""
        await self._pool.stop(self.key, self)

    async def stage(self, inputs: Mapping[str, Input]) -> dict[str, str]:
        """See CodeSession. INVALID_ARGUMENT for an input that is none, NOT_FOUND for an artifact that is not there."""
        with self._used():
            try:
                return dict(await self._house.stage_inputs(self.runtime, inputs))
            except NotFound as error:
                raise self._lost(error) from error

    async def reset(self) -> None:
        """A fresh kernel for the next call, which is told so; files stay. What runs and waits ends."""
        with self._used():
            await self._house.restart(self.name)

    async def execute(self, code: str, *, timeout: float | None = None) -> CodeResult:
        """See CodeSession. At `timeout` the code is interrupted, and 5 s later its kernel killed."""
        check_call(code, timeout)
        with self._used():
            told = await self._execute(code, timeout)
            notices, self._told = tuple(self._told), []
            data, unread = await self._data(told)
            result = code_result(told, data=data, notices=(*notices, *unread))
        if told.outcome in (Outcome.RUNTIME_LOST, Outcome.SESSION_DELETED) and not self._gone:
            self._pool.lost(self.key, self, f"its execution ended as {told.outcome}")
        return result

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        place = self._pool.begin_use(self.key, self)
        if place is None:
            raise session_gone(self.key, self._gone or "it belongs to no runner")
        try:
            yield
        finally:
            self._pool.end_use(place)

    async def _execute(self, code: str, timeout: float | None) -> ExecuteCodeResult:
        request = ExecuteCodeRequest(
            code=code,
            session=self.name,
            execution_id=mint_uid(),
            execution_timeout=None if timeout is None else float(timeout),
            output_limit=self._max_output_chars,
        )
        try:
            handle = await self._house.execute(request)
            return await _result(handle)
        except NotFound as error:
            raise self._lost(error) from error
        except asyncio.CancelledError:
            await self._cancel(f"{self.name}/executions/{request.execution_id}")
            raise

    def _lost(self, error: NotFound) -> CellhouseError:
        """What to tell of it: that the session is gone, where it is that which was not found."""
        if error.reason not in _GONE:
            return error
        self._pool.lost(self.key, self, str(error))
        return session_gone(self.key, str(error))

    async def _cancel(self, execution: str) -> None:
        """Whoever called has gone, and it was theirs alone."""
        with contextlib.suppress(CellhouseError, TimeoutError):  # it has ended, or was not accepted yet
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._house.cancel(execution)

    async def _data(self, told: ExecuteCodeResult) -> tuple[dict[str, bytes], tuple[Notice, ...]]:
        """The bytes of small files, as they were reported."""
        found: dict[str, bytes] = {}
        changed: list[str] = []
        left = DATA_BYTES
        for artifact in told.artifacts or ():
            size = artifact.bytes
            if size is None or size > min(self._data_bytes, left) or not self._data_bytes:
                continue
            try:
                data = await read_file(self._house, self.runtime, artifact.name, size)
                if artifact.sha256 not in (None, hashlib.sha256(data).hexdigest()):
                    raise FileChanged(artifact.name)
            except (FileChanged, CellhouseError):
                changed.append(artifact.name)
                continue
            found[artifact.name] = data
            left -= size
        if not changed:
            return found, ()
        text = f"changed or gone before it could be read, so without its bytes: {', '.join(changed[:20])}"
        return found, (Notice(reason=NoticeReason.FILES_NOT_LISTED, text=text),)


async def _result(handle: Handle) -> ExecuteCodeResult:
    """However long it takes: the time that code may run is the code's own limit, and not this call's."""
    while True:
        try:
            return await handle.result()
        except DeadlineExceeded:
            continue


async def _delete(house: AnyHouse, runtime: str) -> None:
    with contextlib.suppress(NotFound):  # it is over already
        await house.delete_runtime(runtime)


def runtime_id_of(key: str) -> str:
    """A new runtime's id with the key in it as far as an id can hold it, for people; what tells keys apart is not in there."""
    slug = re.sub(r"[^a-z0-9]+", "-", key.lower())[:_SLUG_CHARS].strip("-")
    return "-".join(part for part in ("key", slug, secrets.token_hex(8)) if part)
