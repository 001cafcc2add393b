"""Parameters: typed as papermill types them, in a cell where papermill puts it."""

import math
import subprocess
from typing import Any

import pytest

from cellhouse.model import InvalidArgument
from cellhouse.notebooks import read_parameters, with_parameters
from cellhouse.notebooks.parameters import storable
from tests.notebooks.given import code, file_of, read, text


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("a=1", 1),
        ("a=-1_000", -1000),
        ("a=1.5e3", 1500.0),
        ("a=True", True),
        ("a=None", None),
        ("a=true", "true"),
        ("a=", ""),
        ("a=x=y", "x=y"),
        ('a="1"', "1"),
        ('a={"b": [1, null]}', {"b": [1, None]}),
        ("a=[]", []),
        ("a=-inf", -math.inf),
        ("a=O'Neil\n\"", "O'Neil\n\""),
    ],
)
def test_values_and_their_code(given: str, value: Any) -> None:
    found = read_parameters([given])
    assert found == {"a": value}
    notebook = read(file_of())
    with_parameters(notebook, found, "python")
    scope: dict[str, Any] = {}
    exec(notebook.cells[0]["source"], scope)
    assert scope["a"] == value
    assert type(scope["a"]) is type(value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a", "takes NAME=VALUE"),
        ("1a=2", "takes NAME=VALUE"),
        ("class=2", "takes NAME=VALUE"),
        ("a; import os=2", "takes NAME=VALUE"),
        ("a={b", "begins as JSON and is none"),
        ("a=1e999", "is more than a number can be here"),
        ("a=" + "[" * 100_000, "is nested too deep"),
    ],
)
def test_what_is_no_parameter_is_named(given: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match="--parameters") as caught:
        read_parameters([given])
    assert said in caught.value.message


def test_the_last_of_two_counts() -> None:
    assert read_parameters(["a=1", "b=2", "a=3"]) == {"a": 3, "b": 2}


def test_the_cell_stands_behind_the_first_one_with_the_tag() -> None:
    notebook = read(file_of(text("x"), code("a = 1", "parameters"), code("a"), code("b", "parameters")))
    assert with_parameters(notebook, {"a": 2}, "python") == 2
    assert notebook.cells[2]["source"] == "# Parameters\na = 2\n"
    assert notebook.cells[2]["metadata"]["tags"] == ["injected-parameters"]
    assert notebook.remarks == []


def test_an_earlier_cell_of_parameters_is_replaced_and_keeps_its_id() -> None:
    notebook = read(file_of(code("a = 1", "parameters"), code("x"), code("a = 7", "injected-parameters")))
    assert with_parameters(notebook, {"a": 2}, "python") == 2
    assert [cell["source"] for cell in notebook.cells] == ["a = 1", "x", "# Parameters\na = 2\n"]
    assert notebook.cells[2]["id"] == "cell-2"


def test_without_a_tag_it_stands_in_front_and_that_is_told() -> None:
    notebook = read(file_of(code("a")))
    assert with_parameters(notebook, {"a": 2}, "python") == 0
    assert notebook.remarks == ["no cell has the tag 'parameters'; the parameters stand in front"]
    assert len({cell["id"] for cell in notebook.cells}) == 2


def test_bash_gets_words_that_are_whole() -> None:
    notebook = read(file_of())
    with_parameters(notebook, {"a": "$(rm x) 'y'", "n": 3, "b": True, "e": None}, "bash")
    script = notebook.cells[0]["source"] + 'printf "%s|" "$a" "$n" "$b" "$e"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "$(rm x) 'y'|3|true||"
    with pytest.raises(InvalidArgument, match="no value of a variable in bash"):
        with_parameters(notebook, {"a": []}, "bash")


def test_other_languages_are_refused() -> None:
    with pytest.raises(
        InvalidArgument, match="they are written in python, bash, and this notebook is in julia"
    ):
        with_parameters(read(file_of()), {"a": 1}, "julia")


def test_what_json_can_not_hold_is_kept_as_text() -> None:
    assert storable({"a": [math.nan, "\ud800", 1]}) == {"a": ["nan", "\\ud800", 1]}
