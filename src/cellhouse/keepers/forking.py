"""The service's side of the template: starts it, asks it for keepers, starts another where it has died."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from cellhouse.model import Unavailable
from cellhouse.model.enums import CallReason

ANSWER_SECONDS: Final = 60.0
_ANSWER_BYTES: Final = 4_096


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

    async def fork(self, directory: Path, listener: socket.socket) -> int:
        """A keeper for this directory, which listens there; its pid. UNAVAILABLE where there can't be one now."""
        return await asyncio.to_thread(self._fork_or_again, directory, listener)

    def _fork_or_again(self, directory: Path, listener: socket.socket) -> int:
        with self._lock:
            for again in (True, False):
                try:
                    return self._fork(self._start(), directory, listener)
                except OSError as error:
                    self._end()
                    if not again:
                        raise Unavailable(
                            f"no keeper could be started ({error}); try again",
                            reason=CallReason.TRY_AGAIN,
                        ) from error
        raise AssertionError("unreachable")

    def _fork(self, control: socket.socket, directory: Path, listener: socket.socket) -> int:
        self._await_ready(control)
        request = json.dumps({"directory": os.fspath(directory)}).encode()
        socket.send_fds(control, [request], [listener.fileno()])
        answer = self._answer(control)
        pid = answer.get("pid")
        if not isinstance(pid, int):
            raise OSError(f"the template says: {answer.get('error', answer)}")
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
