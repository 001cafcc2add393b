"""Servers outside of every sandbox: an index for pip, a repository for git, files; over TLS and without."""

import http.server
import io
import ssl
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

WHEEL = "tiny_thing-1.0-py3-none-any.whl"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that ends a handshake is what some tests are about."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])


def write_site(root: Path) -> None:
    """What the servers give out."""
    (root / "simple" / "tiny-thing").mkdir(parents=True)
    (root / "simple" / "tiny-thing" / "index.html").write_text(f'<a href="/{WHEEL}">{WHEEL}</a>')
    (root / WHEEL).write_bytes(_wheel())
    (root / "hello.txt").write_text("hello from outside")
    (root / "big.bin").write_bytes(bytes(range(256)) * 4_096)
    work = root / "work"
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "init.defaultBranch=main")
    for command in (
        (*git, "init", "-q", f"{work}"),
        (*git, "-C", f"{work}", "commit", "-q", "--allow-empty", "-m", "the first"),
        (*git, "clone", "-q", "--bare", f"{work}", f"{root / 'repo.git'}"),
        (*git, "-C", f"{root / 'repo.git'}", "update-server-info"),
    ):
        subprocess.run(command, check=True, capture_output=True)


def _wheel() -> bytes:
    made = io.BytesIO()
    info = "tiny_thing-1.0.dist-info"
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("tiny_thing.py", "ANSWER = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
    return made.getvalue()


@contextmanager
def served(root: Path, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The directory on a port of the loopback."""
    handler = partial(Quiet, directory=str(root))
    server = Server(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
