"""Which environments have the native kernel, and what is said where one has not."""

from pathlib import Path

import pytest

from cellhouse.environments import read_environment
from cellhouse.model import FailedPrecondition, NotFound
from tests.environments.fake_prefix import add_ipython, make_base, make_environment


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return make_environment(tmp_path / "data", make_base(tmp_path / "base"))


@pytest.mark.parametrize("version", ["8.18.0", "8.39.0", "9.0", "9.18.1", "10.0.dev", "9.0.0b1"])
def test_with_ipython_there_is_the_native_kernel(prefix: Path, version: str) -> None:
    add_ipython(prefix, version)
    environment = read_environment(prefix)
    assert environment.ipython == version
    kernel = environment.kernel("native")
    assert (kernel.name, kernel.language) == ("native", "python")
    assert kernel.argv == (str(prefix / "bin" / "python"),)


@pytest.mark.parametrize("version", ["8.17.2", "7.34.0", "8.9"])
def test_an_older_one_is_not_enough(prefix: Path, version: str) -> None:
    add_ipython(prefix, version)
    with pytest.raises(
        FailedPrecondition, match=rf"has IPython {version}; install ipython 8\.18 or later"
    ) as caught:
        read_environment(prefix).kernel("native")
    assert caught.value.metadata["ipython"] == version


def test_without_one_it_is_said_what_to_install(prefix: Path) -> None:
    with pytest.raises(FailedPrecondition, match=r"has no IPython; install ipython 8\.18 or later") as caught:
        read_environment(prefix).kernel("native")
    assert caught.value.reason == "NATIVE_KERNEL_UNAVAILABLE"


def test_a_record_without_the_package_is_none(prefix: Path) -> None:
    (prefix / "lib" / "python3.12" / "site-packages" / "ipython-9.0.dist-info").mkdir(parents=True)
    assert read_environment(prefix).ipython == ""


def test_what_looks_alike_is_none(prefix: Path) -> None:
    packages = prefix / "lib" / "python3.12" / "site-packages"
    (packages / "IPython").mkdir(parents=True)
    (packages / "IPython" / "__init__.py").touch()
    for name in ("ipython_genutils-9.0.dist-info", "ipython-x.dist-info", "ipython-9.0.egg-info"):
        (packages / name).mkdir()
    assert read_environment(prefix).ipython == ""


def test_of_two_the_lower_counts(prefix: Path) -> None:
    add_ipython(prefix, "9.1.0")
    add_ipython(prefix, "8.12.0", "python3.11")
    assert read_environment(prefix).ipython == "8.12.0"


def test_the_default_is_native_where_it_can_be_had(prefix: Path) -> None:
    assert read_environment(prefix).kernel().name == "python3"
    add_ipython(prefix, "9.0")
    environment = read_environment(prefix)
    assert environment.kernel().name == "native"
    assert environment.kernel("python3").name == "python3"


def test_with_neither_it_is_said_what_to_install(tmp_path: Path) -> None:
    made = make_environment(tmp_path / "data", make_base(tmp_path / "base"), kernels=())
    with pytest.raises(NotFound, match=r"install ipython \(for the kernel 'native'\) or ipykernel into"):
        read_environment(made).kernel()
