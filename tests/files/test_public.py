"""What `cellhouse.files` exports is there, and nothing besides."""

from cellhouse import files


def test_public_names() -> None:
    assert len(set(files.__all__)) == len(files.__all__)
    for name in files.__all__:
        assert getattr(files, name) is not None
