"""The conformance suite of artifact stores: what every store must do, whoever wrote it.

`CHECKS` are coroutine functions; each is given a `StoreMaker`, makes stores of its own with it, and raises
AssertionError where the store does not keep the interface. With pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_store(check, tmp_path):
        await check(lambda clock, limits: my_store(tmp_path, clock, limits))
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from cellhouse.artifacts.store import ArtifactStore, Data, Scope
from cellhouse.model import (
    ArtifactLimits,
    CallReason,
    CellhouseError,
    Clock,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    StoredArtifact,
    mint_artifact_id,
)

StoreMaker: TypeAlias = Callable[[Clock, ArtifactLimits], AbstractAsyncContextManager[ArtifactStore]]
"""Opens an empty store with this clock and these limits; leaving it closes it. Called once by each check."""
Check: TypeAlias = Callable[[StoreMaker], Awaitable[None]]

A: Final = Scope("tenant-a", "alice")
OTHERS: Final = (Scope("tenant-b", "alice"), Scope("tenant-a", "bob"), Scope("tenant-a"), Scope("", ""))
CONTENT: Final = b"0123456789"
LARGE_PIECES: Final = 40
PIECE: Final = bytes(range(256)) * 512
_REF: Final = re.compile(r"art_[0-9A-Za-z]{22}")


class TestClock:
    """A clock that a check moves by hand."""

    __test__ = False

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2031, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def _expect(true: bool, what: str) -> None:
    if not true:
        raise AssertionError(what)


async def _refusal(call: Awaitable[object], of: type[CellhouseError], what: str) -> CellhouseError:
    try:
        await call
    except of as error:
        return error
    raise AssertionError(f"{what}: {of.__name__} was to be raised")


async def _read(
    store: ArtifactStore, ref: str, scope: Scope = A, *, start: int = 0, end: int | None = None
) -> bytes:
    async with await store.get(scope, ref, start=start, end=end) as reading:
        return b"".join([piece async for piece in reading])


def _pieces() -> Iterator[bytes]:
    for _ in range(LARGE_PIECES):
        yield PIECE


async def _async_pieces() -> AsyncIterator[bytes]:
    for piece in _pieces():
        await asyncio.sleep(0)
        yield piece


async def what_is_put_can_be_had(make: StoreMaker) -> None:
    """The bytes, and all that was said of them."""
    async with make(TestClock(), ArtifactLimits()) as store:
        parent = await store.put(A, b"")
        made = await store.put(
            A,
            CONTENT,
            kind="table",
            media_type="text/csv",
            label="a/ß€.csv",
            origin="runtimes/a/sessions/b/executions/c",
            parents=[parent.ref],
            ttl=60,
            sha256=hashlib.sha256(CONTENT).hexdigest().upper(),
        )
        _expect(bool(_REF.fullmatch(made.ref)), f"{made.ref!r} is no ref: art_ and 22 base-62 characters")
        _expect((made.kind, made.media_type, made.label) == ("table", "text/csv", "a/ß€.csv"), f"{made}")
        _expect(made.origin == "runtimes/a/sessions/b/executions/c", f"origin {made.origin!r}")
        _expect(made.parents == (parent.ref,), f"parents {made.parents!r}")
        _expect((made.bytes, made.sha256) == (10, hashlib.sha256(CONTENT).hexdigest()), f"{made}")
        _expect(made.create_time == "2031-01-01T00:00:00.000Z", f"created {made.create_time}")
        _expect(made.expire_time == "2031-01-01T00:01:00.000Z", f"expires {made.expire_time}")
        _expect(await store.head(A, made.ref) == made, "head tells something else than put")
        _expect(await _read(store, made.ref) == CONTENT, "other bytes than were put")
        async with await store.get(A, made.ref) as reading:
            _expect(reading.artifact == made, "a reading tells of another artifact")
            _expect((reading.start, reading.end) == (0, 10), "a reading of everything is not of all bytes")
            _expect(await reading.read() == CONTENT, "read() gives other bytes than were put")
        _expect(await _read(store, parent.ref) == b"", "an empty artifact is not empty")
        plain = await store.head(A, parent.ref)
        _expect((plain.origin, plain.parents, plain.label) == (None, None, ""), f"made up: {plain}")


async def bytes_are_streamed_both_ways(make: StoreMaker) -> None:
    """From iterables of either kind; and given back in pieces, none of which is everything."""
    whole = hashlib.sha256(PIECE * LARGE_PIECES).hexdigest()
    async with make(TestClock(), ArtifactLimits()) as store:
        sources: tuple[Data, ...] = (_pieces(), _async_pieces(), [PIECE] * LARGE_PIECES)
        for data in sources:
            made = await store.put(A, data)
            _expect((made.bytes, made.sha256) == (len(PIECE) * LARGE_PIECES, whole), "other bytes arrived")
            async with await store.get(A, made.ref) as reading:
                sizes, digest = [], hashlib.sha256()
                async for piece in reading:
                    sizes.append(len(piece))
                    digest.update(piece)
            _expect(digest.hexdigest() == whole, "other bytes are given back")
            _expect(len(sizes) > 1, "a large artifact is given back in one piece")


async def refs_are_minted(make: StoreMaker) -> None:
    """The same bytes twice are two artifacts, each with a life of its own."""
    async with make(TestClock(), ArtifactLimits()) as store:
        made = [await store.put(A, CONTENT) for _ in range(5)]
        _expect(len({each.ref for each in made}) == 5, "a ref came twice")
        await store.delete(A, made[0].ref)
        _expect(await _read(store, made[1].ref) == CONTENT, "deleting one took its twin with it")


async def a_range_is_what_was_asked_for(make: StoreMaker) -> None:
    """Of every place; past the end is the end, and what begins past it is refused."""
    async with make(TestClock(), ArtifactLimits()) as store:
        ref = (await store.put(A, CONTENT)).ref
        for start in range(11):
            for end in (*range(start, 13), None):
                got = await _read(store, ref, start=start, end=end)
                _expect(got == CONTENT[start:end], f"bytes {start} to {end} are {got!r}")
        for start, end in ((11, None), (-1, None), (5, 4), (0, -1)):
            await _refusal(store.get(A, ref, start=start, end=end), InvalidArgument, f"{start} to {end}")


async def what_cannot_be_seen_looks_the_same(make: StoreMaker) -> None:
    """Another's, one that never was, deleted, expired, evicted: one answer, in the same words but for the ref."""
    clock = TestClock()
    async with make(clock, ArtifactLimits(count=3)) as store:
        never = mint_artifact_id()
        old = await store.put(A, CONTENT)
        expired = await store.put(A, CONTENT, ttl=1)
        deleted = await store.put(A, CONTENT)
        hidden = await store.put(A, CONTENT)  # evicts `old`
        await store.delete(A, deleted.ref)
        clock.seconds = 2
        cases = [(A, ref) for ref in (never, old.ref, expired.ref, deleted.ref)]
        cases += [(scope, hidden.ref) for scope in OTHERS]
        answers = set()
        for scope, ref in cases:
            calls: tuple[Callable[[], Awaitable[object]], ...] = (
                lambda scope=scope, ref=ref: store.head(scope, ref),  # type: ignore[misc]
                lambda scope=scope, ref=ref: store.get(scope, ref),  # type: ignore[misc]
                lambda scope=scope, ref=ref: store.delete(scope, ref),  # type: ignore[misc]
                lambda scope=scope, ref=ref: store.put(scope, b"x", parents=[ref]),  # type: ignore[misc]
            )
            for call in calls:
                error = await _refusal(call(), NotFound, f"{ref} seen by {scope}")
                told: Any = error.to_wire()
                _expect(error.reason == CallReason.NO_SUCH_ARTIFACT, f"reason {error.reason}")
                answers.add(str(told).replace(ref, "REF"))
        _expect(len(answers) == 1, f"they can be told apart: {answers}")
        _expect(await _read(store, hidden.ref) == CONTENT, "its own scope does not see it any more")


async def what_is_no_ref_is_refused(make: StoreMaker) -> None:
    """With INVALID_ARGUMENT, by each method."""
    async with make(TestClock(), ArtifactLimits()) as store:
        for ref in ("", "art_", "art_" + "a" * 21, "art_" + "a" * 23, "../" + "a" * 22, "art_" + "ä" * 22):
            await _refusal(store.head(A, ref), InvalidArgument, f"head of {ref!r}")
            await _refusal(store.get(A, ref), InvalidArgument, f"get of {ref!r}")
            await _refusal(store.delete(A, ref), InvalidArgument, f"delete of {ref!r}")


async def what_cannot_be_said_is_refused(make: StoreMaker) -> None:
    """And nothing of it is kept."""
    bad: tuple[dict[str, Any], ...] = (
        {"kind": ""},
        {"kind": "No Kind"},
        {"media_type": "none"},
        {"media_type": "text/csv\r\nx: y"},
        {"label": "x" * 1_025},
        {"label": "\ud800"},
        {"parents": ["none"]},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": float("nan")},
        {"sha256": "abc"},
        {"sha256": "0" * 64},
    )
    async with make(TestClock(), ArtifactLimits()) as store:
        for facts in bad:
            await _refusal(store.put(A, CONTENT, **facts), InvalidArgument, f"put with {facts}")
        _expect((await store.list(A)).artifacts == (), "something of a refused put is there")


async def a_source_that_fails_leaves_nothing(make: StoreMaker) -> None:
    """What it raised comes through."""

    async def failing() -> AsyncIterator[bytes]:
        yield PIECE * 16
        raise ZeroDivisionError("the source")

    async with make(TestClock(), ArtifactLimits()) as store:
        try:
            await store.put(A, failing())
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("what the source raised did not come through")
        _expect((await store.list(A)).artifacts == (), "a part of it is there")


async def one_that_is_too_large_is_refused(make: StoreMaker) -> None:
    """However it comes; the rest stays as it was."""
    async with make(TestClock(), ArtifactLimits(artifact_bytes=10)) as store:
        fits = await store.put(A, CONTENT)
        for data in (CONTENT + b"x", [CONTENT, b"x"]):
            error = await _refusal(store.put(A, data), ResourceExhausted, "11 bytes where 10 are the limit")
            _expect(error.metadata.get("limit") == "artifact_bytes", f"{error.metadata} names no limit")
        _expect(
            [each.ref for each in (await store.list(A)).artifacts] == [fits.ref], "the rest is not as it was"
        )


async def pages_are_newest_first_and_whole(make: StoreMaker) -> None:
    """Each once, also where some go meanwhile; of one kind or origin where that is asked for."""
    async with make(TestClock(), ArtifactLimits()) as store:
        made: list[StoredArtifact] = []
        for number in range(7):
            kind, origin = ("even", "x") if number % 2 == 0 else ("odd", "y")
            made.append(await store.put(A, b"%d" % number, kind=kind, origin=origin))
        await store.put(OTHERS[0], CONTENT)
        await store.put(OTHERS[1], CONTENT)
        newest = [each.ref for each in reversed(made)]
        _expect([each.ref for each in (await store.list(A)).artifacts] == newest, "not newest first")
        found, token, pages = [], "", 0
        while pages == 0 or token:
            page = await store.list(A, page_size=3, page_token=token)
            _expect(len(page.artifacts) <= 3, "a page is larger than asked for")
            found += [each.ref for each in page.artifacts]
            token, pages = page.next_page_token, pages + 1
            if pages == 1:
                await store.delete(A, found[0])
        _expect((found, pages) == (newest, 3), f"{pages} pages tell of {found}")
        odd = [each.ref for each in (await store.list(A, kind="odd")).artifacts]
        _expect(odd == [each.ref for each in reversed(made) if each.kind == "odd"], "other kinds are listed")
        even = [each.ref for each in (await store.list(A, origin="x")).artifacts]
        _expect(even == newest[2::2], "other origins are listed, or a deleted one")
        await _refusal(store.list(A, page_size=-1), InvalidArgument, "a page of -1")
        await _refusal(store.list(A, page_token="none of ours"), InvalidArgument, "a token of nobody's")


async def what_is_too_much_goes_oldest_first(make: StoreMaker) -> None:
    """By count and by bytes, within one tenant; each is a fact on record, and nobody else's."""
    for limits, why in (
        (ArtifactLimits(count=3), "COUNT"),
        (ArtifactLimits(bytes=39, artifact_bytes=39), "BYTES"),
    ):
        async with make(TestClock(), limits) as store:
            other = await store.put(OTHERS[0], CONTENT)
            made = [await store.put(A, CONTENT, label=str(number)) for number in range(5)]
            await store.evict()
            left = [each.ref for each in (await store.list(A)).artifacts]
            _expect(
                left == [each.ref for each in reversed(made[2:])], f"{why}: not the newest three are left"
            )
            facts = (await store.evictions(A)).evictions
            told = [(each.ref, each.reason, each.bytes, each.label) for each in facts]
            _expect(told == [(made[1].ref, why, 10, "1"), (made[0].ref, why, 10, "0")], f"recorded: {told}")
            _expect(await _read(store, other.ref, OTHERS[0]) == CONTENT, "it cost another tenant's")
            _expect((await store.evictions(OTHERS[0])).evictions == (), "another's evictions are told")
            first = await store.evictions(A, page_size=1)
            rest = await store.evictions(A, page_size=1, page_token=first.next_page_token)
            _expect((*first.evictions, *rest.evictions) == facts, "pages of evictions are not whole")
            _expect(rest.next_page_token == "", "after the last page there is another")


async def what_has_expired_goes(make: StoreMaker) -> None:
    """At once for callers; on record as EXPIRED where its maker wanted it so, else as AGE."""
    clock = TestClock()
    async with make(clock, ArtifactLimits(age_seconds=100)) as store:
        brief, aged = await store.put(A, b"a", ttl=10), await store.put(A, b"b", ttl=1e6)
        _expect(aged.expire_time == "2031-01-01T00:01:40.000Z", "a ttl outlasts what the store keeps")
        clock.seconds = 11
        _expect([each.ref for each in (await store.list(A)).artifacts] == [aged.ref], "expired, and listed")
        first = await store.evict()
        clock.seconds = 101
        stays = await store.put(A, b"c")
        second = await store.evict()
        _expect([(each.ref, each.reason) for each in first] == [(brief.ref, "EXPIRED")], f"{first}")
        _expect([(each.ref, each.reason) for each in second] == [(aged.ref, "AGE")], f"{second}")
        _expect(await _read(store, stays.ref) == b"c", "what has not expired went")
        _expect(len((await store.evictions(A)).evictions) == 2, "evictions are not on record")


async def a_reader_reads_on(make: StoreMaker) -> None:
    """Whatever becomes of the artifact meanwhile."""
    async with make(TestClock(), ArtifactLimits()) as store:
        made = await store.put(A, _pieces())
        async with await store.get(A, made.ref) as reading:
            await store.delete(A, made.ref)
            _expect(
                await reading.read() == PIECE * LARGE_PIECES, "a deleted artifact was pulled from under it"
            )


async def many_at_once(make: StoreMaker) -> None:
    """Puts and reads beside each other."""
    async with make(TestClock(), ArtifactLimits()) as store:
        made = await asyncio.gather(*(store.put(A, [b"%d" % number]) for number in range(40)))
        read = await asyncio.gather(*(_read(store, each.ref) for each in made))
        _expect(read == [b"%d" % number for number in range(40)], "they got into each other's way")


CHECKS: Final[tuple[Check, ...]] = (
    what_is_put_can_be_had,
    bytes_are_streamed_both_ways,
    refs_are_minted,
    a_range_is_what_was_asked_for,
    what_cannot_be_seen_looks_the_same,
    what_is_no_ref_is_refused,
    what_cannot_be_said_is_refused,
    a_source_that_fails_leaves_nothing,
    one_that_is_too_large_is_refused,
    pages_are_newest_first_and_whole,
    what_is_too_much_goes_oldest_first,
    what_has_expired_goes,
    a_reader_reads_on,
    many_at_once,
)
