"""What an environment is read as: its interpreter, what has to be seen for it to start, its kernels."""

from pathlib import Path

import pytest

from cellhouse.environments import read_environment
from cellhouse.model import FailedPrecondition, NotFound
from tests.environments.fake_prefix import make_base, make_environment


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_base(tmp_path / "base")


def test_a_virtual_environment_needs_its_prefix_and_its_base(tmp_path: Path, base: Path) -> None:
    prefix = make_environment(tmp_path / "data", base)
    environment = read_environment(prefix)
    assert environment.name == "data"
    assert environment.prefix == prefix
    assert environment.python == prefix / "bin" / "python"
    assert environment.base_prefixes == (prefix, tmp_path / "base")
    assert list(environment.kernels) == ["python3"]
    assert environment.kernel().argv == (str(prefix / "bin" / "python"), "-m", "python3")


def test_a_prefix_with_a_library_of_its_own_needs_nothing_else(tmp_path: Path) -> None:
    make_base(tmp_path / "conda")
    (tmp_path / "conda" / "bin" / "python").symlink_to("python3.12")
    assert read_environment(tmp_path / "conda").base_prefixes == (tmp_path / "conda",)


def test_links_on_the_way_are_seen_under_both_names(tmp_path: Path, base: Path) -> None:
    real = make_environment(tmp_path / "real", tmp_path / "current" / "bin" / "python3.12")
    (tmp_path / "current").symlink_to("base")
    (tmp_path / "data").symlink_to("real")
    environment = read_environment(tmp_path / "data")
    assert environment.prefix == tmp_path / "data"
    assert environment.base_prefixes == (tmp_path / "data", real, tmp_path / "current", tmp_path / "base")


def test_a_directory_that_only_links_to_the_interpreter_is_not_shown(tmp_path: Path, base: Path) -> None:
    (tmp_path / "person" / "bin").mkdir(parents=True)
    (tmp_path / "person" / "secret").touch()
    link = tmp_path / "person" / "bin" / "python3"
    link.symlink_to(base)
    environment = read_environment(make_environment(tmp_path / "data", link))
    assert environment.base_prefixes == (tmp_path / "data", tmp_path / "base")


def test_home_is_read_from_the_file_and_need_not_be_where_the_interpreter_is(
    tmp_path: Path, base: Path
) -> None:
    make_base(tmp_path / "other")
    prefix = make_environment(tmp_path / "data", base, home=tmp_path / "other" / "bin")
    assert read_environment(prefix).base_prefixes == (prefix, tmp_path / "other", tmp_path / "base")


@pytest.mark.parametrize("home", ["", "relative/bin", "/nowhere/bin", "/bin"])
def test_a_home_that_leads_nowhere_or_everywhere_is_never_the_whole_system(
    tmp_path: Path, base: Path, home: str
) -> None:
    prefix = make_environment(tmp_path / "data", base)
    (prefix / "pyvenv.cfg").write_text(f"home = {home}\n")
    seen = read_environment(prefix).base_prefixes
    assert Path("/") not in seen
    assert set(seen) <= {prefix, tmp_path / "base", Path("/usr")}


def test_a_dangling_interpreter_is_refused_with_the_remedy(tmp_path: Path, base: Path) -> None:
    prefix = make_environment(tmp_path / "data", base)
    base.unlink()
    with pytest.raises(FailedPrecondition, match=r"no working bin/python.*make setup") as caught:
        read_environment(prefix)
    assert str(prefix) in caught.value.message
    assert caught.value.metadata == {"environment": "data"}


def test_a_file_that_can_not_be_run_is_no_interpreter(tmp_path: Path, base: Path) -> None:
    prefix = make_environment(tmp_path / "data", base)
    base.chmod(0o644)
    with pytest.raises(FailedPrecondition, match="no working bin/python"):
        read_environment(prefix)


def test_a_missing_standard_library_is_refused(tmp_path: Path, base: Path) -> None:
    prefix = make_environment(tmp_path / "data", base)
    (tmp_path / "base/lib/python3.12/os.py").unlink()
    with pytest.raises(FailedPrecondition, match="standard library"):
        read_environment(prefix)


def test_a_setup_that_was_broken_off_is_refused(tmp_path: Path, base: Path) -> None:
    prefix = make_environment(tmp_path / "data", base)
    (prefix / ".cellhouse-unfinished").touch()
    with pytest.raises(FailedPrecondition, match=r"broken off.*make setup"):
        read_environment(prefix)


def test_a_kernel_that_is_not_there_is_not_found_and_the_others_are_named(tmp_path: Path, base: Path) -> None:
    environment = read_environment(make_environment(tmp_path / "data", base, kernels=("python3", "bash")))
    assert environment.kernel("bash").display_name == "bash"
    with pytest.raises(NotFound, match="has bash, python3") as caught:
        environment.kernel("julia")
    assert caught.value.metadata == {"environment": "data", "kernel": "julia"}


def test_an_environment_without_the_python_kernel_says_what_to_install(tmp_path: Path, base: Path) -> None:
    environment = read_environment(make_environment(tmp_path / "data", base, kernels=()))
    with pytest.raises(
        NotFound, match=r"has none; install ipython \(for the kernel 'native'\) or ipykernel into .*data"
    ):
        environment.kernel()


def test_a_broken_kernel_is_refused_with_what_is_wrong(tmp_path: Path, base: Path) -> None:
    prefix = make_environment(tmp_path / "data", base)
    (prefix / "share/jupyter/kernels/python3/kernel.json").write_text("{}")
    with pytest.raises(FailedPrecondition, match="argv must be a list"):
        read_environment(prefix).kernel()
