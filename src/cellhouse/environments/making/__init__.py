"""Environments made by name: what is asked for, resolved to a lock, built once, shared by all who ask for the same."""

from cellhouse.environments.making.asked import Asked, read_requirements
from cellhouse.environments.making.facts import EnvironmentFacts, facts
from cellhouse.environments.making.home import Entry, EnvironmentHome
from cellhouse.environments.making.installer import BuildFailed, Installer, find_installer
from cellhouse.environments.making.interpreter import Interpreter, find_interpreter
from cellhouse.environments.making.lock import Lock, Locked
from cellhouse.environments.making.make import Made, make_environment
from cellhouse.environments.making.register import register_kernelspec, register_prefix

__all__ = [
    "Asked",
    "BuildFailed",
    "Entry",
    "EnvironmentFacts",
    "EnvironmentHome",
    "Installer",
    "Interpreter",
    "Lock",
    "Locked",
    "Made",
    "facts",
    "find_installer",
    "find_interpreter",
    "make_environment",
    "read_requirements",
    "register_kernelspec",
    "register_prefix",
]
