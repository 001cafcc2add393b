"""Starts ipykernel so that it loses nothing that it can be kept from losing; runs inside the walls.

Standard library and the kernel environment's ipykernel only. Each assumption about ipykernel or IPython
is checked where it is used: where it no longer holds, the kernel runs as it comes.
"""

import contextlib
import os
import sys
import threading
import warnings

STREAM_CHARS = 65_536
"""One stream message carries at most this much text, so that whoever reads it needs little memory."""
FLUSH_SECONDS = 0.05


def main() -> None:
    # Python puts this file's directory first; a cell's imports must not see it, nor ours see the cell's.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") not in (here, os.getcwd())]
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # half of a start, and no debugger is offered
    warnings.filterwarnings("ignore", message="Message serialization failed")

    import zmq
    from ipykernel import iostream
    from ipykernel.kernelapp import IPKernelApp
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    if hasattr(InteractiveShell, "_tee"):
        # IPython 9 keeps every printed string for ever, through a wrapper in Python round each write.
        InteractiveShell._tee = lambda self, channel: contextlib.nullcontext()
    _cut_stream_messages(iostream.OutStream)
    _send_at_once_in_its_thread(iostream.IOPubThread)
    iostream.OutStream.flush_interval = FLUSH_SECONDS

    class App(IPKernelApp):  # type: ignore[misc, no-any-unimported]
        def _bind_socket(self, socket, port):  # type: ignore[no-untyped-def]
            if socket.socket_type == zmq.XPUB:
                # A full queue holds the writer back; the default is to drop without a word.
                socket.setsockopt(zmq.XPUB_NODROP, 1)
            return super()._bind_socket(socket, port)

    config = Config()
    config.IPKernelApp.capture_fd_output = False  # the service reads descriptors 1 and 2 itself
    config.IPKernelApp.quiet = True
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    app = App.instance(config=config)
    app.initialize(sys.argv[1:])
    app.start()


def _cut_stream_messages(stream_class: type) -> None:
    flush_buffers = getattr(stream_class, "_flush_buffers", None)
    if flush_buffers is None:
        return

    def cut(self):  # type: ignore[no-untyped-def]
        for parent, text in flush_buffers(self):
            for start in range(0, len(text), STREAM_CHARS):
                yield parent, text[start : start + STREAM_CHARS]

    def fileno(self):  # type: ignore[no-untyped-def]
        return {"stdout": 1, "stderr": 2}[self.name]

    stream_class._flush_buffers = cut  # type: ignore[attr-defined]
    stream_class.fileno = fileno  # type: ignore[attr-defined]


def _send_at_once_in_its_thread(thread_class: type) -> None:
    """The publishing thread asks itself to send, through a pipe of bounded length: enough messages from one
    flush and it waits for itself for ever. What runs in that thread already can be sent there and then."""
    schedule_send = getattr(thread_class, "send_multipart", None)
    if schedule_send is None or not hasattr(thread_class, "_really_send"):
        return

    def send_multipart(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        if threading.current_thread() is self.thread:
            self._really_send(*args, **kwargs)
        else:
            schedule_send(self, *args, **kwargs)

    thread_class.send_multipart = send_multipart  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
