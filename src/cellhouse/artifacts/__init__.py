"""Artifacts: bytes that outlive their runtime, kept under minted refs, each seen by its own scope only."""

from cellhouse.artifacts.bound import BoundStore
from cellhouse.artifacts.checks import KIND_FILE, KIND_INPUT, OCTETS, Facts
from cellhouse.artifacts.handover import HandedOver, Unfit, is_sealed
from cellhouse.artifacts.local import LocalStore
from cellhouse.artifacts.store import ArtifactReading, ArtifactStore, Data, Scope

__all__ = [
    "KIND_FILE",
    "KIND_INPUT",
    "OCTETS",
    "ArtifactReading",
    "ArtifactStore",
    "BoundStore",
    "Data",
    "Facts",
    "HandedOver",
    "LocalStore",
    "Scope",
    "Unfit",
    "is_sealed",
]
