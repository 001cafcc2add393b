"""The artifact store and inputs over HTTP: what a client can do there, and what none can."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from cellhouse.doors.inert import INERT
from tests.doors.support import Door, Names, house_of, ok, opened, refused, within
from tests.runtime.support import FakeWorld

ARTIFACTS = "/v1/artifacts"
DATA = bytes(range(256)) * 5_000


async def put(door: Door, data: bytes = DATA, **params: Any) -> dict[str, Any]:
    made: dict[str, Any] = await ok(
        door.client.post(ARTIFACTS, content=data, params=params, headers={"content-type": "text/csv"})
    )
    return made


async def test_an_artifact_goes_up_and_comes_down(door: Door) -> None:
    made = await put(door, label="a b.csv", kind="table", ttl=60, origin="o")
    assert made["bytes"] == str(len(DATA))
    assert made["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert (made["mediaType"], made["kind"], made["label"], made["origin"]) == (
        "text/csv",
        "table",
        "a b.csv",
        "o",
    )
    one = f"{ARTIFACTS}/{made['ref']}"
    assert await ok(door.client.get(one)) == made
    got = await within(door.client.get(f"{one}/data"))
    assert got.content == DATA
    digest = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
    assert got.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.csv"
    assert got.headers["content-type"].startswith("text/csv")
    assert {name: got.headers[name] for name in INERT} == INERT
    part = await within(door.client.get(f"{one}/data", headers={"range": "bytes=5-9"}))
    assert (part.status_code, part.content) == (206, DATA[5:10])
    same = await within(door.client.get(f"{one}/data", headers={"if-none-match": got.headers["etag"]}))
    assert same.status_code == 304
    past = door.client.get(f"{one}/data", headers={"range": f"bytes={len(DATA)}-"})
    await refused(past, 416, "INVALID_ARGUMENT", "RANGE_NOT_SATISFIABLE")
    await ok(door.client.delete(one))
    await refused(door.client.get(one), 404, "NOT_FOUND", "NO_SUCH_ARTIFACT")
    await refused(door.client.get(f"{one}/data"), 404, "NOT_FOUND", "NO_SUCH_ARTIFACT")
    await refused(door.client.delete(one), 404, "NOT_FOUND", "NO_SUCH_ARTIFACT")
    await ok(door.client.delete(one, params={"allowMissing": "true"}))


async def test_pages(door: Door) -> None:
    made = [(await put(door, b"%d" % number, kind="k"))["ref"] for number in range(3)]
    first = await ok(door.client.get(ARTIFACTS, params={"pageSize": 2, "kind": "k"}))
    assert [each["ref"] for each in first["artifacts"]] == made[:0:-1]
    token = first["nextPageToken"]
    rest = await ok(door.client.get(ARTIFACTS, params={"pageToken": token}))
    assert [each["ref"] for each in rest["artifacts"]] == made[:1]
    assert "nextPageToken" not in rest
    assert await ok(door.client.get(f"{ARTIFACTS}:evictions")) == {"evictions": []}
    await refused(
        door.client.get(ARTIFACTS, params={"pageToken": "x"}), 400, "INVALID_ARGUMENT", "INVALID_FIELD"
    )


async def test_what_arrives_is_held_against_what_was_announced(door: Door) -> None:
    headers = {"repr-digest": f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"}
    await refused(
        door.client.post(ARTIFACTS, content=DATA, headers=headers), 400, "INVALID_ARGUMENT", "INVALID_FIELD"
    )
    assert (await ok(door.client.get(ARTIFACTS)))["artifacts"] == []


async def test_tenants_do_not_see_each_other(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", authenticator=Names()) as door:
        door.client.headers["authorization"] = "Bearer alice"
        made = await put(door)
        for token in ("bob", "alice2"):
            headers = {"authorization": f"Bearer {token}"}
            for call in (
                door.client.get(f"{ARTIFACTS}/{made['ref']}", headers=headers),
                door.client.get(f"{ARTIFACTS}/{made['ref']}/data", headers=headers),
                door.client.delete(f"{ARTIFACTS}/{made['ref']}", headers=headers),
            ):
                await refused(call, 404, "NOT_FOUND", "NO_SUCH_ARTIFACT")
            listed = await ok(door.client.get(ARTIFACTS, headers=headers))
            assert listed == {"artifacts": []}
        reads = {"authorization": "Bearer alice:read"}
        await refused(
            door.client.post(ARTIFACTS, content=b"", headers=reads), 403, "PERMISSION_DENIED", "SCOPE_MISSING"
        )
        assert (await ok(door.client.get(f"{ARTIFACTS}/{made['ref']}", headers=reads)))["ref"] == made["ref"]


async def test_a_damaged_one_is_cut_off(door: Door) -> None:
    made = await put(door)
    ref = made["ref"]
    url = f"{ARTIFACTS}/{ref}/data"
    blob = house_of(door.service).state_dir / "artifacts" / "blobs" / ref[4:6] / ref
    blob.write_bytes(DATA[:-1] + b"!")
    with pytest.raises(Exception, match=r"peer closed|incomplete"):
        await within(door.client.get(url))


# Inputs


async def test_inputs_by_bytes_and_by_ref(door: Door) -> None:
    made = await put(door)
    body = {
        "inputs": {
            "a": {"data": base64.b64encode(b"bytes").decode()},
            "b": {"ref": made["ref"]},
        }
    }
    staged = (await ok(door.client.post("/v1/runtimes/here:stageInputs", json=body)))["paths"]
    assert {name: Path(path).read_bytes() for name, path in staged.items()} == {"a": b"bytes", "b": DATA}
    one = await ok(door.client.put("/v1/runtimes/here/inputs/x%2F..%2Fy", content=DATA))
    ((name, path),) = one["paths"].items()
    assert name == "x/../y"
    assert Path(path).name == "x%2F..%2Fy"
    assert Path(path).read_bytes() == DATA


async def test_what_is_no_input(door: Door) -> None:
    inputs: tuple[object, ...] = (
        None,
        [],
        {"a": "/etc/passwd"},
        {"a": {"path": "/etc/passwd"}},
        {"a": {"data": "!"}},
        {"a": {"ref": "x"}},
        {"a": {"ref": 1}},
        {"a": {"data": "", "ref": "x"}},
        {"": {"data": ""}},
    )
    for each in inputs:
        call = door.client.post("/v1/runtimes/here:stageInputs", json={"inputs": each})
        error = await within(call)
        assert error.status_code == 400, each
        assert error.json()["error"]["status"] == "INVALID_ARGUMENT", each
