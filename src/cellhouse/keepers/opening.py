"""Opening a house for a door: with its runtimes in this process, or each in a keeper."""

from collections.abc import Awaitable, Callable

from cellhouse.house import House
from cellhouse.keepers.forking import Template
from cellhouse.keepers.kept import KeptHouse
from cellhouse.keepers.surface import AnyHouse, DirectHouse
from cellhouse.runtime import Settings


async def open_direct(settings: Settings) -> AnyHouse:
    """A house whose runtimes end with this process. Raises what opening one does."""
    return DirectHouse(await House(settings=settings).__aenter__())


def kept_opener(template: Template) -> Callable[[Settings], Awaitable[AnyHouse]]:
    """What opens houses whose keepers are all forked from one template."""

    async def opened(settings: Settings) -> AnyHouse:
        return await KeptHouse(settings, template=template).__aenter__()

    return opened
