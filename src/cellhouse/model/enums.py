"""The closed sets of words: outcomes, states, and the reasons that are given for things."""

from enum import StrEnum


class Outcome(StrEnum):
    """How an execution ended. The set is closed (contract, section 3)."""

    OK = "OK"
    ERROR = "ERROR"
    INTERRUPTED = "INTERRUPTED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    RESOURCE_KILLED = "RESOURCE_KILLED"
    EXITED = "EXITED"
    KERNEL_DIED = "KERNEL_DIED"
    SESSION_DELETED = "SESSION_DELETED"
    RUNTIME_LOST = "RUNTIME_LOST"
    NEVER_STARTED = "NEVER_STARTED"


class ExecutionState(StrEnum):
    """Where an execution is on its way."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"


class SessionState(StrEnum):
    """What became of the session's variables when an execution ended."""

    PRESERVED = "PRESERVED"
    RESTORED = "RESTORED"
    RESET = "RESET"
    GONE = "GONE"


class SessionStatus(StrEnum):
    """What a session is doing now."""

    STARTING = "STARTING"
    IDLE = "IDLE"
    BUSY = "BUSY"
    DEAD = "DEAD"


class RuntimeStatus(StrEnum):
    """What a runtime is doing now."""

    STARTING = "STARTING"
    ACTIVE = "ACTIVE"
    CLOSING = "CLOSING"
    LOST = "LOST"


class DropReason(StrEnum):
    """Why a rich output has no bundle."""

    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    OUTPUT_BUDGET_EXCEEDED = "OUTPUT_BUDGET_EXCEEDED"
    TOO_MANY_OUTPUTS = "TOO_MANY_OUTPUTS"
    DISK_FULL = "DISK_FULL"
    WRITE_FAILED = "WRITE_FAILED"
    INVALID_OUTPUT = "INVALID_OUTPUT"
    OUTPUT_CLEARED = "OUTPUT_CLEARED"


class NoticeReason(StrEnum):
    """What a notice is about. Notices may get new reasons; a reader shows the text of one it doesn't know."""

    FRESH_KERNEL = "FRESH_KERNEL"
    OUTPUT_LOST = "OUTPUT_LOST"
    IOPUB_LOST = "IOPUB_LOST"
    REPLY_LOST = "REPLY_LOST"
    INTERRUPT_IGNORED = "INTERRUPT_IGNORED"
    UNKNOWN_DISPLAY = "UNKNOWN_DISPLAY"
    MALFORMED_MESSAGE = "MALFORMED_MESSAGE"
    EVENT_TEXT_LIMIT = "EVENT_TEXT_LIMIT"
    SPILL_LIMIT = "SPILL_LIMIT"
    RESULT_LIMIT = "RESULT_LIMIT"
    NOTICE_LIMIT = "NOTICE_LIMIT"
    DISK_FULL = "DISK_FULL"
    SET_NEXT_INPUT = "SET_NEXT_INPUT"
    INPUT_UNANSWERED = "INPUT_UNANSWERED"
    INPUT_REFUSED = "INPUT_REFUSED"
    FILES_NOT_LISTED = "FILES_NOT_LISTED"
    OPTION_NOT_SUPPORTED = "OPTION_NOT_SUPPORTED"


class EndReason(StrEnum):
    """The causes that `outcomeInfo` gives for an end that was not OK."""

    CODE_RAISED = "CODE_RAISED"
    INTERRUPT_REQUESTED = "INTERRUPT_REQUESTED"
    EXECUTION_TIMEOUT = "EXECUTION_TIMEOUT"
    MEMORY = "MEMORY"
    DISK = "DISK"
    PROCESSES = "PROCESSES"
    MESSAGE_SIZE = "MESSAGE_SIZE"
    KERNEL_EXITED = "KERNEL_EXITED"
    KERNEL_SIGNALLED = "KERNEL_SIGNALLED"
    KERNEL_LOST = "KERNEL_LOST"
    KERNEL_ABORTED = "KERNEL_ABORTED"
    KERNEL_START_FAILED = "KERNEL_START_FAILED"
    SESSION_RESET = "SESSION_RESET"
    SESSION_DELETED = "SESSION_DELETED"
    CANCELLED = "CANCELLED"
    RUNTIME_DELETED = "RUNTIME_DELETED"
    RUNTIME_LOST = "RUNTIME_LOST"
    OWNER_DIED = "OWNER_DIED"


class CallReason(StrEnum):
    """The reasons that an error of a call carries (contract, section 6)."""

    INVALID_FIELD = "INVALID_FIELD"
    INVALID_NAME = "INVALID_NAME"
    INVALID_TARGET = "INVALID_TARGET"
    NO_TOKEN = "NO_TOKEN"
    SCOPE_MISSING = "SCOPE_MISSING"
    NO_SUCH_RUNTIME = "NO_SUCH_RUNTIME"
    NO_SUCH_SESSION = "NO_SUCH_SESSION"
    NO_SUCH_EXECUTION = "NO_SUCH_EXECUTION"
    NO_SUCH_OUTPUT = "NO_SUCH_OUTPUT"
    NO_SUCH_ARTIFACT = "NO_SUCH_ARTIFACT"
    NO_SUCH_ENVIRONMENT = "NO_SUCH_ENVIRONMENT"
    NO_SUCH_KERNEL = "NO_SUCH_KERNEL"
    EVICTED = "EVICTED"
    RUNTIME_DELETED = "RUNTIME_DELETED"
    ID_TAKEN = "ID_TAKEN"
    EXECUTION_ID_REUSED = "EXECUTION_ID_REUSED"
    ISOLATION_UNAVAILABLE = "ISOLATION_UNAVAILABLE"
    LIMIT_UNAVAILABLE = "LIMIT_UNAVAILABLE"
    POLICY_UNAVAILABLE = "POLICY_UNAVAILABLE"
    NOT_WAITING_FOR_INPUT = "NOT_WAITING_FOR_INPUT"
    QUEUE_FULL = "QUEUE_FULL"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    RATE_EXCEEDED = "RATE_EXCEEDED"
    SERVER_DISK_FULL = "SERVER_DISK_FULL"
    SERVER_MEMORY_FULL = "SERVER_MEMORY_FULL"
    WAIT_TIMEOUT = "WAIT_TIMEOUT"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    TRY_AGAIN = "TRY_AGAIN"
    INTERNAL = "INTERNAL"


class Enforcement(StrEnum):
    """How a limit is held: exactly, by a watcher that may be late, or not at all."""

    EXACT = "exact"
    WATCHED = "watched"
    NONE = "none"
