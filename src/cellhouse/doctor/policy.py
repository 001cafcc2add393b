"""The network policy `allow`, tried: what it names is reached through the proxy, nothing else is, and nothing without one."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

from cellhouse.doctor.report import LayerStatus, PolicyReport
from cellhouse.doctor.running import ANSWER_CHARS
from cellhouse.doctor.sessions import run_cell
from cellhouse.house import House
from cellhouse.model import (
    CallReason,
    CellhouseError,
    FailedPrecondition,
    NetworkPolicy,
    NetworkSettings,
    Outcome,
    RuntimeSpec,
)
from cellhouse.model.wire import plain_text

HOST: Final = "127.0.0.1"
REACHED: Final = "reached"

_PROGRAM: Final = """
import errno, json, os, socket, urllib.parse
def said(address, request=b""):
    try:
        with socket.create_connection(address, 2) as made:
            made.sendall(request)
            return made.makefile("rb").read(4096).decode("latin-1")
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
def through(port):
    proxy = urllib.parse.urlsplit(os.environ.get("HTTPS_PROXY", "http://127.0.0.1:3128"))
    target = f"{HOST}:{port}"
    request = f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode()
    head, _, body = said((proxy.hostname, proxy.port), request).partition("\\r\\n\\r\\n")
    return body if body == TOKEN else head.partition("\\r\\n")[0]
print(json.dumps([through(NAMED), through(UNNAMED), said((HOST, NAMED))]))
"""


def own_servers(settings: NetworkSettings) -> NetworkSettings:
    """For the house of an examination: the limits are the operator's, what may be reached is doctor's own alone."""
    return replace(settings, may_allow=(f"{HOST}:*",), private=(f"{HOST}/32",), may_open=False, headers=())


@dataclass(slots=True)
class Server:
    """One of doctor's own: gives `token` to whoever connects, and counts them."""

    token: str
    port: int = 0
    served: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served += 1
        with contextlib.suppress(OSError):
            writer.write(self.token.encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def listening(token: str) -> AsyncIterator[Server]:
    made = Server(token)
    listener = await asyncio.start_server(made.answer, HOST, 0)
    async with listener:
        made.port = listener.sockets[0].getsockname()[1]
        yield made


@dataclass(frozen=True, slots=True)
class Said:
    """What code came to: by way of the proxy to what is named and to what is not, and past the proxy."""

    named: str
    unnamed: str
    direct: str


async def examine_policy(house: House, level: str) -> PolicyReport:
    """A runtime of this level that may reach one server, then one that asks for nothing; both are deleted again."""
    token = secrets.token_hex(16)
    async with listening(token) as named, listening(token) as unnamed:
        policy = NetworkPolicy(allow=(f"{HOST}:{named.port}",))
        try:
            said, refused = await _tried(house, level, policy, named, unnamed)
            served = named.served
            without, _ = await _tried(house, level, None, named, unnamed)
        except FailedPrecondition as error:
            absent = error.reason == CallReason.POLICY_UNAVAILABLE
            status = LayerStatus.ABSENT if absent else LayerStatus.NOT_SHOWN
            return PolicyReport(status=status, detail=error.message)
        except (CellhouseError, ValueError) as error:
            return PolicyReport(
                status=LayerStatus.NOT_SHOWN, detail=f"the policy could not be examined: {error}"
            )
        return verdict(said, without, refused, (served, named.served - served, unnamed.served))


def verdict(said: Said, without: Said, refused: str, served: tuple[int, int, int]) -> PolicyReport:
    """`served`: connections to what is named, by either runtime, and to what is not, as the servers counted them."""
    told = {
        "named": said.named,
        "unnamed": refused or said.unnamed,
        "direct": said.direct,
        "without_policy": next(
            (each for each in (without.named, without.unnamed, without.direct) if each == REACHED),
            without.direct,
        ),
    }
    expected, astray, elsewhere = served
    status, detail = LayerStatus.IN_FORCE, None
    if astray or elsewhere or REACHED in (said.unnamed, said.direct, told["without_policy"]):
        status, detail = LayerStatus.OPEN, "code reached a server that its policy does not name"
    elif said.named != REACHED or not expected:
        status, detail = LayerStatus.NOT_SHOWN, "what the policy names was not reached through the proxy"
    elif not refused:
        status, detail = (
            LayerStatus.NOT_SHOWN,
            "the proxy told of no refusal of what the policy does not name",
        )
    return PolicyReport(status=status, detail=detail, **told)


async def _tried(
    house: House, level: str, policy: NetworkPolicy | None, named: Server, unnamed: Server
) -> tuple[Said, str]:
    """What code in a runtime with this policy came to, and the proxy's own word on what is not named: empty for none."""
    runtime = await house.create_runtime(RuntimeSpec(isolation=level, start="fresh", network=policy))
    try:
        values: dict[str, Any] = {
            "HOST": HOST,
            "NAMED": named.port,
            "UNNAMED": unnamed.port,
            "TOKEN": named.token,
        }
        given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        result = await run_cell(house, f"{runtime.name}/sessions/main", given + _PROGRAM)
        if result.outcome is not Outcome.OK:
            raise ValueError(f"the code that tries it ended with {result.outcome}")
        answers = [_answer(each, named.token) for each in json.loads(result.stdout)]
        network = house.get_runtime(runtime.name).network
        refusals = network.refusals or () if network is not None else ()
        target = f"{HOST}:{unnamed.port}"
        refused = next((each for each in refusals if each.target == target), None)
        return Said(*answers), f"{refused.reason}: {refused.text}" if refused is not None else ""
    finally:
        await house.delete_runtime(runtime.name)


def _answer(said: Any, token: str) -> str:
    return REACHED if said == token else plain_text(f"{said}")[:ANSWER_CHARS]
