"""What is installed in the kernel environment, read from its metadata."""

from cellhouse.environments import find_environment


def environment_version(package: str) -> str:
    """The version of a package in the default environment; `?` where it has none."""
    found = find_environment().prefix.glob(f"lib/python3*/site-packages/{package}-*.dist-info")
    return next((path.name.removesuffix(".dist-info").rpartition("-")[2] for path in found), "?")
