"""Both ends of the command line: `serve` in one process, commands against it in others, by the token it keeps."""

import asyncio
import json
import signal
from pathlib import Path

from tests.cli.support import Cli
from tests.runtime.support import within


async def test_commands_find_the_token_that_serve_keeps_for_their_account(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    service = await asyncio.create_subprocess_exec(
        *cli.command("serve", "--uds", str(path), "--drain-seconds", "0"),
        env=cli.variables(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert service.stdout is not None
        url = (await within(service.stdout.readline())).decode().rpartition(" ")[2].strip()
        ended = await asyncio.to_thread(cli, "run", "--url", url, "-c", "6 * 7")
        assert (ended.returncode, ended.stdout) == (0, b"42\n"), ended.stderr
        ended = await asyncio.to_thread(cli, "ps", "--json", "--url", f"unix://{path}")
        assert (ended.returncode, ended.stdout) == (0, b'{"runtimes":[]}\n'), ended.stderr
        stranger = Cli(tmp_path / "elsewhere", cli.environment, cli.directory, cli.quick)
        ended = await asyncio.to_thread(stranger, "ps", "--url", url)
        assert (ended.returncode, ended.stdout) == (3, b"")
        assert b"token" in ended.stderr
    finally:
        service.send_signal(signal.SIGTERM)
        _, err = await within(service.communicate())
    assert service.returncode == 0, err


async def test_records_of_a_service_that_has_stopped_are_found_by_the_names_it_told(
    cli: Cli, tmp_path: Path
) -> None:
    """Each runtime's are in its keeper's directory, which nobody has to know."""
    service = await asyncio.create_subprocess_exec(
        *cli.command("serve", "--port", "0", "--drain-seconds", "0"),
        env=cli.variables(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert service.stdout is not None
        url = (await within(service.stdout.readline())).decode().rpartition(" ")[2].strip()
        code = "for i in range(100_000): print(i, 'x' * 90)"
        ended = await asyncio.to_thread(cli, "run", "--json", "--url", url, "-c", code)
        assert ended.returncode == 0, ended.stderr
        name = json.loads(ended.stdout)["execution"]
        over_there = await asyncio.to_thread(cli, "logs", "--text", "stdout", "--url", url, name)
    finally:
        service.send_signal(signal.SIGTERM)
        _, err = await within(service.communicate())
    assert service.returncode == 0, err
    whole = "".join(f"{i} {'x' * 90}\n" for i in range(100_000)).encode()
    assert over_there.stdout == whole, over_there.stderr
    ended = await asyncio.to_thread(cli, "show", name)
    assert (ended.returncode, b"cellhouse logs --text stdout" in ended.stdout) == (0, True), ended.stderr
    ended = await asyncio.to_thread(cli, "logs", "--text", "stdout", name)
    assert (ended.returncode, ended.stdout == whole) == (0, True), ended.stderr
    ended = await asyncio.to_thread(cli, "logs", name)
    assert b"--text stdout" in ended.stderr
    ended = await asyncio.to_thread(cli, "export", name)
    assert json.loads(ended.stdout)["cells"][-1]["source"] == code
    ended = await asyncio.to_thread(cli, "logs", "nope/nope")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"nothing is on record of" in ended.stderr
