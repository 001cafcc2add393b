"""Where a message or text goes whose execution has finished, or that belongs to none."""

from collections import OrderedDict

from cellhouse.capture import LateRecorder
from cellhouse.journal import ExecutionLog
from cellhouse.kernel import Died, KernelItem, Trouble
from cellhouse.messages import LongText, Message, RawText, text_chunks
from cellhouse.model import Late
from cellhouse.runtime.logs import logger
from cellhouse.runtime.session_log import SessionLog

_logger = logger()

NAMES = 16
NAME_CHARS = 256
"""MIME types that the session log names of one display, and characters of each."""
REMEMBERED = 256
"""Finished executions of a session whose late output is still told apart; older ones' goes to the session log."""


class LateRoutes:
    """Routes what no running execution claims: to the finished execution it names, else to the session log."""

    def __init__(self, session_log: SessionLog) -> None:
        self._routes: OrderedDict[str, tuple[LateRecorder, ExecutionLog]] = OrderedDict()
        self._log = session_log

    def add(self, uid: str, recorder: LateRecorder, log: ExecutionLog) -> None:
        self._routes[uid] = (recorder, log)
        log.release()
        if len(self._routes) > REMEMBERED:
            _, (_, oldest) = self._routes.popitem(last=False)
            oldest.seal()

    def late(self, uid: str) -> Late | None:
        """What background work of that execution produced since; None where nothing, or nothing is known."""
        route = self._routes.get(uid)
        return route[0].late if route else None

    def feed(self, item: KernelItem) -> None:
        match item:
            case Message():
                self._message(item)
            case RawText():
                self._raw(item)
            case Trouble():
                self._log.write(item.reason, item.text)
            case Died():
                how = f"signal {item.signal}" if item.signal is not None else f"status {item.exit_status}"
                self._log.write("died", f"the kernel's process ended with {how}")

    def clear(self) -> None:
        """The kernel is gone: nothing late can come any more."""
        while self._routes:
            _, (_, log) = self._routes.popitem(last=False)
            try:
                log.seal()
            except OSError:  # its end is on record: that costs nothing but what could not be written late
                _logger.exception("a log could not be closed well", execution=log.name)

    def _message(self, message: Message) -> None:
        if message.channel != "iopub" or message.msg_type in ("status", "execute_input"):
            return
        route = self._routes.get(message.parent_id)
        if route is None:
            if not message.msg_type.startswith("comm_"):
                text, omitted = _readable(message)
                self._log.write(message.msg_type, text, omitted_chars=omitted)
            return
        route[0].feed(message)
        route[1].release()

    def _raw(self, text: RawText) -> None:
        route = self._routes.get(text.parent_id) if text.parent_id else None
        if route is None:
            self._log.write(text.name, text.data.decode("utf-8", "replace"))
            return
        route[0].feed_raw(text)
        route[1].release()


def _readable(message: Message) -> tuple[str, int]:
    """What a reader makes of it: its text, and how many characters of it are left out."""
    content = message.content
    text = content.get("text")
    if isinstance(text, str | LongText):
        return _head("", text)
    if message.msg_type == "error":
        name, value = content.get("ename"), content.get("evalue")
        return _head(
            f"{name}: " if isinstance(name, str) else "", value if isinstance(value, LongText) else f"{value}"
        )
    if message.msg_type == "display_dropped":
        return f"{_names(content.get('mimeTypes'))}: dropped by the kernel as too large", 0
    data = content.get("data")
    if isinstance(data, dict):
        plain = data.get("text/plain", "")
        kinds = f"{_names(list(data))}: "
        return _head(kinds, plain) if isinstance(plain, str | LongText) else (kinds, 0)
    return f"{message.size} bytes", 0


def _names(names: object) -> str:
    """The first of some MIME types."""
    listed = names[:NAMES] if isinstance(names, list) else []
    return ", ".join(name[:NAME_CHARS] for name in listed if isinstance(name, str))


def _head(before: str, text: str | LongText) -> tuple[str, int]:
    """Of a long text, which may be all of a large message, the first part; the rest is counted."""
    chunks = text_chunks(text)
    return before + next(chunks, ""), sum(map(len, chunks))
