"""What `cellhouse.model` makes public is named once, and held here."""

import ast
from pathlib import Path

import cellhouse
from cellhouse import model

PUBLIC = """
DOMAIN EXECUTION_ID_MAX GIB ID_MAX INPUTS_DIR INPUTS_VARIABLE INT64_MAX JSON_SCHEMA_DIALECT KIB
MESSAGE_BYTES MIB OUTPUT_LIMIT_MAX AlreadyExists Artifact ArtifactEvent ArtifactEviction
ArtifactEvictionList ArtifactLimits ArtifactList ArtifactsOmitted Base64 BrokenKernel CallReason
CaptureLimits CellhouseError Cleared ClearedEvent Clock CodeArtifact CodeDisplay CodeResult
CodeTruncated DeadlineExceeded DisplayEvent DisplayUpdatedEvent DropReason EndReason Enforcement
EnvironmentOffer ErrorEvent ErrorInfo Event ExecuteCodeRequest ExecuteCodeResult ExecutionCode
ExecutionError ExecutionList ExecutionName ExecutionState ExecutionSummary FailedPrecondition FileEntry
FileList FileReason FileWritten FinishedEvent HeaderRule InputRequestedEvent Int32 Int64 Internal
InvalidArgument Isolation IsolationLayer IsolationOffer Late LateEvent LimitHit LimitName LimitRange
LimitReport Minting NetworkOffer NetworkPolicy NetworkRefusal NetworkReport NetworkSettings NotFound
Notice NoticeEvent NoticeReason Outcome PermissionDenied QueuedEvent ResourceExhausted ResultEvent
RetentionLimits RichOutput Runtime RuntimeLimits RuntimeList RuntimeName RuntimeSpec RuntimeSpecs
RuntimeStatus Session SessionLimits SessionList SessionLogEntry SessionLogPage SessionName SessionState
SessionStatus StagedInput StagedInputs StartedEvent StoredArtifact StreamEvent StreamName StreamSource
SystemClock TailFrame Text TextCut TextPart Truncation Unauthenticated Unavailable Usage WallLimits Wire
check_artifact_id check_execution_id check_id check_input check_input_name error_from_wire
event_json_schema input_file_name inputs_variable matches_any mint_artifact_id mint_id mint_uid
parse_event parse_rfc3339 plain_text proto3 rfc3339 wire_schema
"""


def test_the_public_names_are_these_and_exist() -> None:
    assert model.__all__ == PUBLIC.split()
    assert all(hasattr(model, name) for name in model.__all__)


def test_each_public_name_is_sorted_and_named_once() -> None:
    assert len(set(model.__all__)) == len(model.__all__)


def test_what_the_package_imports_is_what_it_names() -> None:
    tree = ast.parse(Path(model.__file__).read_text(encoding="utf-8"))
    imported = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(imported) == sorted(model.__all__)


def test_every_class_of_a_document_is_public() -> None:
    def below(cls: type) -> set[type]:
        subclasses: list[type] = cls.__subclasses__()
        return {cls}.union(*map(below, subclasses))

    ours = {
        cls.__name__
        for cls in below(model.Wire) | below(model.CellhouseError)
        if cls.__module__.startswith("cellhouse.model.")
    }
    assert ours - set(model.__all__) == {"Numbered"}


def test_the_package_has_a_version_and_types() -> None:
    assert cellhouse.__version__ == "0.1.0"
    assert (Path(cellhouse.__file__).parent / "py.typed").is_file()
