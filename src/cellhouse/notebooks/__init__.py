"""Notebooks: executions as one, and the pages made of it; and a given one, read, run cell by cell and put together again."""

from cellhouse.notebooks.book import notebook
from cellhouse.notebooks.executed import WIDGETS, executed, shows_widgets
from cellhouse.notebooks.given import Cell, Given, runs
from cellhouse.notebooks.limits import BookLimits
from cellhouse.notebooks.page import FORMATS, Format, NotInstalled, ipynb_text, render
from cellhouse.notebooks.parameters import read_parameters, with_parameters
from cellhouse.notebooks.reading import BadNotebook, ReadLimits, read_notebook
from cellhouse.notebooks.running import CellRun, CellStatus, Watcher, failed, run_cells
from cellhouse.notebooks.source import Asked, Source, TextSlice

__all__ = [
    "FORMATS",
    "WIDGETS",
    "Asked",
    "BadNotebook",
    "BookLimits",
    "Cell",
    "CellRun",
    "CellStatus",
    "Format",
    "Given",
    "NotInstalled",
    "ReadLimits",
    "Source",
    "TextSlice",
    "Watcher",
    "executed",
    "failed",
    "ipynb_text",
    "notebook",
    "read_notebook",
    "read_parameters",
    "render",
    "run_cells",
    "runs",
    "shows_widgets",
    "with_parameters",
]
