"""Read one request and select for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from math import isnan
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from cupel._internal.checks import shown, wrong_type
from cupel._internal.documents import ITEM, ChatRequest, Field, budget_of
from cupel._internal.frozen import EMPTY
from cupel.batch._source import arrow, explained
from cupel.diagnostics import SelectionReport
from cupel.errors import CupelError
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource
from cupel.pipeline import Pipeline

DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in ITEM.fields}
"""Item fields, in order, with their defaults."""

_Name = TypeVar("_Name", ContextKind, ContextSource)


def build(columns: list[Any]) -> list[ContextItem]:
    """Build items from one column for each field, in the order of `DEFAULTS`; raise for the first bad one."""
    return [
        ContextItem(
            content,
            tokens,
            kind=kind,
            source=source,
            priority=priority,
            tags=tags,
            metadata=metadata,
            timestamp=timestamp,
            future_relevance_hint=hint,
            pinned=pinned,
            original_tokens=original,
        )
        for content, tokens, kind, source, priority, tags, metadata, timestamp, hint, pinned, original in zip(
            *columns, strict=False
        )
    ]


def read_items(text: msgspec.Raw) -> list[ContextItem]:
    """Build a request's items from JSON; the error names the item.

    Lists that neither typed decoder accepts, for a bad item or two spellings in one list, are read item by item.
    """
    for decoder in _DECODERS:
        try:
            return _built(decoder.decode(text))
        except (CupelError, TypeError, ValueError, RecursionError):
            continue
    forms = decoded(text)
    if forms is None:
        raise TypeError("items is missing")
    if not isinstance(forms, list):
        raise wrong_type("items", "a list", forms)
    return list(map(read_item, forms, range(len(forms))))  # pyright: ignore[reportUnknownArgumentType]


def read_item(form: object, position: int) -> ContextItem:
    """Build one item from its JSON form; the error names the item."""
    try:
        return ITEM.read(form)
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"items[{position}]: {explained(error)}") from None


def decoded(text: bytes | msgspec.Raw) -> Any:
    """Decode JSON; anything else is a `ValueError`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def _decoder(spelling: str) -> msgspec.json.Decoder[list[Any]]:
    fields: Any = [_typed(field) for field in ITEM.fields]
    keys = {field.name: getattr(field, spelling) for field in ITEM.fields}
    form: Any = msgspec.defstruct("ItemForm", fields, rename=keys, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[form])


def _typed(field: Field) -> tuple[Any, ...]:
    codec = field.codec
    return (field.name, codec.python_type) if field.required else (field.name, codec.python_type | None, None)


_DECODERS: Final = (_decoder("name"), _decoder("key"))


def _built(forms: list[Any]) -> list[ContextItem]:
    kinds = _names(ContextKind, {form.kind for form in forms}, ContextKind.MESSAGE)
    sources = _names(ContextSource, {form.source for form in forms}, ContextSource.CHAT)
    instants = _instants([form.timestamp for form in forms])
    return [
        ContextItem(
            form.content,
            form.tokens,
            kind=kinds[form.kind],
            source=sources[form.source],
            priority=form.priority,
            tags=form.tags or (),
            metadata=_read_metadata(form.metadata) if form.metadata else EMPTY,
            timestamp=instant,
            future_relevance_hint=form.future_relevance_hint,
            pinned=form.pinned or False,
            original_tokens=form.original_tokens,
        )
        for form, instant in zip(forms, instants, strict=True)
    ]


def _names(name_type: type[_Name], given: set[str | None], default: _Name) -> dict[str | None, _Name]:
    return {name: default if name is None else name_type.of(name) for name in given}


def _instants(texts: list[str | None]) -> Iterable[datetime | None]:
    """Read all instants at once if each is one that msgspec accepts and its offset has a colon."""
    if texts.count(None) == len(texts):
        return cast("list[None]", texts)
    try:
        given = cast("list[str]", texts)
        msgspec.convert(given, list[datetime])
        if {text[-1] == "Z" or text[-3] == ":" for text in given} == {True}:
            return list(map(datetime.fromisoformat, given))
    except (msgspec.ValidationError, ValueError):
        pass
    return [None if text is None else _read_instant(text) for text in texts]


def _reader(name: str) -> Callable[[Any], Any]:
    return ITEM.spellings[name].codec.decode


_read_metadata: Final = _reader("metadata")
_read_instant: Final = _reader("timestamp")


def read_budget(form: object, shared: ContextBudget | None) -> ContextBudget:
    """Build the budget of a request: an object, a number of tokens, or None where all requests share one."""
    if isinstance(form, float):  # what pandas makes of integers where some are missing
        form = None if isnan(form) else int(form) if form.is_integer() else form
    if form is None:
        if shared is None:
            raise ValueError("budget is missing, and the requests share none")
        return shared
    if isinstance(form, float):
        raise TypeError(f"budget must be a whole number of tokens, got {shown(form)}")
    try:
        return _window(form) if type(form) is int else budget_of(form)
    except (CupelError, TypeError, ValueError) as error:
        raise ValueError(f"budget: {explained(error)}") from None


@lru_cache(maxsize=64)
def _window(tokens: int) -> ContextBudget:
    """Build each budget once: most requests of a file have the same."""
    return budget_of(tokens)


LARGEST: Final = 2**63 - 1
"""The largest number in a column."""


class Chosen(NamedTuple):
    """A selection as positions in the request's items, in placed order, or the error."""

    selected: list[int]
    total_tokens: int = 0
    total_candidates: int = 0
    report: str | None = None
    error: str | None = None


def select_items(
    pipeline: Pipeline, items: list[ContextItem], budget: ContextBudget, query: str | None, *, report: bool
) -> Chosen:
    """Select from items."""
    text = None
    if report:
        result = pipeline.select(items, budget, query=query)
        chosen, text = result.items, written_report(result.report)
    else:
        chosen = pipeline.run(items, budget, query=query)
    places = dict(zip(map(id, items), range(len(items)), strict=True))
    total = sum([item.tokens for item in chosen])
    return Chosen([places[id(item)] for item in chosen], total, len(items), text)


def select_messages(
    pipeline: Pipeline, request: ChatRequest, budget: ContextBudget, query: str | None, *, report: bool
) -> Chosen:
    """Fit messages, in any format that `fit` reads."""
    from cupel.messages import fit  # only for requests with messages

    messages, system, tools = request
    fitted = fit(
        messages,
        budget,
        pipeline,
        system=system,
        tools=tools,
        query=query,
        forms=False,  # the answer gives positions of whole messages
        notes=False,
    )
    dropped = {position for unit in fitted.dropped for position in unit.positions}
    kept = [position for position in range(len(messages)) if position not in dropped]
    text = written_report(fitted.report) if report else None
    return Chosen(kept, fitted.total_tokens, len(messages), text)


def guarded(select: Callable[[], Chosen]) -> Chosen:
    """Read one request and select for it; any error, and any panic of a native extension, is that request's alone."""
    try:
        return select()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  (a strategy of the user's may raise anything, or panic)
        return Chosen([], error=explained(error))


def choice_columns(choices: Sequence[Chosen], *, report: bool) -> dict[str, Any]:
    """Return the selections as columns of a table, null where one failed."""
    pa = arrow()
    made = [None if choice.error is not None else choice for choice in choices]
    columns = {
        "selected": pa.array([one and one.selected for one in made], pa.list_(pa.int32())),
        "total_tokens": pa.array([one and one.total_tokens for one in made], pa.int64()),
        "total_candidates": pa.array([one and one.total_candidates for one in made], pa.int64()),
    }
    if report:
        columns["report"] = pa.array([choice.report for choice in choices], pa.string())
    return columns


def written_report(report: SelectionReport) -> str:
    """Write a report without its events, whose durations differ from run to run."""
    return replace(report, events=()).to_json()
