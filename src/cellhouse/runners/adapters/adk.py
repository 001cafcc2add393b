"""A code executor of Google ADK: `LlmAgent(code_executor=CellhouseCodeExecutor(SessionCodeRunner()))`."""

import base64
import binascii
import json
from typing import Any, Final

from cellhouse.model import CallReason, CodeResult, FailedPrecondition, InvalidArgument, mint_uid
from cellhouse.runners.adapters.bridge import Bridge
from cellhouse.runners.adapters.extra import needing
from cellhouse.runners.base import CodeRunner
from cellhouse.runners.blocking import BlockingRunner
from cellhouse.runners.rendering import MAX_CHARS, render

with needing("google", "google-adk"):
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.code_executors.base_code_executor import BaseCodeExecutor
    from google.adk.code_executors.code_execution_utils import (
        CodeExecutionInput,
        CodeExecutionResult,
        File,
    )
    from pydantic import PrivateAttr

TIMEOUT_SECONDS: Final = 300


class CellhouseCodeExecutor(BaseCodeExecutor):
    """Runs an agent's code blocks. With `stateful`, a session for each app, user and session of ADK; else one a call.

    ADK shows a model either stdout or, where that is not empty, stderr, and takes the latter for a failure. So the whole
    rendering of a result (cuts, causes, lost sessions, files by ref) is in stdout where the code ended well, and in stderr
    where it did not. Files that come with their bytes (`data_bytes` of SessionCodeRunner) are handed to ADK's artifact
    service besides.

    `runner` is one that is not entered yet, which is closed by `close`, or an open BlockingRunner, which is not.
    """

    max_output_chars: int = MAX_CHARS
    """Characters of stdout and stderr together that a model gets to read."""

    _bridge: Bridge = PrivateAttr()

    def __init__(self, runner: CodeRunner | BlockingRunner, **fields: Any) -> None:
        """`fields` are those of BaseCodeExecutor. FAILED_PRECONDITION where the runner can't give what they ask for."""
        bridge = Bridge(runner)
        fields.setdefault("stateful", bridge.traits.state)
        fields.setdefault("timeout_seconds", TIMEOUT_SECONDS)
        super().__init__(**fields)
        bridge.need("session" if self.stateful else "call")
        if self.optimize_data_file:
            bridge.traits.refuse_inputs()
        self._bridge = bridge

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """See BaseCodeExecutor."""
        runner = self._bridge.open()
        key = key_of(invocation_context, code_execution_input) if self.stateful else f"adk-{mint_uid()}"
        inputs = {file.name: _bytes(file) for file in code_execution_input.input_files}
        try:
            if inputs:
                self._place(runner, key, inputs)
            result = runner.run(code_execution_input.code, key=key, timeout=self.timeout_seconds)
        finally:
            if not self.stateful:
                runner.stop(key=key)
        return self._told(result)

    def close(self) -> None:
        """End the runner where it is in our hands."""
        self._bridge.close()

    def _place(self, runner: BlockingRunner, key: str, inputs: dict[str, bytes]) -> None:
        """ADK names files without a path, so they are to be in the working directory."""
        self._bridge.traits.refuse_inputs()

        async def stage() -> dict[str, str]:
            return await (await runner.runner.start(key=key)).stage(inputs)

        paths = runner.wait(stage())
        code = f"import shutil\nfor name, path in {paths!r}.items():\n    _ = shutil.copyfile(path, name)\n"
        placed = runner.run(code, key=key)
        if not placed.ok:
            raise FailedPrecondition(
                f"the input files could not be put into place: {render(placed)}",
                reason=CallReason.RUNNER_UNSUITABLE,
            )

    def _told(self, result: CodeResult) -> CodeExecutionResult:
        text = render(result, max_chars=self.max_output_chars)
        files = [
            File(
                name=artifact.name,
                content=artifact.data,
                mime_type=artifact.media_type or "application/octet-stream",
            )
            for artifact in result.artifacts or ()
            if artifact.data is not None
        ]
        return CodeExecutionResult(
            stdout=text if result.ok else result.stdout,
            stderr="" if result.ok else text,
            output_files=files,
            exit_code=result.exit_code,
        )


def key_of(context: InvocationContext, given: CodeExecutionInput) -> str:
    """One key for each session of ADK: the id of that alone is unique only within its app and user."""
    session = context.session
    return json.dumps([session.app_name, session.user_id, session.id, given.execution_id], ensure_ascii=False)


def _bytes(file: File) -> bytes:
    """ADK hands a file over as bytes, or as base64 in a text."""
    content: bytes | str = file.content
    if isinstance(content, bytes):
        return content
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        raise InvalidArgument.of_field(
            "input_files", f"{file.name[:80]!a} is text that is no base64; give its bytes"
        ) from None
