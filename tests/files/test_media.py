"""The media type of a file: what its bytes say goes before what its name says."""

import pytest

from cellhouse.files import HEAD_BYTES, media_type

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("a.csv", b"a,b\n1,2\n", "text/csv"),
        ("a.txt", b"hello", "text/plain"),
        ("a", b"hello", "text/plain"),
        ("a", b"\x01\x02\xff", "application/octet-stream"),
        ("a", bytes([1]) * 100, "application/octet-stream"),
        ("log", b"\x1b[31mred\x07\n", "text/plain"),
        ("a.png", PNG, "image/png"),
        ("a.csv", PNG, "image/png"),
        ("a.png", b"no image", "text/plain"),
        ("a.png", b"\x01\xff", "application/octet-stream"),
        ("a.csv", b"\xff\xfe\x01", "application/octet-stream"),
        ("a.json", b"{}", "application/json"),
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("a.html", b"<p>", "text/html"),
        ("a.zip", b"PK\x03\x04", "application/zip"),
        (
            "a.xlsx",
            b"PK\x03\x04",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        ("a.npz", b"PK\x03\x04", "application/x-npz"),
        ("a.txt", b"PK\x03\x04", "application/zip"),
        ("a.parquet", b"PAR1", "application/vnd.apache.parquet"),
        ("a.ipynb", b"{}", "application/x-ipynb+json"),
        ("empty.csv", b"", "text/csv"),
        ("empty", b"", "text/plain"),
        ("a.b/c", "ä".encode(), "text/plain"),
        ("cut.txt", (b"x" * (HEAD_BYTES - 1) + "ä".encode())[:HEAD_BYTES], "text/plain"),
        ("dir.png/a.csv", b"x", "text/csv"),
        ("a.pdf", b"%PDF-1.7", "application/pdf"),
    ],
)
def test_what_a_file_is(name: str, head: bytes, kind: str) -> None:
    assert media_type(name, head) == kind
