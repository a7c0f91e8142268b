"""Seeded requests, written as Parquet or JSON lines, and the plain loop that every engine must agree with."""

import json
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from cupel import ContextBudget, ContextItem, presets

POLICY = presets.chat()
START = datetime(2026, 1, 1, tzinfo=UTC)
ITEM = pa.struct(
    [
        ("content", pa.string()),
        ("tokens", pa.int64()),
        ("kind", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("pinned", pa.bool_()),
    ]
)
BUDGET = pa.struct([("max_tokens", pa.int64()), ("target_tokens", pa.int64()), ("output_reserve", pa.int64())])
SCHEMA = pa.schema([("id", pa.string()), ("items", pa.list_(ITEM)), ("budget", BUDGET)])


def some_requests(count, seed=0):
    rnd = random.Random(seed)
    return [_request(rnd, number) for number in range(count)]


def _request(rnd, number):
    items = [
        {
            "content": f"{number}/{rnd.randrange(12)} ünï",
            "tokens": rnd.randint(0, 300),
            "kind": rnd.choice(["Message", "Document", "ToolOutput"]),
            "timestamp": START + timedelta(microseconds=rnd.randrange(10**13)),
            "tags": rnd.sample(["a", "b", "c"], rnd.randrange(3)),
            "pinned": rnd.random() < 0.15,
        }
        for _ in range(rnd.randrange(20))
    ]
    target = rnd.randint(200, 900)  # too little for what some requests pin
    return {
        "id": f"r{number}",
        "items": items,
        "budget": {"max_tokens": target + 300, "target_tokens": target, "output_reserve": 100},
    }


def write_parquet(path, requests, *, row_group_size=None, schema=SCHEMA):
    pq.write_table(pa.Table.from_pylist(requests, schema=schema), path, row_group_size=row_group_size)
    return path


def write_jsonl(path, requests):
    path.write_text("".join(json.dumps(request, default=str) + "\n" for request in requests), encoding="utf-8")
    return path


def plain_loop(requests, policy=POLICY):
    """What `Pipeline.run` gives, request by request: the selected positions, or None where it raises."""
    pipeline = policy
    answers = []
    for request in requests:
        items = [ContextItem(**form) for form in request["items"]]
        try:
            chosen = pipeline.run(items, ContextBudget(**request["budget"]))
        except Exception:  # noqa: BLE001
            answers.append(None)
            continue
        answers.append([next(n for n, item in enumerate(items) if item is one) for one in chosen])
    return answers


def expected_rows(requests, policy=POLICY):
    """What OUT must hold, whatever its format: row, id, selected, contents, tokens."""
    return [
        (
            row,
            request["id"],
            selected,
            [request["items"][place]["content"] for place in selected],
            sum(request["items"][place]["tokens"] for place in selected),
            len(request["items"]),
        )
        for row, (request, selected) in enumerate(zip(requests, plain_loop(requests, policy), strict=True))
        if selected is not None
    ]


def rows_of(path):
    if path.suffix == ".parquet":
        found = pq.read_table(path).to_pylist()
    else:
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        (
            row["row"],
            row["id"],
            row["selected"],
            [item["content"] for item in row["items"]],
            row["total_tokens"],
            row["total_candidates"],
        )
        for row in found
    ]
