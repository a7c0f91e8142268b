"""What is answered to a line: a line, or a row of a table."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from cupel.batch._arrow import arrow
from cupel.batch._choice import LARGEST, Chosen, choice_columns
from cupel.model import ContextItem

_ENCODER: Final = msgspec.json.Encoder()


class JsonAnswer(NamedTuple):
    """One line's outcome: the request without its items and budget, the selected items in both forms, the choice.

    `key` says what the line asked about: `items`, or the `messages` of a conversation.
    """

    row: int
    kept: dict[str, Any]
    key: str
    forms: list[msgspec.Raw]
    items: list[ContextItem]
    choice: Chosen

    def to_line(self) -> bytes:
        """Return the answer as it is written."""
        choice = self.choice
        answer = {
            "row": self.row,
            **self.kept,
            self.key: self.forms,
            "selected": choice.selected,
            "total_tokens": choice.total_tokens,
            "total_candidates": choice.total_candidates,
        }
        if choice.report is not None:
            answer["report"] = msgspec.Raw(choice.report.encode())
        return _ENCODER.encode(answer)


def unfit_for_columns(answer: JsonAnswer) -> str | None:
    """Say why an answer has no place in a table, if it has none."""
    if answer.key == "messages":
        return "messages have no columns: name an output that ends in .jsonl"
    for place, item in zip(answer.choice.selected, answer.items, strict=True):
        for name in ("tokens", "priority", "original_tokens"):
            value = getattr(item, name)
            if value is not None and not -LARGEST <= value <= LARGEST:
                return f"items[{place}]: {name} is beyond 64 bits: {value}"
    return None


def answers_as_table(answers: list[JsonAnswer], *, report: bool) -> Any:
    """Return the answers to lines as a table with fixed columns; of a request's own keys only `id` has a place."""
    pa = arrow()
    item_type = pa.struct(
        [
            ("content", pa.string()),
            ("tokens", pa.int64()),
            ("kind", pa.string()),
            ("source", pa.string()),
            ("priority", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("metadata", pa.string()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("future_relevance_hint", pa.float64()),
            ("pinned", pa.bool_()),
            ("original_tokens", pa.int64()),
        ]
    )
    columns = {
        "row": pa.array([answer.row for answer in answers], pa.int64()),
        "id": pa.array([_text(answer.kept.get("id")) for answer in answers], pa.string()),
        "items": pa.array([[_cells(item) for item in answer.items] for answer in answers], pa.list_(item_type)),
        **choice_columns([answer.choice for answer in answers], report=report),
    }
    return pa.table(columns)


def _cells(item: ContextItem) -> dict[str, Any]:
    metadata = msgspec.json.encode(item.metadata).decode() if item.metadata else None
    cells = msgspec.structs.asdict(item)
    return {**cells, "kind": str(item.kind), "source": str(item.source), "metadata": metadata}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
