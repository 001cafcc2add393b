"""Text of two pipes and frames of a socket, woven into the order in which the kernel made them. No I/O, no clock.

The kernel writes the same marker into both pipes before a frame that has a place among the text. A marker is
`b"\\x00\\x01"`, the nonce, and two numbers: its epoch, and how many frames must have been handed on before the text
behind it. One of epoch 0 holds nobody up: its other number is that of the piece of text behind it. Executed code can read the nonce and forge markers. So what waits is bounded in bytes and in time; where
something had to be let through, order is given up, and nothing waits for anything from then on.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

NONCE_BYTES = 16
NUMBERS = struct.Struct(">QQ")
PREFIX = b"\x00\x01"
MARKER_BYTES = len(PREFIX) + NONCE_BYTES + NUMBERS.size
STALL_SECONDS = 1.0
LANE_BYTES = 1 << 18
"""Text that waits behind a marker; with more, `wants` says that its pipe need not be read."""
FRAMES_BYTES = 1 << 20
"""Frames that wait for markers, likewise; one frame alone may be larger."""
PIECE_BYTES = 256
"""What anything that waits counts at least."""
EVER = 1 << 65
"""An epoch beyond all that a marker can name: no marker will come any more."""


class Lane:
    """One pipe: what of it waits, and behind which marker. `stream`: 0 is stdout, 1 is stderr."""

    __slots__ = ("at", "barrier", "ended", "held", "pieces", "since", "stream")

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.pieces: deque[bytes] = deque()
        self.at = 0
        """Up to where the first piece is done with."""
        self.held = 0
        self.barrier: tuple[int, int] | None = None
        self.since: float | None = None
        """Since when the first byte that waits has had nothing happen to it."""
        self.ended = False


LaneT = TypeVar("LaneT", bound=Lane)
FrameT = TypeVar("FrameT")


class Weave(Generic[LaneT, FrameT]):
    """Takes text and frames as they are read, in `now` seconds of any clock, and hands them on in order.

    `on_text(lane, data)` gets the text without the markers, `on_frame(frame)` the frames, `on_disorder()` is called
    once if the order had to be given up.
    """

    def __init__(
        self,
        nonce: bytes,
        *,
        on_text: Callable[[LaneT, bytes], None],
        on_frame: Callable[[FrameT], None],
        on_disorder: Callable[[], None],
    ) -> None:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce of {len(nonce)} bytes; it has {NONCE_BYTES}")
        self._mark = PREFIX + nonce
        self._on_text, self._on_frame, self._on_disorder = on_text, on_frame, on_disorder
        self._lanes: list[LaneT] = []
        self._newest: list[LaneT | None] = [None, None]
        self._passed = [0, 0]
        """By stream (0: stdout, 1: stderr), the epoch of the last marker that is done with."""
        self._frames: deque[tuple[FrameT, int, int]] = deque()
        self._frames_held = 0
        self._frames_since: float | None = None
        self._handed = 0
        self._held_at: float | None = None
        self.disordered = False
        self.seen = [(0, 0), (0, 0)]
        """By stream, the number of the last piece of text that came with one, and the bytes that came since."""

    # what comes in

    def join(self, lane: LaneT) -> None:
        """A further pipe: its stream's markers are in this one from now on."""
        self._lanes = [old for old in self._lanes if not old.ended or old.pieces or old.barrier] + [lane]
        self._lanes.sort(key=lambda each: each.stream)
        self._newest[lane.stream] = lane

    def text(self, lane: LaneT, data: bytes, now: float) -> None:
        lane.pieces.append(data)
        lane.held += len(data) + PIECE_BYTES
        self._advance(now)

    def end(self, lane: LaneT, now: float) -> None:
        """Nothing more comes in this pipe."""
        lane.ended = True
        self._advance(now)

    def frame(self, frame: FrameT, epoch: int, size: int, now: float) -> None:
        if self._frames or (not self.disordered and epoch > min(self._reach())):
            self._frames.append((frame, epoch, size))
            self._frames_held += size + PIECE_BYTES
            self._set_clocks(now)
            return
        self._handed += 1
        self._on_frame(frame)
        if any(lane.pieces or lane.barrier for lane in self._lanes):
            self._advance(now)

    # what its caller must know

    @property
    def frames_wait(self) -> bool:
        """Whether a frame waits for a marker."""
        return bool(self._frames)

    @property
    def waits(self) -> bool:
        """Whether anything waits."""
        return bool(self._frames) or any(lane.pieces for lane in self._lanes)

    def wants(self, lane: LaneT) -> bool:
        """Whether more text of this pipe may be brought in."""
        return lane.held < LANE_BYTES

    @property
    def wants_frames(self) -> bool:
        return self._frames_held < FRAMES_BYTES

    def deadline(self) -> float | None:
        """When `expire` must be called, if nothing else happens; None where nothing waits, or its sources are held."""
        if self._held_at is not None:
            return None
        times = [lane.since for lane in self._lanes if lane.since is not None]
        if self._frames_since is not None:
            times.append(self._frames_since)
        return min(times) + STALL_SECONDS if times else None

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
        """Let through what has waited for `STALL_SECONDS`."""
        if self._held_at is not None:
            return
        late = now - STALL_SECONDS
        stalled = self._frames_since is not None and self._frames_since <= late
        for lane in self._lanes:
            if lane.since is not None and lane.since <= late:
                if lane.barrier is None:
                    self._let_go(lane)  # only the beginning of a marker: text, after all
                else:
                    stalled = True
        if stalled and not self.disordered:
            self._on_disorder()
            self._force(now)
            self.disordered = True
        self._advance(now)

    def finish(self) -> None:
        """Nothing more comes at all: everything goes, in the best order."""
        self._force(0.0)
        for lane in self._lanes:
            self._let_go(lane)
            lane.since = None
        self._frames_since = None

    # how it is done

    def _reach(self) -> tuple[int, int]:
        """For stdout and stderr, the highest epoch before whose marker all text has been handed on."""
        reach = [0, 0]
        for lane in self._lanes:
            stream = lane.stream
            if lane.barrier is not None:
                reach[stream] = max(reach[stream], lane.barrier[0])
            elif lane.ended and not lane.pieces and lane is self._newest[stream]:
                reach[stream] = EVER
        return max(reach[0], self._passed[0]), max(reach[1], self._passed[1])

    def _advance(self, now: float) -> None:
        moved = True
        while moved:
            moved = False
            barriers = False
            for lane in self._lanes:
                if lane.pieces and lane.barrier is None:
                    self._parse(lane)
                barriers = barriers or lane.barrier is not None
            if not barriers and not self._frames:
                break
            reach = self._reach()
            lowest = min(reach)
            while self._frames and (self.disordered or self._frames[0][1] <= lowest):
                self._hand_on_frame()
                moved = True
            for lane in self._lanes:
                if lane.barrier is not None:
                    epoch, frames = lane.barrier
                    if self.disordered or (self._handed >= frames and reach[1 - lane.stream] >= epoch):
                        self._pass(lane)
                        moved = moved or bool(lane.pieces) or lane.ended
        self._set_clocks(now)

    def _parse(self, lane: LaneT) -> None:
        """Hand on the text of this pipe up to its next marker, or to where one may have begun."""
        pieces, mark = lane.pieces, self._mark
        while pieces:
            piece, at = pieces[0], lane.at
            found = piece.find(mark, at)
            if found >= 0 and len(piece) - found >= MARKER_BYTES:
                self._emit(lane, piece, found)
                epoch, number = NUMBERS.unpack_from(piece, found + len(mark))
                lane.at = found + MARKER_BYTES
                if not epoch:
                    self.seen[lane.stream] = number, 0
                    if lane.at == len(piece):
                        self._drop(lane)
                    continue
                lane.barrier = epoch, number
                if lane.at == len(piece):
                    self._drop(lane)
                return
            keep = found if found >= 0 else self._begun(piece, at)
            self._emit(lane, piece, keep)
            if keep == len(piece):
                self._drop(lane)
                continue
            rest = piece[keep:]
            self._drop(lane)
            if not pieces:
                pieces.append(rest)
                lane.held += len(rest) + PIECE_BYTES
                return
            lane.held += len(rest)
            pieces[0] = rest + pieces[0]

    def _begun(self, piece: bytes, at: int) -> int:
        """Where the beginning of a marker stands at the end of the piece; its length where none does."""
        start = max(at, len(piece) - len(self._mark) + 1)
        while (start := piece.find(b"\0", start)) >= 0:
            if self._mark.startswith(piece[start:]):
                return start
            start += 1
        return len(piece)

    def _emit(self, lane: LaneT, piece: bytes, stop: int) -> None:
        if stop > lane.at:
            lane.since = None
            number, came = self.seen[lane.stream]
            self.seen[lane.stream] = number, came + stop - lane.at
            self._on_text(lane, piece if stop - lane.at == len(piece) else piece[lane.at : stop])
            lane.at = stop

    def _drop(self, lane: LaneT) -> None:
        """The first piece is done with."""
        lane.held -= len(lane.pieces.popleft()) + PIECE_BYTES
        lane.at = 0

    def _pass(self, lane: LaneT) -> None:
        assert lane.barrier is not None
        self._passed[lane.stream] = max(self._passed[lane.stream], lane.barrier[0])
        lane.barrier = lane.since = None

    def _hand_on_frame(self) -> None:
        frame, _, size = self._frames.popleft()
        self._frames_held -= size + PIECE_BYTES
        self._frames_since = None
        self._handed += 1
        self._on_frame(frame)

    def _let_go(self, lane: LaneT) -> None:
        while lane.pieces:
            self._emit(lane, lane.pieces[0], len(lane.pieces[0]))
            self._drop(lane)

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
            if not lane.pieces:
                lane.since = None
            elif lane.since is None:
                lane.since = now
        if not self._frames:
            self._frames_since = None
        elif self._frames_since is None:
            self._frames_since = now
