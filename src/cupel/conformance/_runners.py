"""Run the stage, pipeline or simulation that a vector describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec.structs import asdict

import cupel.policy
from cupel._internal.checks import shown
from cupel._internal.columns import Candidates
from cupel.conformance._vector import (
    Differences,
    Mismatch,
    TomlTable,
    build_budget,
    build_items,
    build_scored,
    check_position,
    compare_multiset,
    compare_rows,
    compare_value,
    epsilon_of,
    find_item,
    first_positions,
    same_score,
)
from cupel.diagnostics import (
    KNOWN_REASONS,
    DiagnosticTraceCollector,
    ExcludedItem,
    ExclusionReason,
    IncludedItem,
    OverflowEvent,
    SelectionReport,
    TraceDetailLevel,
)
from cupel.errors import ConfigurationError, PolicyConfigError
from cupel.model import ContextBudget, ContextItem, OverflowStrategy, ScoredItem
from cupel.pipeline import Pipeline
from cupel.policy import registered
from cupel.slicers import CountConstrainedKnapsackSlice, CountQuotaSlice, Slicer, StreamSlice

_PUBLIC: Final = {
    "scorers": "children",
    "now": "reference_time",
    "half_life_seconds": "half_life_secs",
    "max_age_seconds": "max_age_secs",
    "scarcity": "scarcity_behavior",
}
"""The public format's names of keys of a policy document."""
_ABSENT: Final[dict[str, Any]] = {"array": [], "object": {}}
"""An absent array or table is empty (ruling 11.2)."""


def build_strategy(family: str, document: TomlTable) -> Any:
    """Build the strategy that the table `test` names, with options from the table `config`."""
    config = document.table("config")
    policy = {"scorer": "recency", family: _document(family, document.table("test"), family, config)}
    return getattr(_policy(config, policy), family)


def build_pipeline(config: TomlTable) -> Pipeline:
    """Build the pipeline that a vector configures: one scorer is used as it is, several as their weighted average."""
    overflow = config.option("overflow_strategy", "overflow", default="throw")
    document = {
        "overflow": overflow.lower() if isinstance(overflow, str) else overflow,
        "deduplication": config.option("deduplication", default=True),
    }
    entries = _weighted(config, "scorers", _without(config, ("scorers",)))
    if not entries:
        raise config.error("scorers", "must name at least one scorer")
    several = {"type": "composite", "scorers": entries}
    document["scorer"] = entries[0]["scorer"] if len(entries) == 1 else several
    for family in ("slicer", "placer"):
        if config.has(family):
            document[family] = _document(family, config, family, config)
    return _policy(config, document)


def _policy(config: TomlTable, document: Mapping[str, Any]) -> Pipeline:
    """Read a policy; a strategy raises its own error, as if it had been built without a document."""
    try:
        return cupel.policy.from_dict(document)
    except PolicyConfigError as error:
        raise config.error("", f"is not a valid policy: {error}") from error
    except ConfigurationError as error:
        raise error.__cause__ or error from None


def _document(family: str, owner: TomlTable, key: str, options: TomlTable) -> dict[str, Any]:
    """Return the document of the strategy that a field names; hyphens, underscores and capitals make no difference."""
    name, known = owner.text(key), registered()[family]
    spelled = {tag.replace("_", ""): tag for tag in known}
    tag = spelled.get(name.replace("_", "").replace("-", "").lower())
    if tag is None:
        raise owner.error(key, f"unknown {family} {shown(name)}, expected one of {', '.join(known)}")
    document = {"type": tag, **dict(_members(known[tag].schema(), options, tag, family))}
    if tag == "kind" and options.option("use_default_weights", default=False):
        document.pop("weights", None)
    if tag == "decay" and "now" not in document:  # without it the system clock would decide
        raise options.error("reference_time", "is missing")
    if tag == "embedding":
        document["embed"] = _embedding(options.table("vectors"))
    return document


def _embedding(vectors: TomlTable) -> Callable[[list[str]], list[Any]]:
    return lambda texts: [vectors.need(text) for text in texts]


def _members(
    described: Mapping[str, Any], table: TomlTable, tag: str = "", family: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object that a table sets; a name may carry the tag or the family (`tag_weights`)."""
    properties: Mapping[str, Any] = described["properties"]
    for key, schema in properties.items():
        names = (f"{tag}_{key}", f"{key}_{family}", _PUBLIC.get(key, key), key)
        name = next((name for name in names if table.option(name) is not None), None)
        if key != "type" and name is not None:
            named = TomlTable({name: table.option(name)}, table.file, table.path)
            yield key, _value(schema, named, name, _without(table, names), tag)
        elif key in described["required"] and schema.get("type") in _ABSENT:
            yield key, _ABSENT[schema["type"]]


def _value(schema: Mapping[str, Any], owner: TomlTable, name: str, rest: TomlTable, tag: str) -> Any:
    """Return a field as a policy document has it; strategies within it find their options in `rest`."""
    value = owner.values[name]
    if "$ref" in schema:
        family = schema["$ref"].rpartition("/")[2]
        if isinstance(value, str):
            return _document(family, owner, name, rest)
        child = owner.table(name)
        return _document(family, child, "type", _sharing(child, rest))
    entry = schema.get("items", {})
    if "scorer" in entry.get("properties", ()):
        return _weighted(owner, name, rest)
    if "properties" in entry:
        return [dict(_members(entry, row)) for row in owner.tables(name)]
    if "additionalProperties" in schema and isinstance(value, list):
        return {row.text(tag): row.need("weight") for row in owner.tables(name)}
    return value.lower() if "enum" in schema and isinstance(value, str) else value


def _weighted(owner: TomlTable, name: str, rest: TomlTable) -> list[dict[str, Any]]:
    """Return scorers with their weights: tables with a type, or bare names."""
    return [
        {"scorer": _document("scorer", row, "type", _sharing(row, rest)), "weight": row.values.get("weight", 1.0)}
        for row in owner.tables(name, short="type")
    ]


def _sharing(child: TomlTable, table: TomlTable) -> TomlTable:
    """Let a nested strategy find options it lacks in the configuration of the vector."""
    return TomlTable(child.values, child.file, child.path, table.shared or table)


def _without(table: TomlTable, names: tuple[str, ...]) -> TomlTable:
    """Return the table without the fields that name nested strategies, which would otherwise contain themselves."""
    shared = table.shared and _without(table.shared, names)
    return TomlTable({k: v for k, v in table.values.items() if k not in names}, table.file, table.path, shared)


def scoring(document: TomlTable) -> Differences:
    """Compare both methods of a scorer with every expected score."""
    scorer = build_strategy("scorer", document)
    items = build_items(document.tables("items"))
    epsilon = epsilon_of(document)
    wanted = [(find_item(row, items), row.number("score_approx")) for row in document.tables("expected")]
    pass_scores = {id(item): score for item, score in zip(items, scorer.score_all(items), strict=True)}
    for item, expected in wanted:
        methods = (("score", scorer.score(item, items)), ("score_all", pass_scores[id(item)]))
        for method, actual in methods:
            if not same_score(actual, expected, epsilon):
                yield Mismatch(f"{method} of {item.content!r}", expected, actual)


def slicing(document: TomlTable) -> Differences:
    """Compare a slicer's selection and the counts that the vector states."""
    slicer: Slicer = build_strategy("slicer", document)
    scored = build_scored(document.tables("scored_items"))
    budget = build_budget(document.table("budget"))
    expected = document.table("expected")
    selected = _read_stream(slicer, scored, budget) if isinstance(slicer, StreamSlice) else slicer.slice(scored, budget)
    contents = [item.content for item in selected]
    yield compare_multiset("selected_contents", expected.texts("selected_contents"), contents)
    if expected.has("selected_indexes"):
        yield compare_multiset("selected_indexes", *_by_position("selected_indexes", expected, scored, selected))
    if expected.has("ordered_contents"):
        yield compare_value("ordered_contents", expected.texts("ordered_contents"), contents)
    if expected.has("shortfall_count"):
        shortfalls = slicer.prepare(Candidates.of(scored))(budget).shortfalls
        yield compare_value("shortfall_count", expected.values["shortfall_count"], len(shortfalls))
    if expected.has("cap_excluded_count"):
        count = _count_cap_drops(slicer, scored, budget, selected)
        yield compare_value("cap_excluded_count", expected.values["cap_excluded_count"], count)


def _read_stream(slicer: StreamSlice, scored: list[ScoredItem], budget: ContextBudget) -> list[ContextItem]:
    """Offer the items one by one, as a stream does."""
    import asyncio  # few vectors need it

    async def stream() -> AsyncIterator[ScoredItem]:
        for candidate in scored:
            yield candidate

    async def read() -> list[ContextItem]:
        return await slicer.slice(stream(), budget)

    return asyncio.run(read())


def _count_cap_drops(
    slicer: Slicer, scored: list[ScoredItem], budget: ContextBudget, selected: list[ContextItem]
) -> int:
    """Count the items that only a count cap excludes (ruling 7.22), by a selection without caps."""
    if not isinstance(slicer, CountQuotaSlice | CountConstrainedKnapsackSlice):
        return 0
    entries = [replace(entry, cap_count=None) for entry in slicer.entries]
    without_caps = replace(slicer, entries=tuple(entries)).slice(scored, budget)
    return (Counter(map(id, without_caps)) - Counter(map(id, selected))).total()


def placing(document: TomlTable) -> Differences:
    """Compare a placer's order."""
    placer = build_strategy("placer", document)
    scored = build_scored(document.tables("items"))
    expected = document.table("expected")
    placed = placer.place(scored)
    contents = [item.content for item in placed]
    yield compare_value("ordered_contents", expected.texts("ordered_contents"), contents)
    if expected.has("ordered_indexes"):
        yield compare_value("ordered_indexes", *_by_position("ordered_indexes", expected, scored, placed))


def _by_position(
    key: str, expected: TomlTable, scored: list[ScoredItem], actual: list[ContextItem]
) -> tuple[list[int], list[int]]:
    """Return expected and actual items as first positions, so that twins differ and repeated objects do not."""
    items = [candidate.item for candidate in scored]
    index = first_positions(items)
    wanted = [index[id(items[check_position(expected, key, position, items)])] for position in expected.array(key)]
    return wanted, [index[id(item)] for item in actual]


def pipeline(document: TomlTable) -> Differences:
    """Compare a pipeline's output, and every other list and table the vector expects."""
    if not document.has("config"):
        raise document.error("config", "is missing")
    notices: list[OverflowEvent] = []
    built = build_pipeline(document.table("config"))
    if built.overflow is OverflowStrategy.PROCEED:
        built = replace(built, on_overflow=notices.append)
    items = build_items(document.tables("items"))
    budget = build_budget(document.table("budget"))
    expected = document.table("expected")
    yield compare_output(document, items, built.run(items, budget))
    if expected.has("overflow"):
        yield from _overflow_differences(expected.table("overflow"), notices)
    if expected.has("diagnostics"):
        collector = DiagnosticTraceCollector(TraceDetailLevel.ITEM)
        built.run(items, budget, trace=collector)
        report, traced = built.dry_run(items, budget), collector.build_report()
        yield from _report_differences(expected.table("diagnostics"), report, traced, items, epsilon_of(document))


def compare_output(document: TomlTable, items: list[ContextItem], output: list[ContextItem]) -> Mismatch | None:
    """Compare an ordered selection with `expected_output`, whose entries are tables or bare contents."""
    wanted = document.tables("expected_output", short="content")
    contents, actual = [row.text("content") for row in wanted], [item.content for item in output]
    if contents != actual:
        return Mismatch("expected_output", contents, actual)
    index = first_positions(items)
    return compare_rows("expected_output", wanted, [{"index": index[id(item)]} for item in output])


def _overflow_differences(expected: TomlTable, notices: list[OverflowEvent]) -> Differences:
    yield compare_value("overflow notices", 1, len(notices))
    over, contents = expected.option("tokens_over_budget"), expected.option("overflowing_contents")
    if over is not None:
        yield compare_value("overflow.tokens_over_budget", over, notices[0].tokens_over_budget)
    if contents is not None:
        actual = [item.content for item in notices[0].overflowing_items]
        yield compare_value("overflow.overflowing_contents", contents, actual)


def _report_differences(
    wanted: TomlTable, report: SelectionReport, traced: SelectionReport, items: list[ContextItem], epsilon: float
) -> Differences:
    index = first_positions(items)
    lists: dict[str, list[dict[str, Any]]] = {
        "included": [_row(entry, index, inclusion_reason=entry.reason.value) for entry in report.included],
        "excluded": [_row(entry, index, **_exclusion(entry.reason)) for entry in report.excluded],
        "shortfalls": [asdict(shortfall) for shortfall in report.count_requirement_shortfalls],
        "events": [event.to_dict() for event in report.events],
    }
    for name, rows in lists.items():
        if wanted.has(name):
            yield compare_rows(name, wanted.tables(name), rows, epsilon)
    for name in ("total_candidates", "total_tokens_considered"):
        if (total := wanted.table("summary").option(name)) is not None:
            yield compare_value(f"summary.{name}", total, getattr(report, name))
    if wanted.has("item_events"):
        yield _item_event_difference(wanted.tables("item_events"), traced)


def _item_event_difference(wanted: list[TomlTable], traced: SelectionReport) -> Mismatch | None:
    """Compare the events about single exclusions: stage, and a message with the prefix in the vector (ruling 7.9)."""
    messages = [
        (event.stage.value, event.message or "")
        for event in traced.events
        if event.message and event.message.partition(":")[0] in KNOWN_REASONS
    ]
    expected = [(row.text("stage"), row.text("message_prefix")) for row in wanted]
    same = len(messages) == len(expected) and all(
        stage == wanted_stage and message.startswith(prefix)
        for (stage, message), (wanted_stage, prefix) in zip(messages, expected, strict=True)
    )
    return None if same else Mismatch("item_events", expected, messages)


def _row(entry: IncludedItem | ExcludedItem, index: dict[int, int], **reason: Any) -> dict[str, Any]:
    return {"content": entry.item.content, "index": index[id(entry.item)], "score_approx": entry.score, **reason}


def _exclusion(reason: ExclusionReason) -> dict[str, Any]:
    fields = reason.to_dict()
    return {"exclusion_reason": fields.pop("reason"), **fields}


def simulation(document: TomlTable) -> Differences:
    """Compare the answer of the method that the table `simulation` names."""
    from cupel.analytics import find_min_budget_for, get_marginal_items

    pipeline = build_pipeline(document.table("config"))
    items = build_items(document.tables("items"))
    asked = document.table("simulation")
    match asked.text("method"):
        case "marginal_items":
            budget = build_budget(document.table("budget"))
            lost = get_marginal_items(pipeline, items, budget, asked.need("slack_tokens"))
            yield compare_output(document, items, lost)
        case "find_min_budget":
            target = find_item(asked.table("target"), items)
            found = find_min_budget_for(pipeline, items, target, asked.need("search_ceiling"))
            yield compare_value("budget", document.table("expected").option("budget"), found)
        case method:
            known = "expected one of marginal_items, find_min_budget"
            raise asked.error("method", f"unknown method {shown(method)}, {known}")
