"""Runs programs inside a sandbox to their answers, within a time and within bounds: what they say is hostile."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cellhouse.doctor.programs import REACHED, Probe, source
from cellhouse.model import LimitHit
from cellhouse.model.wire import plain_text
from cellhouse.sandbox import ProcessExit, Sandbox, SandboxGone, SandboxProcess, SpawnFailed

VARIABLE: Final = "CELLHOUSE_PROBE"
OUTPUT_BYTES: Final = 65_536
ANSWER_CHARS: Final = 200
FLAGS: Final = ("-I", "-S", "-B", "-c")


class NoAnswer(Exception):
    """The program came to no answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said, or by which signal it was ended; `hit` is the limit that ended it, if it was one."""

    text: str
    hit: LimitHit | None = None

    @property
    def reached(self) -> bool:
        return self.text == REACHED


Told = Answer | NoAnswer


@contextlib.asynccontextmanager
async def spawned(
    sandbox: Sandbox, python: str, source: str, args: Mapping[str, Any]
) -> AsyncIterator[SandboxProcess]:
    """The program running in /content, killed at the end. NoAnswer where it can't be started."""
    try:
        process = await sandbox.spawn(
            [python, *FLAGS, source],
            env={VARIABLE: json.dumps(dict(args))},
            cwd=sandbox.inside_path(sandbox.content),
        )
    except (SpawnFailed, SandboxGone) as error:
        raise NoAnswer(f"it could not be started: {error}") from None
    try:
        yield process
    finally:
        process.signal(signal.SIGKILL, group=True)
        for descriptor in (process.stdout_fd, process.stderr_fd):
            os.close(descriptor)
        await process.wait()


async def ask(
    sandbox: Sandbox, python: str, probe: Probe, args: Mapping[str, Any], *, seconds: float
) -> Told:
    """Run one probe to its end: its answer, or why there is none."""
    try:
        out, how = await _run(sandbox, python, source(probe), args, seconds)
        if how.limit_hit is not None:
            return Answer("SIGKILL", how.limit_hit)
        if how.signal is not None:
            return Answer(_signal_name(how.signal))
        return _answers(out)[probe.name]
    except KeyError:
        return NoAnswer("it came to no answer")
    except NoAnswer as error:
        return error


async def ask_all(
    sandbox: Sandbox, python: str, probes: Sequence[Probe], args: Mapping[str, Any], *, seconds: int
) -> dict[str, Told]:
    """Run probes one after the other, each in a process of its own; their answers by their names.

    `seconds` is the time for each, and for all of them together twice as much.
    """
    try:
        program = source(*probes, apart=True)
        out, _ = await _run(sandbox, python, program, {**args, "seconds": seconds}, 2.0 * seconds)
        told = _answers(out)
    except NoAnswer as error:
        return dict.fromkeys((probe.name for probe in probes), error)
    return {probe.name: told.get(probe.name, NoAnswer("it came to no answer")) for probe in probes}


async def _run(
    sandbox: Sandbox, python: str, program: str, args: Mapping[str, Any], seconds: float
) -> tuple[str, ProcessExit]:
    """What a program has printed, and how it ended. NoAnswer where it was not through within the time, or failed."""
    try:
        async with asyncio.timeout(seconds), spawned(sandbox, python, program, args) as process:
            out, err, how = await asyncio.gather(
                read_to_end(process.stdout_fd), read_to_end(process.stderr_fd), process.wait()
            )
    except TimeoutError:
        raise NoAnswer(f"it was not through after {seconds:g} s") from None
    if how.exit_status:
        last = (err.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
        raise NoAnswer(f"it ended with status {how.exit_status} and said {_short(last)}")
    return out.decode("utf-8", "replace"), how


def answered(out: str, probe: Probe) -> Answer:
    """The answer of a probe in what was printed. NoAnswer where there is none."""
    told = _answers(out).get(probe.name)
    if told is None:
        raise NoAnswer("it came to no answer")
    return told


def _answers(out: str) -> dict[str, Answer]:
    """All answers in what was printed; whatever else stands there is nobody's."""
    found = {}
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, list) and len(said) == 2 and all(isinstance(each, str) for each in said):
            found[said[0]] = Answer(_short(said[1]))
    return found


async def read_line(descriptor: int) -> bytes:
    """The first line, which is short and written in one piece; empty where there is none."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(os.read(descriptor, OUTPUT_BYTES))

    loop.add_reader(descriptor, read)
    try:
        return await line
    finally:
        loop.remove_reader(descriptor)


async def read_to_end(descriptor: int) -> bytes:
    """Everything until nobody holds the other end any more; the last `OUTPUT_BYTES` of it."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    kept = b""

    def read() -> None:
        nonlocal kept
        try:
            data = os.read(descriptor, OUTPUT_BYTES)
        except BlockingIOError:
            return
        kept = (kept + data)[-OUTPUT_BYTES:]
        if not data and not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
    return kept


def _short(text: str) -> str:
    return plain_text(text)[:ANSWER_CHARS]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
