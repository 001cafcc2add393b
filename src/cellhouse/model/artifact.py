"""What an artifact store tells: stored artifacts, pages of them, what was evicted; and where inputs were put."""

from typing import Annotated

from cellhouse.model.wire import Int64, Text, Wire, proto3


class StoredArtifact(Wire):
    """Bytes in an artifact store, and what is known of them."""

    # `art_` and 22 base-62 characters; minted, and nothing of the content is in it.
    ref: Text
    # What it is for: "file" (made by code), "input", or a word of the caller's.
    kind: Text
    media_type: Text
    bytes: Int64
    # Lower-case hex; held against the bytes whenever they are read.
    sha256: Text
    # For people: such as the name of the file.
    label: Annotated[Text, proto3] = ""
    # Name of the execution that made it.
    origin: Text | None = None
    # Refs of the artifacts that it was made from.
    parents: tuple[Text, ...] | None = None
    create_time: Text
    expire_time: Text | None = None


class ArtifactList(Wire):
    """A page of artifacts, newest first; without a token it is the last one."""

    artifacts: tuple[StoredArtifact, ...] = ()
    next_page_token: Annotated[Text, proto3] = ""


class ArtifactEviction(Wire):
    """That an artifact was evicted, when, and why: EXPIRED, AGE, BYTES or COUNT.

    INVALID and DAMAGED: its keeper had minted it, and what it handed over was not what it said, so it was never taken.
    """

    ref: Text
    kind: Text
    label: Annotated[Text, proto3] = ""
    bytes: Int64
    reason: Text
    create_time: Text
    evict_time: Text


class ArtifactEvictionList(Wire):
    """A page of evictions, newest first; without a token it is the last one."""

    evictions: tuple[ArtifactEviction, ...] = ()
    next_page_token: Annotated[Text, proto3] = ""


class StagedInputs(Wire):
    """Where inputs stand: name to absolute path inside the sandbox."""

    paths: dict[Text, Text]
