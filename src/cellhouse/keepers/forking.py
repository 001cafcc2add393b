"""The service's side of the template: starts it, asks it for keepers, starts another where it has died."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
from typing import Final

from cellhouse.keepers.rights import Errand
from cellhouse.model import Unavailable, error_from_wire
from cellhouse.model.enums import CallReason

ANSWER_SECONDS: Final = 60.0
_ANSWER_BYTES: Final = 65_536


class Template:
    """Shared by all houses of one service; also from several threads. `close` ends it, and no keeper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False

    def start(self) -> None:
        """Begin to import, without waiting for it."""
        with self._lock:
            self._start()

    def wait(self) -> None:
        """Until it has imported everything. OSError where it has died instead."""
        with self._lock:
            self._await_ready(self._start())

    def _start(self) -> socket.socket:
        if self._control is not None:
            return self._control
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.settimeout(ANSWER_SECONDS)
            self._process = subprocess.Popen(
                # -P: what lies in the working directory is none of the modules that it imports.
                [sys.executable, "-P", "-m", "cellhouse.keepers.template", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control, self._ready = ours, False
        return ours

    async def fork(self, errand: Errand, listener: socket.socket) -> int:
        """A keeper, which listens there; its pid. UNAVAILABLE where there can't be one now, and what it can't have."""
        return await asyncio.to_thread(self._fork_or_again, errand, listener)

    def _fork_or_again(self, errand: Errand, listener: socket.socket) -> int:
        with self._lock:
            for again in (True, False):
                try:
                    return self._fork(self._start(), errand, listener)
                except OSError as error:
                    self._end()
                    if not again:
                        raise Unavailable(
                            f"no keeper could be started ({error}); try again",
                            reason=CallReason.TRY_AGAIN,
                        ) from error
        raise AssertionError("unreachable")

    def _fork(self, control: socket.socket, errand: Errand, listener: socket.socket) -> int:
        self._await_ready(control)
        socket.send_fds(control, [errand.to_wire()], [listener.fileno()])
        answer = self._answer(control)
        if isinstance(error := answer.get("error"), dict):
            raise error_from_wire(error)
        pid = answer.get("pid")
        if not isinstance(pid, int):
            raise OSError(f"the template says: {answer.get('failed', answer)}")
        return pid

    def _await_ready(self, control: socket.socket) -> None:
        if not self._ready:
            self._ready = self._answer(control).get("ready") is True

    @staticmethod
    def _answer(control: socket.socket) -> dict[str, object]:
        data = control.recv(_ANSWER_BYTES)
        if not data:
            raise ConnectionResetError("the process that starts keepers has ended")
        answer = json.loads(data)
        return answer if isinstance(answer, dict) else {}

    def close(self) -> None:
        """End it. What it has forked goes on."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    @property
    def pid(self) -> int | None:
        """Of the process, where there is one."""
        return self._process.pid if self._process is not None else None
