"""Settings as they are shown: a file that makes the same ones, with each value's origin."""

import json
import tomllib
from pathlib import Path

from cellhouse.config import catalogue, load, to_json, to_toml
from tests.config.support import loaded


def test_what_is_shown_makes_the_same_settings(tmp_path: Path) -> None:
    before = loaded(
        environ={"CELLHOUSE_SERVE_PORT": "9", "CELLHOUSE_STATE_DIR": '/odd/"quoted"\\\x7fé\n'},
        walls__uids="60706-60707",
        serve__allowed_hosts="a.example,b",
        native__preload='a"b,\\c',
        limits__requests_per_second="0.25",
    )
    file = tmp_path / "shown.toml"
    file.write_text(to_toml(before))
    assert load(file, environ={}).config == before.config


def test_each_value_is_shown_with_its_origin(tmp_path: Path) -> None:
    found = loaded(
        "[limits]\nburst = 7\n", tmp_path, environ={"CELLHOUSE_SERVE_PORT": "9"}, native__spares="0"
    )
    lines = {" ".join(line.split()) for line in to_toml(found).splitlines()}
    assert lines >= {
        "[serve]",
        f"burst = 7 # {tmp_path / 'given.toml'}",
        "port = 9 # CELLHOUSE_SERVE_PORT",
        "spares = 0 # --set",
        'host = "127.0.0.1" # default',
        "# uds is not set # default",
    }


def test_json_has_all_of_them(tmp_path: Path) -> None:
    found = loaded("[limits]\nburst = 7\n", tmp_path, environ={"CELLHOUSE_SERVE_PORT": "9"})
    told = json.loads(json.dumps(to_json(found)))
    assert list(told) == list(catalogue())
    assert told["serve.uds"] == {"value": None, "origin": "default"}
    assert told["serve.port"] == {"value": 9, "origin": "environment", "where": "CELLHOUSE_SERVE_PORT"}
    assert told["limits.burst"] == {"value": 7, "origin": "file", "where": str(tmp_path / "given.toml")}
    assert told["native.preload"]["value"][0] == "numpy"


def test_an_origin_cannot_begin_a_line_of_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "odd\nport = 1"
    directory.mkdir()
    text = to_toml(loaded("[limits]\nburst = 7\n", directory))
    assert tomllib.loads(text)["limits"]["burst"] == 7
    assert "\nport = 1" not in text
