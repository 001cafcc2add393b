"""Keepers: each runtime in a process of its own, behind a service that may die and come back at any moment."""

from cellhouse.keepers.forking import Template
from cellhouse.keepers.kept import KeptHouse
from cellhouse.keepers.opening import kept_opener, open_direct
from cellhouse.keepers.surface import AnyHouse, Census, DirectHouse

__all__ = ["AnyHouse", "Census", "DirectHouse", "KeptHouse", "Template", "kept_opener", "open_direct"]
