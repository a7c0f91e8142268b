"""The commands `evaluate`, `replay` and `tune`, which measure policies."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from cupel._internal.text import escape_toml, plural
from cupel.cli._arguments import (
    Command,
    Parser,
    add_budget,
    add_files,
    add_format,
    add_max_unpacked,
    add_policy,
    add_quiet,
    finite_number,
    read_budget,
    share,
    token_count,
    whole_number,
)
from cupel.cli._costs import costs_document, log_folders, print_costs
from cupel.cli._output import (
    Cell,
    Column,
    Show,
    Table,
    print_json,
    print_table,
    progress_bar,
    say,
    say_prose,
    write_whole,
)
from cupel.cli._policies import document_of, read_policy
from cupel.cli._records import title_of
from cupel.errors import ConfigurationError
from cupel.evaluation import (
    Case,
    Estimate,
    Evaluation,
    EvaluationError,
    EverythingStrategy,
    Figures,
    FitStrategy,
    LoggedStrategy,
    Recording,
    Replay,
    SessionStrategy,
    TailStrategy,
    Tuning,
    WindowStrategy,
    compare,
    evaluate,
    read_cases,
    read_recordings,
    replay,
    tune,
)
from cupel.messages import Prices
from cupel.page import Variant, render_page
from cupel.pipeline import Pipeline
from cupel.tokens import TokenCounter


def _add_cases(parser: Parser) -> None:
    """Add CASES, a budget for cases without one, and the settings of a measurement."""
    add_files(
        parser,
        "cases",
        metavar="CASES",
        help="a .jsonl file of cases, one per line (items, needed and, optionally, query, budget, group, id), "
        "a JSON list of them, either with .gz, or -",
    )
    add_budget(parser, required=False)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="the random seed; default: 0")
    add_max_unpacked(parser)
    add_quiet(parser)


def _read_cases(args: argparse.Namespace) -> list[Case]:
    budget = None if args.budget is None else read_budget(args)
    return read_cases(args.cases, budget=budget, max_unpacked=args.max_unpacked)


def _interval(estimate: Estimate) -> str:
    """Return an interval in words; it is unknown with fewer than two cases."""
    if estimate.low == float("-inf"):
        return "unknown"
    return f"{estimate.low:,.3f} to {estimate.high:,.3f}"


def _configure_evaluate(parser: Parser) -> None:
    _add_cases(parser)
    add_policy(parser, several=True)
    add_format(parser)
    parser.add_argument(
        "--fail-below", type=share, metavar="SHARE", help="exit with 1 if a policy keeps a smaller share than this"
    )


def _evaluate(args: argparse.Namespace) -> int:
    policies = [read_policy(name, args.overrides) for name in args.policy or ["chat"]]
    cases = _read_cases(args)
    found: list[Evaluation] = []
    for one in policies:
        with progress_bar(f"evaluating {one.name}", "cases", quiet=args.quiet) as show:
            found.append(evaluate(one.policy, cases, name=one.name, seed=args.seed, on_progress=show))
    comparisons = [compare(found[0], other, seed=args.seed) for other in found[1:]]
    if args.format == "json":
        evaluations = [evaluation.to_dict() for evaluation in found]
        print_json({"evaluations": evaluations, "comparisons": [each.to_dict() for each in comparisons]})
    else:
        _print_evaluations(found)
        for comparison in comparisons:
            counts = f"better {comparison.better}, worse {comparison.worse}, equal {comparison.equal}"
            say(f"{comparison.verdict}; {counts}")
    failed = [each for each in found if args.fail_below is not None and each.kept.value < args.fail_below]
    for each in failed:
        say(f"cupel evaluate: {each.name} keeps {each.kept.value:.3f}, less than {args.fail_below}", error=True)
    return 1 if failed else 0


def _print_evaluations(found: Sequence[Evaluation]) -> None:
    table = Table(
        [
            Column("policy"),
            Column("kept", number=True),
            Column("95 %"),
            Column("whole", number=True),
            Column("95 %"),
            Column("tokens", number=True),
            Column("failed", number=True),
        ],
        title=plural(len(found[0].outcomes), "case"),
    )
    for one in found:
        table.add(
            Cell(one.name, "bold"),
            f"{one.kept.value:.3f}",
            Cell(_interval(one.kept), "dim"),
            f"{one.whole.value:.3f}",
            Cell(_interval(one.whole), "dim"),
            f"{one.tokens.value:,.0f}",
            Cell(f"{len(one.failures)}", "red" if one.failures else ""),
        )
    print_table(table)
    say()
    for title, parts in (("kind", [one.by_kind for one in found]), ("tag", [one.by_tag for one in found])):
        if len(parts[0]) > (title == "kind"):
            _print_parts(title, [one.name for one in found], parts)
    for one in found:
        if one.failures:
            say(f"{one.name} has no selection for {plural(len(one.failures), 'case')}: {one.failures[0].failure}\n")


def _print_parts(title: str, names: Sequence[str], parts: Sequence[Mapping[str, Estimate]]) -> None:
    table = Table([Column(f"needed {title}"), *(Column(f"kept by {name}", number=True) for name in names)])
    for part in parts[0]:
        table.add(part, *(f"{found[part].value:.3f} ({_interval(found[part])})" for found in parts))
    print_table(table)
    say()


EVALUATE: Final = Command(
    """Measure the share of needed items that a policy keeps, on cases whose needs are known.

Several policies are compared case by case: the first with each of the others. Intervals are at 95 %.
""",
    _configure_evaluate,
    _evaluate,
    """\
  cupel evaluate cases.jsonl --policy chat --policy mine.toml
  cupel evaluate cases.jsonl --budget 2000 --policy mine.toml --fail-below 80%
""",
    {1: "a policy keeps less than --fail-below"},
)


_STRATEGIES: Final = {
    "logged": ("as it was", "the requests of the log, by the provider's own count"),
    "everything": ("everything", "the whole history; requests over the window would be refused"),
    "tail": ("tail", "the newest messages, long outputs without their middle"),
    "fit": ("fit every turn", "a new selection on every turn, which loses the cache"),
    "session": ("session", "the last request with the new messages, cut when it is full"),
}
"""How to fill a window: the name of each strategy in tables and on pages, and its meaning."""
_FIGURES: Final = {
    "cached": "share of the tokens that the provider reads from its cache",
    "price": "of a turn, in uncached input tokens",
    "facts": "share of the words in the next calls that the request still contains",
    "whole": "share of the steps that find all their facts in the request",
    "context": "share of the steps whose names keep their neighbouring words",
    "reach": "share of the steps that find all their facts in the request, or with at most two calls of recall",
    "over": "turns over the window",
}
_FAULTS: Final = {
    "invalid": "turns with a call or a result alone",
    "unsent": "turns without the newest message",
    "failed": "turns without a request",
}
"""Columns that are printed only if something went wrong."""
_EVERYTHING: Final = 2**50
"""A budget that no history exceeds."""
_FEW: Final = 500
"""Requests of logs that are replayed in less time than other processes take to start."""
_PRICES: Final[dict[str, Callable[[], Prices]]] = {
    "marked": Prices.marked,
    "automatic": Prices.automatic,
    "automatic-paid": Prices.automatic_paid,
}


def _configure_replay(parser: Parser) -> None:
    add_files(
        parser,
        "sessions",
        metavar="SESSIONS",
        nargs="*",
        help="a .json or .jsonl file of conversations, one per line, optionally with .gz, a folder of recordings of "
        "`cupel watch`, a log of Claude Code or Codex, or a folder of them, or - for standard input; default: the logs "
        "in ~/.claude/projects and ~/.codex/sessions",
    )
    parser.add_argument(
        "--budget", type=token_count, metavar="N", help="tokens a request may have; logs can do without"
    )
    parser.add_argument(
        "--prices",
        choices=tuple(_PRICES),
        help="how the provider caches prompts: at marks of the caller, for a premium; by itself; or by itself, for a "
        "premium; default: as the provider of the first conversation does",
    )
    parser.add_argument(
        "--keep",
        type=share,
        metavar="SHARE",
        help="how much of the free room a session fills when it cuts a request; default: 45%%",
    )
    parser.add_argument(
        "--recall",
        action="store_true",
        help="let the session write ids by which a model can fetch back what is left out, and measure what they reach",
    )
    parser.add_argument(
        "--strategy",
        action="append",
        choices=tuple(_STRATEGIES),
        help="how to fill the window: as it was, with everything, with the tail, with what fit selects every turn, or "
        "with a session; may be repeated; default: all, but for logs as it was and with a session",
    )
    parser.add_argument(
        "--every", type=whole_number, default=1, metavar="N", help="measure the facts of every Nth turn only"
    )
    parser.add_argument("--limit", type=whole_number, metavar="N", help="replay the first N conversations only")
    parser.add_argument(
        "--fail-above",
        type=finite_number,
        metavar="PRICE",
        help="exit with 1 if a turn of the session costs more on average; without a session, a turn of fit, tail or "
        "everything, whichever comes first",
    )
    parser.add_argument(
        "--fail-below", type=share, metavar="SHARE", help="exit with 1 if it keeps less of the facts than this"
    )
    add_files(
        parser, "--page", type=Path, metavar="FILE", help="write a page too: every turn, its cost and its request"
    )
    add_max_unpacked(parser)
    add_quiet(parser)
    add_policy(parser, several=True, default="conversation")
    add_format(parser)


def _replay(args: argparse.Namespace) -> int:
    policies = [read_policy(name, args.overrides) for name in args.policy or ()]
    if args.overrides and not policies:
        raise ConfigurationError("--set changes a policy: name one with --policy")
    sources = args.sessions or log_folders()
    recordings = _read(sources, args.max_unpacked, all_needed=bool(args.sessions))[: args.limit]
    are_logs = all(recording.calls for recording in recordings)
    if args.budget is None:
        return _tell_costs(args, sources, recordings)
    prices = None if args.prices is None else _PRICES[args.prices]()
    names = args.strategy or (("logged", "session") if are_logs else [*_STRATEGIES][1:])
    strategies = window_strategies(policies, names, prices=prices, keep=args.keep, recall=args.recall)
    options: dict[str, Any] = {"prices": prices, "every": args.every}
    try:
        with progress_bar("replaying", "conversations" if are_logs else "turns", quiet=args.quiet) as show:
            if are_logs:
                found = _replay_apart(recordings, strategies, args.budget, options, show)
            else:
                found = replay(recordings, strategies, args.budget, on_progress=show, **options)
    except TypeError as error:  # the strategies are cupel's own: the wrong type is that of a message
        raise EvaluationError(str(error)) from error
    if args.page is not None:
        _write_page(args.page, sources, turns_payload(found))
    if args.format == "json":
        print_json(found.to_dict() | (costs_document(recordings) if are_logs else {}))
    else:
        if are_logs:
            print_costs(costs_document(recordings))
            say()
        turns = max(one.turns for one in found.figures.values())
        talks = len({one.where for one in recordings}) if are_logs else len(recordings)
        print_replay(found, f"{plural(talks, 'conversation')}, {plural(turns, 'turn')} over {found.budget:,} tokens")
    broken = _broken_limits(found.figures, args.fail_above, args.fail_below)
    for line in broken:
        say(f"cupel replay: {line}", error=True)
    return 1 if broken else 0


def _read(sources: Sequence[str], max_unpacked: int, *, all_needed: bool) -> list[Recording]:
    """Read conversations from all sources, or from those that have some."""
    found: list[Recording] = []
    faults: list[str] = []
    for source in sources:
        try:
            found += read_recordings(source, max_unpacked=max_unpacked)
        except EvaluationError as error:
            if all_needed:
                raise
            faults.append(str(error))
    if not found:
        raise EvaluationError("; ".join(faults))
    return found


def _tell_costs(args: argparse.Namespace, sources: Sequence[str], recordings: Sequence[Recording]) -> int:
    """Say what logs cost, without a budget to compare it with."""
    if not all(recording.calls for recording in recordings):
        raise ConfigurationError("--budget is missing: only the logs of Claude Code and Codex say what they cost")
    if args.page is not None:
        found = replay(recordings, window_strategies((), ("logged",)), _EVERYTHING)
        _write_page(args.page, sources, turns_payload(found) | {"budget": None})
    (print_json if args.format == "json" else print_costs)(costs_document(recordings))
    return 0


def _replay_apart(
    recordings: Sequence[Recording],
    strategies: Mapping[str, WindowStrategy],
    budget: int,
    options: Mapping[str, Any],
    show: Show,
) -> Replay:
    """Replay logs on all cores, each at the prices of its provider unless they are given."""
    each = partial(_replay_one, strategies=strategies, budget=budget, options=options)
    cores = min(len(recordings), os.cpu_count() or 1) if sum(len(one.calls) for one in recordings) > _FEW else 1
    found: list[Replay] = []
    with ProcessPoolExecutor(cores, get_context("spawn")) if cores > 1 else nullcontext() as pool:
        for done, one in enumerate(map(each, recordings) if pool is None else pool.map(each, recordings), 1):
            show(done, len(recordings))
            if isinstance(one, Replay):
                found.append(one)
            else:
                say(f"cupel replay: left out {one}", error=True)
    if not found:
        raise EvaluationError("no conversation can be replayed")
    turns = {name: tuple(turn for one in found for turn in one.strategies[name]) for name in strategies}
    return replace(found[0], strategies=turns, recordings=tuple(own for one in found for own in one.recordings))


def _replay_one(
    recording: Recording, *, strategies: Mapping[str, WindowStrategy], budget: int, options: Any
) -> Replay | str:
    """Return what became of one conversation, or why it cannot be replayed."""
    try:
        return replay(recording, strategies, budget, **options)
    except (EvaluationError, TypeError) as error:
        return str(error)


def _write_page(path: Path, sources: Sequence[str], turns: dict[str, Any]) -> None:
    write_whole(path, render_page({"title": title_of(sources), "turns": turns}))
    say(f"wrote {path}", error=True)


def window_strategies(
    policies: Sequence[Variant] = (),
    names: Collection[str] = frozenset(_STRATEGIES) - {"logged"},
    *,
    counter: TokenCounter | None = None,
    prices: Prices | None = None,
    keep: float | None = None,
    recall: bool = False,
) -> dict[str, WindowStrategy]:
    """Return the named strategies: `fit` and `session` for each policy, or with their own defaults if there is none."""
    labelled: dict[str, Pipeline | None] = {f" {one.name}": one.policy for one in policies}
    labelled = labelled or {"": None}
    options = {"counter": counter, "recall": recall} | ({} if keep is None else {"keep": keep})
    found: dict[str, WindowStrategy] = {"logged": LoggedStrategy(), "everything": EverythingStrategy()}
    found |= {"tail": TailStrategy(counter=counter)}
    found |= {f"fit{label}": FitStrategy(policy, counter) for label, policy in labelled.items()}
    found |= {f"session{label}": SessionStrategy(policy, prices, options) for label, policy in labelled.items()}
    return {label: strategy for label, strategy in found.items() if label.partition(" ")[0] in names}


def turns_payload(found: Replay) -> dict[str, Any]:
    """Return the data of a page of the turns, with the full names of the strategies."""
    named = {_full_name(name): turns for name, turns in found.strategies.items()}
    return replace(found, strategies=named).page_payload()


def _full_name(name: str) -> str:
    """Return the full name of a strategy, with its policy in brackets."""
    strategy, _, policy = name.partition(" ")
    return f"{_STRATEGIES[strategy][0]} ({policy})" if policy else _STRATEGIES[strategy][0]


def print_replay(found: Replay, title: str = "") -> None:
    """Print the figures of each strategy, and the meaning of the names."""
    figures = found.figures
    if not any(one.turns for one in figures.values()):
        say_prose(f"No history exceeds {found.budget:,} tokens: nothing is left out, and nothing is measured.")
        return
    faults = {name: about for name, about in _FAULTS.items() if any(getattr(one, name) for one in figures.values())}
    legend = {**_FIGURES, **faults}
    has_ids = any(one.reach != one.whole for one in figures.values())
    if not has_ids:
        del legend["reach"]
    table = Table([Column("strategy"), *(Column(name, number=True) for name in ("sent", *legend))], title)
    for name, one in figures.items():
        priced = (f"{one.sent:,.0f}", f"{one.hit:.1%}", f"{one.price:,.0f}") if one.turns > one.failed else ("-",) * 3
        shares = (one.facts, one.whole, one.context, *([one.reach] if has_ids else []))
        kept = [f"{share:.1%}" if one.steps else "-" for share in shares]
        counts = (getattr(one, fault) for fault in ("over", *faults))
        table.add(Cell(_full_name(name), "bold"), *priced, *kept, *(Cell(f"{n:,}", "red" if n else "") for n in counts))
    print_table(table)
    used = {name.partition(" ")[0] for name in figures}
    for part in ({label: about for name, (label, about) in _STRATEGIES.items() if name in used}, legend):
        say()
        width = max(map(len, part)) + 2
        for name, about in part.items():
            say_prose(about, start=f"{name:<{width}}")
    say("\nWords are compared as they are written, not by their meaning.")
    for name, each in found.strategies.items():
        failure = next((turn for turn in each if turn.pressed and turn.failure is not None), None)
        if failure is not None:
            say(f"\n{name} has no request for {figures[name].failed} of the turns, the first in {failure.recording}:")
            say(f"  {failure.failure}")


def _broken_limits(figures: Mapping[str, Figures], most: float | None, least: float | None) -> list[str]:
    """Return the limits that are broken, or cannot be judged, by sessions, or else by the last other strategy."""
    kind = next(one for one in reversed(_STRATEGIES) if any(name.partition(" ")[0] == one for name in figures))
    broken: list[str] = []
    for name, one in figures.items():
        if name.partition(" ")[0] != kind:
            continue
        if most is not None and not one.turns:
            broken.append(f"--fail-above cannot be judged: no history exceeds the budget, so {name} has no price")
        elif most is not None and one.turns == one.failed:
            broken.append(f"{name} has no request to send, and the limit is {most:,.0f}")
        elif most is not None and one.price > most:
            broken.append(f"{name} costs {one.price:,.0f} a turn, and the limit is {most:,.0f}")
        if least is not None and not one.steps:
            broken.append(f"--fail-below cannot be judged: no turn over the budget uses a fact that {name} could keep")
        elif least is not None and one.facts < least:
            broken.append(f"{name} keeps {one.facts:.3f} of the facts, less than {least}")
    return broken


REPLAY: Final = Command(
    """Replay recorded conversations with other windows: their cost, and the share of the used facts that each kept.

SESSIONS are histories of Chat Completions, the Responses API, Anthropic, Gemini or Bedrock, OpenTelemetry's GenAI
spans, or the logs of Claude Code and Codex, which also say what each conversation cost and why the cache was missed.
Only turns whose whole history exceeds the budget count. Prices are per turn, in uncached input tokens. Facts are
the exact words that the arguments of the next calls have in common with the history: `facts` is the share of them that
the window still holds, `whole` the share of steps that have all of theirs, `context` the share of steps whose names
keep their original neighbouring words.
""",
    _configure_replay,
    _replay,
    """\
  cupel replay sessions.jsonl.gz --budget 16000 --prices marked
  cupel replay sessions.jsonl --budget 16k --policy mine.toml --strategy fit --fail-below 90%
  cupel replay chat.json --budget 8000 --page turns.html
  cupel replay                                            what your agents' conversations cost, and why
  cupel replay ~/.claude/projects --budget 60k --page turns.html
""",
    {1: "a limit is broken, or there was nothing to judge it by"},
)


def _configure_tune(parser: Parser) -> None:
    _add_cases(parser)
    add_policy(parser)
    add_files(parser, "-o", "--output", type=Path, metavar="FILE", help="write a better policy here, .toml or .json")
    parser.add_argument("--trials", type=whole_number, default=60, metavar="N", help="candidates to try; default: 60")
    parser.add_argument("--folds", type=whole_number, default=5, metavar="N", help="folds of the cases; default: 5")
    add_format(parser)


def _tune(args: argparse.Namespace) -> int:
    chosen = read_policy(args.policy, args.overrides)
    output: Path | None = args.output
    if output is not None and output.suffix.lower() not in {".toml", ".json"}:
        raise ConfigurationError(f"-o {output}: a policy file ends in .toml or .json")
    cases = _read_cases(args)
    with progress_bar("tuning", "cases", quiet=args.quiet) as show:
        found = tune(chosen.policy, cases, trials=args.trials, folds=args.folds, seed=args.seed, on_progress=show)
    if args.format == "json":
        print_json(found.to_dict())
    else:
        _print_tuning(found, chosen.name)
    if not found.gained:
        return 1
    if output is not None:
        write_whole(output, document_of(found.policy, output.suffix.lower()[1:]))
        say(f"written to {output}", error=True)
    return 0


def _print_tuning(found: Tuning, name: str) -> None:
    table = Table(
        [Column("policy"), Column("kept", number=True), Column("95 %")],
        title=f"{plural(found.cases, 'case')} in {plural(found.groups, 'group')}, {found.folds} folds, "
        f"{plural(len(found.curve), 'candidate')}",
    )
    table.add(Cell(name, "bold"), f"{found.before.value:.3f}", Cell(_interval(found.before), "dim"))
    table.add("chosen on other folds", f"{found.unseen.value:.3f}", Cell(_interval(found.unseen), "dim"))
    table.add("gain", f"{found.gain.value:+.3f}", Cell(_interval(found.gain), "dim"))
    print_table(table)
    say(f"\n{found.verdict}")
    for note in found.notes:
        say(f"note: {note}")
    if found.gained:
        say(f"\n{escape_toml(document_of(found.policy, 'toml'))}".rstrip("\n"))


TUNE: Final = Command(
    """Search for better settings of a policy, and judge them on cases that had no part in the choice.

Weights, the neighbours of relevance and the slicer are varied. The better policy is written only if its gain on these
cases is beyond chance; if it is not, nothing is written and the exit code is 1.
""",
    _configure_tune,
    _tune,
    """\
  cupel tune cases.jsonl --policy mine.toml -o better.toml
  cupel tune cases.jsonl --policy rag --trials 200 --format json
""",
    {1: "no better policy was found; nothing was written"},
)
