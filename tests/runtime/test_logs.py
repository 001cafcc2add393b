"""The service's log goes where `logging` sends it, and nowhere unless somebody asks for it."""

import logging
import os
import subprocess
import sys

import pytest

from cellhouse.runtime.logs import NAME, logger


def test_an_exception_is_logged_with_its_names_through_logging(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logger().exception("it failed", execution="runtimes/r")
    (record,) = caplog.records
    assert record.name == NAME
    assert record.levelno == logging.ERROR
    assert "event='it failed'" in record.getMessage()
    assert "execution='runtimes/r'" in record.getMessage()
    assert "boom" in record.getMessage()
    assert capsys.readouterr().out == ""


def _stderr_of(code: str) -> str:
    """Of an interpreter of its own: here pytest listens."""
    done = subprocess.run(
        [sys.executable, "-c", f"from cellhouse.runtime import logs\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=dict(os.environ),
    )
    assert done.stdout == ""
    return done.stderr


def test_unasked_nothing_is_printed() -> None:
    assert _stderr_of("logs.logger().error('it failed')") == ""


def test_whoever_configures_logging_gets_it() -> None:
    told = _stderr_of("import logging; logging.basicConfig()\nlogs.logger().warning('a zygote failed', n=1)")
    assert told == "WARNING:cellhouse:event='a zygote failed' n=1\n"


def test_a_program_of_ours_gets_it_from_the_level_that_it_asks_for() -> None:
    told = _stderr_of("logs.to_stderr('warning')\nlogs.logger().info('low')\nlogs.logger().warning('high')")
    assert told.endswith("WARNING cellhouse event='high'\n")
    assert told.count("\n") == 1
