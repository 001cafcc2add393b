"""The calls of the REST service, a file for each kind of thing."""

from cellhouse.doors.api import executions, files, outputs, runtimes, sessions, texts

ROUTERS = (
    executions.router,
    texts.router,
    outputs.router,
    sessions.router,
    files.router,
    runtimes.router,
)

__all__ = ["ROUTERS"]
