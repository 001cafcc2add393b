"""What the native kernel relies on in IPython besides running cells, and what it does where a package is missing.

Each body runs in the environment's own Python: 3.9 and later, nothing of this file, one fork each.
"""

from typing import Any

from tests.inside.versions.interpreter import inside
from tests.inside.versions.served import Inside

# --- IPython: what is besides ---


@inside
def test_payloads_replace_those_of_the_same_source(k: Inside) -> None:
    """payload_manager."""
    shell, _ = k.session()
    manager = shell.payload_manager
    shell.set_next_input("a")
    shell.set_next_input("b", replace=True)
    assert manager.read_payload() == [{"source": "set_next_input", "text": "b", "replace": True}]
    manager.clear_payload()
    assert manager.read_payload() == []
    k.run(shell, "len?")
    page = manager.read_payload()
    assert [entry["source"] for entry in page] == ["page"]
    assert "Return the number of items" in page[0]["data"]["text/plain"]


@inside
def test_exit_asks_the_shell(k: Inside) -> None:
    """ZMQExitAutocall: `exit`, `quit()` and `quit(keep_kernel=True)`."""
    for code, exiting in (("exit", True), ("quit()", True), ("quit(keep_kernel=True)", False)):
        shell, _ = k.session()
        shell.exiting = False
        k.run(shell, code)
        assert shell.exiting is exiting, code
        assert shell.payload_manager.read_payload() == [{"source": "ask_exit", "keepkernel": not exiting}]
        shell.payload_manager.clear_payload()


@inside
def test_input_that_is_not_allowed_is_ipython_s_own_error(k: Inside) -> None:
    """StdinNotImplementedError is a NotImplementedError, as it is with ipykernel."""
    from IPython.core.error import StdinNotImplementedError

    assert issubclass(StdinNotImplementedError, NotImplementedError)
    questions = k.native("questions").Questions(None, lambda: "")
    assert "allowStdin" in k.raised(StdinNotImplementedError, lambda: questions.input("x"))


@inside
def test_completion_gives_types_and_signatures(k: Inside) -> None:
    """provisionalcompleter, rectify_completions and Completer.completions."""
    shell, _ = k.session()
    k.run(shell, "spam_egg = 1\ndef spam_ham(a): pass")
    requests = k.native("requests")
    told = requests.complete(shell, "spam_", 5)
    assert {"spam_egg", "spam_ham"} <= set(told["matches"]), told
    assert (told["cursor_start"], told["cursor_end"]) == (0, 5)
    assert len(told["metadata"]["_jupyter_types_experimental"]) == len(told["matches"])
    assert "%time" in " ".join(requests.complete(shell, "%tim", 4)["matches"])
    assert requests.complete(shell, "nothing_like_it", 15)["matches"] == []
    assert requests.complete(shell, "ä = 'é'; spam_", 14)["cursor_start"] == 9


@inside
def test_inspection_gives_a_bundle_or_nothing(k: Inside) -> None:
    """token_at_cursor, object_inspect_mime (KeyError where there is none), enable_html_pager."""
    shell, _ = k.session()
    requests = k.native("requests")
    told = requests.inspect(shell, "len(", 2, 0)
    assert told["found"]
    assert set(told["data"]) == {"text/plain"}
    assert not requests.inspect(shell, "nothing_there", 3, 0)["found"]
    k.run(shell, "def f():\n    'words'\n    return 1")
    assert "return 1" in requests.inspect(shell, "f", 1, 1)["data"]["text/plain"]
    shell.enable_html_pager = True
    assert set(requests.inspect(shell, "len(", 2, 0)["data"]) == {"text/plain", "text/html"}


@inside
def test_completeness_and_history(k: Inside) -> None:
    """input_transformer_manager.check_complete and history_manager.get_range."""
    shell, _ = k.session()
    requests = k.native("requests")
    assert requests.is_complete(shell, "for x in y:") == {"status": "incomplete", "indent": "    "}
    assert requests.is_complete(shell, "1 + 1")["status"] == "complete"
    assert requests.is_complete(shell, "1 +* 1")["status"] == "invalid"
    assert requests.is_complete(shell, "%%time\nx")["status"] == "incomplete"
    k.run(shell, "x = 1")
    k.run(shell, "x + 1")
    ask = {"hist_access_type": "tail", "n": 2, "output": True}
    assert requests.history(shell, ask)["history"] == [[0, 1, ("x = 1", None)], [0, 2, ("x + 1", "2")]]
    ask = {"hist_access_type": "search", "pattern": "*+*", "raw": True}
    assert requests.history(shell, ask)["history"] == [[0, 2, "x + 1"]]
    assert requests.history(shell, {"hist_access_type": "range", "start": 1, "stop": 2})["history"] == [
        [0, 1, "x = 1"]
    ]


@inside
def test_the_last_inputs_are_those_of_the_session(k: Inside) -> None:
    """%rerun and %recall ask HistoryManager.get_tail, which would look into the file that there is none of."""
    shell, _ = k.session()
    for code in ("x = 1", "x += 1", "%rerun"):
        shell.run_cell(code, store_history=True)
    assert shell.user_ns["x"] == 3
    assert list(shell.history_manager.get_tail(2, include_latest=True)) == [
        (0, 2, "x += 1"),
        (0, 3, "%rerun"),
    ]
    assert list(shell.history_manager.get_tail(5, output=True)) == [
        (0, 1, ("x = 1", None)),
        (0, 2, ("x += 1", None)),
    ]


@inside
def test_no_history_file_and_no_thread(k: Inside) -> None:
    """HistoryManager.enabled: nothing is written, so that a zygote may fork."""
    import os
    import threading

    shell, _ = k.session()
    k.native("rehearsal").rehearse(shell)
    assert threading.active_count() == 1
    assert not [name for name in os.listdir(os.environ["IPYTHONDIR"]) if "sqlite" in name]
    assert len(os.listdir("/proc/self/task")) == 1


@inside
def test_the_shell_is_as_new_after_a_rehearsal(k: Inside) -> None:
    """Reset, history and counters."""
    shell, session = k.session()
    k.native("rehearsal").rehearse(shell)
    del session.sent[:]
    for name in ("f", "_1", "_i1", "In", "Out", "_", "__"):
        found = shell.user_ns.get(name)
        assert not found or found == [""], (name, found)
    assert shell.execution_count == 1
    k.run(shell, "5")
    assert session.of("execute_result")[0]["execution_count"] == 1
    assert list(shell.history_manager.get_range(0)) == [(0, 1, "5")]


@inside
def test_colours_are_off_whatever_they_are_called(k: Inside) -> None:
    """InteractiveShell.colors: 'NoColor' before IPython 9, 'nocolor' from then on."""
    shell, session = k.session()
    assert shell.colors.lower() == "nocolor"
    k.run(shell, "f'{1 / 0}'")
    k.run(shell, "len??")
    assert "\x1b" not in "".join(session.of("error")[0]["traceback"])
    assert "\x1b" not in shell.payload_manager.read_payload()[0]["data"]["text/plain"]


@inside
def test_shell_commands_go_our_way(k: Inside) -> None:
    """`!cmd` and `%sx`: system, getoutput, var_expand with a depth that reaches the cell."""
    shell, _ = k.session()
    k.run(shell, "import os\nx = 'yes'\n!test {x} = yes && exit 3\ncode = _exit_code\ny = !echo $x")
    assert shell.user_ns["code"] == 3
    assert list(shell.user_ns["y"]) == ["yes"]


# --- what may be missing besides ---


@inside
def test_without_the_package_comm_there_are_no_comms(k: Inside) -> None:
    """IPython 8.18 depends on it in part only; widgets bring it."""
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == "comm"]:
        del sys.modules[name]
    sys.modules["comm"] = None  # type: ignore[assignment]
    comms = k.native("comms").Comms()
    comms.install()
    assert comms.info(None) == {"status": "ok", "comms": {}}
    comms.handle("comm_open", {"comm_id": "x", "target_name": "y"}, [])


@inside
def test_comms_of_the_package_become_ours(k: Inside) -> None:
    """comm.create_comm, comm.get_comm_manager, BaseComm.publish_msg and CommManager's handlers."""
    import comm

    comms = k.native("comms").Comms()
    comms.install()
    sent: list[Any] = []

    class Link:
        import os

        pid = os.getpid()

        def send(self, *args: object, **options: object) -> None:
            sent.append((args, options))

    comms.link = Link()
    opened = []
    comm.get_comm_manager().register_target("target", lambda made, message: opened.append(message))
    comms.handle("comm_open", {"comm_id": "i", "target_name": "target", "data": {}}, [b"x"])
    assert opened[0]["buffers"] == [b"x"]
    assert comms.info(None)["comms"] == {"i": {"target_name": "target"}}
    assert comms.info("other")["comms"] == {}
    made = comm.create_comm(target_name="mine", data={"a": 1}, buffers=[b"12"])
    (kind, content), options = sent[-1]
    assert kind == "comm_open"
    assert content["target_name"] == "mine"
    assert content["data"] == {"a": 1}
    assert [bytes(view) for view in options["buffers"]] == [b"12"]
    seen: list[Any] = []
    made.on_msg(seen.append)
    comms.handle("comm_msg", {"comm_id": made.comm_id, "data": {"b": 2}}, [])
    assert seen[0]["content"]["data"] == {"b": 2}
    made.close()
    assert sent[-1][0][0] == "comm_close"


@inside
def test_libraries_find_a_notebook(k: Inside) -> None:
    """What `get_ipython()` is, by the name of its class and by ipykernel's name for it."""
    import sys

    shell, _ = k.session()
    from IPython import get_ipython

    assert get_ipython() is shell
    assert type(shell).__name__ == "ZMQInteractiveShell"
    assert sys.modules["ipykernel.zmqshell"].ZMQInteractiveShell is type(shell)
    assert shell.config["IPKernelApp"]["parent_appname"] == "cellhouse"
    assert shell.has_trait("kernel")
