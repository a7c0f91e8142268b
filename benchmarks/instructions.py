"""`make bench-check`: has anything become more than 5 % more work?

Counts the instructions of a few small scenarios under valgrind, which repeats on a machine however busy, and compares
them with the figures committed for this minor version of Python. Only what happens inside an `exec` of a string is
counted, not the start of the interpreter nor the imports; a scenario's count is that of several runs less that of none.
What happens once in a process, such as the import, is the count of a whole process less that of one without it.

Exit codes: 0 nothing grew; 1 something did; 2 could not be checked (no valgrind, or no figures for this Python yet).
`--update` writes the present counts into the figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

FIGURES = Path(__file__).with_name("instructions.json")
ROOT = FIGURES.parent.parent
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
TOLERANCE = 0.05
TIMES = 20
WARM_UP = 20  # imports on first use, caches and specialised bytecode are not what is counted
COUNTED = "PyRun_StringFlags"  # the function of the interpreter that executes a string: counting is on while it runs


_COUNTER = "import sys; sys.modules['splintr'] = None; from cupel.tokens import default_counter as counter"
COLD = {
    "import of MessageSession": ("pass", "from cupel import MessageSession"),
    "import of Pipeline": ("pass", "from cupel import Pipeline"),
    "first count, tiktoken": (f"{_COUNTER}; counter()", f"{_COUNTER}; counter().count('hello')"),
}
"""What happens once: the code of a process without it, and of one with it."""


def scenarios() -> dict[str, Callable[[], object]]:
    """What is counted; everything that is not the scenario itself happens here."""
    from benchmarks.construction import RICH
    from benchmarks.pools import budget_for, mixed_pool
    from benchmarks.rows import ROWS
    from cupel import ContextItem
    from cupel.diagnostics import SelectionReport

    pool, budget = mixed_pool(100), budget_for(100)
    few, small = mixed_pool(10), budget_for(10)
    reflexive, _, composite, _, _, quota, count_quota, *_ = (row.pipeline for row in ROWS)
    report = reflexive.dry_run(pool, budget)
    text = report.to_json()
    return {
        "100 items made": lambda: [ContextItem("text", 7, kind="Document", tags=("a",)) for _ in range(100)],
        "100 items made, nine fields": lambda: [ContextItem("text", 7, **RICH) for _ in range(100)],
        "run, 10 items": lambda: reflexive.run(few, small),
        "run, 100 items": lambda: reflexive.run(pool, budget),
        "run, 100 items, composite and u-shaped": lambda: composite.run(pool, budget),
        "run, 100 items, quota": lambda: quota.run(pool, budget),
        "run, 100 items, count quota": lambda: count_quota.run(pool, budget),
        "dry_run, 100 items": lambda: reflexive.dry_run(pool, budget),
        "report written, 100 items": report.to_json,
        "report read, 100 items": lambda: SelectionReport.from_json(text),
    }


def work() -> None:
    """What happens under valgrind: prepare everything, then execute nothing and after it each scenario."""
    found = scenarios().values()
    for run in found:
        for _ in range(WARM_UP):
            run()
    gc.disable()
    for times, run in ((0, None), *((TIMES, run) for run in found)):
        exec("for _ in range(times): run()", {"times": times, "run": run})


def count() -> dict[str, int]:
    """Instructions of one run of each scenario."""
    names = list(scenarios())
    nothing, *totals = _totals()[-len(names) - 1 :]  # what comes before are strings that imports execute
    counts = {name: round((total - nothing) / TIMES) for name, total in zip(names, totals, strict=True)}
    counts |= {name: _whole(code) - _whole(without) for name, (without, code) in COLD.items()}
    for name, instructions in counts.items():
        print(f"{name:<45} {instructions:>12,}")
    return counts


def _totals() -> list[int]:
    """Instructions within each executed string, in their order."""
    counted = ["--collect-atstart=no", f"--toggle-collect={COUNTED}", f"--dump-after={COUNTED}"]
    return _callgrind(*counted, sys.executable, "-m", "benchmarks.instructions", "--worker")


def _whole(code: str) -> int:
    """Instructions of a process that runs the code, from its start to its end."""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)  # what it imports is compiled now, not counted
    return sum(_callgrind(sys.executable, "-c", code))


def _callgrind(*command: str) -> list[int]:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "callgrind.out"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}.0"]
        subprocess.run([*valgrind, *command], check=True, env={"PYTHONHASHSEED": "0"}, cwd=ROOT, capture_output=True)
        dumps = sorted(out.parent.glob("callgrind.out.*"), key=lambda dump: int(dump.suffix[1:]))
        texts = "".join(dump.read_text("utf-8") for dump in dumps)
    return [int(total) for total in re.findall(r"^totals: (\d+)", texts, re.MULTILINE)]


def grown(known: Mapping[str, int], counts: Mapping[str, int], tolerance: float = TOLERANCE) -> list[str]:
    """A sentence for each scenario that needs more instructions than the figures allow, or has none."""
    found: list[str] = []
    for name, now in counts.items():
        before = known.get(name)
        if before is None:
            found.append(f"{name}: no figure yet, {now:,} now; add it with --update")
        elif now > before * (1 + tolerance):
            found.append(f"{name}: {before:,} before, {now:,} now, {(now / before - 1) * 100:+.1f} %")
    return found


def check(*, update: bool) -> int:
    """Count and compare, or count and write."""
    if shutil.which("valgrind") is None:
        print("bench-check needs valgrind, which is not installed: nothing was checked", file=sys.stderr)
        return 2
    figures: dict[str, dict[str, int]] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    if VERSION not in figures and not update:
        print(f"no figures for Python {VERSION}: write them with --update; nothing was checked", file=sys.stderr)
        return 2
    counts = count()
    if update:
        figures[VERSION] = counts
        FIGURES.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n", "utf-8")
        return 0
    found = grown(figures[VERSION], counts)
    print("\n".join(found) if found else f"nothing grew by more than {TOLERANCE:.0%}")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the present counts into the figures")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    return check(update=options.update)


if __name__ == "__main__":
    sys.exit(main())
