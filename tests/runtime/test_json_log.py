"""The log of a service: a JSON object a line, nothing of anybody's code in it, and no reader that holds it up."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cellhouse.model import NotFound
from cellhouse.runtime import json_log
from cellhouse.runtime.json_log import JsonLines, JsonStderr
from cellhouse.runtime.logs import NAME, logger

SECRET = "token=cellhouse_0123456789"


def _lines(caplog: pytest.LogCaptureFixture, *, content: bool = False) -> list[dict[str, Any]]:
    written = [JsonLines(content=content).format(record) for record in caplog.records]
    assert not any("\n" in line for line in written)
    return [json.loads(line) for line in written]


def test_a_line_has_time_level_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    logger().warning("execution finished", execution="runtimes/r", seconds=0.5, pid=None)
    (line,) = _lines(caplog)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "event": "execution finished",
        "execution": "runtimes/r",
        "seconds": 0.5,
        "pid": None,
    }


def _fail() -> None:
    try:
        try:
            raise OSError(28, SECRET)
        except OSError as error:
            raise NotFound(SECRET, reason="NO_SUCH_RUNTIME") from error
    except NotFound:
        logger().exception("it failed", code=SECRET, call="execute")


def test_code_and_the_words_of_exceptions_are_withheld_and_the_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _fail()
    (line,) = _lines(caplog)
    assert SECRET not in json.dumps(line)
    assert (line["call"], line["withheld"]) == ("execute", ["code"])
    outer, inner = line["exception"]
    assert (outer["type"], outer["reason"]) == ("NotFound", "NO_SUCH_RUNTIME")
    assert (inner["type"], inner["errno"]) == ("OSError", "ENOSPC")
    assert outer["frames"][-1].endswith(" _fail")


def test_code_and_the_words_of_exceptions_are_there_where_content_was_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _fail()
    (line,) = _lines(caplog, content=True)
    assert line["code"] == SECRET
    assert line["exception"][0]["message"] == SECRET
    assert "withheld" not in line


def test_what_is_hostile_stays_within_its_line_and_what_is_long_is_cut_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger().error("no", path='a"\n{"event": "forged"}\x1b[2J\u2028', text="x" * 5_000, thing=object())
    (line,) = _lines(caplog)
    assert line["path"].startswith('a"\n{')
    assert line["text"].endswith("… (5000 characters)")
    assert len(line["text"]) < 2_100
    assert line["thing"] == "object"
    written = JsonLines().format(caplog.records[0])
    assert written.isascii()
    assert written.isprintable()


def test_of_others_who_log_only_the_first_line_is_told(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: %s", SECRET)
    (line,) = _lines(caplog)
    assert (line["event"], line["logger"]) == ("Task exception was never retrieved", "asyncio")
    assert SECRET not in json.dumps(line)


@contextmanager
def _pipe() -> Iterator[tuple[int, JsonStderr]]:
    reading, writing = os.pipe()
    handler = JsonStderr(writing)
    handler.setFormatter(JsonLines())
    try:
        yield reading, handler
    finally:
        os.close(reading)
        handler.close()
        os.close(writing)


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord(NAME, logging.INFO, "", 0, text, (), None)


def test_a_reader_that_does_not_read_holds_up_nobody_and_hears_how_many_lines_it_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_log, "WAITING_LINES", 8)
    with _pipe() as (reading, handler):
        for number in range(20_000):  # far more than a pipe and the queue hold
            handler.handle(_record(str(number)))
        heard = missed = 0
        with os.fdopen(os.dup(reading), "rb") as lines:
            while heard + missed < 20_000:
                line = json.loads(lines.readline())
                if "lines" in line:
                    assert line["level"] == "warning"
                    missed += line["lines"]
                else:
                    heard += 1
        assert heard + missed == 20_000
        assert missed > 0


def test_a_reader_that_has_gone_away_ends_the_writer_and_nothing_else() -> None:
    with _pipe() as (reading, handler):
        closing = os.dup(reading)
        os.close(closing)
        handler.handle(_record("one"))
    thread = next((each for each in threading.enumerate() if each.name == "log" and each.is_alive()), None)
    assert thread is None


def test_a_program_that_ends_has_written_out_all_its_lines() -> None:
    code = (
        "from cellhouse.runtime import logs, json_log\n"
        "import logging, warnings\n"
        "json_log.json_to_stderr('info')\n"
        "logs.logger().debug('low')\n"
        "for number in range(500): logs.logger().info('line', number=number)\n"
        "logging.getLogger('uvicorn.error').info('not ours')\n"
        "warnings.warn('old', stacklevel=1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=os.environ
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["number"] for line in lines[:500]] == list(range(500))
    assert [line["logger"] for line in lines[500:]] == ["py.warnings"]
