"""The runtimes of a house with keepers."""

import asyncio
import contextlib
from functools import partial

from cellhouse.keepers import calls
from cellhouse.keepers.part import KeptPart
from cellhouse.keepers.pieces import LinkLost
from cellhouse.keepers.router import MADE
from cellhouse.model import (
    CellhouseError,
    NotFound,
    Runtime,
    RuntimeList,
    RuntimeName,
    RuntimeSpec,
    RuntimeSpecs,
    SessionLogPage,
    Unavailable,
    check_id,
    mint_id,
)
from cellhouse.runtime.answering import answering
from cellhouse.runtime.paging import page_by_name
from cellhouse.runtime.requests import CreateRequest, CreateRequests
from cellhouse.runtime.session_log import page_of_session_log


class KeptRuntimes(KeptPart):
    """The part of `KeptHouse` that is about runtimes; see House."""

    _requests: CreateRequests

    @answering
    async def runtime_specs(self) -> RuntimeSpecs:
        self._check_open()
        offered = await self._root.runtime_specs()
        count, most = len(self._router), self._settings.max_runtimes
        return offered.model_copy(
            update={
                "runtimes": count,
                "may_create": offered.may_create and not self._draining and count < most,
            }
        )

    @answering
    async def create_runtime(
        self,
        spec: RuntimeSpec | None = None,
        *,
        runtime_id: str | None = None,
        request_id: str | None = None,
    ) -> Runtime:
        """See House. A caller that goes away meanwhile, and gave no `request_id`, leaves no runtime."""
        self._check_accepting()
        spec = spec or RuntimeSpec()
        if runtime_id is not None:
            check_id(runtime_id, "runtimeId")
        if request_id is None:
            runtime = runtime_id or mint_id("rt")
            making = self._router.begin(self._router.create(spec, runtime, None), f"create {runtime}")
            try:
                await asyncio.shield(making)
            except asyncio.CancelledError:
                making.add_done_callback(lambda done: self._unwanted(runtime, done))
                raise
        else:
            request = CreateRequest.of(request_id, spec, runtime_id)
            runtime = await self._requests.once(request, partial(self._make, spec, runtime_id, request))
        if await self._router.keeper(runtime) is None:
            return await self.get_runtime(str(RuntimeName(runtime)))  # it is over, and that is what is told
        again = {"spec": spec.to_wire(), "runtimeId": runtime, "requestId": MADE}
        return await self._router.ask(runtime, calls.CREATE_RUNTIME, again)

    async def _make(self, spec: RuntimeSpec, runtime_id: str | None, request: CreateRequest) -> str:
        runtime = runtime_id or mint_id("rt")
        await self._router.create(spec, runtime, request)
        return runtime

    def _unwanted(self, runtime: str, made: asyncio.Task[None]) -> None:
        if not made.cancelled() and made.exception() is None and self._open:
            self._router.begin(self._drop(runtime), f"drop {runtime}")

    async def _drop(self, runtime: str) -> None:
        with contextlib.suppress(CellhouseError):
            await self.delete_runtime(str(RuntimeName(runtime)))

    @answering
    async def get_runtime(self, name: str) -> Runtime:
        return await self._of_runtime(name, calls.GET_RUNTIME)

    @answering
    async def list_runtimes(self) -> list[Runtime]:
        self._check_open()

        async def one(runtime: str) -> Runtime | None:
            with contextlib.suppress(NotFound, Unavailable):  # it has just ended, or is being made
                if (living := self._router.living.get(runtime)) is not None:
                    with contextlib.suppress(LinkLost):
                        method = calls.GET_RUNTIME
                        name = str(RuntimeName(runtime))
                        return method.decode(await living.link.call(method.name, {"name": name}))
            return None

        found = await asyncio.gather(*map(one, list(self._router.living)))
        return [runtime for runtime in found if runtime is not None]

    @answering
    async def page_runtimes(self, *, page_size: int = 0, page_token: str = "") -> RuntimeList:
        page, token = page_by_name("runtimes", await self.list_runtimes(), page_size, page_token)
        return RuntimeList(runtimes=tuple(page), next_page_token=token)

    @answering
    async def keep_alive(self, name: str) -> Runtime:
        return await self._of_runtime(name, calls.KEEP_ALIVE)

    @answering
    async def delete_runtime(self, name: str) -> None:
        runtime = RuntimeName.parse(name).runtime
        while (creating := self._router.creating.get(runtime)) is not None:
            await asyncio.wait([creating])
        living = self._router.living.get(runtime)
        await self._of_runtime(name, calls.DELETE_RUNTIME)
        if living is not None and self._router.living.get(runtime) is living:
            await living.end()  # so that its id can be had again at once

    @answering
    async def network_log(self, runtime: str) -> list[dict[str, str]]:
        return await self._of_runtime(runtime, calls.NETWORK_LOG)

    @answering
    async def page_network_log(
        self, runtime: str, *, page_size: int = 0, page_token: str = ""
    ) -> SessionLogPage:
        entries = await self.network_log(runtime)
        if not entries:
            await self.get_runtime(runtime)
        return page_of_session_log(f"{runtime}/networkLog", entries, page_size, page_token)
