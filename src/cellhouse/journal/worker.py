"""The journal's one thread: everything that SQLite, or a slow disk, would make the event loop wait for."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")

# How long small changes gather before they are written together.
BATCH_SECONDS = 0.05


class Worker:
    """Runs jobs in order on a thread of its own, and a batch of what gathered, a little later or before the next job."""

    def __init__(self, batch: Callable[[], None], delay: float = BATCH_SECONDS) -> None:
        self._batch = batch
        self._delay = delay
        self._condition = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._nudged = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="cellhouse-journal", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """There is something for the batch. Cheap where that was said already."""
        if not self._nudged:
            with self._condition:
                self._nudged = True
                self._condition.notify()

    def call(self, job: Callable[[], _T]) -> "Future[_T]":
        """Run a job, behind those before it."""
        future: Future[_T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

        with self._condition:
            if self._closing:
                raise RuntimeError("the journal is closed; open it again")
            self._jobs.append(run)
            self._condition.notify()
        return future

    def close(self) -> None:
        """Run what was asked for, the last batch included, and end the thread."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._jobs or self._nudged or self._closing):
                    self._condition.wait()
                if self._nudged and not self._jobs and not self._closing:
                    self._condition.wait_for(lambda: self._jobs or self._closing, self._delay)
                nudged, self._nudged = self._nudged, False
                job = self._jobs.popleft() if self._jobs else None
                done = self._closing and job is None
            if nudged:
                self._batch()
            if job is not None:
                job()
            elif done:
                return
