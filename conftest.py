"""Doctests of a framework's modules run only where the framework is installed."""

from importlib.util import find_spec

FRAMEWORKS = {
    "claude_agent_sdk": "claude_agent_sdk",
    "google_adk": "google.adk",
    "haystack": "haystack",
    "langchain": "langchain",
    "litellm": "litellm",
    "llamaindex": "llama_index",
    "mcp": "mcp",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}


def is_missing(package: str) -> bool:
    """Return whether a package, or the one that it is part of, is not installed."""
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:
        return True


collect_ignore_glob = [
    f"src/cupel/integrations/{module}.py" for module, package in FRAMEWORKS.items() if is_missing(package)
]
