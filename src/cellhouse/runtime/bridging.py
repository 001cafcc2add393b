"""A runtime's way out: the proxy outside, and a bridge to it inside that is kept up."""

import asyncio
import os
from typing import Final

from cellhouse.model import (
    CallReason,
    Clock,
    FailedPrecondition,
    NetworkPolicy,
    NetworkReport,
    NetworkSettings,
)
from cellhouse.network import Decision, Proxy, Refused
from cellhouse.runtime.logs import logger
from cellhouse.runtime.network import PORT
from cellhouse.runtime.session_log import SessionLog
from cellhouse.sandbox import Sandbox, SandboxGone, SandboxProcess, SpawnFailed
from cellhouse.sandbox.base import INSIDE_DIR

START_SECONDS: Final = 20.0
AGAIN_SECONDS: Final = (0.05, 5.0)
"""From the end of a bridge to the next one; twice as long each time, from the one to the other."""

_logger = logger()


class RuntimeNetwork:
    """Belongs to one event loop; lives as long as its runtime."""

    def __init__(
        self, policy: NetworkPolicy, settings: NetworkSettings, *, log: SessionLog, clock: Clock, runtime: str
    ) -> None:
        self._log, self._runtime = log, runtime
        self._proxy = Proxy(policy, settings, clock=clock, tell=self._tell)
        self._keeping: asyncio.Task[None] | None = None

    async def start(self, sandbox: Sandbox, python: str) -> None:
        """Return when the bridge listens. FailedPrecondition where it can't, or where a header can't be had."""
        await self._require_headers()
        listens: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeping = asyncio.get_running_loop().create_task(
            self._keep(sandbox, python, listens), name=f"bridge of {self._runtime}"
        )
        await asyncio.wait(
            [listens, self._keeping], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not listens.done():
            await self.close()
            raise FailedPrecondition(
                f"network: the bridge to the proxy, run by {python}, did not start inside",
                reason=CallReason.POLICY_UNAVAILABLE,
            )

    async def _require_headers(self) -> None:
        """Whoever has the runtime reads them: a keeper's own user may not be able to."""
        try:
            await asyncio.to_thread(self._proxy.check_headers)
        except Refused as refused:
            raise FailedPrecondition(
                f"network: {refused.text}. Read as uid {os.geteuid()}: {refused.detail}. Put it where that user sees and can read it, or take "
                "it out of network.headers",
                reason=CallReason.POLICY_UNAVAILABLE,
            ) from None

    def report(self) -> NetworkReport:
        return self._proxy.report()

    async def close(self) -> None:
        """End the bridge's keeping and every connection; the bridge itself goes with the sandbox."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        await self._proxy.close()

    async def _keep(self, sandbox: Sandbox, python: str, listens: asyncio.Future[None]) -> None:
        """A bridge, and another one whenever it has ended: code inside may have killed it."""
        pause, longest = AGAIN_SECONDS
        while True:
            try:
                listened = await self._one(sandbox, python, listens)
            except SandboxGone:
                return
            except (SpawnFailed, OSError) as error:
                listened = False
                _logger.warning(
                    "the bridge of a runtime could not be started", runtime=self._runtime, error=f"{error}"
                )
            pause = AGAIN_SECONDS[0] if listened else min(longest, 2 * pause)
            await asyncio.sleep(pause)

    async def _one(self, sandbox: Sandbox, python: str, listens: asyncio.Future[None]) -> bool:
        """One bridge, from its start to its end; whether it ever listened."""
        gate = self._proxy.open_gate()
        try:
            process = await self._spawn(sandbox, python, gate.descriptors)
            gate.handed()
            listened = await gate.listening
            if listened and not listens.done():
                listens.set_result(None)
            await process.wait()
            self._log.write("bridge", "the bridge inside has ended; another one is started")
            return listened
        finally:
            gate.close()

    async def _spawn(self, sandbox: Sandbox, python: str, descriptors: tuple[int, int]) -> SandboxProcess:
        argv = [python, "-I", "-S", "-B", sandbox.inside_path(INSIDE_DIR / "bridge.py"), f"{PORT}"]
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return await sandbox.spawn(
                argv, env={}, cwd="/", output=(nothing, nothing), descriptors=descriptors
            )
        finally:
            os.close(nothing)

    def _tell(self, decision: Decision) -> None:
        what = "allowed" if decision.reason is None else f"refused {decision.reason}"
        self._log.write("network", f"{what} {decision.target}: {decision.text}")
