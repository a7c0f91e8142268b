"""A framework that is not installed gives an error that says what to install."""

import importlib
import subprocess
import sys

import pytest

from cupel import MissingExtraError

MODULES = {
    "cupel.integrations.claude_agent_sdk": ("claude_agent_sdk", "claude-agent-sdk"),
    "cupel.integrations.google_adk": ("google.adk", "google-adk"),
    "cupel.integrations.haystack": ("haystack", "haystack"),
    "cupel.integrations.langchain": ("langchain", "langchain"),
    "cupel.integrations.litellm": ("litellm", "litellm"),
    "cupel.integrations.llamaindex": ("llama_index", "llamaindex"),
    "cupel.integrations.mcp": ("mcp", "mcp"),
    "cupel.integrations.openai_agents": ("agents", "openai-agents"),
    "cupel.integrations.pydantic_ai": ("pydantic_ai", "pydantic-ai"),
}


@pytest.mark.parametrize("module", MODULES)
def test_the_error_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch):
    package, extra = MODULES[module]
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'cupel-context\[{extra}\]'") as caught:
        importlib.import_module(module)
    assert isinstance(caught.value, ImportError)


def test_importing_the_package_imports_no_framework():
    code = "import cupel.integrations, cupel.messages, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "cupel.messages" in loaded
    assert not {package for package, _ in MODULES.values()} & set(loaded)
