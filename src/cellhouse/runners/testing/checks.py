"""What an honest runner does, one check a promise. Each raises `Dishonest`, which names what was claimed and what was seen."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from cellhouse.model import CallReason, CellhouseError, CodeResult, mint_uid
from cellhouse.runners.base import CodeRunner, CodeSession, Input
from cellhouse.runners.testing.programs import Programs, programs_for

HANG_SECONDS: Final = 60.0
"""After so long a call counts as one that never returns."""
LIMIT_SECONDS: Final = 1.0
"""The time that code gets which would run for ever."""
SHARED: Final = "conformance"
_WIDE: Final = "é漢😀x"


class Dishonest(AssertionError):
    """A runner said what is not so, or did not say what is."""


@dataclass(slots=True)
class Subject:
    """The runner that is looked at, and the programs in its language."""

    runner: CodeRunner
    programs: Programs
    _keys: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, runner: CodeRunner, programs: Programs | None = None) -> "Subject":
        return cls(runner, programs or programs_for(runner.traits.language))

    async def start(self, key: str | None = None) -> CodeSession:
        """A session that is stopped when the check is over."""
        key = key or f"conformance-{mint_uid()}"
        self._keys.append(key)
        async with asyncio.timeout(HANG_SECONDS):
            return await self.runner.start(key=key)

    async def shared(self) -> CodeSession:
        """A session for all checks that leave it usable; it ends with the runner."""
        async with asyncio.timeout(HANG_SECONDS):
            return await self.runner.start(key=SHARED)

    async def finish(self) -> None:
        for key in self._keys:
            await self.runner.stop(key=key)

    async def run(
        self, *lines: str, session: CodeSession | None = None, limit: float | None = None
    ) -> CodeResult:
        """Lines of code in a session, the shared one unless said otherwise; what it gives must be a result."""
        session = session or await self.shared()
        try:
            async with asyncio.timeout(HANG_SECONDS):
                result = await session.execute("\n".join(lines), timeout=limit)
        except TimeoutError:
            raise Dishonest(f"a call did not return within {HANG_SECONDS:g} s") from None
        _document(result)
        return result


Check = Callable[[Subject], Awaitable[None]]


def _claim(truth: object, what: str) -> None:
    if not truth:
        raise Dishonest(what)


def _document(result: CodeResult) -> None:
    """The result as JSON has the contract's names, no null, and reads back as what it was."""
    _claim(isinstance(result, CodeResult), f"a call gave a {type(result).__name__} and no CodeResult")
    document = result.to_wire()
    for name in ("ok", "stdout", "stderr"):
        _claim(name in document, f"the document lacks {name}")
    _claim(not _nulls(document), "the document has a null; what is absent is left out")
    _claim("exit_code" not in document, "the document has Python's names and not the contract's")
    _claim(CodeResult.from_wire(document) == result, "the document reads back as something else")


def _nulls(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_nulls(each) for each in value.values())
    if isinstance(value, list):
        return any(_nulls(each) for each in value)
    return value is None


async def what_is_printed_arrives_whole(subject: Subject) -> None:
    """A short text comes as it is, each stream by itself, and nothing is said to be cut."""
    say = subject.programs
    result = await subject.run(say.out.format(text="printed"), say.err.format(text="complained"))
    _claim(result.ok, f"code that only prints is not ok: {result.stderr[:500]}")
    _claim(result.stdout == "printed\n", f"stdout is {result.stdout[:100]!r} and not 'printed\\n'")
    _claim(result.stderr == "complained\n", f"stderr is {result.stderr[:100]!r} and not 'complained\\n'")
    _claim(result.truncated is None, "a cut is stated where nothing was cut")


async def absence_is_not_emptiness(subject: Subject) -> None:
    """Without files: `[]` from a runner that reports them, nothing at all from one that does not, files or no files."""
    say, reports = subject.programs, subject.runner.traits.artifacts
    result = await subject.run(say.out.format(text="nothing"))
    _claim(
        result.artifacts == (() if reports else None),
        f"code that made no files has artifacts {result.artifacts!r}; the runner "
        f"{'reports files: that is []' if reports else 'reports none: that is absence'}",
    )
    _claim(("artifacts" in result.to_wire()) is reports, "the document does not have it as the result does")
    made = await subject.run(say.write.format(name="made.txt", count=3))
    if reports:
        _claim(made.artifacts, "code that made a file has no artifacts, and the runner reports files")
    else:
        _claim(made.artifacts is None, "a runner that reports no files reports one")
    _claim(
        bool(subject.runner.traits.output_location) is reports,
        "a runner declares an output location if and only if it reports files",
    )


async def lengths_are_real(subject: Subject) -> None:
    """`bytes` is the length of the file, and of `data` where that is handed over."""
    if not subject.runner.traits.artifacts:
        return
    sizes = {"one.txt": 1, "some.txt": 1_234, "more.txt": 70_001}
    say = subject.programs
    result = await subject.run(*(say.write.format(name=name, count=size) for name, size in sizes.items()))
    found = {artifact.name.rpartition("/")[2]: artifact for artifact in result.artifacts or ()}
    for name, size in sizes.items():
        _claim(name in found, f"{name} was made and is not reported")
        told = found[name]
        _claim(told.bytes == size, f"{name} has {size} bytes, and {told.bytes} are reported")
        _claim(told.data is None or len(told.data) == size, f"the data of {name} is not as long as {name}")


async def duplicate_names_stay_apart(subject: Subject) -> None:
    """Two files of one name in two directories are two, each with its own length; one that is written again is one."""
    if not subject.runner.traits.artifacts:
        return
    say = subject.programs
    result = await subject.run(
        *(say.make_directory.format(name=name) for name in ("left", "right")),
        say.write.format(name="left/same.txt", count=5),
        say.write.format(name="right/same.txt", count=9),
        say.write.format(name="again.txt", count=2),
        say.write.format(name="again.txt", count=4),
    )
    artifacts = result.artifacts or ()
    same = [artifact for artifact in artifacts if artifact.name.endswith("same.txt")]
    _claim(
        sorted(artifact.bytes for artifact in same) == [5, 9],
        "of two files of one name not both are reported",
    )
    _claim(len({artifact.name for artifact in same}) == 2, "two files can't be told apart by their names")
    again = [artifact.bytes for artifact in artifacts if artifact.name.endswith("again.txt")]
    _claim(again == [4], f"a file that was written twice is reported with lengths {again}")


async def inputs_are_where_they_are_said_to_be(subject: Subject) -> None:
    """Staged inputs can be read at the path that is given for each, whatever their names; or staging is refused."""
    inputs: dict[str, Input] = {"data.txt": b"one", "../data.txt": b"two", "a b/data.txt": b"three"}
    session = await subject.shared()
    if not subject.runner.traits.inputs:
        try:
            await session.stage(inputs)
        except CellhouseError:
            return
        raise Dishonest("inputs are taken by a runner that says it stages none")
    paths = await session.stage(inputs)
    _claim(set(paths) == set(inputs), f"{sorted(inputs)} were staged, and paths are told of {sorted(paths)}")
    read = await subject.run(
        *(subject.programs.read.format(name=paths[name]) for name in inputs), session=session
    )
    _claim(read.stdout == "onetwothree", f"inputs read as {read.stdout[:100]!r}: {read.stderr[:200]}")
    _claim(not read.artifacts, "inputs that were staged are reported as files that the code made")


async def cuts_are_stated(subject: Subject) -> None:
    """Past the limit it is cut, which is said, with the length that it had in characters; no character is split."""
    limit = subject.runner.traits.max_output_chars
    count = limit // len(_WIDE) * 2 + 7
    result = await subject.run(subject.programs.many_out.format(text=_WIDE, count=count))
    whole = count * len(_WIDE)
    _claim(len(result.stdout) < whole, f"the runner says that it shows {limit} characters, and shows {whole}")
    cut = result.truncated
    _claim(cut is not None, f"{whole - len(result.stdout)} characters of stdout are missing without a word")
    assert cut is not None
    _claim(
        cut.stdout is True and cut.stderr is None,
        "it is stdout alone that was cut, and that is not what is said",
    )
    _claim(cut.of_chars == whole, f"stdout had {whole} characters, and {cut.of_chars} are stated")
    _claim("\ufffd" not in result.stdout, "a character was split")
    _claim(
        result.stdout.startswith(_WIDE) and result.stdout.endswith(_WIDE), "head and tail are not both there"
    )


async def cuts_of_both_streams_are_stated(subject: Subject) -> None:
    """Both at once: both are named, `ofChars` is the longer, and each has its own length."""
    limit, say = subject.runner.traits.max_output_chars, subject.programs
    result = await subject.run(
        say.many_out.format(text="o" * 10, count=limit // 10 + 100),
        say.many_err.format(text="e" * 10, count=limit // 10 + 200),
    )
    out, err = (limit // 10 + 100) * 10, (limit // 10 + 200) * 10
    cut = result.truncated
    _claim(
        cut is not None and cut.stdout and cut.stderr, f"both streams were cut, and what is said is {cut!r}"
    )
    assert cut is not None
    _claim(
        cut.of_chars == max(out, err),
        f"the longer had {max(out, err)} characters, and {cut.of_chars} are stated",
    )
    _claim(
        (cut.stdout_chars, cut.stderr_chars) in ((out, err), (None, None)),
        f"they had {out} and {err} characters, and {cut.stdout_chars} and {cut.stderr_chars} are stated",
    )


async def a_timeout_keeps_the_output(subject: Subject) -> None:
    """Code that runs for ever ends as a result, with what it had printed and the cause; the next call works."""
    say, session = subject.programs, await subject.shared()
    lines = (say.out.format(text="before"), say.err.format(text="also"), say.forever.format())
    result = await subject.run(*lines, session=session, limit=LIMIT_SECONDS)
    _claim(not result.ok, "code that was ended at its time limit is ok")
    _claim("before" in result.stdout, f"what was printed before is lost: stdout is {result.stdout[:200]!r}")
    _claim("also" in result.stderr, f"what was printed before is lost: stderr is {result.stderr[:200]!r}")
    named = f"{result.outcome or ''} {result.stderr}".lower().replace("_", " ")
    _claim(
        "timed out" in named or "timeout" in named or "timedout" in named,
        "the cause, the time limit, is not named",
    )
    after = await subject.run(say.out.format(text="after"), session=session)
    _claim(after.ok and "after" in after.stdout, "after a timeout the session does not work")


async def failures_and_exits_are_told(subject: Subject) -> None:
    """What fails is not ok and says why; a process's exit status is the one that it gave; 0 is none of a failure."""
    say = subject.programs
    failed = await subject.run(say.fail.format(text="becauseofthis"))
    _claim(not failed.ok, "code that failed is ok")
    _claim("becauseofthis" in failed.stderr, f"why it failed is not in stderr: {failed.stderr[:200]!r}")
    session = await subject.shared()
    ended = await subject.run(say.out.format(text="last"), say.exit.format(status=7), session=session)
    _claim(not ended.ok, "an exit with status 7 is ok")
    _claim(ended.exit_code in (7, None), f"the exit status was 7, and {ended.exit_code} is reported")
    _claim("last" in ended.stdout, "what was printed before an exit is lost")
    left = await subject.run(say.exit.format(status=0))
    _claim(
        left.ok and not left.exit_code, f"an exit with status 0 is reported as {left.exit_code}, ok {left.ok}"
    )


async def an_end_of_the_session_is_told(subject: Subject) -> None:
    """Where variables last, their loss is told: by the result that lost them, or by the next."""
    if not subject.runner.traits.state:
        return
    say, session = subject.programs, await subject.shared()
    await subject.run(say.remember.format(text="kept"), session=session)
    ended = await subject.run(say.exit.format(status=7), session=session)
    after = await subject.run(say.recall.format(), session=session)
    _claim("unset" in after.stdout, "a variable outlived its process")
    told = ended.session_state in ("RESET", "GONE") or bool(after.notices)
    _claim(told, "the variables were lost without a word")


async def state_is_as_declared(subject: Subject) -> None:
    """Variables last from call to call if and only if the runner says so."""
    say, session = subject.programs, await subject.shared()
    await subject.run(say.remember.format(text="kept"), session=session)
    after = await subject.run(say.recall.format(), session=session)
    keeps = subject.runner.traits.state
    expected = "kept" if keeps else "unset"
    _claim(
        expected in after.stdout, f"state is declared as {keeps}, and a variable is {after.stdout.strip()!r}"
    )
    _claim(keeps is ("session" in subject.runner.traits.scopes), "scopes and state contradict each other")


async def keys_are_kept_apart(subject: Subject) -> None:
    """Keys that look alike are different keys; the same key is the same session."""
    say, mark = subject.programs, mint_uid()
    alike = [f"{mark} é/b", f"{mark} e\u0301/b", f"{mark} É/b", f"{mark} é-b"]
    sessions = await asyncio.gather(*map(subject.start, alike))
    _claim(len(set(map(id, sessions))) == len(alike), "two keys have one session")
    _claim(await subject.start(alike[0]) is sessions[0], "one key has two sessions")
    if not subject.runner.traits.state:
        return
    await subject.run(say.remember.format(text="mine"), session=sessions[0])
    for key, session in zip(alike[1:], sessions[1:], strict=True):
        found = await subject.run(say.recall.format(), session=session)
        _claim("mine" not in found.stdout, f"key {key!r} sees the variables of {alike[0]!r}")


async def first_calls_share_one_start(subject: Subject) -> None:
    """Whoever asks for a key at the same time gets the same session."""
    key = f"together-{mint_uid()}"
    sessions = await asyncio.gather(*(subject.start(key) for _ in range(5)))
    _claim(len(set(map(id, sessions))) == 1, "first calls at the same time got sessions of their own")


async def stopping_is_for_good(subject: Subject) -> None:
    """`stop` may be called again, also at once; what is asked of a stopped session is refused, and the key can be had anew."""
    say, key = subject.programs, f"stopping-{mint_uid()}"
    session = await subject.start(key)
    await asyncio.gather(session.stop(), session.stop())
    await session.stop()
    try:
        async with asyncio.timeout(HANG_SECONDS):
            await session.execute(say.out.format(text="never"))
    except CellhouseError as error:
        _claim(error.reason == CallReason.SESSION_GONE, f"a stopped session refuses with {error.reason}")
    except TimeoutError:
        raise Dishonest("a stopped session never answers") from None
    else:
        raise Dishonest("a stopped session runs code")
    again = await subject.run(say.recall.format(), session=await subject.start(key))
    _claim("unset" in again.stdout, "a session that was stopped comes back with its variables")


async def a_stop_keeps_the_output(subject: Subject) -> None:
    """Code that runs while its session is stopped ends as a result."""
    say, session = subject.programs, await subject.start()
    running = asyncio.ensure_future(subject.run(say.forever.format(), session=session))
    await asyncio.sleep(0)
    await session.stop()
    try:
        result = await running
    except CellhouseError as error:
        # It had not begun yet.
        _claim(error.reason == CallReason.SESSION_GONE, f"a stopped session refuses with {error.reason}")
    else:
        _claim(not result.ok, "code that was ended by a stop is ok")


CHECKS: Final[tuple[Check, ...]] = (
    what_is_printed_arrives_whole,
    absence_is_not_emptiness,
    lengths_are_real,
    duplicate_names_stay_apart,
    inputs_are_where_they_are_said_to_be,
    cuts_are_stated,
    cuts_of_both_streams_are_stated,
    a_timeout_keeps_the_output,
    failures_and_exits_are_told,
    an_end_of_the_session_is_told,
    state_is_as_declared,
    keys_are_kept_apart,
    first_calls_share_one_start,
    stopping_is_for_good,
    a_stop_keeps_the_output,
)
