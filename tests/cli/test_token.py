"""`cellhouse token`: the token alone on stdout, nothing secret anywhere else, changes that hold on a running service."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from cellhouse.tokens.text import PATTERN
from tests.cli.support import TIMEOUT_SECONDS, Cli

TOKEN = re.compile(PATTERN)


def made(cli: Cli, *args: str) -> str:
    """A new token's text."""
    result = cli("token", "create", *args)
    assert result.returncode == 0, result.stderr
    return result.stdout.decode().strip()


def listed(cli: Cli) -> list[dict[str, object]]:
    result = cli("token", "list", "--json")
    assert result.returncode == 0, result.stderr
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def test_create_prints_the_token_alone_and_keeps_its_digest_only(cli: Cli) -> None:
    result = cli(
        "token",
        "create",
        "--scope",
        "read,execute",
        "--tenant",
        "acme",
        "--label",
        "for é",
        "--expires",
        "30d",
    )
    assert result.returncode == 0
    text = result.stdout.decode()
    assert re.fullmatch(PATTERN + "\n", text)
    assert not TOKEN.search(result.stderr.decode())
    (token,) = listed(cli)
    assert token["id"] == text.split("_")[1]
    assert token["tenant"] == "acme"
    assert token["scopes"] == ["execute", "read"]
    assert token["label"] == "for é"
    assert token["expired"] is False
    assert set(token) == {"id", "tenant", "scopes", "created", "expires", "expired", "label"}
    for path in (cli.state / "tokens").iterdir():
        assert text.strip().rpartition("_")[2] not in path.read_text()


def test_list_shows_all_and_no_secret(cli: Cli) -> None:
    texts = [made(cli, "--scope", "read"), made(cli, "--scope", "admin", "--expires", "2100-01-31T12:00:00Z")]
    result = cli("token", "list")
    shown = result.stdout.decode()
    for text in texts:
        assert text.split("_")[1] in shown
        assert text.split("_")[2] not in shown
    assert "2100-01-31T12:00:00.000Z" in shown
    assert "never" in shown


def test_an_empty_list_says_so_and_makes_nothing(cli: Cli) -> None:
    result = cli("token", "list")
    assert (result.returncode, result.stdout) == (0, b"")
    assert b"token create" in result.stderr
    assert listed(cli) == []
    assert not cli.state.exists()


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (["create"], 2, "--scope"),
        (["create", "--scope", "write"], 2, "read, execute, admin"),
        (["create", "--scope", ""], 2, "read, execute, admin"),
        (["create", "--scope", "read", "--tenant", "../x"], 2, "tenant"),
        (["create", "--scope", "read", "--expires", "soon"], 2, "30d or 12h"),
        (["create", "--scope", "read", "--expires", "2020-01-01T00:00:00Z"], 2, "passed"),
        (["create", "--scope", "read", "--label", "a\nb"], 2, "printable"),
        (["revoke"], 2, "ID"),
        (["revoke", "x"], 2, "10 lower-case"),
        (["revoke", "aaaaaaaaaa"], 2, "token list"),
    ],
)
def test_what_cannot_be_is_refused_and_says_what_would_do(
    cli: Cli, args: list[str], status: int, says: str
) -> None:
    result = cli("token", *args)
    assert (result.returncode, result.stdout) == (status, b"")
    assert says in result.stderr.decode()


def test_files_that_others_may_write_are_refused(cli: Cli) -> None:
    made(cli, "--scope", "read")
    (cli.state / "tokens" / "tokens.json").chmod(0o666)
    for args in (["list"], ["create", "--scope", "read"], ["revoke", "aaaaaaaaaa"]):
        result = cli("token", *args)
        assert (result.returncode, result.stdout) == (3, b"")
        assert b"chmod 600" in result.stderr


def test_another_state_directory_can_be_named(cli: Cli, tmp_path: Path) -> None:
    made(cli, "--scope", "read", "--state-dir", str(tmp_path / "other"))
    assert listed(cli) == []
    config = tmp_path / "config.toml"
    config.write_text(f"[state]\ndir = '{tmp_path / 'third'}'\n")
    environment = {**cli.variables(), "CELLHOUSE_CONFIG": str(config)}
    del environment["CELLHOUSE_STATE_DIR"]
    subprocess.run(
        cli.command("token", "create", "--scope", "read"),
        env=environment,
        check=True,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert (tmp_path / "third" / "tokens" / "tokens.json").exists()
    assert (tmp_path / "other" / "tokens" / "tokens.json").exists()


# With a service


@dataclass
class Served:
    """A service in a process of its own: what it has said on stderr is known when it has ended."""

    url: str
    process: "subprocess.Popen[str]"
    error: str = ""

    def status(self, token: str = "", path: str = "/v1/runtimes") -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"{self.url}{path}", headers=headers, trust_env=False, timeout=20).status_code


@contextmanager
def served(cli: Cli, *args: str) -> Iterator[Served]:
    process = subprocess.Popen(
        cli.command("serve", "--port", "0", *args),
        env=cli.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = Served(process.stdout.readline().strip().rpartition(" ")[2], process)
    try:
        yield found
    finally:
        process.terminate()
        _, found.error = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0


def test_a_service_without_a_token_makes_one_and_tells_it_once(cli: Cli) -> None:
    with served(cli) as first:
        file = cli.state / "tokens" / "local"
        token = file.read_text().strip()
        assert file.stat().st_mode & 0o777 == 0o600
        assert (first.status(), first.status(token), first.status(token, "/metrics")) == (401, 200, 200)
    assert TOKEN.findall(first.error) == [token]
    assert str(file) in first.error
    with served(cli) as second:
        assert second.status(token) == 200
    assert not TOKEN.search(second.error)
    assert len(listed(cli)) == 1


def test_a_service_obeys_at_once(cli: Cli) -> None:
    own = made(cli, "--scope", "read")
    with served(cli) as service:
        assert not (cli.state / "tokens" / "local").exists()
        other = made(cli, "--scope", "admin", "--tenant", "acme")
        assert [service.status(token) for token in (own, other)] == [200, 403]
        revoked = cli("token", "revoke", own.split("_")[1])
        assert revoked.returncode == 0
        assert own.split("_")[1] in revoked.stdout.decode()
        assert [service.status(token) for token in (own, other)] == [401, 403]
        assert [token["id"] for token in listed(cli)] == [other.split("_")[1]]
    assert not TOKEN.search(service.error)


def test_no_address_that_others_reach_without_a_token(cli: Cli) -> None:
    result = cli("serve", "--host", "0.0.0.0", "--port", "0")
    assert (result.returncode, result.stdout) == (3, b"")
    assert b"cellhouse token create" in result.stderr
    assert not (cli.state / "tokens" / "tokens.json").exists()
    made(cli, "--scope", "read", "--expires", "1s", "--tenant", "t")
    path = cli.state / "tokens" / "tokens.json"
    path.write_text(re.sub(r'"expires": "[^"]*"', '"expires": "2020-01-01T00:00:00.000Z"', path.read_text()))
    assert cli("serve", "--host", "0.0.0.0", "--port", "0").returncode == 3
    token = made(cli, "--scope", "read")
    with served(cli, "--host", "0.0.0.0") as service:
        service.url = service.url.replace("0.0.0.0", "127.0.0.1")
        assert (service.status(), service.status(token)) == (401, 200)


def test_a_service_does_not_begin_with_tokens_that_others_may_write(cli: Cli) -> None:
    made(cli, "--scope", "read")
    (cli.state / "tokens").chmod(0o777)
    result = cli("serve", "--port", "0")
    assert (result.returncode, result.stdout) == (3, b"")
    assert b"chmod 700" in result.stderr


def test_a_service_shows_no_token_to_who_looks_at_its_process(cli: Cli) -> None:
    with served(cli) as service:
        token = (cli.state / "tokens" / "local").read_text().strip()
        proc = Path(f"/proc/{service.process.pid}")
        for name in ("cmdline", "environ"):
            assert token.encode() not in (proc / name).read_bytes()
    assert token not in os.environ.values()
