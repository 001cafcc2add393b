"""Pages and Markdown: what they show, and that nothing in them runs or loads anything."""

import base64
import builtins
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from cellhouse.model import DisplayEvent, ErrorEvent, ResultEvent
from cellhouse.notebooks import NotInstalled, render
from cellhouse.notebooks.page import POLICY
from tests.notebooks.support import Records, book_of, out, result_of, rich

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
EVIL = "</pre></script></iframe>\"'><script>alert(1)</script><img src=http://x.example/ onerror=alert(1)>"


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def shows(*outputs: dict[str, str], metadata: dict[str, Any] | None = None, **fields: Any) -> Records:
    """An execution that displayed these."""
    bundles = {
        index: {"output_type": "display_data", "data": data, "metadata": metadata or {}}
        for index, data in enumerate(outputs)
    }
    entries = tuple(rich(index, *data) for index, data in enumerate(outputs))
    events = [
        DisplayEvent(index=index, mime_types=tuple(data), size_bytes=1) for index, data in enumerate(outputs)
    ]
    return Records(events, result_of(rich_outputs=entries), bundles=bundles, **fields)


async def page_of(records: Records, *, active: bool = False) -> Page:
    return Page(render(await book_of(records), "html", active=active))


async def markdown_of(records: Records, *, active: bool = False) -> str:
    return render(await book_of(records), "md", active=active)


async def test_a_page_shows_code_text_values_errors_and_pictures() -> None:
    records = shows({"image/png": PNG, "text/plain": "<Figure>"}, code="answer = 42")
    records.events_ = [
        out("printed\n"), *records.events_, ResultEvent(text="the value"), ErrorEvent(name="E", value="v", traceback=("E: raised",)),
    ]  # fmt: skip
    page = await page_of(records)
    for text in ("answer", "42", "printed", "the value", "E: raised"):
        assert text in page.text
    assert [each["src"] for each in page.all("img")] == [f"data:image/png;base64,{PNG}"]
    text = await markdown_of(shows({"image/png": PNG}, code="answer = 42"))
    assert "```\nanswer = 42\n```" in text
    assert f"![png](data:image/png;base64,{PNG})" in text


async def test_a_page_has_a_policy_before_all_else_and_no_script() -> None:
    text = render(await book_of(shows({"text/html": EVIL}, {"application/javascript": "alert(1)"})), "html")
    page = Page(text)
    policies = [
        each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [POLICY]
    assert text.index("Content-Security-Policy") < text.index("<style")
    assert page.all("script") == page.all("link") == page.all("object") == page.all("embed") == []
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not re.match(r"\s*(?:https?:|//|javascript:)", attributes.get("src") or "")


@pytest.mark.parametrize(
    "name",
    ["code", "stream", "error", "value", "type", "image", "svg", "latex", "markdown", "plain", "metadata"],
)
async def test_markup_of_hostile_text_is_text(name: str) -> None:
    hostile: dict[str, Records] = {
        "code": Records(code=EVIL),
        "stream": Records([out(EVIL), out(EVIL, "stderr")]),
        "error": Records([ErrorEvent(name=EVIL, value=EVIL, traceback=(EVIL,))]),
        "value": Records([ResultEvent(text=EVIL)]),
        "type": Records([DisplayEvent(index=0, mime_types=(EVIL,), size_bytes=1)]),
        "image": shows({"image/png": EVIL, "text/plain": "x"}),
        "svg": shows({"image/svg+xml": f"<svg>{EVIL}</svg>"}),
        "latex": shows({"text/latex": EVIL}),
        "markdown": shows({"text/markdown": EVIL}),
        "plain": shows({"text/plain": EVIL, "text/x": EVIL}),
        "metadata": shows({"image/png": PNG}, metadata={"image/png": {"width": "1 onload=alert(1)"}, "width": "1 onload=alert(1)"}),
    }  # fmt: skip
    page = await page_of(hostile[name])
    assert page.all("script") == page.all("iframe") == []
    for tag, attributes in page.tags:
        assert not any(key.startswith("on") for key in attributes), tag
        assert (attributes.get("src") or "data:").startswith("data:")


async def test_html_stands_in_a_frame_that_may_do_nothing() -> None:
    page = await page_of(shows({"text/html": EVIL, "text/plain": "x"}))
    (frame,) = page.all("iframe")
    assert frame["sandbox"] == ""
    assert frame["srcdoc"] == EVIL
    assert "src" not in frame
    assert "--active" in page.text


async def test_what_a_page_can_not_show_is_said() -> None:
    page = await page_of(
        shows({"application/x-thing": "QQ=="}, {"application/javascript": "1", "text/plain": "as text"})
    )
    assert "rich output (application/x-thing) is not shown here" in page.text
    assert "as text" in page.text
    assert "shown as text; the notebook has it as application/javascript" in page.text


async def test_active_leaves_outputs_as_they_are() -> None:
    assert "<script>alert(1)</script>" in render(
        await book_of(shows({"text/html": EVIL})), "html", active=True
    )
    assert "<script>alert(1)</script>" in await markdown_of(shows({"text/html": EVIL}), active=True)


async def test_markdown_has_no_markup_of_the_codes() -> None:
    records = shows(
        {"text/html": EVIL},
        {"text/markdown": "# " + EVIL},
        {"text/html": EVIL, "text/plain": EVIL},
        code="```\n````\n" + EVIL,
    )
    records.events_ = [out(EVIL + "\r\n# head\r# other\x1b[2J\n"), *records.events_]
    text = await markdown_of(records)
    fence = "`" * 5
    before, code, after = re.split(f"^{fence}$", text, flags=re.MULTILINE)
    assert "alert" in code
    assert "\x1b" not in text
    for line in (before + after).split("\n"):
        if "alert" in line or "head" in line or "other" in line:
            assert line.startswith("    "), line
    assert "shown as text; the notebook has it as text/html" in text


async def test_control_characters_do_not_reach_a_page() -> None:
    text = render(
        await book_of(Records([out("a\0b\x1b]0;t\x07c\x1b[31mred\x1b[0m")], code="x\0y\x1b[2J")), "html"
    )
    assert "\0" not in text
    assert "\x1b" not in text
    assert "ansi-red" in text


async def test_making_a_page_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a page is made of what is there")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for active in (False, True):
        records = shows({"text/html": EVIL}, {"text/markdown": "![x](http://x.example/a.png)"})
        assert "x.example" in render(await book_of(records), "html", active=active)


async def test_without_nbconvert_a_page_is_refused_and_a_notebook_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] in ("nbconvert", "nbformat"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **options)

    made = await book_of(Records([out("x")]))
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(NotInstalled, match=r"nbconvert is not installed; install cellhouse\[notebooks\]"):
        render(made, "html")
    assert '"nbformat": 4' in render(made, "ipynb")


async def test_as_much_is_coloured_as_nbconvert_can_and_the_text_of_all_is_there() -> None:
    few = render(await book_of(Records([out("\x1b[31mred\x1b[0m")], code="answer = 42")), "html")
    assert few.count('ansi-red-fg">') == 1
    assert "<span" in few.partition("jp-CodeMirrorEditor jp-Editor")[2].partition("jp-Cell-outputWrapper")[0]
    records = Records([out("\x1b[31mred\x1b[0m" * 300_000)], code="x = '</pre>'\n" * 50_000)
    page = Page(render(await book_of(records), "html"))
    assert page.text.count("red" * 300_000) == 1
    assert page.text.count("x = '</pre>'\n") == 50_000
    assert len(page.tags) < 1_000
