"""What a keeper is told by its directory."""

from pathlib import Path

from cellhouse.keepers.place import Place
from cellhouse.runtime import Settings


def test_keepers_take_turns_all_together(tmp_path: Path) -> None:
    """At what takes the machine for a while: warming their zygotes."""
    settings = Settings(state_dir=tmp_path)
    told = set()
    for name in ("one", "two"):
        place = Place(tmp_path, name)
        assert place.make()
        place.tell(settings)
        assert place.settings().state_dir == place.directory
        told.add(place.settings().turns_file)
    assert len(told) == 1
    assert told.pop() is not None
