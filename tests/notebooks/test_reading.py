"""Notebooks that were given: what is taken, what is put right, and what is refused by the cell that is at fault."""

import json
from typing import Any

import pytest
from hypothesis import given as hypothesis_given, settings, strategies as st

from cellhouse.messages import JsonLimits
from cellhouse.notebooks import BadNotebook, ReadLimits, read_notebook
from tests.notebooks.given import code, file_of, read, text


def refused(raw: bytes, limits: ReadLimits | None = None) -> str:
    with pytest.raises(BadNotebook) as caught:
        read_notebook("it.ipynb", raw, limits)
    assert caught.value.message.startswith("it.ipynb: ")
    return caught.value.message


def test_a_notebook_is_taken_as_it_is() -> None:
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    raw = file_of(
        text(["# A\n", "B"], attachments={"a.png": {"image/png": "aGk="}}),
        code("1 + 1", "parameters", outputs=[{"output_type": "no such thing"}], execution_count=9),
        {"cell_type": "raw", "metadata": {"format": "text/x"}, "source": "r"},
        metadata={"kernelspec": spec, "mine": [1, None, "x"]},
    )
    found = read(raw)
    assert [cell["id"] for cell in found.cells] == ["cell-0", "cell-1", "cell-2"]
    assert found.cells[0]["source"] == "# A\nB"
    assert found.cells[0]["attachments"] == {"a.png": {"image/png": "aGk="}}
    assert (found.cells[1]["outputs"], found.cells[1]["execution_count"]) == ([], None)
    assert found.metadata == {"kernelspec": spec, "mine": [1, None, "x"]}
    assert (found.kernel, found.remarks) == (None, [])


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not JSON"),
        (b"print(1)", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"\xff"', "'utf-8' codec can't decode byte 0xff"),
        (b"\x00" * 500, "not JSON"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "deeper than 200 levels"),
        (b"{}", "don't say which format it is in"),
        (b'{"nbformat": true}', "don't say which format it is in"),
        (b'{"nbformat": 4, "nbformat_minor": "5"}', "don't say which format it is in"),
        (b'{"nbformat": 1}', "nbformat 1 is not read here, but 2 to 4"),
        (b'{"nbformat": 5}', "nbformat 5 is not read here"),
        (b'{"nbformat": 4, "cells": {}}', "no list of cells"),
        (b'{"nbformat": 3, "worksheets": [{}]}', "no list of cells"),
    ],
)
def test_what_is_no_notebook_is_named(raw: bytes, said: str) -> None:
    assert said in refused(raw)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (7, "cell 2 is a number; each cell is a JSON object"),
        ({"source": "x"}, "cell 2: `cell_type` is missing or null; there are code, markdown, raw"),
        ({"cell_type": "sql"}, "cell 2: `cell_type` is 'sql'"),
        (code(7), "cell 2 (code): `source` has a number in it"),
        (code(["a", None]), "cell 2 (code): `source` has missing or null in it"),
        (code("\ud800"), "cell 2 (code): character 1 of the code is a lone surrogate"),
        (code("é" * 6), "cell 2 (code): code of 12 bytes, over 10; put data into a file"),
        (code("x" * 11), "cell 2 (code): code of more than 10 bytes"),
        (code("x", metadata=[]), "cell 2 (code): `metadata` is a list; it is a JSON object"),
        (code("x", metadata={"tags": "raises-exception"}), "`metadata.tags` is to be a list of texts"),
        (code("x", metadata={"a": float("nan")}), "`metadata`: a number that is none in JSON"),
        (code("", outputs={}), "cell 2 (code): `outputs` is an object; it is a list"),
        (text("x", attachments=[1]), "cell 2 (markdown): `attachments` is to be an object of files"),
    ],
)
def test_the_cell_at_fault_is_named(cell: Any, said: str) -> None:
    assert said in refused(file_of(text("first"), cell), ReadLimits(code_bytes=10))


def test_every_limit_is_held() -> None:
    raw = file_of(*[code("1")] * 5)
    assert "more than 100 bytes; clear its outputs" in refused(raw, ReadLimits(file_bytes=100))
    assert "5 cells; at most 4 are run" in refused(raw, ReadLimits(cells=4))
    tight = JsonLimits(values=100, containers=10)
    assert "more than 100 values" in refused(
        file_of(text([]), metadata={"a": [[]] * 200}), ReadLimits(json=tight)
    )


def test_a_huge_output_that_is_in_it_already_is_not_even_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    from cellhouse.messages import LongText

    def never(self: LongText) -> None:
        raise AssertionError("an old output was decoded")

    monkeypatch.setattr(LongText, "chunks", never)
    output = {"output_type": "stream", "name": "stdout", "text": "x" * (3 << 20)}
    assert read(file_of(code("1", outputs=[output]))).cells[0]["outputs"] == []


def test_long_texts_that_stay_are_whole() -> None:
    picture = {"a.png": {"image/png": "A" * (2 << 20)}}
    shown = {
        "output_type": "display_data",
        "metadata": {"cellhouse": {"note": "x"}},
        "data": {"text/plain": "y" * 100_000},
    }
    raw = file_of(text("z" * 200_000, attachments=picture), code("1", "skip-execution", outputs=[shown]))
    first, second = read(raw).cells
    assert (len(first["source"]), first["attachments"]) == (200_000, picture)
    assert second["outputs"] == [
        {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "y" * 100_000}}
    ]


def test_what_means_nothing_is_put_right_and_told() -> None:
    raw = file_of(
        code(
            "1",
            id="same",
            metadata={"collapsed": None, "tags": ["a", "a", "b,c"], "cellhouse": {"status": "OK"}},
        ),
        text("2", id="same", outputs=[], mood="good"),
        text("3", id="no good id!"),
        {"cell_type": "code"},
        metadata={"kernelspec": {"name": "x"}, "language_info": {}, "title": 7, "orig_nbformat": 2},
    )
    found = read(raw)
    assert found.cells[0]["metadata"] == {"tags": ["a"]}
    assert found.metadata == {"kernelspec": {"name": "x", "display_name": "x"}}
    told = "\n".join(found.remarks)
    for what in (
        "cell 1 (code): `metadata.collapsed`",
        "cell 1 (code): tags that stand twice",
        "cell 2 (markdown): its id is that of an earlier cell",
        "cell 2 (markdown): 'mood' has no place",
        "cell 3 (markdown): its id is missing, or can't be one",
        "the notebook: `metadata.language_info`",
        "the notebook: `metadata.title`",
    ):
        assert what in told
    assert "outputs" not in told


def test_remarks_are_few() -> None:
    found = read(file_of(*[text("x", mood=1)] * 500))
    assert (len(found.remarks), found.remarks[-1]) == (21, "480 more remarks like these")


def test_earlier_minor_versions_get_ids_that_stay_the_same() -> None:
    raw = file_of(code("1"), code("1"), minor=2)
    found = read(raw)
    assert found.remarks == ["nbformat 4.2 was brought up to 4.5"]
    ids = [cell["id"] for cell in found.cells]
    assert len(set(ids)) == 2
    assert ids == [cell["id"] for cell in read(raw).cells]


def test_a_later_minor_version_keeps_what_is_new_in_it() -> None:
    future = {"cell_type": "future", "metadata": {}, "thing": [1]}
    found = read(file_of(text("x", mood="good"), future, minor=6))
    assert (found.minor, found.cells[0]["mood"]) == (6, "good")
    assert found.cells[1] == {**future, "id": "cell-1"}


def test_formats_3_and_2_are_brought_up() -> None:
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": "old"},
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": ["Two\n", "lines"], "metadata": {}},
                    {
                        "cell_type": "code",
                        "input": ["a = 1\n", "a"],
                        "outputs": [{"x": 1}],
                        "language": "python",
                    },
                    {"cell_type": "html", "source": "<b>x</b>"},
                    {"cell_type": "code", "input": ["def f():", "    return 1"]},
                ]
            },
            {"cells": [{"cell_type": "markdown", "source": "end", "metadata": {}}]},
        ],
    }
    found = read(json.dumps(old).encode())
    assert [(cell["cell_type"], cell["source"]) for cell in found.cells] == [
        ("markdown", "## Two lines"),
        ("code", "a = 1\na"),
        ("markdown", "<b>x</b>"),
        ("code", "def f():\n    return 1"),
        ("markdown", "end"),
    ]
    assert found.remarks[0] == "nbformat 3.0 was brought up to 4.5"
    assert "outputs of 1 cells of the old format were left out" in found.remarks[1]
    assert len(read(json.dumps({**old, "nbformat": 2}).encode()).cells) == 5


@pytest.mark.parametrize(
    ("metadata", "kernel", "language"),
    [
        ({}, None, ""),
        ({"kernelspec": {"name": "my-env", "display_name": "x", "language": "python"}}, None, "python"),
        ({"kernelspec": {"name": "python3", "display_name": "x"}}, None, ""),
        ({"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}, "ir", "r"),
        (
            {"kernelspec": {"name": "x", "display_name": "x"}, "language_info": {"name": "julia"}},
            "x",
            "julia",
        ),
        ({"kernelspec": {"name": "mine", "display_name": "x"}}, "mine", ""),
        ({"language_info": {"name": "python"}}, None, "python"),
    ],
)
def test_the_kernel_that_it_names(metadata: dict[str, Any], kernel: str | None, language: str) -> None:
    found = read(file_of(metadata=metadata))
    assert (found.kernel, found.language) == (kernel, language)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tags", "name", "text/plain", "application/json", "a"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
_CELLS = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw"]), "source": st.text(max_size=5) | _VALUES},
    optional={
        "metadata": st.dictionaries(
            st.sampled_from(
                ["tags", "name", "collapsed", "scrolled", "jupyter", "execution", "format", "cellhouse", "x"]
            ),
            _VALUES,
            max_size=3,
        ),
        "id": _VALUES,
        "outputs": st.lists(
            st.fixed_dictionaries(
                {"output_type": st.sampled_from(["stream", "error", "display_data", "execute_result", "x"])},
                optional=dict.fromkeys(
                    ("name", "text", "data", "metadata", "ename", "evalue", "traceback"), _VALUES
                ),
            ),
            max_size=2,
        ),
        "attachments": _VALUES,
        "execution_count": _VALUES,
    },
)


@settings(max_examples=100, deadline=None)
@hypothesis_given(st.lists(_CELLS, max_size=4), _VALUES, st.integers(0, 6))
def test_whatever_is_given_is_refused_or_valid(cells: list[Any], metadata: Any, minor: int) -> None:
    raw = json.dumps({"nbformat": 4, "nbformat_minor": minor, "metadata": metadata, "cells": cells}).encode()
    try:
        read(raw)
    except BadNotebook:
        return
