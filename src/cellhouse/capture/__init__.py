"""Capture: folds the messages of one execution into events, bounded text, bundles and a ledger."""

from cellhouse.capture.displays import DisplayRegistry
from cellhouse.capture.late import LateRecorder
from cellhouse.capture.recorder import Captured, Recorder
from cellhouse.capture.sink import Sink, SpillWriter, TextName
from cellhouse.capture.store import OUTPUTS_DIR, file_path

__all__ = [
    "OUTPUTS_DIR",
    "Captured",
    "DisplayRegistry",
    "LateRecorder",
    "Recorder",
    "Sink",
    "SpillWriter",
    "TextName",
    "file_path",
]
