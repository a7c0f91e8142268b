"""Find policies by name, override and describe them; the commands `policy` and `presets`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cupel.policy
from cupel import presets
from cupel._internal.checks import did_you_mean, shown
from cupel._internal.documents import TOO_DEEP, is_list, is_object, strict_decoder
from cupel._internal.text import escape_json, escape_toml
from cupel.cli._arguments import Command, Parser, add_files, add_format, add_import, add_overrides
from cupel.cli._output import needs_ascii, print_json, prose_width, say, say_prose
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.pipeline import Pipeline
from cupel.policy import json_schema

if TYPE_CHECKING:
    from cupel.page import Variant

_DEFAULTS: Final[dict[str, Any]] = {"slicer": "greedy", "placer": "chronological"}
"""Parts that a document omits when they have the default, for paths into them."""


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
    """Read a value as JSON, or as a bare word."""
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
        where = f"is not a position in a list of {len(node)}" if is_list(node) else f"cannot be set in {shown(node)}"
        raise ValueError(f"{shown(step)} {where}") from None


def read_policy(name: str | None, overrides: Sequence[str], query: str | None = None) -> Variant:
    """Find a policy by preset name or file, apply the overrides, and bind it to a query."""
    from cupel.page import Variant  # `presets` starts faster without it

    wanted = "chat" if name is None else name
    found = overridden(_find(wanted), overrides).bind(query)
    flags = " ".join([f"--policy {shlex.quote(wanted)}", *(f"--set {shlex.quote(change)}" for change in overrides)])
    label = found.name or Path(wanted).stem
    return Variant(found, f"{label} ({', '.join(overrides)})" if overrides else label, flags)


def policies_to_compare(names: Sequence[str] | None, overrides: Sequence[str], query: str | None) -> list[Variant]:
    """Return the named policies; a single one is followed by all presets."""
    wanted = list(names or preset_names())
    if len(wanted) == 1:
        wanted += [name for name in preset_names() if name != wanted[0].replace("_", "-")]
    return [read_policy(name, overrides, query) for name in wanted]


def warn_without_query(policy: Variant, args: argparse.Namespace) -> None:
    """Print a note if the user named a policy that scores by relevance and gave no query."""
    if args.policy and args.query is None and policy.policy.bind("query") != policy.policy:
        say(f"note: {policy.name} scores by relevance to a query, and there is none: give it with --query", error=True)


def preset_names() -> list[str]:
    """Return the names of the presets, as the command line spells them."""
    return [name.replace("_", "-") for name in presets.__all__]


def preset(name: str) -> Callable[[], Pipeline]:
    """Return the function of a preset; `_` and `-` are the same."""
    make: Callable[[], Pipeline] = getattr(presets, name.replace("-", "_"))
    return make


def _find(name: str) -> Pipeline:
    known = preset_names()
    if name.replace("_", "-") in known:
        return preset(name)()
    if name.strip() and Path(name).exists():
        return cupel.policy.load(name)
    likely = did_you_mean(name, known)
    problem = f"policy {name}: neither a file nor a preset{likely}" if name.strip() else "the name of a policy is empty"
    raise PolicyConfigError(f"{problem} (presets: {', '.join(known)})")


_OVERFLOW: Final = {
    "throw": "raise an error",
    "truncate": "keep items from the highest score down while they fit; pinned items stay",
    "proceed": "keep everything",
}
_DUPLICATES: Final = {True: "of items with the same text, the best-scored one stays", False: "all stay"}
_STEP: Final = "  "


def describe_policy(policy: Pipeline, name: str) -> str:
    """Describe a policy, stage by stage.

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
    return f"{heading}\n\n{body}"


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
    """Return the lines of one setting; a nested strategy is described in its own lines."""
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
    """Write a value without brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(told)}" for key, told in value.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return ", ".join(map(_plain, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return value if isinstance(value, str) else json.dumps(value)


_ACTIONS: Final = {
    "describe": "describe a policy in plain words",
    "show": "print a policy document",
    "validate": "check policy files",
    "schema": "print the JSON Schema of policy documents",
}
_INVALID: Final = {1: "a file is not a valid policy"}


def _configure_policy(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parsers = {
        name: actions.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            exit_codes=_INVALID if name == "validate" else {},
        )
        for name, about in _ACTIONS.items()
    }
    for name in ("describe", "show"):
        add_files(parsers[name], "policy", metavar="NAME|FILE", help="a preset, or a policy file")
        add_overrides(parsers[name], "change the document first")
    add_files(parsers["validate"], "files", metavar="FILE", nargs="+", help="policy files, .json or .toml")
    for name in ("validate", "schema"):
        add_import(parsers[name])
    add_format(parsers["describe"])
    add_format(parsers["show"], ("json", "toml"))
    add_format(parsers["validate"])


def _run_policy(args: argparse.Namespace) -> int:
    match args.action:
        case "validate":
            return _validate(args.files, args.format)
        case "schema":
            print_json(json_schema())
        case "describe":
            _describe(read_policy(args.policy, args.overrides), args.format)
        case _:
            text = document_of(read_policy(args.policy, args.overrides).policy, args.format)
            escape = escape_toml if args.format == "toml" else escape_json
            sys.stdout.write(escape(text, ascii_only=needs_ascii()))
    return 0


def document_of(policy: Pipeline, form: str) -> str:
    """Return a policy as a document of a format, `json` or `toml`."""
    if form == "toml":
        return cupel.policy.dumps(policy, format="toml")
    return cupel.policy.dumps(policy, indent=2) + "\n"


def _describe(found: Variant, form: str) -> None:
    description = describe_policy(found.policy, found.name)
    if form == "json":
        print_json({"name": found.name, "description": description})
    else:
        for line in description.rstrip("\n").split("\n"):
            indent = " " * (len(line) - len(line.lstrip()) + 4)
            say(textwrap.fill(line, prose_width(), subsequent_indent=indent))


def _validate(files: list[str], form: str) -> int:
    """Check each file; one that cannot be read at all is an `OSError`."""
    errors = {name: _error(name) for name in files}
    if form == "json":
        print_json([{"file": name, "valid": error is None, "error": error} for name, error in errors.items()])
    else:
        for name, error in errors.items():
            say(f"{name}: ok" if error is None else error)
    return 1 if any(errors.values()) else 0


def _error(name: str) -> str | None:
    try:
        cupel.policy.load(name)
    except (ConfigurationError, TypeError) as error:
        return str(error)
    return None


POLICY: Final = Command(
    "Describe a policy in plain words, show it as a document, validate policy files, or print their JSON Schema.",
    _configure_policy,
    _run_policy,
    exit_codes=_INVALID,
)


def _list_presets(args: argparse.Namespace) -> int:
    about = {name: _about(name) for name in preset_names()}
    if args.format == "json":
        print_json(
            [
                {"name": name, "about": words, "policy": cupel.policy.to_dict(preset(name)())}
                for name, words in about.items()
            ]
        )
        return 0
    width = max(map(len, about)) + 2
    for name, words in about.items():
        say_prose(words, start=f"{name:<{width}}")
    return 0


def _about(name: str) -> str:
    """Return the docstring of a preset, without its example."""
    return " ".join((preset(name).__doc__ or "").split(">>>")[0].split())


PRESETS: Final = Command(
    "List the presets with their purpose, measured results and weaknesses.",
    add_format,
    _list_presets,
    """\
  cupel presets
  cupel policy show rag --format toml
""",
)
