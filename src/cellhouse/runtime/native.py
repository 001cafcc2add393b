"""How native kernels are started inside a sandbox: forked from a zygote, or fresh."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cellhouse.environments import NATIVE_KERNEL, Environment
from cellhouse.kernel import (
    Kernel,
    KernelProcess,
    KernelStartFailed,
    NativeKernel,
    NativeLaunch,
    SourceLimits,
)
from cellhouse.model import (
    MESSAGE_BYTES,
    CallReason,
    CaptureLimits,
    FailedPrecondition,
    Isolation,
    IsolationLayer,
    RuntimeSpec,
)
from cellhouse.runtime.logs import logger
from cellhouse.runtime.nursery import Nursery
from cellhouse.runtime.settings import Settings
from cellhouse.runtime.turns import TURNS_FILE, Turns
from cellhouse.runtime.zygote import ZygoteFailed
from cellhouse.sandbox import (
    ABSENT,
    IN_FORCE,
    LANDLOCK_LEAST_ABI,
    Sandbox,
    SandboxGone,
    SpawnFailed,
    landlock_abi,
    owner_of,
)
from cellhouse.sandbox.base import INSIDE_DIR

VARIABLES: Final = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
"""What a kernel says to libraries before they are imported."""

_logger = logger()


def has_walls(isolation: Isolation) -> bool:
    return any(layer.status == IN_FORCE for layer in isolation.layers)


def check_start(spec: RuntimeSpec, kernel: str) -> None:
    """FailedPrecondition where a runtime is to fork kernels that can't be forked."""
    if spec.start == "zygote" and kernel != NATIVE_KERNEL:
        raise FailedPrecondition(
            f"start: kernel {kernel!r} can't be started from a zygote, only {NATIVE_KERNEL!r} can; leave start out",
            reason=CallReason.POLICY_UNAVAILABLE,
            metadata={"start": "zygote", "kernel": kernel},
        )


class NativeLauncher:
    """Makes the native kernels of one runtime, once its sandbox has been started."""

    def __init__(
        self,
        sandbox: Sandbox,
        environment: Environment,
        *,
        start: str | None,
        settings: Settings,
        variables: Mapping[str, str],
        walls_gone: Callable[[], Awaitable[str]],
    ) -> None:
        """`start` is "zygote", "fresh", or what the settings say. FailedPrecondition where it was said and can't be had."""
        self._sandbox = sandbox
        self._python = str(environment.python)
        self._env = {**VARIABLES, **variables}
        self._cwd = sandbox.inside_path(sandbox.content)
        self._limits = _source_limits(settings.capture)
        self._start_seconds = settings.session.start_seconds
        self._walls_gone = walls_gone
        self._isolate = has_walls(sandbox.report)
        self._abi = landlock_abi()
        self._launched = False
        self._nursery: Nursery | None = None
        if not self._can_fork and start == "zygote":
            raise FailedPrecondition(
                f"start: sessions from a zygote can't be kept from each other here: {self._no_landlock}; leave start "
                "out for fresh starts",
                reason=CallReason.ISOLATION_UNAVAILABLE,
                metadata={"start": "zygote", "layer": "landlock"},
            )
        if self._can_fork and (start or settings.start) == "zygote":
            self._nursery = Nursery(
                sandbox,
                python=self._python,
                env=self._env,
                cwd=self._cwd,
                preload=settings.preload,
                spares=settings.spares,
                make_kernel=self._make,
                turns=Turns(settings.turns_file or settings.state_dir / TURNS_FILE),
            )

    @property
    def _can_fork(self) -> bool:
        return not self._isolate or self._abi >= LANDLOCK_LEAST_ABI

    @property
    def _no_landlock(self) -> str:
        has = f"its Landlock has ABI {self._abi}" if self._abi else "it has no Landlock"
        return f"the kernel of this host has no Landlock scopes (ABI {LANDLOCK_LEAST_ABI}, Linux 6.12; {has})"

    def begin(self) -> None:
        """Have the zygote started, where there is to be one; nobody has to wait for it."""
        if self._nursery is not None:
            self._nursery.begin_soon()

    @property
    def ahead(self) -> int:
        """Sessions that were forked before anybody asked for them."""
        return 0 if self._nursery is None else self._nursery.ahead

    async def close(self) -> None:
        """End what no session has; called before the sandbox is closed."""
        if self._nursery is not None:
            await self._nursery.close()

    def isolation(self, report: Isolation) -> Isolation:
        """The sandbox's report, with what is in force between the sessions."""
        if not self._isolate:
            return report
        if self._can_fork:
            layer = IsolationLayer(
                name="landlock",
                status=IN_FORCE,
                detail=f"each session's own domain: no signals to, no sight of the others (ABI {self._abi})",
            )
        else:
            layer = IsolationLayer(
                name="landlock",
                status=ABSENT,
                detail=f"{self._no_landlock}: sessions can reach each other, and are started fresh",
            )
        layers = tuple(layer if each.name == "landlock" else each for each in report.layers)
        return Isolation(level=report.level, layers=layers)

    async def __call__(self) -> Kernel:
        if self._nursery is None:
            return await self._start(self._fresh)
        if (spare := await self._nursery.take()) is not None:
            return spare
        # The first has nobody to wait for: fresh it is there sooner than a zygote gets warm, and often it is the only one.
        first, self._launched = not self._launched, True
        if not first or self._nursery.ready:
            return await self._start(self._forked)
        self._nursery.put_off()
        try:
            return await self._start(self._fresh)
        finally:
            self._nursery.begin_soon()

    async def _start(self, launch: NativeLaunch) -> Kernel:
        kernel = self._make(launch)
        await kernel.start()
        return kernel

    def _make(self, launch: NativeLaunch) -> Kernel:
        return NativeKernel(
            NATIVE_KERNEL,
            launch,
            limits=self._limits,
            isolate=self._isolate and self._abi >= LANDLOCK_LEAST_ABI,
            start_seconds=self._start_seconds,
            walls_gone=self._walls_gone,
            writer=owner_of(self._sandbox.content),
        )

    async def _forked(self, sock: int, stdout: int, stderr: int) -> KernelProcess:
        assert self._nursery is not None
        try:
            return await self._nursery.fork(sock, stdout, stderr)
        except ZygoteFailed as error:
            _logger.info("a session is started fresh", error=str(error))
        except SandboxGone as error:
            raise _not_started(error) from None
        return await self._fresh(sock, stdout, stderr)

    async def _fresh(self, sock: int, stdout: int, stderr: int) -> KernelProcess:
        # -s as for the zygote: nothing that another session left in its home runs before this one's walls stand.
        program = self._sandbox.inside_path(INSIDE_DIR / "kernel.py")
        try:
            return await self._sandbox.spawn(
                [self._python, "-s", program, "3"],
                env=self._env,
                cwd=self._cwd,
                output=(stdout, stderr),
                descriptors=(sock,),
            )
        except (SpawnFailed, SandboxGone) as error:
            raise _not_started(error) from None


def _not_started(error: Exception) -> KernelStartFailed:
    return KernelStartFailed(f"kernel {NATIVE_KERNEL!r} could not be started: {error}")


def _source_limits(capture: CaptureLimits) -> SourceLimits:
    return SourceLimits(bundle_bytes=capture.bundle_bytes, text_chars=MESSAGE_BYTES // 4)
