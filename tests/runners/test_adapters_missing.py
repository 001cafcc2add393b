"""Without its framework an adapter says which extra brings it."""

import importlib
import sys

import pytest

ADAPTERS = [
    ("adk", "google", "google-adk"),
    ("langchain", "langchain_core", "langchain"),
    ("openai_agents", "agents", "openai-agents"),
    ("smolagents", "smolagents", "smolagents"),
]


@pytest.mark.parametrize(("module", "package", "extra"), ADAPTERS)
def test_an_adapter_without_its_framework_names_the_extra(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"cellhouse.runners.adapters.{module}", raising=False)
    with pytest.raises(ImportError, match=f"'{package}'.*pip install 'cellhouse\\[{extra}\\]'"):
        importlib.import_module(f"cellhouse.runners.adapters.{module}")
