"""What docs/configuration.md says of sections and keys is so."""

import re
from pathlib import Path

from cellhouse.config import catalogue
from cellhouse.config.catalogue import sections

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def described() -> list[tuple[str, str]]:
    """(section, key) of each row of the table of settings; a row without a section belongs to the one above."""
    _, table = DOCUMENT.read_text(encoding="utf-8").split("| section | keys | what |")
    found, section = [], ""
    for row in re.findall(r"^\|([^|]*)\|([^|]*)\|", table, re.MULTILINE):
        named = re.search(r"`\[(\w+)\]`", row[0])
        section = named[1] if named else section
        found += [(section, key) for key in re.findall(r"`(\w+)`", row[1])]
    return found


def test_every_section_is_described_and_each_key_in_it_exists() -> None:
    rows = described()
    assert {section for section, _ in rows} == set(sections())
    assert [f"{section}.{key}" for section, key in rows if f"{section}.{key}" not in catalogue()] == []


def test_every_setting_that_is_the_services_own_is_described() -> None:
    """Those of the house's limits are described in `cellhouse.model.limits`, some of the doors' in docs/service.md."""
    elsewhere = ("session.", "capture.", "retention.", "limits.")
    names = {f"{section}.{key}" for section, key in described()}
    assert {name for name in catalogue() if not name.startswith(elsewhere)} <= names
