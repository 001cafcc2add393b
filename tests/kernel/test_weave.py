"""Text and frames in the order in which they were made, and what hostile bytes can do about it: disorder themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings, strategies as st

from cellhouse.kernel import marks, weave
from cellhouse.kernel.marks import LANE_BYTES, MARK_BYTES, NUMBERS, NUMBERS_BELOW, PIECE_BYTES, PREFIX, Lane
from cellhouse.kernel.weave import FRAMES_BYTES, STALL_SECONDS, TAIL_SECONDS, Weave

NONCE = b"\x00\x01\x00\x00nonce\x00\x01 of 16"[:16]
OUT, ERR = 0, 1


def marker(epoch: int, frames: int) -> bytes:
    return PREFIX + NONCE + NUMBERS.pack(epoch, frames)


class Woven:
    """A weave of one pair of pipes, and what it handed on."""

    def __init__(self) -> None:
        self.items: list[tuple[int, bytes] | str] = []
        self.disorders = 0
        self.marks = False
        self.weave: Weave[Lane, str] = Weave(
            NONCE,
            on_text=self._text,
            on_frame=self.items.append,
            on_disorder=self._disorder,
        )
        self.lanes: list[Lane] = []
        for stream in (OUT, ERR):
            self.join(stream)
        self.now = 100.0

    def join(self, stream: int) -> Lane:
        lane = Lane(stream)
        self.lanes.append(lane)
        self.weave.join(lane)
        return lane

    def _text(self, lane: Lane, data: bytes) -> None:
        assert data
        number = self.lanes.index(lane)
        last = self.items[-1] if self.items else ""
        if isinstance(last, tuple) and last[0] == number:
            self.items[-1] = (number, last[1] + data)
        else:
            self.items.append((number, data))

    def _disorder(self, marks: bool) -> None:
        self.disorders += 1
        self.marks = marks

    def text(self, lane: int, data: bytes) -> None:
        self.weave.text(self.lanes[lane], data, self.now)

    def frame(self, name: str, epoch: int, size: int = 10) -> None:
        self.weave.frame(name, epoch, size, self.now)

    def expire(self) -> None:
        self.weave.expire(self.now)

    def of(self, lane: int) -> bytes:
        return b"".join(item[1] for item in self.items if isinstance(item, tuple) and item[0] == lane)

    def frames(self) -> list[str]:
        return [item for item in self.items if isinstance(item, str)]


# one thing at a time


def test_text_without_markers_goes_through_at_once_and_uncopied() -> None:
    seen: list[bytes] = []
    weave: Weave[Lane, str] = Weave(
        NONCE, on_text=lambda _, data: seen.append(data), on_frame=print, on_disorder=print
    )
    lane = Lane(OUT)
    weave.join(lane)
    data = b"x" * 65_536
    weave.text(lane, data, 0.0)
    assert seen[0] is data
    assert weave.deadline() is None


def test_a_frame_without_an_epoch_does_not_wait() -> None:
    woven = Woven()
    woven.frame("a", 0)
    assert woven.items == ["a"]


@pytest.mark.parametrize("first", [OUT, ERR])
def test_a_frame_waits_for_its_marker_in_both_pipes(first: int) -> None:
    woven = Woven()
    woven.frame("a", 1)
    woven.text(first, b"one" + marker(1, 1))
    assert woven.items == [(first, b"one")]
    woven.text(1 - first, b"two" + marker(1, 1))
    assert woven.items == [(first, b"one"), (1 - first, b"two"), "a"]
    assert not woven.weave.waits
    assert woven.weave.deadline() is None


def test_text_behind_a_marker_waits_for_the_frames_before_it() -> None:
    woven = Woven()
    for lane in (OUT, ERR):
        woven.text(lane, marker(1, 2) + b"after")
    woven.frame("a", 0)
    assert woven.items == ["a"]
    woven.frame("b", 0)
    assert woven.items == ["a", "b", (OUT, b"after"), (ERR, b"after")]


def test_text_behind_a_marker_waits_for_the_other_pipe() -> None:
    woven = Woven()
    woven.text(OUT, b"1" + marker(1, 0) + b"3")
    woven.text(ERR, b"2")
    assert woven.items == [(OUT, b"1"), (ERR, b"2")]
    woven.text(ERR, marker(1, 0))
    assert woven.items == [(OUT, b"1"), (ERR, b"2"), (OUT, b"3")]


@pytest.mark.parametrize("cut", range(1, MARK_BYTES))
def test_a_marker_cut_anywhere_is_a_marker(cut: int) -> None:
    woven = Woven()
    whole = b"before" + marker(1, 0) + b"after"
    cut += len(b"before")
    woven.text(OUT, whole[:cut])
    assert woven.items == [(OUT, b"before")]
    woven.text(OUT, whole[cut:])
    woven.text(ERR, marker(1, 0))
    assert woven.items == [(OUT, b"beforeafter")]
    assert not woven.disorders
    assert woven.lanes[OUT].held == 0


@pytest.mark.parametrize("length", range(1, MARK_BYTES))
def test_the_beginning_of_a_marker_that_is_none_is_text(length: int) -> None:
    woven = Woven()
    begun = marker(1, 1)[:length]
    woven.text(OUT, b"a" + begun)
    assert woven.items == [(OUT, b"a")]
    woven.now += TAIL_SECONDS
    assert woven.weave.deadline() == woven.now
    woven.expire()
    assert woven.items == [(OUT, b"a" + begun)]
    assert not woven.disorders
    assert not woven.weave.waits


@pytest.mark.parametrize("length", range(1, 2 + len(NONCE)))
def test_the_beginning_of_a_marker_goes_with_the_text_that_follows(length: int) -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 1)[:length])
    woven.text(OUT, b"\xffb")
    assert woven.items == [(OUT, marker(1, 1)[:length] + b"\xffb")]


def test_zeros_are_text_up_to_the_last_of_them() -> None:
    woven = Woven()
    for _ in range(5):
        woven.text(OUT, bytes(1000))
    woven.text(OUT, b"end")
    assert woven.of(OUT) == bytes(5000) + b"end"


def test_a_pipe_that_ended_is_not_waited_for() -> None:
    woven = Woven()
    woven.frame("a", 1)
    woven.text(OUT, marker(1, 1) + b"x")
    woven.weave.end(woven.lanes[ERR], woven.now)
    assert woven.items == ["a", (OUT, b"x")]
    assert not woven.disorders


def test_a_pipe_that_ended_at_a_marker_is_not_waited_for_behind_it() -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 0))
    woven.weave.end(woven.lanes[OUT], woven.now)
    woven.frame("a", 9)
    woven.weave.end(woven.lanes[ERR], woven.now)
    assert woven.items == ["a"]


def test_an_old_pipe_that_ended_still_says_what_waits_in_it() -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 1) + b"x")
    woven.text(ERR, marker(1, 1))
    woven.weave.end(woven.lanes[OUT], woven.now)
    woven.join(OUT)
    woven.join(ERR)
    woven.text(2, marker(2, 1))
    woven.text(3, marker(2, 1))
    woven.frame("a", 1)
    assert woven.items == [(OUT, b"x"), "a"]
    assert not woven.disorders


def test_what_is_written_into_an_old_pipe_holds_nothing_up() -> None:
    """Children of an earlier execution have it, and know how marks look."""
    woven = Woven()
    for lane in (OUT, ERR):
        woven.text(lane, marker(1, 1))
    woven.frame("a", 1)
    for lane in (OUT, ERR):
        woven.text(
            lane, marker(2, 1)
        )  # forged, and in its turn: for all that can be told there was text between
    woven.join(OUT)
    woven.join(ERR)
    for epoch in (3, 9, 2**47):
        woven.text(OUT, marker(epoch, 2**47) + b"old")
    woven.frame("b", 2)
    assert woven.items == ["a", (OUT, b"oldoldold")]
    woven.text(2, b"new")
    for lane in (2, 3):
        woven.text(lane, marker(2, 2))
    assert woven.items == ["a", (OUT, b"oldoldold"), (2, b"new"), "b"]
    assert not woven.disorders


def test_further_pipes_take_over_and_the_old_ones_are_read_on() -> None:
    woven = Woven()
    for lane in (OUT, ERR):
        woven.text(lane, marker(1, 1))
    woven.frame("a", 1)
    out, err = woven.join(OUT), woven.join(ERR)
    woven.text(OUT, b"late")
    woven.frame("b", 2)
    woven.weave.text(out, b"new" + marker(2, 3), woven.now)
    woven.weave.text(err, marker(2, 3), woven.now)
    woven.weave.end(woven.lanes[OUT], woven.now)
    woven.weave.end(woven.lanes[ERR], woven.now)
    woven.frame("c", 2)
    woven.frame("d", 3)
    assert woven.items == ["a", (OUT, b"late"), (2, b"new"), "b", "c"]
    woven.weave.end(out, woven.now)
    woven.weave.end(err, woven.now)
    assert woven.items[-1] == "d"


# time


def test_what_does_not_come_free_is_let_through_and_order_is_given_up_once() -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 0) + b"x")
    woven.frame("a", 9)
    woven.now += STALL_SECONDS * 0.9
    woven.expire()
    assert woven.items == []
    woven.now += STALL_SECONDS * 0.1
    woven.expire()
    assert woven.items == [(OUT, b"x"), "a"]
    woven.text(OUT, b"y" + marker(6, 99) + b"z")
    woven.frame("b", 99)
    assert woven.items == [(OUT, b"x"), "a", (OUT, b"yz"), "b"]
    assert woven.disorders == 1


def test_a_marker_with_nothing_behind_it_holds_nothing_up() -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 1))
    assert woven.weave.deadline() is None
    woven.now += 10 * STALL_SECONDS
    woven.text(ERR, marker(1, 1) + b"x")
    woven.frame("a", 1)
    assert woven.items == ["a", (ERR, b"x")]


@pytest.mark.parametrize(
    "begin",
    [lambda woven: woven.frame("a", 1), lambda woven: woven.text(OUT, marker(1, 0) + b"x")],
    ids=["frame", "text"],
)
def test_time_in_which_nothing_is_read_does_not_count(begin: Callable[[Woven], None]) -> None:
    woven = Woven()
    begin(woven)
    woven.now += STALL_SECONDS / 2
    woven.weave.hold(woven.now)
    assert woven.weave.deadline() is None
    woven.now += 1000.0
    woven.expire()
    woven.weave.release(woven.now)
    assert woven.weave.deadline() == woven.now + STALL_SECONDS / 2
    woven.expire()
    assert woven.items == []


def test_the_time_of_what_comes_while_nothing_is_read_begins_afterwards() -> None:
    woven = Woven()
    woven.weave.hold(woven.now)
    woven.now += 10.0
    woven.frame("a", 1)
    woven.now += 10.0
    woven.weave.release(woven.now)
    assert woven.weave.deadline() == woven.now + STALL_SECONDS


def test_each_thing_that_waits_has_time_of_its_own() -> None:
    woven = Woven()
    woven.text(OUT, b"a\0")
    woven.frame("a", 1)
    woven.frame("b", 2)
    woven.now += STALL_SECONDS * 0.9
    woven.text(OUT, b"b\0")
    for lane in (OUT, ERR):
        woven.text(lane, marker(1, 1))
    assert woven.frames() == ["a"]
    assert woven.weave.deadline() == woven.now + STALL_SECONDS


def test_a_large_frame_on_its_way_is_no_stall() -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 1) + b"x")
    woven.now += STALL_SECONDS
    woven.weave.progress(woven.now)
    woven.expire()
    assert woven.items == []


def test_at_the_end_everything_goes_lowest_epoch_first() -> None:
    woven = Woven()
    woven.text(OUT, marker(1, 1) + b"1" + marker(2, 2) + b"2" + marker(3, 3) + b"3" + marker(4, 3)[:20])
    woven.frame("a", 1)
    woven.frame("b", 3)
    woven.weave.finish()
    assert woven.items == ["a", (OUT, b"12"), "b", (OUT, b"3" + marker(4, 3)[:20])]
    assert not woven.disorders
    assert not woven.weave.waits


# genuine streams


@dataclass
class Kernel:
    """Writes as the kernel does; `order` is what must come out."""

    pipes: list[bytearray] = field(default_factory=lambda: [bytearray(), bytearray()])
    frames: list[tuple[str, int]] = field(default_factory=list)
    order: list[tuple[int, bytes] | str] = field(default_factory=list)
    log: list[tuple[int, int]] = field(default_factory=list)
    """By source (2: the socket), how much stood there after each step."""
    epoch: int = 0

    def mark(self, coming: int) -> None:
        self.epoch += 1
        for pipe in self.pipes:
            pipe += marker(self.epoch, len(self.frames) + coming)

    def text(self, stream: int, data: bytes) -> None:
        last = self.order[-1] if self.order else None
        if isinstance(last, tuple) and last[0] == stream:
            self.order[-1] = (stream, last[1] + data)
        else:
            if last is not None and not isinstance(last, str):
                self.mark(0)
            self.order.append((stream, data))
        self.pipes[stream] += data

    def frame(self) -> None:
        self.mark(1)
        name = f"frame {len(self.frames)}"
        self.frames.append((name, self.epoch))
        self.order.append(name)


TEXTS = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.integers(1, len(PREFIX + NONCE) - 1).map(lambda n: marker(1, 1)[:n]),
    st.sampled_from([b"\0", b"\0\1", b"\0" * 40, PREFIX + NONCE[:-1], b"\0" + PREFIX + NONCE[:4]]),
)
STEPS = st.lists(
    st.one_of(st.none(), st.tuples(st.sampled_from([OUT, ERR]), TEXTS)),
    max_size=25,
)
READS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 70)), min_size=1, max_size=60)


def genuine(steps: Sequence[tuple[int, bytes] | None]) -> Kernel:
    kernel = Kernel()
    for step in steps:
        if step is None:
            kernel.frame()
        else:
            kernel.text(*step)
    for stream in (OUT, ERR):
        said = b"".join(item[1] for item in kernel.order if isinstance(item, tuple) and item[0] == stream)
        assume(PREFIX + NONCE not in said)  # that would be a forged one
    return kernel


def read_in(woven: Woven, kernel: Kernel, reads: Sequence[tuple[int, int]]) -> None:
    """Bring everything in, a piece of one source after the other, and each only as far as it is wanted."""
    pipes = [bytes(pipe) for pipe in kernel.pipes]
    frames = list(kernel.frames)
    turn = 0
    while any(pipes) or frames:
        source, count = reads[turn % len(reads)]
        turn += 1
        wanted = [lane.wants for lane in woven.lanes] + [woven.weave.wants_frames]
        if turn % len(reads) == 0:  # nobody waits for ever
            source = next(n for n, left in enumerate((*pipes, frames)) if left and wanted[n])
        if not wanted[source]:
            continue
        if source == 2:
            for name, epoch in frames[:count]:
                woven.frame(name, epoch)
            del frames[:count]
        elif pipes[source]:
            woven.text(source, pipes[source][:count])
            pipes[source] = pipes[source][count:]


@settings(max_examples=400, deadline=None)
@given(STEPS, READS)
def test_any_genuine_stream_comes_out_as_it_was_made(
    steps: list[tuple[int, bytes] | None], reads: list[tuple[int, int]]
) -> None:
    kernel, woven = genuine(steps), Woven()
    read_in(woven, kernel, reads)
    woven.now += STALL_SECONDS
    woven.expire()  # the beginning of a marker at the very end
    assert woven.items == kernel.order
    assert not woven.disorders
    assert not woven.weave.waits


@settings(max_examples=200, deadline=None)
@given(STEPS, READS)
def test_a_genuine_stream_never_stands_still_because_too_much_waits(
    steps: list[tuple[int, bytes] | None], reads: list[tuple[int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "LANE_BYTES", MARK_BYTES)
        patch.setattr(weave, "FRAMES_BYTES", 1)
        patch.setattr(weave, "PIECE_BYTES", 0)
        patch.setattr(marks, "PIECE_BYTES", 0)
        kernel, woven = genuine(steps), Woven()
        read_in(woven, kernel, reads)
    woven.weave.finish()
    assert woven.items == kernel.order


@settings(max_examples=200, deadline=None)
@given(STEPS, READS, st.integers(0, 400), st.integers(0, 400), st.integers(0, 9))
def test_a_kernel_that_dies_anywhere_loses_nothing_that_was_sent(
    steps: list[tuple[int, bytes] | None], reads: list[tuple[int, int]], out: int, err: int, frames: int
) -> None:
    kernel, woven = genuine(steps), Woven()
    whole = [bytes(pipe) for pipe in kernel.pipes]
    del kernel.pipes[OUT][out:], kernel.pipes[ERR][err:], kernel.frames[frames:]
    read_in(woven, kernel, reads)
    woven.weave.finish()
    assert woven.frames() == [name for name, _ in kernel.frames]
    for stream, cut in ((OUT, out), (ERR, err)):
        assert woven.of(stream) == without_markers(whole[stream][:cut])
    assert not woven.weave.waits


def without_markers(data: bytes) -> bytes:
    """Slowly, and in another way."""
    parts = data.split(PREFIX + NONCE)
    text = parts[0]
    for number, part in enumerate(parts[1:], start=1):
        whole = len(part) >= NUMBERS.size or number < len(parts) - 1
        text += part[NUMBERS.size :] if whole else PREFIX + NONCE + part
    return text


# hostile ones

NUMBERS_OF_ANY_SIZE = st.one_of(st.integers(0, 5), st.sampled_from([2**32, 2**47, 2**63, 2**64 - 1]))
MARKERS = st.builds(marker, NUMBERS_OF_ANY_SIZE, NUMBERS_OF_ANY_SIZE)
HOSTILE = st.one_of(TEXTS, MARKERS, st.builds(lambda data, n: data[:n], MARKERS, st.integers(1, MARK_BYTES)))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from([OUT, ERR]), HOSTILE),
            NUMBERS_OF_ANY_SIZE,
            st.floats(0, 0.7),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_of_hostile_bytes_none_is_lost_or_added_and_nothing_waits_long(
    steps: list[tuple[int, bytes] | int | float | bool],
) -> None:
    woven = Woven()
    sent = [b"", b""]
    names: list[str] = []
    for step in steps:
        match step:
            case bool():
                (woven.weave.hold if step else woven.weave.release)(woven.now)
            case float():
                woven.now += step
            case int():
                names.append(f"frame {len(names)}")
                woven.frame(names[-1], step)
            case stream, data:
                sent[stream] += data
                woven.text(stream, data)
        # As its caller does, whenever the time has come.
        when = woven.weave.deadline()
        if when is not None and when <= woven.now:
            woven.expire()
            assert (woven.weave.deadline() or woven.now + 1) > woven.now
    woven.weave.release(woven.now)
    # Each barrier holds up for the stall time at the most, and only the first of them: two more and all is there.
    for _ in range(3):
        woven.now += STALL_SECONDS
        woven.expire()
    assert not woven.weave.waits
    assert woven.frames() == names
    assert woven.disorders <= 1
    for stream in (OUT, ERR):
        assert without_some_markers(woven.of(stream), sent[stream])


def without_some_markers(text: bytes, sent: bytes) -> bool:
    """Whether the text is what was sent, without whole markers: which of them were let through as text, time decides."""
    states = {(0, 0)}
    seen: set[tuple[int, int]] = set()
    mark = PREFIX + NONCE
    while states:
        done, taken = state = states.pop()
        if state in seen:
            continue
        seen.add(state)
        if done == len(text) and taken == len(sent):
            return True
        if sent.startswith(mark, taken) and taken + MARK_BYTES <= len(sent):
            states.add((done, taken + MARK_BYTES))
        if done < len(text) and taken < len(sent) and text[done] == sent[taken]:
            states.add((done + 1, taken + 1))
    return False


HIGHEST = NUMBERS_BELOW - 1


def forged_epoch(woven: Woven) -> None:
    woven.text(OUT, marker(HIGHEST, 0))


def forged_frames(woven: Woven) -> None:
    for stream in (OUT, ERR):
        woven.text(stream, marker(2, HIGHEST))


def forged_in_both(woven: Woven) -> None:
    for stream in (OUT, ERR):
        woven.text(stream, marker(HIGHEST, 0))


def forged_as_the_next(woven: Woven) -> None:
    for stream in (OUT, ERR):
        woven.text(stream, marker(2, 1))


def forged_as_the_next_in_one(woven: Woven) -> None:
    woven.text(OUT, marker(2, 2))


def forged_far_ahead(woven: Woven) -> None:
    for stream in (OUT, ERR):
        woven.text(stream, b"".join(marker(epoch, epoch) for epoch in range(2, 900)))


def forged_again(woven: Woven) -> None:
    woven.text(OUT, marker(1, 1))


FORGERIES = [
    forged_epoch,
    forged_frames,
    forged_in_both,
    forged_as_the_next,
    forged_as_the_next_in_one,
    forged_far_ahead,
    forged_again,
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_forgeries_hold_nothing_up_beyond_the_next_genuine_frame(forge: Callable[[Woven], None]) -> None:
    """Which is that of the end of the execution that forged, at the latest; no time has to pass."""
    woven = Woven()

    def genuine(epoch: int) -> None:
        for stream in (OUT, ERR):
            woven.text(stream, marker(epoch, epoch))
        woven.frame(f"frame {epoch}", epoch)

    genuine(1)
    forge(woven)
    woven.text(OUT, b"own")
    genuine(2)
    assert b"own" in woven.of(OUT)
    assert woven.items[-1] == "frame 2"
    assert not woven.weave.waits
    assert woven.disorders == 1
    for epoch in range(3, 6):
        woven.text(OUT, b"next")
        genuine(epoch)
        assert woven.items[-2:] == [(OUT, b"next"), f"frame {epoch}"]
        assert not woven.weave.waits
    assert woven.disorders == 1


@pytest.mark.parametrize("end", [2, HIGHEST])
def test_a_forged_marker_leaves_text_behind_the_genuine_one_before_it(end: int) -> None:
    woven = Woven()
    woven.frame("busy", 1)
    woven.text(OUT, marker(1, 1) + b"own" + marker(end, 0) + b"more" + marker(2, 2))
    assert woven.items == ["busy", (OUT, b"ownmore")]
    assert (woven.disorders, woven.marks) == (1, True)


@pytest.mark.parametrize("numbers", range(NUMBERS.size))
def test_a_part_of_a_marker_swallows_no_whole_one(numbers: int) -> None:
    """Whatever is missing of its numbers: the genuine one behind it counts."""
    woven = Woven()
    part = PREFIX + NONCE + b"\0" * numbers
    woven.text(OUT, b"own" + part)
    for stream in (OUT, ERR):
        woven.text(stream, marker(1, 1))
    woven.frame("a", 1)
    assert woven.items == [(OUT, b"own" + part), "a"]
    assert not woven.disorders


def test_what_waits_is_bounded_and_says_when_it_is_enough() -> None:
    woven = Woven()
    out = woven.lanes[OUT]
    woven.text(OUT, marker(1, 0))
    pieces = 0
    while out.wants:
        woven.text(OUT, b"x")
        pieces += 1
    assert pieces <= LANE_BYTES // PIECE_BYTES + 1
    assert woven.lanes[ERR].wants
    count = 0
    while woven.weave.wants_frames:
        assert count <= FRAMES_BYTES
        woven.frame("f", 10, size=1000)
        count += 1
    assert count <= FRAMES_BYTES // 1000 + 1
    woven.now += STALL_SECONDS
    woven.expire()
    assert (out.wants, woven.weave.wants_frames) == (True, True)
    assert woven.of(OUT) == b"x" * pieces
    assert len(woven.frames()) == count
    assert out.held == 0


def test_a_piece_of_nothing_but_markers() -> None:
    woven = Woven()
    count = 5000
    markers = b"".join(marker(number, 0) for number in range(1, count + 1))
    woven.text(OUT, markers + b"x")
    woven.text(ERR, markers)
    assert woven.items == [(OUT, b"x")]
    assert woven.lanes[OUT].held == woven.lanes[ERR].held == 0


def test_a_nonce_has_its_length() -> None:
    with pytest.raises(ValueError, match="a nonce of 3 bytes; it has 16"):
        Weave(b"abc", on_text=print, on_frame=print, on_disorder=print)
