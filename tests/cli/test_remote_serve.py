"""Both ends of the command line: `serve` in one process, commands against it in others, by the token it keeps."""

import asyncio
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
        stranger = Cli(tmp_path / "elsewhere", cli.environment, cli.directory)
        ended = await asyncio.to_thread(stranger, "ps", "--url", url)
        assert (ended.returncode, ended.stdout) == (3, b"")
        assert b"token" in ended.stderr
    finally:
        service.send_signal(signal.SIGTERM)
        _, err = await within(service.communicate())
    assert service.returncode == 0, err
