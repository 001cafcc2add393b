"""Where a kernel and the service meet: a directory of this kernel alone, with its connection file and its sockets."""

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cellhouse.files import FileError, HostileDir


class NotASocket(Exception):
    """Something else lies where a socket of the kernel belongs."""


class MeetingPlace:
    """`host_dir` is the directory as the service sees it, `inside_dir` the same place as the kernel sees it.

    Held by descriptor once it is made: whatever the kernel puts in its place later is not followed.
    """

    def __init__(self, host_dir: Path, inside_dir: str) -> None:
        self._host_dir, self._inside_dir = host_dir, inside_dir
        self._fd = -1

    def make(self, ports: Mapping[str, int], key: str, kernel_name: str) -> str:
        """Make it with a connection file for `ports` (name of the channel: number); that file's path inside."""
        self._host_dir.mkdir(mode=0o700, parents=True)
        self._fd = os.open(self._host_dir, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        owner = self._owner()
        if owner is not None:
            os.chown(".", *owner, dir_fd=self._fd)
        document = {
            "transport": "ipc",
            "ip": f"{self._inside_dir}/s",
            **{f"{name}_port": number for name, number in ports.items()},
            "key": key,
            "signature_scheme": "hmac-sha256",
            "kernel_name": kernel_name,
        }
        with contextlib.closing(HostileDir.open(self._host_dir, owner=owner)) as directory:
            directory.create("connection.json", [json.dumps(document).encode()], mode=0o600)
        return f"{self._inside_dir}/connection.json"

    def _owner(self) -> tuple[int, int] | None:
        """Whose the kernel's process is, by the directory that it was given; None where that is ours."""
        found = self._host_dir.parent.stat()
        return None if found.st_uid == os.geteuid() else (found.st_uid, found.st_gid)

    def open_socket(self, port: int) -> int | None:
        """A descriptor of the socket with this number, to be connected through and closed by the caller.

        None where there is nothing yet. Raises NotASocket; a link is never followed.
        """
        name = f"s-{port}"
        try:
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotASocket(f"put something else where its socket {name} belongs")
        return fd

    def remove(self) -> None:
        """Empty it and take it away, where it was made; what resists goes with the runtime."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError, FileError):
            with contextlib.closing(HostileDir.open(f"/proc/self/fd/{self._fd}/.")) as directory:
                directory.clear()
            os.rmdir(self._host_dir)
        os.close(self._fd)
        self._fd = -1
