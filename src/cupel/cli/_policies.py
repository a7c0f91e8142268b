"""Policies on the command line: names, files, overrides and descriptions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import cupel.policy
from cupel import presets
from cupel._checks import did_you_mean, shown
from cupel._documents import TOO_DEEP, is_list, is_object, strict_decoder
from cupel._text import visible
from cupel.errors import PolicyConfigError
from cupel.page import Variant
from cupel.pipeline import Pipeline
from cupel.policy import json_schema

_DEFAULTS: Final[dict[str, Any]] = {"slicer": "greedy", "placer": "chronological"}
"""What a document leaves out when it is the default, for paths that lead into it."""


def overridden(policy: Pipeline, assignments: Sequence[str]) -> Pipeline:
    """Return the policy with the assignments applied to its document, from left to right.

    >>> from cupel import presets
    >>> overridden(presets.chat(), ["slicer=knapsack", "slicer.bucket_size=10"]).slicer
    KnapsackSlice(bucket_size=10, max_cells=50000000)
    """
    if not assignments:
        return policy
    document: dict[str, Any] = json.loads(cupel.policy.dumps(policy))
    for assignment in assignments:
        try:
            _apply(document, assignment)
        except ValueError as error:
            raise PolicyConfigError(f"--set {shown(assignment)[1:-1]}: {error}") from None
    return cupel.policy.from_dict(document)


def _apply(document: dict[str, Any], assignment: str) -> None:
    path, mark, text = assignment.partition("=")
    if not mark or not path:
        raise ValueError("expected PATH=VALUE, such as slicer=knapsack")
    value = _value(text)
    *parents, last = path.split(".")
    if parents and parents[0] in _DEFAULTS:
        document.setdefault(parents[0], _DEFAULTS[parents[0]])
    node: Any = document
    for step in parents:
        child = _child(node, step)
        if isinstance(child, str):  # a bare tag is short for an object with only a type
            child = {"type": child}
            _put(node, step, child)
        node = child
    _put(node, last, value)


def _value(text: str) -> Any:
    """Read a value as JSON, or as the bare word it is."""
    try:
        return strict_decoder().decode(text)
    except json.JSONDecodeError:
        return text
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _child(node: Any, step: str) -> Any:
    try:
        child: Any = node[int(step) if is_list(node) else step]
    except (KeyError, IndexError, ValueError, TypeError):
        raise ValueError(f"the policy has nothing at {shown(step)}") from None
    return child


def _put(node: Any, step: str, value: Any) -> None:
    try:
        node[step if is_object(node) else int(step)] = value
    except (IndexError, ValueError, TypeError):
        where = f"is not a place in a list of {len(node)}" if is_list(node) else f"cannot be set in {shown(node)}"
        raise ValueError(f"{shown(step)} {where}") from None


def read_policy(name: str | None, overrides: Sequence[str], query: str | None = None) -> Variant:
    """Find a policy by preset name or file, apply the overrides, and bind it to a query."""
    wanted = name or "chat"
    found = overridden(_find(wanted), overrides).bind(query)
    flags = " ".join([f"--policy {shlex.quote(wanted)}", *(f"--set {shlex.quote(change)}" for change in overrides)])
    label = found.name or Path(wanted).stem
    return Variant(found, f"{label} ({', '.join(overrides)})" if overrides else label, flags)


def policies_to_compare(names: Sequence[str] | None, overrides: Sequence[str], query: str | None) -> list[Variant]:
    """Return the policies that are named, or one that is named and then all presets."""
    wanted = list(names or preset_names())
    if len(wanted) == 1:
        wanted += [name for name in preset_names() if name != wanted[0].replace("_", "-")]
    return [read_policy(name, overrides, query) for name in wanted]


def preset_names() -> list[str]:
    """Name the presets as the command line spells them."""
    return [name.replace("_", "-") for name in presets.__all__]


def preset(name: str) -> Callable[[], Pipeline]:
    """Return the function that makes a preset; `_` and `-` are the same."""
    make: Callable[[], Pipeline] = getattr(presets, name.replace("-", "_"))
    return make


def _find(name: str) -> Pipeline:
    known = preset_names()
    if name.replace("_", "-") in known:
        return preset(name)()
    if Path(name).exists():
        return cupel.policy.load(name)
    likely = did_you_mean(name, known)
    raise PolicyConfigError(f"policy {name}: neither a file nor a preset{likely} (presets: {', '.join(known)})")


_OVERFLOW: Final = {
    "throw": "raise an error",
    "truncate": "walk from the highest score down and keep what still fits; pinned items stay",
    "proceed": "keep everything",
}
_DUPLICATES: Final = {True: "of items with the same text, the best-scored one stays", False: "all stay"}
_STEP: Final = "  "


def describe_policy(policy: Pipeline, name: str) -> str:
    """Return what a policy does, stage by stage.

    >>> from cupel import Pipeline, RecencyScorer
    >>> print(describe_policy(Pipeline(scorer=RecencyScorer()), "newest"), end="")  # doctest: +ELLIPSIS
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
    document: dict[str, Any] = json.loads(cupel.policy.dumps(policy))
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
