"""Files, texts and rich outputs over HTTP: whole and in parts, and inert whatever is in them."""

import asyncio
import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from cellhouse.doors.inert import INERT, OCTETS, attachment, content_type
from tests.doors.support import Door, connect, ok, opened, refused, until, within
from tests.runtime.support import FakeWorld

FILES = "/v1/runtimes/here/files"
DATA = bytes(range(256)) * 5_000


def digest_of(data: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


# Files


@pytest.mark.parametrize("name", ["a%0Ab", "a%0D%0Ab.html", "a%0A", "%0A"])
async def test_a_name_with_line_breaks_is_a_name(door: Door, name: str) -> None:
    await ok(door.client.put(f"{FILES}/{name}", content=b"x"))
    got = await within(door.client.get(f"{FILES}/{name}"))
    assert (got.content, got.headers["content-disposition"]) == (b"x", f"attachment; filename*=UTF-8''{name}")
    await ok(door.client.delete(f"{FILES}/{name}"))
    assert (await ok(door.client.get(FILES)))["files"] == []


async def test_a_part_of_a_file_does_not_replace_the_whole(door: Door) -> None:
    await ok(door.client.put(f"{FILES}/a", content=b"whole"))
    headers = {"content-range": "bytes 0-1/5"}
    put = door.client.put(f"{FILES}/a", content=b"no", headers=headers)
    await refused(put, 400, "INVALID_ARGUMENT", "INVALID_FIELD")
    assert (await within(door.client.get(f"{FILES}/a"))).content == b"whole"


async def test_a_file_goes_up_and_comes_down(door: Door) -> None:
    written = await ok(door.client.put(f"{FILES}/a/b c.bin", content=DATA))
    assert written == {
        "name": "a/b c.bin",
        "bytes": str(len(DATA)),
        "sha256": hashlib.sha256(DATA).hexdigest(),
    }
    got = await within(door.client.get(f"{FILES}/a/b c.bin", headers={"want-repr-digest": "sha-256=1"}))
    assert got.content == DATA
    assert got.headers["repr-digest"] == digest_of(DATA)
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''b%20c.bin"
    assert got.headers["content-length"] == str(len(DATA))
    tagged = await within(
        door.client.get(f"{FILES}/a/b c.bin", headers={"if-none-match": got.headers["etag"]})
    )
    assert (tagged.status_code, tagged.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=100-", 100, None),
        ("bytes=-10", -10, None),
        ("bytes=5-999999999", 5, None),
    ],
)
async def test_a_part_of_a_file(door: Door, asked: str, start: int, end: int | None) -> None:
    await ok(door.client.put(f"{FILES}/a", content=DATA))
    got = await within(door.client.get(f"{FILES}/a", headers={"range": asked}))
    assert got.status_code == 206
    assert got.content == DATA[start:end]
    first = start % len(DATA)
    assert got.headers["content-range"] == f"bytes {first}-{first + len(got.content) - 1}/{len(DATA)}"


async def test_what_is_no_part_is_the_whole_or_refused(door: Door) -> None:
    await ok(door.client.put(f"{FILES}/a", content=b"0123456789"))
    for asked in ("bytes=0-1,3-4", "bytes=5-2", "lines=1-2", "bytes=x"):
        got = await within(door.client.get(f"{FILES}/a", headers={"range": asked}))
        assert (got.status_code, got.content) == (200, b"0123456789")
    other = {"range": "bytes=0-1", "if-range": '"another"'}
    assert (await within(door.client.get(f"{FILES}/a", headers=other))).status_code == 200
    call = door.client.get(f"{FILES}/a", headers={"range": "bytes=10-"})
    await refused(call, 416, "INVALID_ARGUMENT", "RANGE_NOT_SATISFIABLE")
    await ok(door.client.put(f"{FILES}/empty", content=b""))
    got = await within(door.client.get(f"{FILES}/empty"))
    assert (got.status_code, got.content) == (200, b"")


async def test_files_are_listed(door: Door) -> None:
    for name in ("b", "a/x", "a/y/z"):
        await ok(door.client.put(f"{FILES}/{name}", content=b"123"))
    listed = await ok(door.client.get(FILES))
    assert [(each["name"], each["kind"], each.get("bytes")) for each in listed["files"]] == [
        ("a", "directory", None),
        ("b", "file", "3"),
    ]
    assert "incomplete" not in listed
    listed = await ok(door.client.get(FILES, params={"path": "a", "recursive": "true"}))
    assert [each["name"] for each in listed["files"]] == ["a/x", "a/y", "a/y/z"]
    await refused(door.client.get(FILES, params={"path": "none"}), 404, "NOT_FOUND", "NO_SUCH_FILE")
    error = await refused(
        door.client.get(FILES, params={"path": "b"}), 400, "INVALID_ARGUMENT", "INVALID_FIELD"
    )
    assert str(door.fakes.sandboxes[0].content) not in error["message"]


async def test_a_file_is_removed_and_a_directory_is_not(door: Door) -> None:
    await ok(door.client.put(f"{FILES}/a/x", content=b"1"))
    assert await ok(door.client.delete(f"{FILES}/a/x")) == {}
    await refused(door.client.delete(f"{FILES}/a/x"), 404, "NOT_FOUND", "NO_SUCH_FILE")
    assert await ok(door.client.delete(f"{FILES}/a/x", params={"allowMissing": "true"})) == {}
    await refused(door.client.delete(f"{FILES}/a"), 400, "INVALID_ARGUMENT", "INVALID_FIELD")


@pytest.mark.parametrize(
    "path",
    ["..%2fsecret", "a%2f..%2f..%2fx", "%2fetc%2fpasswd", "%2e", "%2e%2e", "", "a//b", "link/x", "link"],
)
async def test_nothing_outside_of_content_is_reached(door: Door, path: str) -> None:
    content = door.fakes.sandboxes[0].content
    (content.parent / "secret").write_text("secret")
    os.symlink("..", content / "link")
    for method in ("GET", "DELETE", "PUT"):
        if (method, path) in (("PUT", "link"), ("DELETE", "link")):
            continue  # the link itself is replaced or removed, never followed
        response = await within(door.client.request(method, f"{FILES}/{path}", content=b"x"))
        assert response.status_code in (400, 404, 405), response.text
        assert "error" in response.json()
    assert (content.parent / "secret").read_text() == "secret"


async def test_a_file_that_is_not_what_was_announced_is_not_put_there(door: Door) -> None:
    await ok(door.client.put(f"{FILES}/a", content=b"before", headers={"repr-digest": digest_of(b"before")}))
    for digest in (digest_of(b"other"), "sha-256=:no:", "sha-256=abc"):
        call = door.client.put(f"{FILES}/a", content=b"after", headers={"repr-digest": digest})
        await refused(call, 400, "INVALID_ARGUMENT", "INVALID_FIELD")
    assert (await within(door.client.get(f"{FILES}/a"))).content == b"before"
    assert os.listdir(door.fakes.sandboxes[0].content) == ["a"]


async def test_a_file_that_is_too_large_is_not_put_there(fakes: FakeWorld, tmp_path: Path) -> None:
    async with opened(fakes, tmp_path / "state", file_bytes=1_000) as door:
        await door.make(runtimeId="here")

        async def pieces() -> Any:
            for _ in range(11):
                yield b"x" * 100

        for content in (b"x" * 1_001, pieces()):
            call = door.client.put(f"{FILES}/a", content=content)
            await refused(call, 413, "INVALID_ARGUMENT", "BODY_TOO_LARGE")
        assert os.listdir(door.fakes.sandboxes[0].content) == []


async def test_an_upload_that_breaks_off_leaves_what_was_there(door: Door) -> None:
    await ok(door.client.put(f"{FILES}/a", content=b"before"))
    content = door.fakes.sandboxes[0].content
    _, writer = await connect(door.service)
    writer.write(f"PUT {FILES}/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nhalf".encode())
    await until(lambda: len(os.listdir(content)) == 2)
    writer.transport.abort()
    await until(lambda: os.listdir(content) == ["a"])
    assert (content / "a").read_bytes() == b"before"


async def test_a_file_that_shrinks_on_its_way_is_cut_off_and_not_made_up(door: Door) -> None:
    content = door.fakes.sandboxes[0].content
    (content / "a").write_bytes(b"x" * 8_000_000)
    reader, writer = await connect(door.service)
    writer.write(f"GET {FILES}/a HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await within(reader.readuntil(b"\r\n\r\n"))
    assert b"content-length: 8000000\r\n" in head
    (content / "a").write_bytes(b"")
    body = await within(reader.read())
    assert len(body) < 8_000_000
    writer.transport.abort()


# Texts


async def test_a_text_whole_in_part_and_by_pages(door: Door) -> None:
    lines = [f"zeile {number} é€😀" for number in range(50)]
    result = await door.run("\n".join(f"print {line}" for line in lines) + "\nraise ValueError no")
    path = f"/v1/{result['execution']}"
    whole = "".join(f"{line}\n" for line in lines).encode()
    got = await within(door.client.get(f"{path}/stdout"))
    assert got.content == whole
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    for start in range(10, 30):
        part = await within(
            door.client.get(f"{path}/stdout", headers={"range": f"bytes={start}-{start + 7}"})
        )
        assert (part.status_code, part.content) == (206, whole[start : start + 8])
    text, offset = "", 0
    while True:
        page = await ok(door.client.get(f"{path}/stdout", params={"offset": offset, "limit": 101}))
        text += page["text"]
        offset = int(page["nextOffset"])
        if page["eof"]:
            break
    assert text.encode() == whole
    assert (await within(door.client.get(f"{path}/traceback"))).text == "ValueError: no"
    assert (await within(door.client.get(f"{path}/stderr"))).content == b""
    assert (await within(door.client.get(f"{path}/result"))).content == b""
    for params in ({"offset": "-1"}, {"limit": "0"}, {"offset": "x"}):
        call = door.client.get(f"{path}/stdout", params=params)
        await refused(call, 400, "INVALID_ARGUMENT", "INVALID_FIELD")
    await refused(door.client.get(f"{path}x/stdout"), 404, "NOT_FOUND", "NO_SUCH_EXECUTION")


# Rich outputs


async def test_a_rich_output_with_its_bundle_and_its_data(door: Door) -> None:
    hostile = "<script>alert(1)</script>"
    result = await door.run(f"display {hostile}")
    path = f"/v1/{result['execution']}/richOutputs/0"
    output = await ok(door.client.get(path))
    assert output["mimeTypes"] == ["text/html"]
    assert output["bundle"]["data"]["text/html"] == hostile
    assert "bundle" not in await ok(door.client.get(path, params={"view": "basic"}))
    got = await within(door.client.get(f"{path}/data", params={"mimeType": "text/html"}))
    assert got.text == hostile
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    for name, value in INERT.items():
        assert got.headers[name] == value
    assert "sandbox;" in got.headers["content-security-policy"]
    again = {"if-none-match": f'"x", W/{got.headers["etag"]}'}
    assert (
        await within(door.client.get(f"{path}/data", params={"mimeType": "text/html"}, headers=again))
    ).status_code == 304
    part = await within(
        door.client.get(f"{path}/data", params={"mimeType": "text/html"}, headers={"range": "bytes=0-7"})
    )
    assert (part.status_code, part.text) == (206, "<script>")
    for params in ({"mimeType": "image/png"},):
        await refused(door.client.get(f"{path}/data", params=params), 404, "NOT_FOUND", "NO_SUCH_OUTPUT")
    await refused(door.client.get(f"{path}/data"), 400, "INVALID_ARGUMENT", "INVALID_FIELD")
    await refused(
        door.client.get(f"/v1/{result['execution']}/richOutputs/1"), 404, "NOT_FOUND", "NO_SUCH_OUTPUT"
    )
    await refused(
        door.client.get(f"/v1/{result['execution']}/richOutputs/x"), 400, "INVALID_ARGUMENT", "INVALID_FIELD"
    )


async def test_an_output_that_the_code_changed_says_so(door: Door) -> None:
    result = await door.run("display <b>")
    file = door.fakes.sandboxes[0].content / result["richOutputs"][0]["filePath"].removeprefix("/content/")
    file.write_text('{"data": {"text/html": "other", "x\\r\\nEvil: 1": "y"}}')
    path = f"/v1/{result['execution']}/richOutputs/0"
    assert (await ok(door.client.get(path)))["modified"] is True
    got = await within(door.client.get(f"{path}/data", params={"mimeType": "text/html"}))
    assert got.headers["cellhouse-modified"] == "true"
    got = await within(door.client.get(f"{path}/data", params={"mimeType": "x\r\nEvil: 1"}))
    assert got.headers["content-type"] == OCTETS
    assert "evil" not in got.headers
    await ok(door.client.delete("/v1/runtimes/here"))
    await refused(door.client.get(path), 404, "NOT_FOUND", "RUNTIME_DELETED")


@pytest.mark.parametrize(
    ("mime_type", "header"),
    [
        ("image/png", "image/png"),
        ("Text/HTML", "text/html; charset=utf-8"),
        ("image/svg+xml", "image/svg+xml; charset=utf-8"),
        ("application/vnd.plotly.v1+json", "application/vnd.plotly.v1+json; charset=utf-8"),
        ("multipart/mixed", OCTETS),
        ("text/html; charset=utf-7", OCTETS),
        ("text", OCTETS),
        ("a/b\n", OCTETS),
        ("é/b", OCTETS),
        ("", OCTETS),
    ],
)
def test_a_type_that_somebody_else_made_up_is_one_or_octets(mime_type: str, header: str) -> None:
    assert content_type(mime_type) == header


def test_a_name_to_save_under_cannot_leave_its_header() -> None:
    assert attachment('a"\r\nb/é') == "attachment; filename*=UTF-8''a%22%0D%0Ab%2F%C3%A9"


async def test_many_files_at_once(door: Door) -> None:
    names = [f"f{number}" for number in range(20)]
    await within(
        asyncio.gather(*(door.client.put(f"{FILES}/{name}", content=name.encode() * 1_000) for name in names))
    )
    got = await within(asyncio.gather(*(door.client.get(f"{FILES}/{name}") for name in names)))
    assert [response.content for response in got] == [name.encode() * 1_000 for name in names]
