"""Doors: the ways into a House from outside this process. Each is a thin translation."""
