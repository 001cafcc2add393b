"""The calls of the REST service, a file for each kind of thing."""

from cellhouse.doors.api import artifacts, executions, files, inputs, outputs, runtimes, sessions, texts

ROUTERS = (
    executions.router,
    texts.router,
    outputs.router,
    sessions.router,
    files.router,
    inputs.router,
    artifacts.router,
    runtimes.router,
)

__all__ = ["ROUTERS"]
