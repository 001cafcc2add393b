"""`cellhouse config show`, and a service that is told by file, variables and options."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.cli.support import TIMEOUT_SECONDS, Cli


def run(cli: Cli, *args: str, **variables: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*cli.quick, *args],
        env={**cli.variables(), **variables},
        cwd=cli.directory,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def test_show_has_values_and_origins(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[limits]\nmax_streams = 7\nburst = 7\nbody_bytes = '2M'\n")
    args = ("config", "show", "--config", str(file), "--set", "limits.burst=9")
    result = run(cli, *args, CELLHOUSE_SERVE_PORT="9999", CELLHOUSE_NONSENSE="x")
    assert result.returncode == 0
    shown = result.stdout.decode()
    assert tomllib.loads(shown)["limits"]["burst"] == 9
    lines = {" ".join(line.split()) for line in shown.splitlines()}
    assert lines >= {
        f"max_streams = 7 # {file}",
        f"body_bytes = 2097152 # {file}",
        "burst = 9 # --set",
        "port = 9999 # CELLHOUSE_SERVE_PORT",
        f'dir = "{cli.state}" # CELLHOUSE_STATE_DIR',
        'isolation = "bubblewrap" # default',
    }
    assert b"CELLHOUSE_NONSENSE" in result.stderr
    as_json = json.loads(run(cli, *args, "--json", CELLHOUSE_SERVE_PORT="9999").stdout)
    assert as_json["limits.max_streams"] == {"value": 7, "origin": "file", "where": str(file)}
    assert as_json["serve.port"]["origin"] == "environment"
    assert as_json["limits.burst"] == {"value": 9, "origin": "flag", "where": "--set"}


def test_the_usual_file_is_found(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "xdg" / "cellhouse" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[serve]\nport = 1234\n")
    result = run(cli, "config", "show", XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    assert f"port = 1234{' ' * 9}# {file}" in result.stdout.decode()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--set", "limits.max_streem=1"], "limits.max_streams"),
        (["--set", "nonsense"], "NAME=VALUE"),
        (["--set", "serve.port=x"], "no number"),
        (["--config", "/nowhere/config.toml"], "No such file"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_shown(cli: Cli, args: list[str], says: str) -> None:
    for command in (["config", "show"], ["serve"]):
        result = run(cli, *command, *args)
        assert (result.returncode, result.stdout) == (2, b"")
        assert says in result.stderr.decode()


def test_everything_that_is_wrong_is_told_at_once(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[serve]\nprot = 1\n[limts]\nburst = 1\n")
    result = run(cli, "config", "show", "--config", str(file), CELLHOUSE_WALLS_CPUS="-1")
    assert result.returncode == 2
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 3
    assert [line for line in lines if "serve.port" in line]
    assert [line for line in lines if "[limits]" in line]
    assert [line for line in lines if "CELLHOUSE_WALLS_CPUS" in line]


def test_a_service_does_what_it_is_told_and_an_option_goes_before_the_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f"[serve]\nuds = '{tmp_path / 'socket'}'\nhost = '127.0.0.9'\n[state]\ndir = '{tmp_path / 'unused'}'\n"
    )
    process = subprocess.Popen(
        cli.command("serve", "--config", str(file), "--port", "0"),
        env=cli.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("cellhouse: listening on http://127.0.0.9:")
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert (cli.state / "tokens" / "local").exists()
    assert not (tmp_path / "unused").exists()


def test_what_is_run_here_has_these_settings(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[state]\ndir = '{tmp_path / 'mine'}'\n[session]\ncode_bytes = 100\n")
    variables = {"CELLHOUSE_CONFIG": str(file), "CELLHOUSE_STATE_DIR": ""}
    told = run(cli, "run", "-c", "print('a' * 3)", "--isolation", "none", **variables)
    assert (told.returncode, told.stdout) == (0, b"aaa\n")
    assert list((tmp_path / "mine" / "embedded").iterdir())
    assert not cli.state.exists()
    long = run(cli, "run", "-c", f"print({'a' * 100!r})", "--isolation", "none", **variables)
    assert (long.returncode, long.stdout) == (2, b"")
    assert b"code_bytes" in long.stderr
    slip = run(cli, "run", "-c", "1", CELLHOUSE_SESSION_CODEBYTES="1")
    assert (slip.returncode, slip.stdout) == (2, b"")
    assert b"CELLHOUSE_SESSION_CODE_BYTES" in slip.stderr
