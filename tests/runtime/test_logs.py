"""The service's log goes where `logging` sends it, and never to stdout."""

import logging

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
