"""Processes held by descriptor."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from cellhouse.sandbox import pidfd as module
from cellhouse.sandbox.pidfd import has_ended, parent_of, pid_of, pidfd_open, send_signal
from cellhouse.sandbox.usage import cpu_seconds, open_stat, usage


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture(params=["python's own", "system call"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "system call":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")


@pytest.mark.usefixtures("calls")
def test_a_process_from_its_number_to_its_end(sleeper: subprocess.Popen[bytes]) -> None:
    pidfd = pidfd_open(sleeper.pid)
    try:
        assert not os.get_inheritable(pidfd)
        assert pid_of(pidfd) == sleeper.pid
        assert parent_of(sleeper.pid) == os.getpid()
        assert not has_ended(pidfd)
        assert send_signal(pidfd, signal.SIGTERM)
        assert sleeper.wait() == -signal.SIGTERM
        assert has_ended(pidfd)
        assert pid_of(pidfd) == -1
        assert not send_signal(pidfd, signal.SIGTERM)
        assert not send_signal(pidfd, signal.SIGTERM, group=True, pid=sleeper.pid)
    finally:
        os.close(pidfd)


@pytest.mark.usefixtures("calls")
def test_there_is_no_such_process() -> None:
    with pytest.raises(OSError, match=r"No such process|Invalid argument"):
        pidfd_open(2**30)
    assert parent_of(2**30) is None
    assert usage(2**30) is None


@pytest.mark.parametrize("older", [False, True])
def test_a_group_is_signalled_before_linux_6_9_too(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    if older:
        monkeypatch.setattr(module, "PIDFD_SIGNAL_PROCESS_GROUP", 1 << 20)  # a flag that no kernel knows
    pidfd = pidfd_open(sleeper.pid)
    try:
        assert send_signal(pidfd, signal.SIGTERM, group=True, pid=sleeper.pid)
        assert sleeper.wait() == -signal.SIGTERM
        assert not send_signal(pidfd, signal.SIGTERM, group=True, pid=sleeper.pid)
    finally:
        os.close(pidfd)


def test_what_is_no_pidfd() -> None:
    read, write = os.pipe()
    try:
        assert pid_of(read) is None
    finally:
        os.close(read)
        os.close(write)
    assert pid_of(read) is None


def test_usage_of_a_process(sleeper: subprocess.Popen[bytes]) -> None:
    ours = usage(os.getpid())
    assert ours is not None
    assert ours.rss_bytes > 1_000_000
    assert ours.cpu_seconds > 0
    assert ours.peak_rss_bytes is not None
    assert ours.peak_rss_bytes >= ours.rss_bytes // 2
    own, its = open_stat(os.getpid()), open_stat(sleeper.pid)
    assert (cpu_seconds(own) or 0) >= ours.cpu_seconds
    assert (cpu_seconds(own) or 0) >= ours.cpu_seconds  # as often as one likes
    assert cpu_seconds(its) is not None
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert usage(sleeper.pid) is None  # a zombie uses nothing
    assert cpu_seconds(its) is None
    sleeper.wait()
    assert cpu_seconds(its) is None  # whatever has the number by now
    os.close(own)
    os.close(its)
