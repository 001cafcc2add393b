"""What an adapter says where its framework is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing(package: str, extra: str) -> Iterator[None]:
    """Around the imports of a framework; an ImportError for a package that is missing names the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ImportError(
            f"this adapter needs the package {package!r}, which is not installed: pip install 'cellhouse[{extra}]'",
            name=error.name,
        ) from error
