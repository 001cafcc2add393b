"""`cellhouse doctor`: what this machine can give, shown to a person or as one document."""

import asyncio
import os
import sys
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cellhouse.cli.config import ConfigFile, Set, load_or_exit
from cellhouse.cli.limits import SIZES
from cellhouse.cli.show import size_text, tame
from cellhouse.cli.signals import Signals
from cellhouse.doctor import (
    SECONDS,
    DoctorReport,
    LayerReport,
    LayerStatus,
    LevelReport,
    LevelStatus,
    LimitProbeReport,
    Patient,
    PolicyReport,
    ProbeOutcome,
    examine,
)
from cellhouse.model.units import in_units

OK, PROBLEMS, OTHER = 0, 1, 3
MOST_SECONDS = 600.0
WIDTH = 110
"""Columns where standard output is no terminal."""
FIRST_CHARS = 100
_STYLES = {
    LayerStatus.IN_FORCE: "green",
    LayerStatus.ABSENT: "yellow",
    LayerStatus.OPEN: "bold red",
    LayerStatus.NOT_SHOWN: "bold yellow",
}


def doctor(
    json: Annotated[
        bool, typer.Option("--json", help="Print one DoctorReport and nothing else (docs/doctor.md).")
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_SECONDS,
            help="For all of it but the ends of what was started; more for a busy machine.",
        ),
    ] = SECONDS,
    config: ConfigFile = None,
    set_: Set = None,
) -> None:
    """Try out what walls, limits and kernels can be had here; claims nothing that it did not just try.

    Settings come from a file, variables and options, as for `serve`: `cellhouse config show` lists them.

    Exit status: 0 code can be run here behind the default walls, 1 it can't, or walls that are claimed were not shown to
    stand (the problems are listed, each with what would help), 2 usage, 3 the examination itself failed.
    """
    loaded = load_or_exit("doctor", config, set_ or ())
    patient = Patient(settings=loaded.settings(), seconds=seconds)
    try:
        report = asyncio.run(_examined(patient))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(
            f"cellhouse doctor: {where}{error.strerror or error}; it needs a directory to work in: name one in "
            "CELLHOUSE_STATE_DIR or TMPDIR",
            err=True,
        )
        raise typer.Exit(OTHER) from None
    except (asyncio.CancelledError, KeyboardInterrupt):
        typer.echo("cellhouse doctor: left before it was through", err=True)
        raise typer.Exit(OTHER) from None
    try:
        sys.stdout.write(report.to_json() + "\n" if json else _page(report))
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what Python would still flush at exit has nowhere to go
        if not isinstance(error, BrokenPipeError):
            typer.echo(f"cellhouse doctor: standard output: {error.strerror or error}", err=True)
        raise typer.Exit(OTHER) from None
    raise typer.Exit(OK if report.ok else PROBLEMS)


def _page(report: DoctorReport) -> str:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    with console.capture() as page:
        console.print(Group(*_shown(report)))
    return page.get()


async def _examined(patient: Patient) -> DoctorReport:
    """What was put up for it is taken down also where a signal ends it: the exit status says which."""
    with Signals() as signals:
        try:
            return await examine(patient)
        except asyncio.CancelledError:
            if signals.received is None:
                raise
            typer.echo(f"cellhouse doctor: ended by {signals.received.name} before it was through", err=True)
            raise typer.Exit(128 + signals.received) from None


def _shown(report: DoctorReport) -> list[RenderableType]:
    machine = report.machine
    who = "root" if machine.root else f"uid {machine.uid}"
    head = f"Cellhouse {report.version} on Linux {machine.linux}, {machine.machine}, as {who}"
    parts: list[RenderableType] = [_text(head, "bold")]
    for level in sorted(report.levels, key=lambda level: not level.default):
        parts += [Text(), *_level(level)]
    parts += [Text(), _text("This machine", "bold"), _machine(report)]
    parts += [Text(), *_verdict(report)]
    return parts


def _level(level: LevelReport) -> list[RenderableType]:
    default = ", the default" if level.default else ""
    if level.status is not LevelStatus.AVAILABLE:
        return [_text(f"{level.level}{default}: {level.status}", "bold red"), _text(f"  {level.detail}")]
    head = _text(f"{level.level}{default}", "bold")
    if all(layer.status is LayerStatus.ABSENT for layer in level.layers or ()):
        table = _table()
        names = ", ".join(layer.name for layer in level.layers or ())
        table.add_row(_text("layers"), _text("absent", "yellow"), _text(names))
    else:
        table = _table()
        for layer in level.layers or ():
            if layer.name != "limits":  # they come one by one
                table.add_row(_text(layer.name), _text(layer.status, _STYLES[layer.status]), _layer(layer))
    for limit in level.limits or ():
        word = str(limit.enforcement) if limit.status is LayerStatus.IN_FORCE else str(limit.status)
        table.add_row(_text(limit.name), _text(word, _STYLES[limit.status]), _limit(limit))
    if (sessions := level.sessions) is not None:
        state = ("work", "green") if sessions.works else ("don't work", "bold red")
        remedy = f". To change that: {sessions.remedy}" if sessions.remedy else ""
        kernel = f"kernel {sessions.kernel}, " if sessions.kernel else ""
        table.add_row(_text("sessions"), _text(*state), _text(f"{kernel}{sessions.detail}{remedy}"))
    if (policy := level.network_policy) is not None:
        table.add_row(_text("allow=…"), _text(policy.status, _STYLES[policy.status]), _text(_policy(policy)))
    return [head, table]


def _policy(policy: PolicyReport) -> str:
    """What came of the network policy `allow`."""
    if policy.status is LayerStatus.IN_FORCE:
        refusal = (policy.unnamed or "").partition(":")[0]
        return f"reached the server that it names, not another one ({refusal}); without a policy none ({policy.without_policy})"
    return f"{policy.detail}"


def _layer(layer: LayerReport) -> Text:
    by = {outcome: [p for p in layer.probes if p.outcome is outcome] for outcome in ProbeOutcome}
    match layer.status:
        case LayerStatus.IN_FORCE:
            shown = _text("could not " + ", ".join(probe.tried for probe in by[ProbeOutcome.HELD]))
        case LayerStatus.OPEN:
            shown = _text("could " + ", ".join(probe.tried for probe in by[ProbeOutcome.REACHED]), "bold red")
        case LayerStatus.ABSENT:
            shown = _text(f"{layer.detail}" + (f". To have it: {layer.remedy}" if layer.remedy else ""))
        case _:
            shown = _text("" if layer.probes else f"{layer.detail}")
    for probe in by[ProbeOutcome.NOT_SHOWN] if layer.status is not LayerStatus.ABSENT else ():
        shown.append_text(
            _text(f"{'; ' if shown else ''}not shown: {probe.tried} ({probe.detail})", "yellow")
        )
    return shown


def _limit(limit: LimitProbeReport) -> Text:
    value = in_units(int(limit.value)) if limit.name in SIZES else f"{limit.value:g}"
    told = {
        LayerStatus.IN_FORCE: f"held at {value}, {_first(limit.detail)}",
        LayerStatus.OPEN: f"claimed, and yet code could {limit.probe.tried if limit.probe else ''} ({value})",
        LayerStatus.ABSENT: _first(limit.detail),
        LayerStatus.NOT_SHOWN: f"not shown: {limit.probe.detail if limit.probe else limit.detail}",
    }[limit.status]
    return _text(told + (f". To have it exact: {limit.remedy}" if limit.remedy else ""))


def _machine(report: DoctorReport) -> Table:
    machine, table = report.machine, _table(middle=False)
    groups = machine.cgroups
    can = f"can be made for {', '.join(groups.writable)}" if groups.writable else "can't be made"
    table.add_row(_text("bubblewrap"), _text(machine.bubblewrap.detail))
    namespaces = machine.user_namespaces
    remedy = f". {namespaces.remedy}" if namespaces.remedy else ""
    table.add_row(_text("user namespaces"), _text(f"{namespaces.detail}{remedy}"))
    why = f" ({_first(groups.detail)})" if groups.detail else ""
    table.add_row(_text("cgroups"), _text(f"{groups.version}; groups {can}{why}"))
    table.add_row(_text("Landlock"), _text(f"ABI {machine.landlock_abi}" if machine.landlock_abi else "none"))
    for environment in report.environments:
        ipython = f", IPython {environment.ipython}" if environment.ipython else ""
        kernels = ", ".join(environment.kernels) or "none"
        found = f"kernels {kernels}{ipython}, in {environment.prefix}" if environment.prefix else ""
        missing = f"{'; ' if found else ''}{environment.missing}" if environment.missing else ""
        table.add_row(_text(f"environment {environment.name}"), _text(f"{found}{missing}"))
    state = report.state
    room = f", {size_text(state.free_bytes)} free" if state.free_bytes is not None else ""
    able = "can be written" if state.writable else f"can't be written: {state.detail}; {state.remedy}"
    table.add_row(_text("state"), _text(f"{state.directory} {able}{room}"))
    return table


def _verdict(report: DoctorReport) -> list[RenderableType]:
    took = f" ({report.seconds:.1f} s)"
    if report.ok:
        return [
            _text(f"Code can be run here behind isolation {report.default_isolation!r}.{took}", "bold green")
        ]
    count = "1 problem" if len(report.problems) == 1 else f"{len(report.problems)} problems"
    return [_text(f"{count}{took}", "bold red"), *(_text(f"- {problem}") for problem in report.problems)]


def _table(*, middle: bool = True) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=10)
    if middle:
        table.add_column(no_wrap=True, min_width=8)
    table.add_column(overflow="fold")
    return table


def _first(text: str | None) -> str:
    """The first part of a long reason; --json has it all."""
    part, _, rest = (text or "").partition(";")
    cut = part if len(part) <= FIRST_CHARS else f"{part[:FIRST_CHARS]}…"
    return f"{cut}; …" if rest and cut == part else cut


def _text(text: str, style: str = "") -> Text:
    return Text(tame(text)[0], style=style)
