"""What tools cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cupel.messages._plain import compact_json, fields, is_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.tokens import TokenCounter

ANTHROPIC_OVERHEAD = 346
"""Tokens of the system prompt that Anthropic adds to a request with tools."""

# The constants of OpenAI's own counting guide.
_FUNCTION = 7
_OLDER_FUNCTION = 10
"""For models with the encoding cl100k_base."""
_PROPERTIES = 3
_PROPERTY = 3
_ENUM = -3
_ENUM_VALUE = 3
_END = 12
_PRICED = frozenset(("additionalProperties", "description", "enum", "items", "properties", "required", "title", "type"))
"""Keywords of a schema that are counted one by one, or that the model is not shown."""


def anthropic_tools(tools: Sequence[Any], counter: TokenCounter) -> int:
    """Return the tokens of tools in Anthropic's format: their schemas as JSON, and the provider's own words."""
    return schema_tokens(tools, counter) + ANTHROPIC_OVERHEAD


def schema_tokens(tools: Sequence[Any], counter: TokenCounter) -> int:
    """Return the tokens of tools whose provider is unknown: their schemas as JSON."""
    return counter.count(compact_json(tools))


def openai_tools(tools: Sequence[Any], counter: TokenCounter) -> int:
    """Return the tokens of functions by OpenAI's published formula; of hosted tools, by their JSON.

    The formula speaks of flat parameters; what is nested is counted in the same way, and keywords it does not know by
    their JSON.
    """
    frame = _OLDER_FUNCTION if _encoding(counter) == "cl100k_base" else _FUNCTION
    return _END + sum(frame + _tool(tool, counter) for tool in tools)


def _encoding(counter: Any) -> object:
    while hasattr(counter, "inner"):
        counter = counter.inner
    return getattr(counter, "encoding", None)


def _tool(tool: Any, counter: TokenCounter) -> int:
    match tool:
        case {"function": {"name": str()} as function} | ({"name": str()} as function):
            line = f"{function['name']}:{_text(function.get('description'))}"
            return counter.count(line) + _properties(function.get("parameters"), counter)
        case _:
            return counter.count(compact_json(tool))


def _properties(schema: object, counter: TokenCounter) -> int:
    properties = fields(fields(schema).get("properties"))
    if not properties:
        return 0
    return _PROPERTIES + sum(_property(name, value, counter) for name, value in properties.items())


def _property(name: str, schema: object, counter: TokenCounter) -> int:
    keywords = fields(schema)
    kind = keywords.get("type", "")
    kind = "|".join(map(str, kind)) if is_sequence(kind) else kind
    total = _PROPERTY + counter.count(f"{name}:{kind}:{_text(keywords.get('description'))}")
    if values := keywords.get("enum"):
        total += _ENUM + sum(_ENUM_VALUE + counter.count(text) for text in _texts(values))
    total += _properties(keywords, counter)
    if items := fields(keywords.get("items")):
        total += _property("", items, counter)
    other = {key: value for key, value in keywords.items() if key not in _PRICED}
    return total + (counter.count(compact_json(other)) if other else 0)


def _texts(values: object) -> Iterable[str]:
    listed = values if is_sequence(values) else [values]
    return (value if isinstance(value, str) else compact_json(value) for value in listed)


def _text(description: object) -> str:
    return str(description or "").removesuffix(".")
