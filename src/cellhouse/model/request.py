"""ExecuteCodeRequest: what is asked for, and the rules that it must keep."""

import hashlib
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, ValidationError

from cellhouse.model.enums import CallReason
from cellhouse.model.errors import InvalidArgument
from cellhouse.model.limits import OUTPUT_LIMIT_MAX, SessionLimits
from cellhouse.model.names import RuntimeName, SessionName, check_execution_id
from cellhouse.model.patterns import Patterns
from cellhouse.model.wire import Wire, proto3

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_DEFAULT_LIMITS: Final = SessionLimits()

# Nothing is guessed: "yes" is no bool, and "5" no number of seconds. Bounds are for the schema only, since
# `check` judges them with a message that helps.
StrictSeconds = Annotated[float, Field(strict=True, json_schema_extra={"exclusiveMinimum": 0})]
StrictBool = Annotated[bool, Field(strict=True)]
OutputLimit = Annotated[
    int, Field(strict=True, json_schema_extra={"minimum": 1, "maximum": OUTPUT_LIMIT_MAX})
]
Variables = Annotated[
    dict[str, str],
    Field(json_schema_extra={"propertyNames": {"pattern": f"^{_VARIABLE.pattern}$"}}),
]


class ExecuteCodeRequest(Wire):
    """One execution that is asked for: code, and exactly one of session and runtime."""

    model_config = ConfigDict(
        allow_inf_nan=True,  # `check` refuses them and names the field
        json_schema_extra={"oneOf": [{"required": ["session"]}, {"required": ["runtime"]}]},
    )

    code: Annotated[str, proto3] = Field("", description="The code to run.")
    session: str | None = Field(
        None, description="runtimes/{runtime}/sessions/{session}, created on first use; variables stay in it."
    )
    runtime: str | None = Field(None, description="runtimes/{runtime}: runs in a new session of it.")
    execution_id: Annotated[str, proto3] = Field(
        "",
        description="Your own id for this execution, such as a UUID. A repeat with it never runs the code twice.",
        json_schema_extra={"pattern": r"^[A-Za-z0-9._~-]{0,128}$"},
    )
    execution_timeout: StrictSeconds | None = Field(
        None,
        description="Seconds the code may run, from its start; then it is interrupted, and killed if need be.",
    )
    wait_timeout: StrictSeconds | None = Field(
        None, description="Seconds this call may wait; the code runs on, and the same call waits again."
    )
    output_limit: OutputLimit | None = Field(
        None, description="Characters that are shown of each of stdout, stderr and result."
    )
    store_history: StrictBool = Field(True, description="Whether the code counts as In[N] of the session.")
    allow_stdin: StrictBool = Field(False, description="Whether the code may ask for input.")
    environment: Variables | None = Field(None, description="Environment variables for this execution only.")

    mint: Patterns | None = Field(
        None,
        description="Patterns of files to put into the artifact store, in a runtime whose minting is `listed`.",
    )

    if not TYPE_CHECKING:  # a type checker keeps the signature made of the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidArgument.of_validation("executeCode", error) from None

    @classmethod
    def from_wire(cls, obj: Any) -> Self:
        """Reads a JSON-ready object; InvalidArgument names the field. `check` is still to be called."""
        if not isinstance(obj, dict):
            raise InvalidArgument.of_field(
                "executeCode", "the request must be a JSON object with code and a target"
            )
        present = {key: value for key, value in obj.items() if isinstance(key, str) and value is not None}
        return cls(**present)

    @classmethod
    def from_json(cls, data: str | bytes) -> Self:
        """Reads JSON text; InvalidArgument where it is none."""
        try:
            return super().from_json(data)
        except ValueError as error:
            raise InvalidArgument.of_field("executeCode", f"the request is no JSON: {error}") from None

    @property
    def code_sha256(self) -> str:
        """SHA-256 of the code's UTF-8, lower-case hex: what makes a repeat the same execution."""
        return hashlib.sha256(self.code.encode()).hexdigest()

    def check(self, limits: SessionLimits = _DEFAULT_LIMITS) -> SessionName | RuntimeName:
        """Holds the request against every rule and returns its target. InvalidArgument names the field."""
        target = self.validate_target()
        self.validate_code(limits)
        self.validate_timeouts()
        self.validate_output_limit()
        self.validate_environment(limits)
        return target

    def validate_target(self) -> SessionName | RuntimeName:
        """The one target, and a good executionId where there is one."""
        if self.execution_id:
            check_execution_id(self.execution_id)
        if self.session and self.runtime:
            raise InvalidArgument.of_field(
                "session",
                "both session and runtime are set; give exactly one",
                reason=CallReason.INVALID_TARGET,
            )
        if self.session:
            return SessionName.parse(self.session)
        if self.runtime:
            return RuntimeName.parse(self.runtime)
        raise InvalidArgument.of_field(
            "session",
            "neither session nor runtime is set; give exactly one",
            reason=CallReason.INVALID_TARGET,
        )

    def validate_code(self, limits: SessionLimits = _DEFAULT_LIMITS) -> None:
        try:
            size = len(self.code.encode())
        except UnicodeEncodeError as error:
            raise InvalidArgument.of_field(
                "code",
                f"character {error.start} is a lone surrogate, which no UTF-8 can hold; send whole characters",
            ) from None
        if size > limits.code_bytes:
            raise InvalidArgument.of_field(
                "code",
                f"{size} bytes of UTF-8 are over the limit of {limits.code_bytes} (code_bytes); "
                "put the data into a file of /content and read it",
            )

    def validate_timeouts(self) -> None:
        for field, value in (
            ("executionTimeout", self.execution_timeout),
            ("waitTimeout", self.wait_timeout),
        ):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidArgument.of_field(
                    field, f"{value} is no time; it takes seconds above 0, or is left out for the default"
                )

    def validate_output_limit(self) -> None:
        if self.output_limit is not None and not 1 <= self.output_limit <= OUTPUT_LIMIT_MAX:
            raise InvalidArgument.of_field(
                "outputLimit",
                f"{self.output_limit} is out of bounds; it takes 1 to {OUTPUT_LIMIT_MAX} characters",
            )

    def validate_environment(self, limits: SessionLimits = _DEFAULT_LIMITS) -> None:
        environment = self.environment or {}
        if len(environment) > limits.environment_variables:
            raise InvalidArgument.of_field(
                "environment",
                f"{len(environment)} variables are over the limit of {limits.environment_variables} "
                "(environment_variables); put them into a file of /content",
            )
        size = 0
        for name, value in environment.items():
            if not _VARIABLE.fullmatch(name):
                raise InvalidArgument.of_field(
                    "environment",
                    f"{name[:80]!a} is no name of a variable; it takes 1 to 128 letters, digits and '_', no digit first",
                )
            if "\0" in value:
                raise InvalidArgument.of_field(
                    "environment", f"the value of {name} holds a NUL, which no variable can"
                )
            try:
                size += len(name) + len(value.encode()) + 2
            except UnicodeEncodeError:
                raise InvalidArgument.of_field(
                    "environment", f"the value of {name} holds a lone surrogate; send whole characters"
                ) from None
        if size > limits.environment_bytes:
            raise InvalidArgument.of_field(
                "environment",
                f"{size} bytes are over the limit of {limits.environment_bytes} (environment_bytes); "
                "put the data into a file of /content",
            )
