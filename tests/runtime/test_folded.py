"""Text of a record that a dead owner left, shown as a result that was frozen in time would show it."""

from cellhouse.runtime.folded import FoldedText


def test_folded_as_a_terminal_would() -> None:
    view = FoldedText(1_000)
    for text in ("\r 10%", "\r 20%", "\r100%\n", "\x1b[31mred\x1b[0m\n", "up\n\x1b[Adown"):
        view.write(text)
    assert view.render("x") == ("100%\nred\ndown\n", None)


def test_cleared() -> None:
    view = FoldedText(1_000)
    view.write("ä€\n")
    assert view.clear() == 3
    assert view.clear() == 0
    view.write("on")
    assert view.render("x") == ("on", None)


def test_shortened_with_the_figures_of_the_whole() -> None:
    view = FoldedText(100)
    whole = "".join(f"\x1b[1m{number:04}\x1b[0m ä\n" for number in range(1_000))
    for start in range(0, len(whole), 77):
        view.write(whole[start : start + 77])
    text, cut = view.render("runtimes/r/sessions/s/executions/e/stdout")
    assert cut is not None
    assert (cut.total_chars, cut.total_bytes, cut.total_lines) == (len(whole), len(whole.encode()), 1_000)
    assert cut.kept_head_chars + cut.kept_tail_chars + cut.omitted_chars == 7 * 1_000
    assert text.startswith("0000 ä\n0001 ä\n")
    assert text.endswith("\n0999 ä\n")
    assert f"{cut.omitted_chars} characters" in text
    assert "read runtimes/r/sessions/s/executions/e/stdout" in text
