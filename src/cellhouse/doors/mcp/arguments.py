"""The arguments of each tool: their names as in REST, their bounds, and clear words where they don't fit."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from cellhouse.doors.mcp.place import TextName
from cellhouse.doors.mcp.schemas import input_schema
from cellhouse.model import InvalidArgument, RuntimeSpec, Wire
from cellhouse.model.request import StrictSeconds

TEXT_BYTES: Final = 8_000
"""Of a page of text where nothing else is asked for."""
TEXT_MAX: Final = 65_536
IMAGE_BYTES: Final = 256 << 10
IMAGE_MAX: Final = 4 << 20
NAMED: Final = 20
"""Arguments that are named in an error, at most."""


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("it is a bool; it takes a whole number")
    return value


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} is a lone surrogate, which no UTF-8 can hold; send whole characters"
        ) from None
    return value


Words = Annotated[str, AfterValidator(_encodable)]
Count = Annotated[int, BeforeValidator(_no_bool)]
RuntimeArgument = Annotated[Words, Field(description="runtimes/{runtime}")]
SessionArgument = Annotated[Words, Field(description="runtimes/{runtime}/sessions/{session}")]
ExecutionArgument = Annotated[
    Words,
    Field(
        description="runtimes/{runtime}/sessions/{session}/executions/{execution}, as a result tells it in `execution`."
    ),
]
WaitSeconds = Annotated[StrictSeconds, Field(description="Seconds that this call may wait.")]
PathArgument = Annotated[Words, Field(description="Relative to /content, such as data/table.csv.")]


class Arguments(Wire):
    """What every tool's arguments are read by."""

    @classmethod
    def read(cls, tool: str, given: dict[str, Any] | None) -> Self:
        """INVALID_ARGUMENT names the argument, what was wrong with it and what the tool takes."""
        present = {name: value for name, value in (given or {}).items() if value is not None}
        taken = {field.alias or name for name, field in cls.model_fields.items()}
        if unknown := [name for name in present if name not in taken]:
            rule = f"{tool} takes {', '.join(sorted(taken)) or 'no arguments'}"
            raise InvalidArgument.of_field(
                unknown[0][:64], f"there is no such argument; {rule}"
            ).of_violations((name[:64], rule) for name in unknown[:NAMED])
        try:
            return cls.from_wire(present)
        except ValidationError as error:
            raise InvalidArgument.of_validation(tool, error) from None

    @classmethod
    def taken(cls) -> dict[str, Any]:
        return input_schema(cls)


class Nothing(Arguments):
    """No arguments."""


class Pages(Arguments):
    """Which page of a list."""

    page_size: Annotated[
        Count, Field(ge=0, le=1_000, description="Entries of a page; 0 leaves it to the service.")
    ] = 0
    page_token: Annotated[Words, Field(description="nextPageToken of the page before.")] = ""


class CreateRuntime(Arguments):
    runtime_id: Annotated[
        Words | None,
        Field(
            description="Its id: 1 to 63 lower-case letters, digits and hyphens, a letter first. One is made where there is none."
        ),
    ] = None
    request_id: Annotated[
        Words | None,
        Field(
            description="Your own id of this call, such as a UUID: a repeat with it makes no second runtime."
        ),
    ] = None
    runtime: Annotated[RuntimeSpec | None, Field(description="What it is to be; see list_runtime_specs.")] = (
        None
    )


class OfRuntime(Arguments):
    runtime: RuntimeArgument


class ListSessions(Pages):
    runtime: RuntimeArgument


class OfSession(Arguments):
    session: SessionArgument


class ExecuteCode(Arguments):
    code: Annotated[str, Field(description="The code to run, like a notebook cell.")]
    session: Annotated[
        str | None,
        Field(
            description="runtimes/{runtime}/sessions/{session}: made on first use, and its variables stay. Either this or runtime."
        ),
    ] = None
    runtime: Annotated[
        str | None,
        Field(
            description="runtimes/{runtime}: runs in a new session of it, which the result names. Either this or session."
        ),
    ] = None
    execution_id: Annotated[
        str,
        Field(
            description="Your own id of this execution, such as a UUID. A repeat of the call with it never runs the code twice: "
            "it waits for the same execution, or gets its result."
        ),
    ] = ""
    execution_timeout: Annotated[
        StrictSeconds | None,
        Field(
            description="Seconds that the code may run; then it is interrupted, and killed if need be. No limit by default."
        ),
    ] = None
    wait_timeout: Annotated[
        StrictSeconds | None,
        Field(description="Seconds that this call may wait, 50 by default. The code runs on."),
    ] = None


class GetExecution(Arguments):
    execution: ExecutionArgument
    wait_timeout: Annotated[
        StrictSeconds | None,
        Field(description="Seconds to wait for its end; the snapshot of this moment where it is left out."),
    ] = None


class ReadOutput(Arguments):
    execution: ExecutionArgument
    stream: Annotated[TextName, Field(description="Which text.")]
    offset: Annotated[
        Count | None,
        Field(ge=0, le=2**53, description="The first byte, of the UTF-8 of the whole text; 0 by default."),
    ] = None
    limit: Annotated[
        Count | None, Field(ge=1, le=TEXT_MAX, description=f"Bytes to read, {TEXT_BYTES} by default.")
    ] = None
    tail: Annotated[
        Count | None,
        Field(ge=1, le=TEXT_MAX, description="The last so many bytes, instead of offset and limit."),
    ] = None


class ReadRichOutput(Arguments):
    execution: ExecutionArgument
    index: Annotated[Count, Field(ge=0, le=2**31 - 1, description="Its index in richOutputs.")]
    mime_type: Annotated[
        Words | None,
        Field(description="One of its mimeTypes; an image where it has one, else the most readable text."),
    ] = None
    max_bytes: Annotated[
        Count | None,
        Field(
            ge=256,
            le=IMAGE_MAX,
            description=f"Bytes of the answer: {IMAGE_BYTES} by default for an image, which is scaled down to fit, "
            f"{TEXT_BYTES} for text, which is cut.",
        ),
    ] = None


class ListFiles(Arguments):
    runtime: RuntimeArgument
    path: Annotated[
        Words, Field(description="A directory, relative to /content; /content itself by default.")
    ] = ""
    recursive: Annotated[bool, Field(strict=True, description="What is below it, too.")] = False


class ReadFile(Arguments):
    runtime: RuntimeArgument
    path: PathArgument
    offset: Annotated[Count, Field(ge=0, le=2**53, description="The first byte to read.")] = 0
    limit: Annotated[Count, Field(ge=1, le=TEXT_MAX, description="Bytes to read.")] = TEXT_BYTES


class WriteFile(Arguments):
    runtime: RuntimeArgument
    path: PathArgument
    text: Annotated[Words | None, Field(description="What it is to hold, as text. Either this or data.")] = (
        None
    )
    data: Annotated[str | None, Field(description="What it is to hold, as base64. Either this or text.")] = (
        None
    )
