"""Kernelspecs: how an environment says that a kernel of it is started."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, cast

DEFAULT_KERNEL: Final = "python3"
"""The name under which ipykernel installs itself: an environment's Python."""

KERNEL_JSON_BYTES: Final = 256 * 1024
"""A kernel.json above this is refused; real ones have a few hundred bytes."""
KERNELS_PER_ENVIRONMENT: Final = 256
"""Directories looked at below share/jupyter/kernels, in the order of their names."""
ARGV_ITEMS: Final = 1024
ENV_ITEMS: Final = 1024

# jupyter_client's rule for the name of a kernel (jupyter_client.kernelspec._is_valid_kernel_name).
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
# What jupyter_client takes to mean "the interpreter that I run in" (KernelManager.format_kernel_cmd). There it
# is the service's own; here it is the environment's.
_BARE_PYTHON = re.compile(r"python(3(\.[0-9]{1,2})?)?")


class BadKernelSpec(ValueError):
    """A kernel.json that can't be used; says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel of an environment (Jupyter client, "Kernel specs").

    `argv` may still hold `{connection_file}` and `{resource_dir}`, which whoever starts the kernel fills in; a bare
    `python` in front has become the environment's interpreter, and `{prefix}` its prefix. `env` comes as it is
    written: a `${NAME}` in a value stands for a variable of the environment the kernel is started in.
    """

    name: str
    argv: tuple[str, ...]
    resource_dir: Path
    display_name: str = ""
    language: str = ""
    interrupt_mode: Literal["signal", "message"] = "signal"
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    kernel_protocol_version: str = ""


def read_kernels(prefix: Path, python: Path) -> tuple[dict[str, KernelSpec], dict[str, str]]:
    """The kernels of a prefix by name, and of those that can't be used, by name what is wrong with them."""
    kernels: dict[str, KernelSpec] = {}
    broken: dict[str, str] = {}
    directory = prefix / "share" / "jupyter" / "kernels"
    try:
        entries = sorted(entry for entry in directory.iterdir() if (entry / "kernel.json").is_file())
    except FileNotFoundError:
        return kernels, broken
    for entry in entries[:KERNELS_PER_ENVIRONMENT]:
        try:
            kernels[entry.name] = read_kernelspec(entry, prefix=prefix, python=python)
        except BadKernelSpec as error:
            broken[entry.name] = str(error)
    for entry in entries[KERNELS_PER_ENVIRONMENT:]:
        broken[entry.name] = f"{directory} holds more than {KERNELS_PER_ENVIRONMENT} kernels; remove some"
    return kernels, broken


def read_kernelspec(directory: Path, *, prefix: Path, python: Path) -> KernelSpec:
    """The kernel that `directory`/kernel.json describes. Raises BadKernelSpec."""
    file = directory / "kernel.json"
    if not _NAME.fullmatch(directory.name):
        raise BadKernelSpec(
            f"{directory.name!a} can't name a kernel; it takes letters, digits, '.', '_' and '-'"
        )
    try:
        with file.open("rb") as stream:
            data = stream.read(KERNEL_JSON_BYTES + 1)
    except OSError as error:
        raise BadKernelSpec(f"{file} can't be read: {error.strerror}") from error
    if len(data) > KERNEL_JSON_BYTES:
        raise BadKernelSpec(f"{file} is larger than {KERNEL_JSON_BYTES} bytes")
    try:
        spec = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadKernelSpec(f"{file} is not JSON: {error}") from error
    if not isinstance(spec, dict):
        raise BadKernelSpec(f"{file} must hold a JSON object")

    argv = [argument.replace("{prefix}", str(prefix)) for argument in _argv(spec, file)]
    if _BARE_PYTHON.fullmatch(argv[0]):
        argv[0] = str(python)
    return KernelSpec(
        name=directory.name,
        argv=tuple(argv),
        resource_dir=directory,
        display_name=_text(spec, "display_name", file) or directory.name,
        language=_text(spec, "language", file),
        interrupt_mode=_interrupt_mode(spec, file),
        env=MappingProxyType(_env(spec, file)),
        metadata=MappingProxyType(_object(spec, "metadata", file)),
        kernel_protocol_version=_text(spec, "kernel_protocol_version", file),
    )


def _argv(spec: Mapping[str, Any], file: Path) -> list[str]:
    argv = spec.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(item, str) for item in argv):
        raise BadKernelSpec(f"{file}: argv must be a list of strings, the program first")
    if len(argv) > ARGV_ITEMS:
        raise BadKernelSpec(f"{file}: argv has more than {ARGV_ITEMS} items")
    if not argv[0] or any("\0" in item for item in argv):
        raise BadKernelSpec(f"{file}: argv has an empty program or a NUL character")
    return argv


def _env(spec: Mapping[str, Any], file: Path) -> dict[str, str]:
    env = _object(spec, "env", file)
    if len(env) > ENV_ITEMS:
        raise BadKernelSpec(f"{file}: env has more than {ENV_ITEMS} variables")
    for name, value in env.items():
        if not isinstance(value, str) or "\0" in value:
            raise BadKernelSpec(f"{file}: env: the value of {name!a} must be a string without NUL characters")
        if not name or "=" in name or "\0" in name:
            raise BadKernelSpec(f"{file}: env: {name!a} can't name a variable")
    return env


def _interrupt_mode(spec: Mapping[str, Any], file: Path) -> Literal["signal", "message"]:
    mode = _text(spec, "interrupt_mode", file).lower() or "signal"
    if mode not in ("signal", "message"):
        raise BadKernelSpec(f"{file}: interrupt_mode must be signal or message, not {mode[:40]!a}")
    return cast('Literal["signal", "message"]', mode)


def _text(spec: Mapping[str, Any], key: str, file: Path) -> str:
    value = spec.get(key, "")
    if not isinstance(value, str):
        raise BadKernelSpec(f"{file}: {key} must be a string")
    return value


def _object(spec: Mapping[str, Any], key: str, file: Path) -> dict[str, Any]:
    value = spec.get(key, {})
    if not isinstance(value, dict):
        raise BadKernelSpec(f"{file}: {key} must be an object")
    return value
