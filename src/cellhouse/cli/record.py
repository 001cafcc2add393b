"""`cellhouse show`: one execution, from a service or from a state directory."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cellhouse.cli.service import OK, Json, Url, exit_with, print_json, print_table, read_name, with_service
from cellhouse.cli.show import file_text, size_text, tame
from cellhouse.house import House
from cellhouse.model import ExecuteCodeResult, ExecutionName, InvalidArgument, NotFound
from cellhouse.runtime.state import state_root

if TYPE_CHECKING:
    from cellhouse.client import AsyncClient  # httpx is slow to load, and not for who only runs some code

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Without --url: the state directory of a house that is not running.",
    ),
]


def show(
    name: Annotated[str, typer.Argument(metavar="RUNTIME/SESSION/EXECUTION")],
    url: Url = None,
    json: Json = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Without --url: the state directory of a house that is not running."
        ),
    ] = None,
) -> None:
    """Show an execution: its end or where it stands, what it printed, what it made.

    Without --url it is read from a state directory: --state-dir, else that of `cellhouse serve`. `cellhouse run` tells the one
    that it used.
    """
    if url and state_dir is None:

        async def remote(client: "AsyncClient") -> int:
            return _shown(await client.get_execution(_name(name)), json)

        with_service("show", url, remote)

    async def local() -> int:
        execution = read_name(name, ExecutionName)
        async with House(recorded_in(state_dir, execution.runtime)) as house:
            try:
                result = await house.get_execution(str(execution))
            except NotFound as error:
                raise NotFound(
                    f"{error.message} in {house.state_dir}; name the directory that `cellhouse run` told with --state-dir, or a "
                    "service with --url",
                    reason=error.reason,
                ) from None
            return _shown(result, json)

    exit_with("show", local)


def recorded_in(state_dir: Path | None, runtime: str) -> Path:
    """The state directory to read records of a runtime from: its keeper's, where it had one. INVALID_ARGUMENT where there are none."""
    from cellhouse.keepers.place import KEEPERS  # slow to load, and not for who only runs some code

    directory = state_dir or state_root()
    kept = directory / KEEPERS / runtime
    if (kept / "journal").is_dir():
        return kept
    if not (directory / "journal").is_dir():
        raise InvalidArgument.of_field(
            "--state-dir", f"{directory} holds no records; name a state directory, or a service with --url"
        )
    return directory


def _name(text: str) -> str:
    return str(read_name(text, ExecutionName))


def _shown(result: ExecuteCodeResult, json: bool) -> int:
    if json:
        print_json(result.to_wire())
        return OK
    print_table(("", ""), _facts(result))
    for title, text in (("stdout", result.stdout), ("stderr", result.stderr), ("result", result.result)):
        if text:
            _text(title, text)
    error = result.execution_error
    if error is not None:
        _text("error", "\n".join(error.traceback) or f"{error.name}: {error.value}")
    return OK


def _facts(result: ExecuteCodeResult) -> list[tuple[str, str]]:
    facts = [("execution", result.execution), ("state", f"{result.state}")]
    if result.outcome is not None:
        facts.append(("outcome", f"{result.outcome}"))
    if result.outcome_info is not None:
        figures = ", ".join(f"{key} {value}" for key, value in result.outcome_info.metadata.items())
        facts.append(("cause", f"{result.outcome_info.reason}{f' ({figures})' if figures else ''}"))
    if result.session_state is not None:
        facts.append(("session", f"{result.session_state}"))
    facts += [
        (what, time) for what, time in (("started", result.start_time), ("ended", result.end_time)) if time
    ]
    for output in result.rich_outputs:
        size = output.error_info.reason if output.error_info else size_text(output.size_bytes or 0)
        facts.append((f"output {output.index}", f"{', '.join(output.mime_types)}, {size}"))
    facts += [("file", file_text(each)) for each in result.artifacts or ()]
    facts += [("notice", f"{each.reason}: {each.text}") for each in result.notices or ()]
    if result.output_truncated:
        facts.append(
            (
                "shortened",
                "the texts below are not whole; cellhouse logs --text stdout (or stderr) prints one whole",
            )
        )
    return facts


def _text(title: str, text: str) -> None:
    sys.stdout.write(f"\n{title}:\n{tame(text)[0]}" + ("" if text.endswith("\n") else "\n"))
