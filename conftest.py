"""Doctests of a framework's modules run only where the framework is installed."""

from importlib.util import find_spec

FRAMEWORKS = {
    "claude_agent_sdk": "claude_agent_sdk",
    "haystack": "haystack",
    "langchain": "langchain",
    "litellm": "litellm",
    "llamaindex": "llama_index",
    "mcp": "mcp",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}

collect_ignore_glob = [
    f"src/cupel/integrations/{module}.py" for module, package in FRAMEWORKS.items() if find_spec(package) is None
]
