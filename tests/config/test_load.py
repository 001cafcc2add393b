"""File, environment, flags: which one wins, and how what is wrong is told."""

from pathlib import Path

import pytest

from cellhouse.config import ConfigInvalid, Flag, Source, default_file, load
from cellhouse.config.load import FILE_BYTES
from cellhouse.model import GIB, MIB
from cellhouse.sandbox import UidRange
from tests.config.support import loaded, violations


def test_the_later_one_wins_and_each_origin_is_known(tmp_path: Path) -> None:
    text = "[limits]\nmax_streams = 1\nmax_requests = 1\nmax_all_requests = 1\n"
    environ = {"CELLHOUSE_LIMITS_MAX_REQUESTS": "2", "CELLHOUSE_LIMITS_MAX_ALL_REQUESTS": "2"}
    found = loaded(text, tmp_path, environ=environ, limits__max_all_requests="3")
    limits = found.config.limits
    assert (limits.max_streams, limits.max_requests, limits.max_all_requests) == (1, 2, 3)
    told = {
        name: (found.origin(f"limits.{name}").source, str(found.origin(f"limits.{name}")))
        for name in ("burst", "max_streams", "max_requests", "max_all_requests")
    }
    assert told == {
        "burst": (Source.DEFAULT, "default"),
        "max_streams": (Source.FILE, str(tmp_path / "given.toml")),
        "max_requests": (Source.ENVIRONMENT, "CELLHOUSE_LIMITS_MAX_REQUESTS"),
        "max_all_requests": (Source.FLAG, "--set"),
    }


def test_a_value_of_an_earlier_source_that_is_overruled_is_still_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="max_streams"):
        loaded("[limits]\nmax_streams = 'many'\n", tmp_path, limits__max_streams="3")


def test_every_kind_of_value_from_a_file(tmp_path: Path) -> None:
    text = """
[state]
dir = "/var/lib/cellhouse"
durability = "full"
[serve]
port = 0
uds = "~/socket"
allowed_hosts = ["a.example", "b.example"]
[limits]
body_bytes = "2M"
heartbeat_seconds = "1m"
drain_seconds = 0
requests_per_second = 0.5
[retention]
age_seconds = "30d"
bytes = "1.5G"
[walls]
uids = "60706-60800"
memory = "1G"
cpus = 1
[native]
preload = []
spares = 0
[env]
path = ["/opt/a,b"]
"""
    config = loaded(text, tmp_path).config
    assert config.state.dir == Path("/var/lib/cellhouse")
    assert config.state.durability == "full"
    assert config.serve.port == 0
    assert config.serve.uds == Path.home() / "socket"
    assert config.serve.allowed_hosts == ("a.example", "b.example")
    assert (config.limits.body_bytes, config.limits.heartbeat_seconds) == (2 * MIB, 60.0)
    assert (config.limits.drain_seconds, config.limits.requests_per_second) == (0.0, 0.5)
    assert (config.retention.age_seconds, config.retention.bytes) == (30 * 86_400.0, 3 * GIB // 2)
    assert config.walls.uids == UidRange(60_706, 60_800)
    assert (config.walls.memory, config.walls.cpus) == (GIB, 1.0)
    assert (config.native.preload, config.native.spares) == ((), 0)
    assert config.env.path == (Path("/opt/a,b"),)


def test_every_kind_of_value_from_variables() -> None:
    environ = {
        "CELLHOUSE_STATE_DIR": "relative/state",
        "CELLHOUSE_ENV_PATH": "/opt/a:/opt/b:",
        "CELLHOUSE_SERVE_ALLOWED_HOSTS": "a.example, b.example",
        "CELLHOUSE_SERVE_CORS_ORIGINS": '["https://a.example"]',
        "CELLHOUSE_WALLS_CONTENT": "8G",
        "CELLHOUSE_SESSION_IDLE_SECONDS": "90",
        "CELLHOUSE_SESSION_WAIT_TIMEOUT": "2m",
        "CELLHOUSE_NATIVE_PRELOAD": "",
        "CELLHOUSE_WALLS_UIDS": "60706-60800",
    }
    config = loaded(environ=environ).config
    assert config.state.dir == Path.cwd() / "relative/state"
    assert config.env.path == (Path("/opt/a"), Path("/opt/b"))
    assert config.serve.allowed_hosts == ("a.example", "b.example")
    assert config.serve.cors_origins == ("https://a.example",)
    assert config.walls.content == 8 * GIB
    assert (config.session.idle_seconds, config.session.wait_timeout) == (90.0, 120.0)
    assert "numpy" in config.native.preload  # an empty variable is as none
    assert config.walls.uids == UidRange(60_706, 60_800)


def test_an_empty_list_can_be_said(tmp_path: Path) -> None:
    assert loaded(native__preload="").config.native.preload == ()
    assert loaded(environ={"CELLHOUSE_NATIVE_PRELOAD": "[]"}).config.native.preload == ()


@pytest.mark.parametrize(
    ("text", "where", "rule"),
    [
        ("[serve]\nprot = 1", "serve.prot", "the nearest is serve.port"),
        ("[serve]\nmax_streams = 1", "serve.max_streams", "the nearest is limits.max_streams"),
        ("[limits]\nzzzzzz = 1", "limits.zzzzzz", "config show"),
        ("[srve]\nport = 1", "[srve]", "the nearest is [serve]"),
        ("[zzz]\nport = 1", "[zzz]", "there are state, serve"),
        ("port = 1", "[port]", "no such section"),
        ("serve = 1", "[serve]", "is a section"),
        ("[serve.port]\nx = 1", "serve.port", "a table"),
        ("[serve]\nport = true", "serve.port", "a number"),
        ("[serve]\nkeep = 'maybe'", "serve.keep", "boolean"),
        ("[serve]\nport = 65536", "serve.port", "65535"),
        ("[serve]\nport = 1.5", "serve.port", "integer"),
        ("[serve]\nport = -1", "serve.port", "0 or more"),
        ("[serve]\nhost = 5", "serve.host", "string"),
        ("[serve]\nallowed_hosts = 'a'", "serve.allowed_hosts", "tuple"),
        ("[serve]\nuds = 'relative'", "serve.uds", "write out all of it"),
        ("[serve]\ntls_key = '/key.pem'", "serve.tls_key", "tls_cert"),
        ("[serve]\ncors_origins = ['*']", "serve.cors_origins", "write each one out"),
        ("[serve]\ncors_origins = ['https://a.example/path']", "serve.cors_origins", "no origin"),
        ("[serve]\nallowed_hosts = ['*.example']", "serve.allowed_hosts", "no name"),
        ("[serve]\nallowed_hosts = ['https://a.example']", "serve.allowed_hosts", "without scheme"),
        ("[limits]\nmax_streams = 0", "limits.max_streams", "above 0"),
        ("[limits]\nstall_seconds = inf", "limits.stall_seconds", "finite"),
        ("[limits]\nstall_seconds = nan", "limits.stall_seconds", "finite"),
        ("[limits]\nbody_bytes = '2X'", "limits.body_bytes", "512M"),
        ("[limits]\nstall_seconds = '2y'", "limits.stall_seconds", "12h"),
        ("[limits]\nmax_streams = '2M'", "limits.max_streams", "no number"),
        ("[state]\ndurability = 'half'", "state.durability", "'full'"),
        ("[walls]\nisolation = 'gvisor9'", "walls.isolation", "bubblewrap"),
        ("[walls]\nmemory = 5", "walls.memory", "at least"),
        ("[walls]\nuids = '1-5'", "walls.uids", "1000"),
        ("[walls]\nuids = '70000'", "walls.uids", "60706-61183"),
        ("[native]\nspares = -1", "native.spares", "0 or more"),
        ("[native]\nstart = 'warm'", "native.start", "'fresh'"),
        ("[session]\nqueue = 0.5", "session.queue", "integer"),
    ],
)
def test_what_is_wrong_in_a_file_names_the_file_the_setting_and_the_rule(
    tmp_path: Path, text: str, where: str, rule: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        loaded(text, tmp_path)
    ((told, why),) = caught.value.violations
    assert told == f"{tmp_path / 'given.toml'}: {where}"
    assert rule in why


def test_what_is_wrong_in_a_variable_or_an_option_names_that() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        loaded(
            environ={
                "CELLHOUSE_SERVE_PROT": "1",
                "CELLHOUSE_LIMITS_BURST": "x",
                "CELLHOUSE_WALLS_UIDS": "9-",
            },
            limits__max_streams="0",
            limits__max_stream="1",
        )
    found = violations(caught.value)
    assert set(found) == {
        "CELLHOUSE_SERVE_PROT",
        "CELLHOUSE_LIMITS_BURST",
        "CELLHOUSE_WALLS_UIDS",
        "--set limits.max_streams",
        "--set limits.max_stream",
    }
    assert "the nearest is CELLHOUSE_SERVE_PORT" in found["CELLHOUSE_SERVE_PROT"]
    assert "the nearest is limits.max_streams" in found["--set limits.max_stream"]


def test_an_option_of_its_own_is_named_by_itself() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load(environ={}, flags={"limits.drain_seconds": Flag(float("nan"), "--drain-seconds")})
    assert list(violations(caught.value)) == ["--drain-seconds"]


def test_the_path_of_an_option_is_from_here() -> None:
    found = load(environ={}, flags={"serve.uds": Flag(Path("here/socket"), "--uds")})
    assert found.config.serve.uds == Path.cwd() / "here/socket"


def test_variables_of_no_section_are_passed_over_and_told_of() -> None:
    environ = {
        "CELLHOUSE_PORT": "tcp://10.0.0.1",
        "CELLHOUSE_SERVICE_HOST": "10.0.0.1",
        "CELLHOUSE_LOG": "info",
        "OTHER": "x",
    }
    assert loaded(environ=environ).ignored == ("CELLHOUSE_PORT", "CELLHOUSE_SERVICE_HOST")


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CELLHOUSE_LIMIT_BURST", "CELLHOUSE_LIMITS_BURST"),
        ("CELLHOUSE_SERVER_PORT", "CELLHOUSE_SERVE_PORT"),
        ("CELLHOUSE_STATEDIR", "CELLHOUSE_STATE_DIR"),
    ],
)
def test_a_slip_in_a_section_is_no_business_of_others(variable: str, meant: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        loaded(environ={variable: "1"})
    assert violations(caught.value) == {variable: f"there is no such setting; the nearest is {meant}"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"[serve\n", "no TOML"),
        (b"[serve]\nport = 1\nport = 2\n", "no TOML"),
        (b"\xff", "no UTF-8"),
        (b"#" * (FILE_BYTES + 1), "more than"),
        (b"a = " + b"[" * 100_000, "nested too deep"),
    ],
    ids=["syntax", "twice", "bytes", "size", "depth"],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "given.toml").write_bytes(data)
    with pytest.raises(ConfigInvalid, match=says):
        load(tmp_path / "given.toml", environ={})


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigInvalid, match="name a file that can be read"):
            load(path, environ={})


def test_a_file_that_anybody_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    file.touch()
    file.chmod(0o646)
    with pytest.raises(ConfigInvalid, match="chmod o-w"):
        load(file, environ={})


def test_the_usual_file_is_taken_where_there_is_one(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert load(environ=environ).file is None
    file = tmp_path / "cellhouse" / "config.toml"
    file.parent.mkdir()
    file.write_text("[serve]\nport = 1234\n")
    found = load(environ=environ)
    assert (found.file, found.config.serve.port) == (file, 1234)
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigInvalid):
        load(environ=environ)


def test_a_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "named.toml"
    environ = {"CELLHOUSE_CONFIG": str(file), "XDG_CONFIG_HOME": "/nowhere"}
    with pytest.raises(ConfigInvalid, match="No such file"):
        load(environ=environ)
    file.write_text("[serve]\nport = 1\n")
    assert load(environ=environ).config.serve.port == 1
    other = tmp_path / "other.toml"
    other.write_text("[serve]\nport = 2\n")
    assert load(other, environ=environ).config.serve.port == 2


def test_a_relative_directory_of_configuration_is_none() -> None:
    home = Path.home() / ".config/cellhouse/config.toml"
    assert default_file({"XDG_CONFIG_HOME": "relative"}) == default_file({}) == home


def test_an_address_that_is_named_later_goes_before_a_unix_socket(tmp_path: Path) -> None:
    text = "[serve]\nuds = '/run/x'\nport = 1\n"
    assert loaded(text, tmp_path).config.serve.uds == Path("/run/x")
    found = loaded(text, tmp_path, serve__port="2")
    assert (found.config.serve.uds, found.config.serve.port) == (None, 2)
    assert found.origin("serve.uds").source is Source.DEFAULT
