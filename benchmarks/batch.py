"""Throughput and peak memory of batch jobs with one and two processes, and where the time of a line goes.

    python benchmarks/batch.py [--rows 20000] [--items 50] [--row-group 10000] [--runs 3] [--json results.json]
    python benchmarks/batch.py --requests requests.parquet

Prints a table, and the same as JSON. Each job runs in a process of its own, alternating between one and two workers, so
that a busy machine disturbs both alike; the fastest of the runs counts. CPU seconds are those of all processes. Peak
memory is the largest sum, over the job's processes, of the memory that is theirs alone plus their share of what is
shared (PSS), sampled while the job runs. The same requests are tried as Parquet and as JSON lines; for lines, the steps
of a row are timed one by one in this process (CPU time, the fastest of many passes).
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cupel import ContextBudget, presets
from cupel.batch import BatchSelector
from cupel.batch._jsonl import answer_lines
from cupel.batch._requests import read_items

WORDS = ["alpha", "build", "delta", "error", "failed", "gamma", "stack", "step", "tabs", "trace", "user", "wants"]
ITEM = pa.struct(
    [
        ("content", pa.string()),
        ("tokens", pa.int64()),
        ("kind", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("priority", pa.int64()),
    ]
)
SCHEMA = pa.schema([("id", pa.string()), ("items", pa.list_(ITEM)), ("budget", pa.int64())])
JOB = "import sys; from cupel.cli import main; sys.exit(main())"


def write_requests(path: Path, rows: int, items: int, row_group: int) -> None:
    rnd = random.Random(1)
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for start in range(0, rows, row_group):
            batch = [request(rnd, row, items) for row in range(start, min(rows, start + row_group))]
            writer.write_table(pa.Table.from_pylist(batch, schema=SCHEMA), row_group_size=row_group)


def request(rnd: random.Random, row: int, items: int) -> dict[str, object]:
    return {
        "id": f"r{row}",
        "budget": 3000,
        "items": [
            {
                "content": f"{row}.{place} " + " ".join(rnd.choices(WORDS, k=12)),
                "tokens": rnd.randint(5, 400),
                "kind": rnd.choice(["Message", "Document", "ToolOutput", "Memory"]),
                "timestamp": 1_767_225_600_000_000 + rnd.randrange(10**13),
                "priority": rnd.randrange(6),
            }
            for place in range(items)
        ],
    }


class Measured(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_mb: float


def job(requests: Path, output: Path, workers: int) -> Measured:
    """Run one job in a process of its own."""
    command = [sys.executable, "-c", JOB, "batch", str(requests), "-o", str(output), "--workers", str(workers), "-q"]
    cpu, start = children_cpu(), time.perf_counter()
    process = subprocess.Popen([*command, "--policy", "chat"])
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(memory, family(process.pid))))
        time.sleep(0.2)
    if process.returncode not in {0, 3}:
        raise SystemExit(f"the job ended with {process.returncode}")
    return Measured(time.perf_counter() - start, children_cpu() - cpu, peak)


def children_cpu() -> float:
    """Give the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def family(pid: int) -> list[int]:
    """Give a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in family(int(child)))]


def memory(pid: int) -> float:
    """Give the proportional set size of a process in MB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--row-group", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--requests", type=Path, help="a file of requests to use instead of making one")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        requests = args.requests or Path(folder) / "requests.parquet"
        if args.requests is None:
            write_requests(requests, args.rows, args.items, args.row_group)
        lines = write_lines(requests, Path(folder) / "requests.jsonl")
        results: dict[str, Any] = {
            "parquet": measure(requests, Path(folder), args.runs),
            "jsonl": {**measure(lines, Path(folder), args.runs), "steps_us": steps(lines)},
        }
    print(f"{'form':>8} {'workers':>7} {'seconds':>8} {'rows/s':>8} {'CPU s':>8} {'peak MB':>8}")
    for form, result in results.items():
        for workers, row in result["workers"].items():
            figures = [row[name] for name in ("seconds", "rows_a_second", "cpu_seconds", "peak_mb")]
            print(f"{form:>8} {workers:>7} " + " ".join(f"{figure:>8}" for figure in figures))
        print(f"{form}: speed-up {result['speedup']}, same output: {result['same_output']}")
    print("a line takes, in microseconds:", results["jsonl"]["steps_us"])
    print(json.dumps(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def write_lines(requests: Path, path: Path) -> Path:
    """Write the same requests as JSON lines."""
    with path.open("wb") as file:
        for batch in pq.ParquetFile(requests).iter_batches(1000):
            file.write(msgspec.json.Encoder().encode_lines(batch.to_pylist()))
    return path


def steps(lines: Path) -> dict[str, float]:
    """Time the steps of a row one by one."""
    with lines.open("rb") as file:
        rows = [line.rstrip() for line in islice(file, 200)]
    selector = BatchSelector(presets.chat())
    pipeline, budget = selector.policy, ContextBudget(3000, 3000)
    keys = msgspec.json.Decoder(dict[str, msgspec.Raw])
    texts = [keys.decode(row)["items"] for row in rows]
    items = [read_items(text) for text in texts]
    return {
        "decode": fastest_us(lambda: [msgspec.json.decode(row) for row in rows], len(rows)),
        "decode and build items": fastest_us(lambda: [read_items(text) for text in texts], len(rows)),
        "select": fastest_us(lambda: [pipeline.run(pool, budget) for pool in items], len(rows)),
        "all": fastest_us(lambda: answer_lines(selector, iter(enumerate(rows)), as_table=False), len(rows)),
    }


def fastest_us(work: Callable[[], object], rows: int) -> float:
    """Return the microseconds of CPU time that a row takes, the fastest of many passes."""
    found: list[float] = []
    for _ in range(25):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return round(min(found) / rows * 1e6, 1)


def measure(requests: Path, folder: Path, runs: int) -> dict[str, Any]:
    with requests.open("rb") as file:
        rows = pq.ParquetFile(requests).metadata.num_rows if requests.suffix == ".parquet" else sum(1 for _ in file)
    outputs = {workers: folder / f"out{workers}{requests.suffix}" for workers in (1, 2)}
    found: dict[int, list[Measured]] = {workers: [] for workers in outputs}
    for _ in range(runs):
        for workers, output in outputs.items():
            found[workers].append(job(requests, output, workers))
    fastest = {workers: min(measured) for workers, measured in found.items()}
    return {
        "rows": rows,
        "input_mb": round(requests.stat().st_size / 1e6, 1),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_at_the_end": round(os.getloadavg()[0], 2),
        "same_output": len({output.read_bytes() for output in outputs.values()}) == 1,
        "workers": {
            str(workers): {
                "seconds": round(best.seconds, 2),
                "rows_a_second": round(rows / best.seconds),
                "cpu_seconds": round(best.cpu_seconds, 2),
                "peak_mb": round(max(measured.peak_mb for measured in found[workers])),
            }
            for workers, best in fastest.items()
        },
        "speedup": round(fastest[1].seconds / fastest[2].seconds, 2),
    }


if __name__ == "__main__":
    main()
