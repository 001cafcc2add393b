"""Bundles as files in the content directory, which belongs to hostile code: written whole or not at all."""

import errno
from typing import Final, NamedTuple

from cellhouse.capture.bundle import Bundle
from cellhouse.files import FileError, HostileDir, Written, is_disk_full
from cellhouse.model import CaptureLimits, DropReason, ErrorInfo

OUTPUTS_DIR: Final = ".dsm_outputs"
CONTENT_DIR: Final = "/content"


class Drop(NamedTuple):
    """Why an output has no bundle, with what figures many outputs share."""

    reason: DropReason
    metadata: tuple[tuple[str, str], ...] = ()

    def error_info(self, size: int) -> ErrorInfo:
        """`size` is what the bundle would have had; 0 where that is not known or nobody asks."""
        sized = {"sizeBytes": str(size)} if size else {}
        return ErrorInfo(reason=self.reason, metadata=sized | dict(self.metadata))


def refusal(limits: CaptureLimits, bundle: Bundle, others: int, others_bytes: int) -> Drop | None:
    """Why a bundle may not stand beside `others` of so many bytes; None where it may."""
    if not bundle.valid:
        return Drop(DropReason.INVALID_OUTPUT, (("cause", bundle.cause),))
    if bundle.dropped_above or bundle.size > limits.bundle_bytes:
        limit = bundle.dropped_above or limits.bundle_bytes
        return Drop(DropReason.OUTPUT_TOO_LARGE, (("limitBytes", str(limit)),))
    if others >= limits.written_outputs:
        return Drop(DropReason.TOO_MANY_OUTPUTS, (("limitOutputs", str(limits.written_outputs)),))
    if others_bytes + bundle.size > limits.bundles_bytes:
        return Drop(DropReason.OUTPUT_BUDGET_EXCEEDED, (("limitBytes", str(limits.bundles_bytes)),))
    return None


def _relative(uid: str, index: int) -> str:
    return f"{OUTPUTS_DIR}/{uid}/out-{index:03d}.json"


def file_path(uid: str, index: int) -> str:
    """The path as the code sees it, whatever the content directory is called outside."""
    return f"{CONTENT_DIR}/{_relative(uid, index)}"


class BundleStore:
    """The bundles of every execution that shares one content directory."""

    __slots__ = ("_content",)

    def __init__(self, content: HostileDir) -> None:
        self._content = content

    def write(self, uid: str, index: int, bundle: Bundle) -> Written | Drop:
        """Puts the file in place, or replaces it."""
        try:
            try:
                return self._content.create(_relative(uid, index), bundle.chunks())
            except FileNotFoundError:
                # The first bundle of this execution, or the code removed the directory.
                with self._content.subdir(f"{OUTPUTS_DIR}/{uid}", create=True):
                    return self._content.create(_relative(uid, index), bundle.chunks())
        except OSError as error:
            reason = DropReason.DISK_FULL if is_disk_full(error) else DropReason.WRITE_FAILED
            cause = errno.errorcode.get(error.errno or 0, "EIO")
        except FileError as error:
            reason, cause = DropReason.WRITE_FAILED, type(error).__name__
        return Drop(reason, (("cause", cause),))

    def remove(self, uid: str, index: int) -> bool:
        """Whether the file is gone. Where the code stands in the way, it stays."""
        try:
            self._content.unlink(_relative(uid, index))
        except FileNotFoundError:
            return True
        except (OSError, FileError):
            return False
        return True
