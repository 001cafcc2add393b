"""`cellhouse artifacts`: there and back, lists, and what is not there."""

from pathlib import Path

from tests.cli.remote import Commands
from tests.cli.test_remote import door, run
from tests.doors.conftest import fakes

__all__ = ["door", "fakes", "run"]


async def test_there_and_back(run: Commands, tmp_path: Path) -> None:
    (run.directory / "a b.csv").write_text("x,y\n")
    put = await run("artifacts", "put", "a b.csv")
    ref = put.out.strip()
    assert (put.status, ref[:4]) == (0, "art_"), put.err
    other = await run(
        "artifacts", "put", "a b.csv", "--json", "--kind", "table", "--label", "l", "--ttl", "60"
    )
    assert {key: other.json[key] for key in ("kind", "label", "mediaType", "bytes")} == {
        "kind": "table",
        "label": "l",
        "mediaType": "text/csv",
        "bytes": "4",
    }
    listed = await run("artifacts", "list", "--json", "--kind", "file")
    assert (listed.json["ref"], listed.json["label"]) == (ref, "a b.csv")
    table = await run("artifacts", "list")
    assert ref in table.out
    assert other.json["ref"] in table.out
    assert (await run("artifacts", "get", ref, "-")).out == "x,y\n"
    got = await run("artifacts", "get", ref, "out.csv", "--json")
    assert got.json["bytes"] == "4"
    assert (run.directory / "out.csv").read_text() == "x,y\n"
    assert (await run("artifacts", "rm", ref)).out == f"{ref}\n"
    assert (await run("artifacts", "list", "--evicted", "--json")).out == ""


async def test_what_is_not_there(run: Commands) -> None:
    missing = "art_" + "0" * 22
    for command in (("get", missing, "x"), ("get", missing, "-"), ("rm", missing), ("put", "none")):
        ended = await run("artifacts", *command)
        assert (ended.status, ended.out) == (2, ""), command
        assert ended.err.startswith(f"cellhouse artifacts {command[0]}: "), ended.err
    assert (await run("artifacts", "rm", "--force", missing)).status == 0
    assert not (run.directory / "x").exists()
    assert (await run("artifacts", "get", "no ref", "x")).status == 2
