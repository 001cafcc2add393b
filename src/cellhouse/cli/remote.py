"""`cellhouse run --url`: the same in a service, with the same output and the same exit status."""

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cellhouse.cli.run import MAIN, Opened, RunOptions, give_arguments
from cellhouse.cli.save import FILES, SAVE_BYTES, blocks_of, save_rich, saving_into
from cellhouse.cli.service import read_name
from cellhouse.cli.sources import Remote
from cellhouse.client import AsyncClient
from cellhouse.files import FileError, FileTooLarge, HostileDir
from cellhouse.model import (
    CallReason,
    CellhouseError,
    ExecuteCodeResult,
    ExecutionName,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RuntimeName,
    RuntimeSpec,
    Session,
    SessionName,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where code is to run: a service, maybe a runtime of it that is there, maybe a session of that."""

    url: str
    runtime: RuntimeName | None = None
    session: SessionName | None = None

    @classmethod
    def of(cls, url: str, runtime: str | None, session: str | None) -> "Place":
        """INVALID_ARGUMENT where a session has no runtime, or another one."""
        found = read_name(runtime, RuntimeName) if runtime is not None else None
        assert found is None or isinstance(found, RuntimeName)
        if session is None:
            return cls(url, found)
        if "/" not in session:
            if found is None:
                raise InvalidArgument.of_field(
                    "--session", f"{session[:200]!a} is a session of no runtime; name that with --runtime"
                )
            return cls(url, found, found.session(session))
        named = read_name(session, SessionName)
        assert isinstance(named, SessionName)
        if found not in (None, named.runtime_name):
            raise InvalidArgument.of_field(
                "--session", f"{named} is no session of {found}; leave --runtime out"
            )
        return cls(url, named.runtime_name, named)

    @asynccontextmanager
    async def opened(self, options: RunOptions) -> AsyncIterator[Opened]:
        """A session there, with its inputs and arguments."""
        async with AsyncClient(self.url) as client, _session(client, self, options) as session:
            runtime = str(session.runtime_name)
            for name, path in options.inputs.items():
                await client.upload(runtime, name, path)
            if options.arguments:
                await _check_language(client, session)
                await give_arguments(client, str(session), options)
            yield Opened(
                executes=client,
                source=Remote(client),
                session=str(session),
                ours=self.session is None,
                describe=partial(_described, client, session),
                end=partial(client.delete_session, str(session)),
                save=partial(_save, client),
                state_dir=None,
                place=client.url,
            )


@asynccontextmanager
async def _session(client: AsyncClient, place: Place, options: RunOptions) -> AsyncIterator[SessionName]:
    """The session to run in. What is made for it is deleted afterwards: the runtime, or only the session."""
    if place.session is not None:
        yield place.session
    elif place.runtime is not None:
        made = await client.create_session(str(place.runtime))
        try:
            yield SessionName.parse(made.name)
        finally:
            with suppress(NotFound):
                await client.delete_session(made.name)
    else:
        spec = RuntimeSpec(
            environment=options.environment,
            kernel=options.kernel,
            isolation=options.isolation,
            limits=options.limits,
            network=options.network,
            start="fresh",  # there is one session only: a zygote would get warm beside it for nothing
        )
        runtime = RuntimeName.parse((await client.create_runtime(spec)).name)
        try:
            yield runtime.session(MAIN)
        finally:
            with suppress(NotFound):
                await client.delete_runtime(str(runtime))


async def _check_language(client: AsyncClient, session: SessionName) -> None:
    """FailedPrecondition where there are arguments for a kernel that takes none."""
    found = await _described(client, session)
    if found.language not in (None, "python"):
        raise FailedPrecondition(
            f"arguments after -- become sys.argv, which kernel {found.kernel!r} ({found.language}) does not have; "
            "put them into the code, or into a file given with --input",
            reason=CallReason.POLICY_UNAVAILABLE,
        )


async def _described(client: AsyncClient, session: SessionName) -> Session:
    """The session, made where it is not there yet."""
    try:
        return await client.get_session(str(session))
    except NotFound:
        return await client.create_session(str(session.runtime_name), session_id=session.session)


async def _save(client: AsyncClient, result: ExecuteCodeResult, directory: Path) -> list[Path]:
    with saving_into(directory) as target:
        saved = [directory / name async for name in save_rich(client, result, target)]
        saved += [directory / name async for name in _made(client, result, target)]
    return saved


async def _made(client: AsyncClient, result: ExecuteCodeResult, target: HostileDir) -> AsyncIterator[str]:
    """Files that the code made: downloaded whole, then put where their hostile names may lie."""
    runtime = str(ExecutionName.parse(result.execution).runtime_name)
    left = SAVE_BYTES
    waiting = Path(tempfile.mkdtemp(prefix="cellhouse-"))
    try:
        for artifact in result.artifacts or ():
            size = artifact.bytes or 0
            try:
                if size > left:
                    raise FileTooLarge(artifact.name, size, left)
                whole = waiting / "file"
                await client.download(runtime, artifact.name, whole)
                path = f"{FILES}/{artifact.name}"
                target.subdir(path.rpartition("/")[0], create=True).close()
                target.create(path, blocks_of(whole))
            except (OSError, FileError, CellhouseError) as error:
                # One file that can't be exported takes neither the others nor the result with it.
                sys.stderr.write(f"cellhouse: --save: {artifact.name!r} was left out: {error}\n")
                continue
            left -= size
            yield f"{FILES}/{artifact.name}"
    finally:
        shutil.rmtree(waiting)
