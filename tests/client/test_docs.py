"""docs/client.md is true: each of its examples runs as it stands there, against a service with a real kernel."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

import cellhouse.client
from cellhouse.client import ClientLimits, ClientReason, RetryPolicy, Timeouts
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.server import ServeOptions, Service
from cellhouse.environments import Environment
from cellhouse.runtime import Settings
from tests.client.support import within

TEXT = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
PRINTED = ["OK hello\n 42", "OK 2\n", "8 8\n"]


def test_there_are_as_many_examples_as_are_run() -> None:
    assert len(EXAMPLES) == len(PRINTED)


async def test_each_example_runs_as_it_stands_there(environment: Environment, tmp_path: Path) -> None:
    options = ServeOptions(limits=DoorLimits(drain_seconds=0.0))
    settings = Settings(state_dir=tmp_path / "state", environments=(environment.prefix.parent,))
    async with Service(settings, options) as service:
        for example, printed in zip(EXAMPLES, PRINTED, strict=True):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", example,
                cwd=tmp_path, env={**os.environ, "CELLHOUSE_URL": service.url},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, err = await within(process.communicate())
            assert (process.returncode, err) == (0, b"")
            assert printed in out.decode()


@pytest.mark.parametrize("reason", list(ClientReason))
def test_every_reason_is_told_of(reason: ClientReason) -> None:
    assert reason in TEXT


def test_every_timeout_and_limit_is_told_of_with_its_default() -> None:
    times, limits, policy = Timeouts(), ClientLimits(), RetryPolicy()
    for name in Timeouts.__dataclass_fields__:
        assert f"`{name}` {getattr(times, name):g} |" in TEXT
    for name in ClientLimits.__dataclass_fields__:
        value = getattr(limits, name)
        told = f"{value >> 20} MiB" if name.endswith("bytes") else f"{value}"
        assert f"`{name}` {told} |" in TEXT
    assert f"{policy.first:g} s to {policy.longest:g} s" in TEXT
    assert f"after {policy.attempts} attempts or {policy.total:g} s" in TEXT
    assert f"after {policy.first_contact:g} s" in TEXT


def test_the_names_that_it_uses_are_public() -> None:
    for name in re.findall(r"from cellhouse\.client import (.+)", TEXT):
        assert set(name.split(", ")) <= set(cellhouse.client.__all__)
