"""Parts of a path: `{runtime:id}` takes no colon, behind which a method of its own begins; `{path:file}` is all that is left."""

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

ID: Final = "id"
FILE: Final = "file"


class _Id(Convertor[str]):
    # Whether it is a good one is told by the names themselves.
    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _File(Convertor[str]):
    regex = r"[\s\S]*"  # a file's name may hold a line break

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor(ID, _Id())
register_url_convertor(FILE, _File())

RUNTIME: Final = f"/v1/runtimes/{{runtime:{ID}}}"
ARTIFACT: Final = f"/{{artifact:{ID}}}"
SESSION: Final = f"/sessions/{{session:{ID}}}"
EXECUTION: Final = f"/executions/{{execution:{ID}}}"
