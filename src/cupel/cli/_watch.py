"""The command `watch`, which starts the proxy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from cupel.cli._arguments import Command, Parser, add_files, token_count, whole_number
from cupel.cli._main import INTERRUPTED
from cupel.cli._output import say
from cupel.watch import WatchOptions, run_watch


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="an agent to start with the base URLs set; put -- before it"
    )
    parser.add_argument(
        "--upstream",
        metavar="URL",
        help="forward to this base URL; default: those of OPENAI_BASE_URL and ANTHROPIC_BASE_URL, or of the providers",
    )
    parser.add_argument(
        "--budget", type=token_count, metavar="N", help="keep requests under N tokens; default: only look"
    )
    parser.add_argument(
        "--recall",
        action="store_true",
        help="with --budget, write ids of what is left out, for the recall tool of cupel's MCP server",
    )
    recording = parser.add_argument_group("recording")
    add_files(
        recording,
        "--record",
        type=Path,
        default=Path("windows"),
        metavar="FOLDER",
        help="record conversations here; default: windows",
    )
    recording.add_argument("--no-record", action="store_true", help="record nothing")
    recording.add_argument(
        "--max-recorded",
        type=token_count,
        default=1_000_000_000,
        metavar="BYTES",
        help="delete the oldest recordings beyond this; default: 1g",
    )
    serving = parser.add_argument_group("serving")
    serving.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: 127.0.0.1")
    serving.add_argument("--port", type=whole_number, default=0, metavar="N", help="the port; default: a free one")
    serving.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="accept requests to this host name too, such as host.docker.internal; may be repeated",
    )
    serving.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="forward the calls of web pages of this origin, such as http://localhost:3000; may be repeated",
    )


def _run(args: argparse.Namespace) -> int:
    options = WatchOptions(
        upstream=args.upstream,
        budget=args.budget,
        recall=args.recall,
        host=args.host,
        port=args.port,
        allow_hosts=tuple(args.allow_host),
        allow_origins=tuple(args.allow_origin),
        folder=None if args.no_record else args.record,
        most_bytes=args.max_recorded,
        command=tuple(args.command),
    )
    return run_watch(options, lambda line: say(line, error=True))


WATCH: Final = Command(
    """Forward an agent's model calls, and show them; with --budget, keep them under a budget.

A local proxy for Chat Completions, the Responses API and Anthropic Messages. Without --budget it changes no byte. The
page at the printed address shows every conversation live. Recordings hold the bodies of requests and answers, never
keys; `cupel replay windows/ --budget N` says what a budget would have cost and kept. With COMMAND, the exit code is the
command's.
""",
    _configure,
    _run,
    """\
  cupel watch -- claude
  cupel watch --budget 60k -- python agent.py
  cupel watch --upstream https://api.openai.com --port 4000
""",
    {INTERRUPTED: "interrupted"},
)
