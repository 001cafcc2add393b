"""A runner for programs without an event loop."""

import threading

import pytest

from cellhouse.model import FailedPrecondition
from cellhouse.runners import BlockingRunner, LocalCodeRunner


def test_it_runs_from_many_threads_and_leaves_none() -> None:
    found: list[str] = []
    with BlockingRunner(LocalCodeRunner()) as runner:
        assert runner.traits.language == "python"
        threads = [
            threading.Thread(target=lambda n=n: found.append(runner.run(f"print({n})", key="k").stdout))
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runner.stop(key="k")
    assert sorted(found) == ["0\n", "1\n", "2\n"]
    assert not runner.is_open
    runner.close()


def test_it_has_to_be_open() -> None:
    with pytest.raises(FailedPrecondition, match="with BlockingRunner"):
        BlockingRunner(LocalCodeRunner()).run("1", key="k")
