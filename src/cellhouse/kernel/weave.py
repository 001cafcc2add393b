"""Text of two pipes and frames of a socket, woven into the order in which the kernel made them. No I/O, no clock.

The kernel writes the same mark into both pipes before a frame that has a place among the text (marks.py). Executed code
can forge marks. So what waits is bounded in bytes and in time, and a mark that is not in its turn is noticed as soon as it
comes: order is given up then, and nothing waits for anything from then on. The genuine mark behind a forged one is out of
turn at the latest, and it comes before the end of the execution that forged.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from cellhouse.kernel.marks import NONCE_BYTES, PIECE_BYTES, PREFIX, Lane, Mark

STALL_SECONDS = 5.0
"""A kernel that is held up between its two marks for so long has been tampered with, or as good as."""
TAIL_SECONDS = 1.0
"""What may be the beginning of a mark is text after so long."""
FRAMES_BYTES = 1 << 20
"""Frames that wait for marks; one frame alone may be larger."""
EVER = 1 << 65
"""An epoch beyond all that a mark can name: no mark will come any more."""
MAX_COUNTS = 1024

LaneT = TypeVar("LaneT", bound=Lane)
FrameT = TypeVar("FrameT")


class Weave(Generic[LaneT, FrameT]):
    """Takes text and frames as they are read, in `now` seconds of any clock, and hands them on in order.

    `on_text(lane, data)` gets the text without the marks, `on_frame(frame)` the frames. `on_disorder(marks)` is called once,
    before the order is given up, with whether that is for a mark that is not the kernel's (and not for time that passed).
    """

    def __init__(
        self,
        nonce: bytes,
        *,
        on_text: Callable[[LaneT, bytes], None],
        on_frame: Callable[[FrameT], None],
        on_disorder: Callable[[bool], None],
    ) -> None:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce of {len(nonce)} bytes; it has {NONCE_BYTES}")
        self._mark = PREFIX + nonce
        self._on_text, self._on_frame, self._on_disorder = on_text, on_frame, on_disorder
        self._lanes: list[LaneT] = []
        self._newest: list[LaneT | None] = [None, None]
        self._passed = [0, 0]
        """By stream (0: stdout, 1: stderr), the epoch of the last mark that is done with."""
        self._counts: dict[int, int] = {}
        """By epoch, how many frames there are up to the last of that epoch; the newest `MAX_COUNTS` epochs."""
        self._frames: deque[tuple[FrameT, int, int]] = deque()
        self._frames_held = 0
        self._frames_since: float | None = None
        self._handed = 0
        self._last_epoch = 0
        """Of the frames that were handed on, the last with an epoch had this one."""
        self._held_at: float | None = None
        self.given_up = False
        """Whether the order has been, or is being given up."""
        self.disordered = False
        """Nothing waits any more."""
        self.seen = [(0, 0), (0, 0)]
        """By stream, the number of the last piece of text that came with one, and the bytes that came since."""

    # what comes in

    def join(self, lane: LaneT) -> None:
        """A further pipe: its stream's marks are in this one from now on, and in no other."""
        stream = lane.stream
        if self._newest[stream] is None:
            lane.turn = 1
        else:
            # Whoever still holds the older pipes can write marks there as it likes.
            for older in self._lanes:
                older.loose = older.loose or older.stream == stream
            self._passed[stream] = self._last_epoch
            self._counts.clear()
        lane.loose = self.disordered
        self._newest[stream] = lane
        self._lanes = [old for old in self._lanes if not old.ended or old.items] + [lane]
        self._lanes.sort(key=lambda each: each.stream)

    def text(self, lane: LaneT, data: bytes, now: float) -> None:
        marks = lane.bring(data, self._mark)
        if marks and not lane.loose:
            for place, mark in enumerate(marks):
                if not self._in_turn(lane, mark):
                    lane.drop_last_marks(len(marks) - place)
                    self._give_up(now, marks=True)
                    break
        self._advance(now)

    def end(self, lane: LaneT, now: float) -> None:
        """Nothing more comes in this pipe."""
        lane.end()
        self._advance(now)

    def frame(self, frame: FrameT, epoch: int, size: int, now: float) -> None:
        self._frames.append((frame, epoch, size))
        self._frames_held += size + PIECE_BYTES
        if len(self._frames) == 1 and (self.disordered or epoch <= min(self._reach())):
            self._hand_on_frame()
            if not any(lane.items for lane in self._lanes):
                return
        self._advance(now)

    # what its caller must know

    @property
    def frames_wait(self) -> bool:
        """Whether a frame waits for a mark."""
        return bool(self._frames)

    @property
    def waits(self) -> bool:
        """Whether anything waits."""
        return bool(self._frames) or any(lane.waits for lane in self._lanes)

    @property
    def wants_frames(self) -> bool:
        return self._frames_held < FRAMES_BYTES

    def deadline(self) -> float | None:
        """When `expire` must be called, if nothing else happens; None where nothing waits, or its sources are held."""
        if self._held_at is not None:
            return None
        times = [lane.since + _patience(lane) for lane in self._lanes if lane.since is not None]
        if self._frames_since is not None:
            times.append(self._frames_since + STALL_SECONDS)
        return min(times) if times else None

    # time

    def hold(self, now: float) -> None:
        """The sources are not read from now on; this time does not count."""
        if self._held_at is None:
            self._held_at = now

    def release(self, now: float) -> None:
        if self._held_at is None:
            return
        away = now - self._held_at
        self._held_at = None
        for lane in self._lanes:
            if lane.since is not None:
                lane.since += away
        if self._frames_since is not None:
            self._frames_since += away

    def progress(self, now: float) -> None:
        """A good part of a large frame came: whoever waits for it is not stalled."""
        for lane in self._lanes:
            if lane.since is not None:
                lane.since = now
        if self._frames_since is not None:
            self._frames_since = now

    def expire(self, now: float) -> None:
        """Let through what has waited for `STALL_SECONDS`, or `TAIL_SECONDS`."""
        if self._held_at is not None:
            return
        stalled = self._frames_since is not None and self._frames_since + STALL_SECONDS <= now
        for lane in self._lanes:
            if lane.since is not None and lane.since + _patience(lane) <= now:
                if lane.barrier is None:
                    lane.let_go()
                else:
                    stalled = True
        if stalled:
            self._give_up(now, marks=False)
        self._advance(now)

    def finish(self) -> None:
        """Nothing more comes at all: everything goes, in the best order."""
        for lane in self._lanes:
            lane.let_go()
        self._force(0.0)

    # how it is done

    def _in_turn(self, lane: LaneT, mark: Mark) -> bool:
        """Whether the kernel would have written this mark here."""
        epoch, frames = mark
        if epoch != lane.turn and (lane.turn is not None or epoch <= self._last_epoch):
            return False
        lane.turn = epoch + 1
        if epoch in self._counts:
            return self._counts[epoch] == frames
        self._counts[epoch] = frames
        if len(self._counts) > MAX_COUNTS:
            del self._counts[next(iter(self._counts))]
        return True

    def _reach(self) -> tuple[int, int]:
        """For stdout and stderr, the highest epoch before whose mark all text has been handed on."""
        reach = [*self._passed]
        for lane in self._newest:
            if lane is not None:
                if lane.barrier is not None:
                    reach[lane.stream] = lane.barrier[0]
                elif lane.ended:
                    reach[lane.stream] = EVER
        return reach[0], reach[1]

    def _advance(self, now: float) -> None:
        moved = True
        while moved:
            moved = False
            barriers = False
            for lane in self._lanes:
                if lane.items:
                    self._flow(lane)
                    barriers = barriers or lane.barrier is not None
            if not barriers and not self._frames:
                break
            reach = self._reach()
            lowest = min(reach)
            while self._frames and (self.disordered or self._frames[0][1] <= lowest):
                self._hand_on_frame()
                moved = True
            for lane in self._lanes:
                if (mark := lane.barrier) and self._handed >= mark[1] and reach[1 - lane.stream] >= mark[0]:
                    self._pass(lane)
                    moved = True
        self._set_clocks(now)

    def _flow(self, lane: LaneT) -> None:
        """Hand on the text of this pipe up to its next mark of order."""
        while lane.items and lane.barrier is None:
            item = lane.take()
            if isinstance(item, bytes):
                lane.since = None
                number, came = self.seen[lane.stream]
                self.seen[lane.stream] = number, came + len(item)
                self._on_text(lane, item)
            elif not item[0]:
                self.seen[lane.stream] = item[1], 0

    def _pass(self, lane: LaneT) -> None:
        assert lane.barrier is not None
        self._passed[lane.stream] = lane.barrier[0]
        lane.take()
        lane.since = None

    def _hand_on_frame(self) -> None:
        frame, epoch, size = self._frames.popleft()
        self._frames_held -= size + PIECE_BYTES
        self._frames_since = None
        self._handed += 1
        self._last_epoch = max(self._last_epoch, epoch)
        self._on_frame(frame)

    def _give_up(self, now: float, *, marks: bool) -> None:
        if self.given_up:
            return
        self.given_up = True
        self._on_disorder(marks)
        self._force(now)
        self.disordered = True
        for lane in self._lanes:
            lane.loose = True

    def _force(self, now: float) -> None:
        """All that waits, and what can't come free by itself lowest epoch first, a frame before the text behind it."""
        while True:
            self._advance(now)
            stuck = [lane for lane in self._lanes if lane.barrier is not None]
            lane = min(stuck, key=lambda each: each.barrier or (0, 0), default=None)
            if self._frames and (
                lane is None or lane.barrier is None or self._frames[0][1] <= lane.barrier[0]
            ):
                self._hand_on_frame()
            elif lane is not None:
                self._pass(lane)
            else:
                return

    def _set_clocks(self, now: float) -> None:
        if self._held_at is not None:
            now = self._held_at
        for lane in self._lanes:
            if not lane.waits:
                lane.since = None
            elif lane.since is None:
                lane.since = now
        if not self._frames:
            self._frames_since = None
        elif self._frames_since is None:
            self._frames_since = now


def _patience(lane: Lane) -> float:
    return TAIL_SECONDS if lane.barrier is None else STALL_SECONDS
