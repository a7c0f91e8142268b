"""A policy in plain words, made from its document and what each strategy says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cupel._text import visible
from cupel.policy import Policy, json_schema

_OVERFLOW: Final = {
    "throw": "raise an error",
    "truncate": "walk from the highest score down and keep what still fits; pinned items stay",
    "proceed": "keep everything",
}
_DUPLICATES: Final = {True: "of items with the same text, the best-scored one stays", False: "all stay"}
_STEP: Final = "  "


def describe_policy(policy: Policy, name: str) -> str:
    """Return what a policy does, stage by stage.

    >>> from cupel import Policy, RecencyScorer
    >>> print(describe_policy(Policy(RecencyScorer()), "newest"), end="")  # doctest: +ELLIPSIS
    newest
    <BLANKLINE>
    Score
      recency: Scores by rank in time: the newest item 1, ...
    Duplicates
      of items with the same text, the best-scored one stays
    Slice
      greedy: Takes items by score per token, ...
    Place
      chronological: Orders by timestamp, oldest first; ...
    If the result exceeds the budget
      raise an error
    """
    document: dict[str, Any] = json.loads(policy.to_json())
    families = _families()
    stages = {
        "Score": _strategy(document["scorer"], "scorer", families),
        "Duplicates": iter([_DUPLICATES[policy.deduplicate]]),
        "Slice": _strategy(document.get("slicer", "greedy"), "slicer", families),
        "Place": _strategy(document.get("placer", "chronological"), "placer", families),
        "If the result exceeds the budget": iter([_OVERFLOW[document.get("overflow", "throw")]]),
    }
    heading = f"{name}: {policy.description}" if policy.description else name
    body = "".join(f"{stage}\n" + "".join(f"{_STEP}{line}\n" for line in lines) for stage, lines in stages.items())
    return visible(f"{heading}\n\n{body}")


def _families() -> dict[str, dict[str, Any]]:
    """Return the schema of every registered strategy, by family and tag."""
    return {
        family: {form["title"]: form for form in definition.get("anyOf", ()) if "title" in form}
        for family, definition in json_schema()["$defs"].items()
    }


def _strategy(form: Any, family: str, families: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    fields: dict[str, Any] = {"type": form} if isinstance(form, str) else dict(form)
    tag = fields.pop("type")
    schema: Mapping[str, Any] = families[family][tag]
    yield f"{tag}: {schema['description']}" if schema["description"] else tag
    properties: Mapping[str, Any] = schema.get("properties", {})
    for key, value in fields.items():
        for line in _setting(key, value, properties.get(key, {}), families):
            yield _STEP + line
    for key, form_of_key in properties.items():
        if key not in fields and "default" in form_of_key:
            yield f"{_STEP}{key}: {_plain(form_of_key['default'])} (default)"


def _setting(key: str, value: Any, schema: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say one setting: a strategy within a strategy follows under its own words, other values stand for themselves."""
    if "$ref" in schema:
        first, *rest = _strategy(value, schema["$ref"].rpartition("/")[2], families)
        return [f"{key}: {first}", *rest]
    parts: Mapping[str, Any] = schema.get("items", {}).get("properties", {})
    if not parts:
        return [f"{key}: {_plain(value)}"]
    nested = next((part for part, form in parts.items() if "$ref" in form), None)
    lines: list[str] = []
    for entry in value:
        words = ", ".join(f"{part} {_plain(told)}" for part, told in entry.items() if part != nested)
        lines += [words] if nested is None else _setting(words, entry[nested], parts[nested], families)
    return lines


def _plain(value: Any) -> str:
    """Write a value without the marks of its notation."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(told)}" for key, told in value.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return ", ".join(map(_plain, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return value if isinstance(value, str) else json.dumps(value)
