"""Doctests of a framework's module run only where the framework is installed."""

from importlib.util import find_spec

FRAMEWORKS = {
    "haystack": "haystack",
    "langchain": "langchain_core",
    "llamaindex": "llama_index",
    "mcp": "mcp",
    "pydantic_ai": "pydantic_ai",
}

collect_ignore_glob = [
    f"src/cupel/integrations/{module}*" for module, package in FRAMEWORKS.items() if find_spec(package) is None
]
