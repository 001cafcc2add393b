"""Segments of a path that are ids: `{runtime:id}` takes no colon, behind which a method of its own begins."""

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

ID: Final = "id"


class _Id(Convertor[str]):
    # Whether it is a good one is told by the names themselves.
    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor(ID, _Id())

RUNTIME: Final = f"/v1/runtimes/{{runtime:{ID}}}"
SESSION: Final = f"/sessions/{{session:{ID}}}"
EXECUTION: Final = f"/executions/{{execution:{ID}}}"
