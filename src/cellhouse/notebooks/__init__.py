"""Executions as documents: a Jupyter notebook, and the pages that nbconvert makes of one."""

from cellhouse.notebooks.book import notebook
from cellhouse.notebooks.limits import BookLimits
from cellhouse.notebooks.page import FORMATS, Format, NotInstalled, render
from cellhouse.notebooks.source import Asked, Source, TextSlice

__all__ = [
    "FORMATS",
    "Asked",
    "BookLimits",
    "Format",
    "NotInstalled",
    "Source",
    "TextSlice",
    "notebook",
    "render",
]
