"""What the native kernel relies on in IPython when a cell runs, shows something, fails.

Each body runs in the environment's own Python: 3.9 and later, nothing of this file, one fork each.
"""

from tests.inside.versions.interpreter import inside
from tests.inside.versions.served import Inside

# --- IPython: values ---


@inside
def test_a_value_takes_the_steps_of_the_display_hook(k: Inside) -> None:
    """`Hook` overrides the steps; the base class calls them in this order, and no other writes anything."""
    shell, session = k.session()
    steps = []
    hook = shell.displayhook
    names = (
        "start_displayhook",
        "write_output_prompt",
        "write_format_data",
        "log_output",
        "finish_displayhook",
    )
    for name in names:

        def step(*args: object, name: str = name) -> object:
            steps.append(name)
            return getattr(type(hook), name)(hook, *args)

        hook.__dict__[name] = step
    k.run(shell, "40 + 2")
    assert steps == list(names)
    assert session.sent == [
        ("execute_result", {"execution_count": 1, "data": {"text/plain": "42"}, "metadata": {}})
    ]
    assert shell.user_ns["_1"] == shell.user_ns["Out"][1] == 42


@inside
def test_a_value_of_an_ast_hook_goes_through_sys_displayhook(k: Inside) -> None:
    """The shell puts its hook at sys.displayhook for as long as a cell runs, and at no other time."""
    import sys

    shell, _ = k.session()
    before = sys.displayhook
    k.run(shell, "import sys\nseen = sys.displayhook")
    assert shell.user_ns["seen"] is shell.displayhook
    assert sys.displayhook is before


@inside
def test_history_takes_a_value_s_text_from_output_hist_reprs(k: Inside) -> None:
    """`log_output` keeps what history shows there, and no bundle anywhere."""
    shell, _ = k.session()
    k.run(shell, "'x'")
    assert shell.history_manager.output_hist_reprs == {1: "'x'"}
    assert not getattr(shell.history_manager, "outputs", None)
    assert list(shell.history_manager.get_range(0, 1, output=True)) == [(0, 1, ("'x'", "'x'"))]
    assert shell.logger.log_output is False


@inside
def test_a_result_that_can_not_be_formatted_is_told_through_showtraceback(k: Inside) -> None:
    """`catch_format_error` calls the shell's showtraceback while the hook's message is open."""
    shell, session = k.session()
    result = k.run(shell, "class Broken:\n    def __repr__(self): return 1 / 0\nBroken()")
    assert result.error_in_exec is None
    assert [content["ename"] for content in session.of("error")] == ["ZeroDivisionError"]
    assert type(shell.failure) is ZeroDivisionError
    assert not session.of("execute_result")


@inside
def test_no_string_and_no_bundle_is_remembered(k: Inside) -> None:
    """IPython 9 keeps what was printed and shown, where `_tee`, `log_output` and `publish` are its own."""
    shell, _ = k.session()
    for code in ("print('x' * 1000)", "'x' * 1000", "display({'text/html': 'x'}, raw=True)"):
        shell.run_cell(code, store_history=True)
    kept = getattr(shell.history_manager, "outputs", {})
    assert not any(kept.values())


# --- IPython: displays ---


@inside
def test_display_calls_publish_with_what_we_take(k: Inside) -> None:
    """display, update_display, clear_output and display handles."""
    shell, session = k.session()
    k.run(
        shell,
        "from IPython.display import clear_output\n"
        "handle = display({'text/plain': 'a'}, raw=True, display_id='d', metadata={'m': 1})\n"
        "handle.update({'text/plain': 'b'}, raw=True)\nclear_output(wait=True)",
    )
    assert session.sent == [
        (
            "display_data",
            {"data": {"text/plain": "a"}, "metadata": {"m": 1}, "transient": {"display_id": "d"}},
        ),
        (
            "update_display_data",
            {"data": {"text/plain": "b"}, "metadata": {}, "transient": {"display_id": "d"}},
        ),
        ("clear_output", {"wait": True}),
    ]


@inside
def test_publish_takes_every_argument_of_the_base_class(k: Inside) -> None:
    """What callers of any version pass by name is taken."""
    import inspect

    from IPython.core.displaypub import DisplayPublisher

    shell, _ = k.session()
    base = inspect.signature(DisplayPublisher.publish).parameters
    assert {"data", "metadata", "source", "transient", "update"} <= set(base)
    inspect.signature(shell.display_pub.publish).bind(
        **{name: None for name in base if name not in ("self", "kwargs")}
    )
    assert callable(shell.display_pub._validate_data)
    for wrong in ("text", None):
        assert k.raised((TypeError, ValueError), lambda wrong=wrong: shell.display_pub.publish(wrong))


@inside
def test_a_hook_of_a_thread_sees_and_keeps_messages(k: Inside) -> None:
    """ipywidgets' Output and others register hooks; `_hooks` must not be a trait of the base class's that is shared."""
    import threading

    shell, session = k.session()
    seen = []
    shell.display_pub.register_hook(lambda message: seen.append(message))
    k.run(shell, "display({'text/plain': 'a'}, raw=True)")
    thread = threading.Thread(target=shell.display_pub.publish, args=({"text/plain": "b"},))
    thread.start()
    thread.join()
    assert [message["content"]["data"] for message in seen] == [{"text/plain": "a"}]
    assert [content["data"] for content in session.of("display_data")] == [{"text/plain": "b"}]


@inside
def test_capture_takes_output_away_from_us_and_forgets_errors(k: Inside) -> None:
    """%%capture puts another publisher in place and calls `run_cell` from a function named `capture`."""
    import inspect

    from IPython.core.magics.execution import ExecutionMagics

    assert "self.shell.run_cell(" in inspect.getsource(ExecutionMagics.capture)
    shell, session = k.session()
    result = k.run(shell, "%%capture taken\nprint('p')\ndisplay(1)\n1 / 0")
    assert result.error_in_exec is None
    assert type(shell.failure) is ZeroDivisionError
    taken = shell.user_ns["taken"]
    assert taken.stdout.startswith("p\n")
    assert [output.data for output in taken.outputs] == [{"text/plain": "1"}]
    assert not session.of("display_data")


# --- IPython: running ---


@inside
def test_a_cell_runs_with_what_was_transformed_before(k: Inside) -> None:
    """transform_cell, should_run_async and run_cell_async with the same two keywords; nothing is transformed twice."""
    import warnings

    shell, _ = k.session()
    transformed = []

    def seen(lines: list[str]) -> list[str]:
        transformed.append(lines)
        return lines

    shell.input_transformers_cleanup.append(seen)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = k.run(shell, "%config\nx = 5")
    assert result.success, result
    assert len(transformed) == 1
    assert shell.execution_count == 2


@inside
def test_what_can_not_be_transformed_is_an_error_before_the_code(k: Inside) -> None:
    """preprocessing_exc_tuple."""
    shell, session = k.session()

    def refuse(lines: list[str]) -> list[str]:
        raise SyntaxError("refused")

    shell.input_transformers_post.append(refuse)
    result = k.run(shell, "x = 5")
    assert type(result.error_before_exec) is SyntaxError
    assert result.error_in_exec is None
    assert [content["ename"] for content in session.of("error")] == ["SyntaxError"]
    assert "x" not in shell.user_ns


@inside
def test_only_code_that_awaits_runs_as_a_task(k: Inside) -> None:
    """should_run_async; everything else ends at the first step of its coroutine."""
    shell, _ = k.session()
    for code, wanted in (
        ("1", False), ("await f()", True), ("async with a: pass", True), ("async for x in y: pass", True),
        ("async def f(): await g()", False), ("[x async for x in y]", True), ("x =", False), ("def f(): await g()", False),
    ):  # fmt: skip
        assert shell.should_run_async(code, transformed_cell=code, preprocessing_exc_tuple=None) is wanted, (
            code
        )
    assert (
        shell.should_run_async("await x", transformed_cell="await x", preprocessing_exc_tuple=(1, 2, 3))
        is False
    )


@inside
def test_a_cell_that_was_taken_for_one_that_awaits_nothing_says_so(k: Inside) -> None:
    """run_cell_async is a plain coroutine: what its cell awaits comes out of it."""
    import types

    shell, _ = k.session()

    @types.coroutine
    def one():
        yield

    shell.user_ns["one"] = one
    cell = shell.run_cell_async("await one()", transformed_cell="await one()")
    assert "waits for something" in k.raised(RuntimeError, lambda: k.native("execution")._at_once(cell))


@inside
def test_an_error_is_in_the_result(k: Inside) -> None:
    """error_before_exec and error_in_exec; one of them for each way to fail."""
    shell, _ = k.session()
    for code, *wanted in (
        ("1 / 0", None, "ZeroDivisionError"),
        ("x =", "SyntaxError", None),
        ("if 1:\n1", "IndentationError", None),
        ("raise SystemExit(3)", None, "SystemExit"),
        ("raise KeyboardInterrupt", None, "KeyboardInterrupt"),
        ("%nosuchmagic", None, "UsageError"),
        ("open('/nowhere')", None, "FileNotFoundError"),
        ("1", None, None),
    ):
        result = k.run(shell, code)
        told = [
            None if error is None else type(error).__name__
            for error in (result.error_before_exec, result.error_in_exec)
        ]
        assert told == wanted, (code, told)
        assert (shell.last_report is not None) == (code != "1"), code


@inside
def test_run_code_is_a_coroutine_that_exec_and_await_go_through(k: Inside) -> None:
    """`run_code` heals sys.stdout after each statement, before the shell looks at it."""
    import inspect
    import sys
    import types

    from IPython.core.interactiveshell import InteractiveShell

    assert inspect.iscoroutinefunction(InteractiveShell.run_code)
    shell, session = k.session()
    out, healed = sys.stdout, []

    def heal() -> None:
        healed.append(1)
        sys.stdout = out

    shell.sink.streams = types.SimpleNamespace(heal=heal)
    result = k.run(shell, "import sys\nsys.stdout = None")
    assert result.success
    assert healed
    assert not session.of("error")


@inside
def test_interrupts_and_cancelling_come_out_as_they_are(k: Inside) -> None:
    """KeyboardInterrupt and CancelledError are told through `_report`, whatever the shell does with them."""
    import asyncio

    shell, session = k.session()
    k.run(shell, "raise KeyboardInterrupt")
    assert session.sent[-1][1]["ename"] == "KeyboardInterrupt"
    session.interrupts.asked = True
    code = "import asyncio\nawait asyncio.Event().wait()"

    async def cancelled() -> None:
        task = asyncio.ensure_future(shell.run_cell_async(code, transformed_cell=code))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancelled())
    assert session.sent[-1][1]["ename"] == "KeyboardInterrupt"


# --- IPython: errors ---


@inside
def test_every_error_goes_through_underscore_showtraceback_once(k: Inside) -> None:
    """showtraceback, showsyntaxerror, showindentationerror and usage errors; entries in a list, plain."""
    shell, session = k.session()
    for code, name in (
        ("def f():\n    1 / 0\nf()", "ZeroDivisionError"),
        ("x = )", "SyntaxError"),
        ("  x = 1\n y = 2", "IndentationError"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt('x')", "KeyboardInterrupt"),
        ("%run /nowhere.py", None),
        ("get_ipython().run_line_magic('nosuchmagic', '')", "UsageError"),
        ("import nosuchmodule", "ModuleNotFoundError"),
        ("exec('x = )')", "SyntaxError"),
        ("class E(Exception):\n    def _render_traceback_(self): return ['own words']\nraise E", "E"),
    ):
        del session.sent[:]
        k.run(shell, code)
        errors = session.of("error")
        assert len(errors) == 1, (code, errors)
        assert name in (None, errors[0]["ename"]), (code, errors)
        assert errors[0]["traceback"], code
        assert all(type(entry) is str and "\x1b" not in entry for entry in errors[0]["traceback"]), errors
    assert session.of("error")[0]["traceback"] == ["own words"]


@inside
def test_frames_of_the_traceback_are_entries(k: Inside) -> None:
    """structured_traceback gives a list: a head, one entry a frame, the last line."""
    shell, session = k.session()
    k.run(shell, "def f():\n    1 / 0\nf()")
    entries = session.of("error")[0]["traceback"]
    assert any("1 / 0" in entry for entry in entries), entries
    assert any("f()" in entry for entry in entries), entries
    assert entries[-1].startswith("ZeroDivisionError"), entries
    assert not any("inside/native" in entry or "interactiveshell" in entry for entry in entries), entries


@inside
def test_groups_and_errors_without_words_are_told_whole(k: Inside) -> None:
    """IPython prints a group past `_showtraceback`, and fails on an exception whose str raises."""
    import builtins

    shell, session = k.session()
    k.run(shell, "class E(Exception):\n    def __str__(self): return 1 / 0\nraise E")
    assert session.of("error")[-1]["evalue"] == "<exception str() failed>"
    if hasattr(builtins, "BaseExceptionGroup"):
        k.run(shell, "raise ExceptionGroup('both', [ValueError(1), TypeError(2)])")
        told = session.of("error")[-1]
        assert told["ename"] == "ExceptionGroup"
        assert "TypeError: 2" in "".join(told["traceback"])


@inside
def test_each_traceback_is_formatted_once(k: Inside) -> None:
    """IPython 9 formats it anew to remember it, unless `_format_exception_for_storage` is ours."""
    shell, _ = k.session()
    formatted = []
    once = shell.InteractiveTB.structured_traceback

    def counted(*args: object, **options: object) -> object:
        formatted.append(1)
        return once(*args, **options)

    shell.InteractiveTB.structured_traceback = counted
    k.run(shell, "1 / 0")
    assert len(formatted) == 1
    if hasattr(shell.history_manager, "exceptions"):
        assert shell.history_manager.exceptions[1]["ename"] == "ZeroDivisionError"


@inside
def test_names_of_cells_make_no_look_through_all_modules(k: Inside) -> None:
    """`without_overhead` answers for <ipython-input-…>, and steps aside where inspect has no modulesbyfile."""
    import inspect
    import types

    k.native("tracebacks").without_overhead()
    assert isinstance(inspect.modulesbyfile, dict)
    code = compile("1", "<ipython-input-1-abc>", "exec")
    assert inspect.getmodule(code) is None
    assert inspect.getmodule(types.SimpleNamespace(), "<string>") is None
    assert inspect.getmodule(inspect.Signature) is inspect


@inside
def test_without_modulesbyfile_inspect_stays_as_it_is(k: Inside) -> None:
    import inspect

    k.without("inspect.modulesbyfile")
    before = inspect.getmodule
    k.native("tracebacks").without_overhead()
    assert inspect.getmodule is before
