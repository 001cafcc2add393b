"""`cellhouse run`: what it prints, where, and how it exits."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cellhouse.environments import Environment
from cellhouse.model import ExecuteCodeResult
from tests.cli.support import Cli


def _result(done: "subprocess.CompletedProcess[bytes]") -> ExecuteCodeResult:
    assert done.stdout.count(b"\n") == 1
    return ExecuteCodeResult.from_json(done.stdout)


def test_json_is_one_result_on_stdout_and_nothing_on_stderr(cli: Cli) -> None:
    done = cli("run", "--json", "-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert done.returncode == 0
    assert done.stderr == b""
    result = _result(done)
    assert (result.stdout, result.stderr, result.result) == ("out\n", "err\n", "42")
    assert result.artifacts == ()


def test_text_streams_to_where_it_was_printed_and_the_value_is_shown(cli: Cli) -> None:
    done = cli("run", "-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert done.returncode == 0
    assert done.stdout == b"out\n42\n"
    assert done.stderr.startswith(b"err\n")
    assert b"OK in" in done.stderr


@pytest.mark.parametrize(
    ("code", "status", "outcome"),
    [
        ("1", 0, "OK"),
        ("1/0", 1, "ERROR"),
        ("import sys; sys.exit(0)", 0, "ERROR"),
        ("import sys; sys.exit()", 0, "ERROR"),
        ("import sys; sys.exit(3)", 1, "ERROR"),
        ("import sys; sys.exit('bad input')", 1, "ERROR"),
        ("import os; os._exit(0)", 3, "EXITED"),
        ("import os; os.kill(os.getpid(), 9)", 3, "KERNEL_DIED"),
    ],
)
def test_exit_status(cli: Cli, code: str, status: int, outcome: str) -> None:
    done = cli("run", "--json", "-c", code)
    assert done.returncode == status
    assert _result(done).outcome == outcome


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import sys; sys.exit(0)", 0, "ended itself with sys.exit(0), which is no failure"),
        ("import sys; sys.exit()", 0, "ended itself with sys.exit(), which is no failure"),
        ("import sys; sys.exit(3)", 1, "ended itself with sys.exit(3), which is a failure"),
    ],
)
def test_an_exit_of_the_code_is_told_for_what_it_is(cli: Cli, code: str, status: int, said: str) -> None:
    done = cli("run", "-c", code)
    assert done.returncode == status
    errors = done.stderr.decode()
    assert said in errors
    last = errors.splitlines()[-1]
    assert last.startswith("sys.exit(" if status == 0 else "ERROR")
    assert ("SystemExit" in done.stdout.decode()) is (status != 0)


def test_timeout_ends_the_code_and_keeps_what_it_printed(cli: Cli) -> None:
    done = cli("run", "--json", "--timeout", "1", "-c", "print('before')\nwhile True: pass")
    assert done.returncode == 3
    result = _result(done)
    assert result.outcome == "TIMED_OUT"
    assert result.stdout == "before\n"


def test_code_from_a_file_and_from_standard_input(cli: Cli) -> None:
    (cli.directory / "code.py").write_text("print('from a file: ä')", "utf-8")
    assert cli("run", "code.py").stdout == "from a file: ä\n".encode()
    assert cli("run", "-", stdin="print('from stdin: ä')".encode()).stdout == "from stdin: ä\n".encode()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "exactly one of"),
        (["run", "-c", "1", "file.py"], "exactly one of"),
        (["run", "missing.py"], "missing.py"),
        (["run", "-c", "1", "--input", "missing.csv"], "missing.csv"),
        (["run", "-c", "1", "--timeout", "-1"], "executionTimeout"),
        (["run", "-c", "1", "--timeout", "nan"], "executionTimeout"),
        (["run", "-c", "1", "--timeout", "soon"], "timeout"),
        (["run", "--frobnicate"], "frobnicate"),
        (["run", "file.py", "a", "b"], "behind --"),
        (["run", "file.py", "--its-own"], "behind --"),
        (["run", "--", "file.py"], "exactly one of"),
        (["--log", "loud", "run", "-c", "1"], "debug, info, warning, error"),
    ],
)
def test_usage_errors_exit_with_2_and_name_the_thing(cli: Cli, args: list[str], said: str) -> None:
    done = cli(*args)
    assert done.returncode == 2
    assert done.stdout == b""
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_code_that_is_no_utf8_is_a_usage_error(cli: Cli) -> None:
    done = cli("run", "-", stdin=b"print('\xff')")
    assert done.returncode == 2
    assert b"UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--isolation", "moat"], "moat"),
        (["--kernel", "cobol"], "cobol"),
        (["--environment", "nowhere"], "nowhere"),
        (["--network", "allow=index.example"], "names no port"),
        (["--network", "everything"], "none, open or allow=HOST:PORT"),
    ],
)
def test_names_that_nothing_has_are_usage_errors_that_say_what_there_is(
    cli: Cli, args: list[str], said: str
) -> None:
    done = cli("run", *args, "--json", "-c", "1")
    assert done.returncode == 2
    assert done.stdout == b""
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_inputs_are_there_and_save_exports_figures_and_files(cli: Cli) -> None:
    (cli.directory / "in put.csv").write_text("a,b\n1,2\n")
    code = (
        "import pandas as pd, matplotlib.pyplot as plt, os\n"
        "table = pd.read_csv('in put.csv')\n"
        "os.makedirs('sub'); open('sub/made.txt', 'w').write('made')\n"
        "plt.plot([1, 2]); plt.show()\n"
        "table\n"
    )
    done = cli("run", "--json", "--input", "in put.csv", "--save", "out", "-c", code)
    assert done.returncode == 0, done.stderr
    result = _result(done)
    assert [artifact.name for artifact in result.artifacts or ()] == ["sub/made.txt"]
    out = cli.directory / "out"
    assert (out / "out-000.png").read_bytes().startswith(b"\x89PNG")
    assert "<table" in (out / "out-001.html").read_text()
    assert (out / "files" / "sub" / "made.txt").read_text() == "made"
    assert len(list(out.rglob("*.*"))) == 3


def test_save_where_it_cannot_be_written_says_so(cli: Cli) -> None:
    (cli.directory / "out").write_text("a file stands here")
    done = cli("run", "--save", "out", "-c", "1")
    assert done.returncode == 3
    assert b"--save" in done.stderr


def test_hostile_links_are_never_followed_by_save(cli: Cli) -> None:
    code = "import os\nos.symlink('/etc/passwd', 'link.txt')\nopen('plain.txt', 'w').write('x')"
    done = cli("run", "--json", "--save", "out", "-c", code)
    assert done.returncode == 0
    assert [path.name for path in (cli.directory / "out").rglob("*.txt")] == ["plain.txt"]


def test_no_isolation_must_be_asked_for_and_keeps_the_logical_path(cli: Cli) -> None:
    code = "import os\nfrom IPython.display import HTML, display\ndisplay(HTML('x'))\nprint(os.getcwd())"
    result = _result(cli("run", "--json", "--isolation", "none", "-c", code))
    assert result.stdout.startswith(str(cli.state))
    assert (result.rich_outputs[0].file_path or "").startswith("/content/.dsm_outputs/")


def test_a_network_policy_is_asked_for_and_told(cli: Cli) -> None:
    code = "import os; print(os.environ['CELLHOUSE_NETWORK'])"
    result = _result(cli("run", "--json", "--network", "allow=index.example:443", "-c", code))
    assert result.stdout.startswith("allow: this runtime reaches index.example:443 and nothing else")
    refused = cli("run", "--network", "open", "-c", "1")
    assert (refused.returncode, b"network.may_open" in refused.stderr) == (3, True), refused.stderr


def test_the_default_walls_keep_the_host_out(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    code = f"import os\nprint(os.getcwd(), os.path.exists({str(tmp_path / 'secret')!r}))"
    assert _result(cli("run", "--json", "-c", code)).stdout == "/content False\n"


def test_another_language_by_its_kernel(cli: Cli, bash_environment: Environment) -> None:
    args = [
        "run",
        "--json",
        "--environment",
        bash_environment.name,
        "--kernel",
        "bash",
        "-c",
        "echo from $((6*7))",
    ]
    done = cli(*args, extra=[bash_environment])
    assert done.returncode == 0, done.stderr
    assert _result(done).stdout == "from 42\n"


def test_two_runs_side_by_side_never_meet(cli: Cli) -> None:
    both = [
        subprocess.Popen(
            [*cli.quick, "run", "--json", "-c", f"n = {n}; open('f', 'x').write('{n}'); n"],
            stdout=subprocess.PIPE,
            env=cli.variables(),
        )
        for n in (1, 2)
    ]
    results = [ExecuteCodeResult.from_json(process.communicate(timeout=100)[0]) for process in both]
    assert [result.result for result in results] == ["1", "2"]
    assert len(list((cli.state / "embedded").iterdir())) == 2


def test_the_record_and_the_bundles_stay_readable(cli: Cli) -> None:
    result = _result(cli("run", "--json", "-c", "from IPython.display import HTML\nHTML('<b>kept</b>')"))
    (state,) = (cli.state / "embedded").iterdir()
    verified = cli("journal", "verify", "--state-dir", str(state))
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["executions"] == 1
    rebuilt = cli("journal", "rebuild", "--state-dir", str(state))
    assert rebuilt.returncode == 0
    bundle = next(state.glob("runtimes/*/content/.dsm_outputs/*/out-000.json"))
    assert "kept" in bundle.read_text()
    assert bundle.parent.name in (result.rich_outputs[0].file_path or "")


def test_the_first_interrupt_reaches_the_code(cli: Cli) -> None:
    code = "print('ready', flush=True)\nimport time\ntime.sleep(60)"
    with subprocess.Popen(
        cli.command("run", "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.variables()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"KeyboardInterrupt" in output
    assert b"INTERRUPTED" in errors


def test_the_second_interrupt_leaves_code_that_heeds_none(cli: Cli) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGINT, lambda *a: print('heard', flush=True))\n"
    code += "print('ready', flush=True)\nwhile True: time.sleep(0.01)"
    with subprocess.Popen(
        cli.command("run", "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.variables()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"heard\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"left before" in errors
    assert b"Traceback" not in errors


def test_a_state_directory_that_cannot_be_made_is_named(cli: Cli) -> None:
    cli.state.write_text("a file stands here")
    done = cli("run", "--json", "-c", "1")
    assert done.returncode == 3
    assert done.stdout == b""
    assert b"CELLHOUSE_STATE_DIR" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_reader_that_leaves_ends_the_run_without_a_traceback(cli: Cli) -> None:
    with subprocess.Popen(
        cli.command("run", "-c", "while True: print('y' * 70)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.variables(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"y" * 70 + b"\n"
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 3
    assert b"Traceback" not in errors


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout.strip() == b"0.1.0"


def test_a_journal_that_is_not_there_is_a_usage_error(cli: Cli) -> None:
    done = cli("journal", "verify", "--state-dir", str(cli.state / "nothing"))
    assert done.returncode == 2
    assert os.fsencode(str(cli.state / "nothing")) in done.stderr


def test_a_file_that_cannot_be_exported_costs_neither_the_result_nor_the_others(cli: Cli) -> None:
    (cli.directory / "out" / "files" / "taken").mkdir(parents=True)
    code = "open('taken', 'w').write('x'); open('free', 'w').write('y'); open('vast', 'wb').truncate(2**32)"
    done = cli("run", "--json", "--save", "out", "-c", code)
    assert done.returncode == 0
    assert {made.name for made in _result(done).artifacts or ()} == {"taken", "free", "vast"}
    assert (cli.directory / "out" / "files" / "free").read_text() == "y"
    assert b"'taken' was left out" in done.stderr
    assert b"'vast' was left out" in done.stderr


def test_closed_streams_are_no_traceback(cli: Cli) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m cellhouse run -c "print(1)" <&- >&-', sys.executable],
        env=cli.variables(),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_ends_the_run_and_it_says_so(cli: Cli) -> None:
    code = "import time\nwhile True: print('x'); time.sleep(0.01)"
    done = subprocess.run(
        ["sh", "-c", '"$0" -m cellhouse run -c "$1" | head -1', sys.executable, code],
        env=cli.variables(),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == b"x\n"
    assert b"nobody read standard output any more" in done.stderr
    assert b"Traceback" not in done.stderr


def test_code_without_end_is_refused_by_its_size(cli: Cli) -> None:
    done = cli("run", "/dev/zero")
    assert done.returncode == 2
    assert b"/dev/zero" in done.stderr


def test_input_at_a_terminal_is_answered_and_holds_up_no_timeout(cli: Cli) -> None:
    code = "name = input('\\x1b]0;title\\x07who? ')\nprint('hello', name)\ninput('never answered')"
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            cli.command("run", "--timeout", "8", "-c", code),
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=cli.variables(),
        ) as process:
            assert process.stdout is not None
            assert os.read(process.stdout.fileno(), 100) == b"who? "
            os.write(ours, b"Ada\n")
            output, _ = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"hello Ada\n" in output
    assert process.returncode == 3
