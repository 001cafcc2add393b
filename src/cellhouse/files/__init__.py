"""Files: a hostile directory held, read and watched safely, whole files put in place at once, records that survive a crash."""

from cellhouse.files.atomic import sync_dir, write_atomic
from cellhouse.files.digests import FileDigest
from cellhouse.files.errors import (
    DiskFull,
    FileBusy,
    FileError,
    FileTooLarge,
    HostilePath,
    NotRecords,
    NotRegularFile,
    PathEscapes,
    RecordTooLong,
    disk_full_named,
    is_disk_full,
    takes_nothing,
)
from cellhouse.files.hostile import HostileDir, Scan, ScanEntry, kind_of
from cellhouse.files.incoming import Incoming, Written, write_all
from cellhouse.files.leases import open_for_writing
from cellhouse.files.media import HEAD_BYTES, media_type
from cellhouse.files.names import escape_name, exact_name, relative_path, unescape_name
from cellhouse.files.records import (
    DEFAULT_RESERVE,
    HEADER_BYTES,
    MAGIC,
    MAX_RECORD_BYTES,
    RecordReader,
    RecordWriter,
    frame,
    read_records,
    valid_end,
)
from cellhouse.files.tracking import Change, Changes, FileMark, Tracker, TrackLimits

__all__ = [
    "DEFAULT_RESERVE",
    "HEADER_BYTES",
    "HEAD_BYTES",
    "MAGIC",
    "MAX_RECORD_BYTES",
    "Change",
    "Changes",
    "DiskFull",
    "FileBusy",
    "FileDigest",
    "FileError",
    "FileMark",
    "FileTooLarge",
    "HostileDir",
    "HostilePath",
    "Incoming",
    "NotRecords",
    "NotRegularFile",
    "PathEscapes",
    "RecordReader",
    "RecordTooLong",
    "RecordWriter",
    "Scan",
    "ScanEntry",
    "TrackLimits",
    "Tracker",
    "Written",
    "disk_full_named",
    "escape_name",
    "exact_name",
    "frame",
    "is_disk_full",
    "kind_of",
    "media_type",
    "open_for_writing",
    "read_records",
    "relative_path",
    "sync_dir",
    "takes_nothing",
    "unescape_name",
    "valid_end",
    "write_all",
    "write_atomic",
]
