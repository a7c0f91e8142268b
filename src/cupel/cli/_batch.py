"""The command `batch`, which selects for every request in a file."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cupel._internal.text import plural
from cupel.batch import BatchError, BatchFailedError, BatchSummary, run_batch
from cupel.cli._arguments import (
    Command,
    Parser,
    add_budget,
    add_files,
    add_policy,
    add_quiet,
    read_budget,
    token_count,
    whole_number,
)
from cupel.cli._main import INTERRUPTED
from cupel.cli._output import print_json, progress_bar, say
from cupel.cli._policies import read_policy

SOME_FAILED: Final = 3
"""Exit code for a finished job with rows in the errors file."""
RESUMABLE: Final = 4
"""Exit code for a job that stopped before its end; finished shards are kept."""


def _configure(parser: Parser) -> None:
    add_files(
        parser,
        "requests",
        metavar="REQUESTS",
        help="a .parquet, .jsonl, .jsonl.gz or .jsonl.zst file of requests, or -",
    )
    add_files(parser, "-o", "--output", type=Path, metavar="OUT", required=True, help="a .parquet or .jsonl file")
    parser.add_argument("--report", action="store_true", help="write each selection's report too, as JSON")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON to standard output")
    add_quiet(parser, "no progress and no summary on standard error")
    add_policy(parser)
    add_budget(parser, required=False)
    running = parser.add_argument_group("running")
    running.add_argument(
        "--engine", choices=("local", "dask"), default="local", help="processes here, or a Dask cluster; default: local"
    )
    running.add_argument(
        "--scheduler", metavar="ADDRESS", help="the cluster's scheduler; default: start a local cluster"
    )
    running.add_argument(
        "--workers", type=whole_number, metavar="N", help="processes to start; default: one for each core"
    )
    running.add_argument("--resume", action="store_true", help="continue an interrupted run, if there is one")
    running.add_argument("--restart", action="store_true", help="discard an interrupted run")
    running.add_argument("--max-errors", type=whole_number, metavar="N", help="stop when more than N rows have failed")
    running.add_argument(
        "--max-row-bytes",
        type=token_count,
        metavar="N",
        help="longer lines of JSON are bad rows, since a line is read into memory whole; default: 100m",
    )
    running.add_argument(
        "--shard-rows", type=whole_number, metavar="N", help="rows in each shard; default: by their size"
    )


def _run(args: argparse.Namespace) -> int:
    if args.resume and args.restart:
        raise BatchError("--resume and --restart exclude each other")
    with _one_interrupt(), _warnings(), progress_bar("selecting", "rows", quiet=args.quiet) as show:
        try:
            done = run_batch(
                args.requests,
                args.output,
                read_policy(args.policy, args.overrides).policy,
                budget=None if args.budget is None else read_budget(args),
                report=args.report,
                engine=args.engine,
                workers=args.workers,
                scheduler=args.scheduler,
                resume=args.resume,
                restart=args.restart,
                shard_rows=args.shard_rows,
                max_errors=args.max_errors,
                max_row_bytes=args.max_row_bytes,
                on_progress=lambda progress: show(progress.done, progress.total, progress.resumed),
            )
        except KeyboardInterrupt:
            say(f"cupel batch: interrupted; continue with --resume ({args.output}.parts)", error=True)
            raise
        except BatchFailedError as error:
            say(f"cupel batch: failed: {error}", error=True)
            return RESUMABLE
    if args.json:
        print_json(_as_dict(done))
    if not args.quiet:
        say(_sentence(done), error=True)
    return SOME_FAILED if done.errors else 0


@contextmanager
def _warnings() -> Generator[None, None, None]:
    """Print warnings of the library, such as that of a cluster without workers."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: say(f"cupel batch: {record.getMessage()}", error=True)  # type: ignore[method-assign]
    logger = logging.getLogger("cupel")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _one_interrupt() -> Generator[None, None, None]:
    """Raise for the first Ctrl-C and ignore further ones while the command ends."""

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:  # else the process is about to end
            signal.signal(signal.SIGINT, before)


def _as_dict(done: BatchSummary) -> dict[str, object]:
    return {
        "rows": done.rows,
        "written": done.written,
        "errors": done.errors,
        "resumed": done.resumed,
        "output": str(done.output),
        "errors_file": None if done.errors_file is None else str(done.errors_file),
        "seconds": round(done.seconds, 3),
        "rows_per_second": round(done.rows_per_second, 1),
    }


def _sentence(done: BatchSummary) -> str:
    bad = f"; {plural(done.errors, 'bad row')}, see {done.errors_file}{_first_reason(done)}" if done.errors else ""
    written = plural(done.written, "selection")
    if done.was_finished:
        return f"nothing to do: an earlier run wrote {written} to {done.output}{bad}"
    resumed = f" ({plural(done.resumed, 'row')} answered by an earlier run)" if done.resumed else ""
    return f"{written} written to {done.output}{resumed}{bad}"


def _first_reason(done: BatchSummary) -> str:
    """Return the error of the first bad row: often all have the same."""
    if done.errors_file is None or not done.errors_file.exists():
        return ""
    with done.errors_file.open("rb") as lines:
        return f" (the first: {json.loads(next(lines))['error']})"


BATCH: Final = Command(
    """Select for every request in a file, on all cores or on a cluster.

REQUESTS is Parquet or JSON lines, one request per row: items, a budget (or --budget for all), and anything else,
such as an id. A line may hold the messages of a conversation instead of items, or be a list of messages. Lines may be
compressed (.jsonl.gz, .jsonl.zst) or come from standard input (-). OUT gets the selections in the same order. While the
job runs, finished shards are kept in OUT.parts; --resume continues a job that was interrupted or failed.
""",
    _configure,
    _run,
    """\
  cupel batch requests.parquet -o windows.parquet --policy rag
  cupel batch requests.jsonl -o windows.jsonl --budget 8000 --report
  cupel batch chats.jsonl -o windows.jsonl --budget 8000
  cupel batch requests.parquet -o windows.parquet --engine dask --scheduler tcp://10.0.0.1:8786
""",
    {
        SOME_FAILED: "done, but some rows have no selection: they are in OUT.errors.jsonl",
        RESUMABLE: "stopped before its end, as on a full disk; continue with --resume",
        INTERRUPTED: "interrupted; continue with --resume",
    },
)
