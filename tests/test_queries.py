"""Wherever a selection is made, a query can be given: a new way to select without one fails here."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import cupel
from cupel import ContextItem, Pipeline, RelevanceScorer
from cupel.analytics import (
    dry_run_with_policy,
    find_min_budget_for,
    get_marginal_items,
    policy_sensitivity,
    sweep,
)
from cupel.cli._arguments import parser_of
from cupel.cli._main import COMMANDS
from cupel.errors import MissingExtraError
from cupel.integrations._sessions import SessionOptions
from cupel.messages import FitOptions, Framework, MessageSession, fit

BUDGETS = {"budget", "budgets", "search_ceiling", "max_tokens"}
ELSEWHERE = {
    "cupel.analytics.counterfactual": "takes a prepared selection, which has its query",
    "cupel.analytics.counterfactuals": "takes a prepared selection, which has its query",
    "cupel.batch.BatchSelector": "every request has its own",
    "cupel.batch.run_batch": "every request has its own",
    "cupel.evaluation.EverythingStrategy.__call__": "selects nothing",
    "cupel.evaluation.LoggedStrategy.__call__": "selects nothing",
    "cupel.evaluation.FitStrategy.__call__": "asks what the user said last",
    "cupel.evaluation.SessionStrategy.__call__": "asks what the user said last",
    "cupel.evaluation.TailStrategy.__call__": "scores nothing",
    "cupel.evaluation.read_cases": "every case has its own",
    "cupel.evaluation.replay": "the strategies ask what the user said last",
    "cupel.pipeline.PreparedSelection.dry_run": "prepared for one; with_query goes on to others",
    "cupel.pipeline.PreparedSelection.included": "prepared for one; with_query goes on to others",
    "cupel.pipeline.PreparedSelection.run": "prepared for one; with_query goes on to others",
    "cupel.pipeline.PreparedSelection.select": "prepared for one; with_query goes on to others",
    "cupel.page.LivePage": "its policies are bound already",
    "cupel.watch.WatchOptions": "governs conversations, whose messages are the query",
    "cupel.page.page_payload": "its policies are bound already",
    # Parts of a selection that come after the scores, and what describes a selection that has been made.
    "cupel.analytics.Counterfactual": "a result",
    "cupel.analytics.SweepRow": "a result",
    "cupel.analytics.budget_utilization": "reads a report",
    "cupel.analytics.optimality_gap": "reads a report",
    "cupel.analytics.quota_utilization": "reads a report",
    "cupel.diagnostics.DiagnosticTraceCollector.on_pipeline_completed": "is told of a run",
    "cupel.diagnostics.TraceCollector.for_run": "is told of a run",
    "cupel.diagnostics.TraceCollector.on_pipeline_completed": "is told of a run",
    "cupel.errors.BudgetWarning": "is told of a run",
    "cupel.evaluation.Replay": "a result",
    "cupel.integrations.opentelemetry.OpenTelemetryTraceCollector.for_run": "is told of a run",
    "cupel.integrations.opentelemetry.OpenTelemetryTraceCollector.on_pipeline_completed": "is told of a run",
    "cupel.model.ContextBudget.of": "a budget",
    "cupel.pipeline.ContextResult": "a result",
    "cupel.pipeline.effective_budget": "a budget",
    "cupel.page.notebook_html": "reads a report",
    "cupel.page.summary": "reads a report",
    "cupel.slicers.Chooser.__call__": "chooses by scores",
    "cupel.slicers.Chooser.span": "chooses by scores",
    "cupel.slicers.KindLimit": "a limit",
    "cupel.slicers.Slicer.slice": "chooses by scores",
    "cupel.slicers.StreamSlice.slice": "chooses by scores",
    "cupel.testing.SelectionReportAssertionChain.have_budget_utilization_above": "reads a report",
    "cupel.testing.strategies.budgets": "draws budgets",
}
OPTIONS = {kind.__name__: kind.__annotations__ for kind in (FitOptions, SessionOptions)}
"""Options that are declared in one place, and taken as `**options`."""
ADAPTERS = Path(cupel.__file__).parent / "integrations"
ITEMS = [ContextItem("The parser is slow.", 5), ContextItem("Lunch is at noon.", 5)]
RELEVANT = Pipeline(scorer=RelevanceScorer(stem=False))
HISTORY = [
    {"role": "user", "content": "The parser is slow."},
    {"role": "assistant", "content": "I see."},
    {"role": "user", "content": "Lunch is at noon."},
    {"role": "assistant", "content": "Enjoy."},
    {"role": "user", "content": "Go on, please."},
]


def public_functions() -> Iterator[tuple[str, set[str]]]:
    """Name every public function and method with its parameters."""
    for module in pkgutil.walk_packages(cupel.__path__, "cupel."):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        try:
            members = importlib.import_module(module.name)
        except MissingExtraError:
            continue
        for name in getattr(members, "__all__", ()):
            yield from callables(f"{module.name}.{name}", getattr(members, name))


def callables(name: str, member: object) -> Iterator[tuple[str, set[str]]]:
    """Name a function, or a class and its methods."""
    found = {name: member}
    if inspect.isclass(member):
        found[name] = member.__init__
        found |= {f"{name}.{key}": getattr(member, key) for key in vars(member) if is_public(key)}
    for called, function in found.items():
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            continue
        declared = [
            key for kind, keys in OPTIONS.items() for key in keys if f"Unpack[{kind}" in str([*parameters.values()])
        ]
        yield called, {*parameters, *declared}


def is_public(name: str) -> bool:
    return name == "__call__" or not name.startswith("_")


def test_every_public_way_to_select_takes_a_query():
    without = {name for name, parameters in public_functions() if parameters & BUDGETS and "query" not in parameters}
    assert without - ELSEWHERE.keys() == set()
    assert {name for name in ELSEWHERE if name not in without} == set()  # the list has no leftovers


@pytest.mark.parametrize("file", sorted(ADAPTERS.glob("[!_]*.py")), ids=lambda file: file.stem)
def test_every_adapter_passes_a_query_on(file):
    """Read, not imported: the frameworks need not be installed."""
    calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    names = {"fit_messages", "select_documents", "fit", "select", "dry_run", "run"}
    made = [call for call in calls if called(call) in names and not is_elsewhere(call)]
    given = {ast.unparse(call): {keyword.arg or ast.unparse(keyword) for keyword in call.keywords} for call in made}
    assert [call for call, keywords in given.items() if not keywords & {"query", "**options"}] == []
    # A session takes its query as an option; OpenTelemetry and a shortening hook select nothing.
    assert (
        made
        or "SessionOptions" in file.read_text(encoding="utf-8")
        or file.stem in ("claude_agent_sdk", "opentelemetry")
    )


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_elsewhere(call: ast.Call) -> bool:
    """Whether it is a server, a model, or a session, which was given its query when it was made."""
    return ast.unparse(call.func) in (
        "server(*sys.argv[1:2]).run",
        "self.chat_generator.run",
        "conversation.fit",
        "conversation.session.fit",
        "self._conversations.fit",
    )


def test_every_command_that_selects_takes_a_query():
    """Requests, cases and recordings bring their own, and the demonstration has none."""
    without: set[str] = set()
    for name in COMMANDS:
        options = {option for action in parser_of(name)._actions for option in action.option_strings}
        if "--budget" in options and "--query" not in options:
            without.add(name)
    assert without == {"batch", "demo", "evaluate", "replay", "tune", "watch"}


@pytest.mark.parametrize(("query", "expected"), [("parser", ITEMS[0]), ("lunch", ITEMS[1])])
def test_questions_about_a_selection_are_asked_for_the_query(query, expected):
    pipeline = RELEVANT
    assert sweep(pipeline, ITEMS, [5], query=query)[0].items == [expected]
    assert get_marginal_items(pipeline, ITEMS, 5, 5, query=query) == [expected]
    assert find_min_budget_for(pipeline, ITEMS, expected, 10, query=query) == 5
    assert [entry.item for entry in dry_run_with_policy(ITEMS, 5, RELEVANT, query=query).included] == [expected]
    other = next(item for item in ITEMS if item is not expected)
    prepared = pipeline.prepare(ITEMS, query=other.content)
    assert sweep(prepared, None, [5], query=query)[0].items == [expected]
    found = policy_sensitivity(ITEMS, 5, {"one": RELEVANT, "two": RELEVANT}, query=query)
    assert [[entry.item for entry in report.included] for _, report in found.variants] == [[expected], [expected]]


def test_variants_with_other_pins_are_prepared_on_their_own():
    pins = [cupel.PinRule(newest=1)]
    plain = Pipeline(scorer=RelevanceScorer(stem=False))
    pinned = Pipeline(scorer=RelevanceScorer(stem=False), pins=pins)
    found = policy_sensitivity(ITEMS, 5, {"plain": plain, "pinned": pinned}, query="parser")
    assert [[entry.item for entry in report.included] for _, report in found.variants] == [[ITEMS[0]], [ITEMS[1]]]


def test_without_a_query_a_history_is_asked_what_the_user_said_last():
    parser, lunch = HISTORY[0]["content"], HISTORY[2]["content"]
    history = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": parser},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": lunch},
        {"role": "user", "content": "Why is the parser slow?"},
    ]
    whole = fit(history, 1000, RELEVANT).total_tokens
    for select in (fit, Framework(dict, lambda messages: messages, dict).fit):
        by_question = select(history, whole - 1, RELEVANT, notes=False).messages
        assert history[1] in by_question
        assert history[3] not in by_question
        by_query = select(history, whole - 1, RELEVANT, query="when is lunch?", notes=False).messages
        assert history[3] in by_query
        assert history[1] not in by_query


def test_a_user_who_said_nothing_in_words_asks_nothing():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    shown = {"role": "user", "content": [image]}
    history = [shown, {"role": "assistant", "content": "A cat."}, shown]
    with pytest.raises(cupel.ScorerConfigError, match="needs a query"):
        fit(history, 2000, RELEVANT)
    with pytest.raises(cupel.ScorerConfigError, match="needs a query"):
        MessageSession(2000, RELEVANT).fit(history)
    assert fit(history, 4000).messages == history
