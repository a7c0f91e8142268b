"""`select`, `explain`, `compare` and `simulate` give what the library gives."""

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cupel import ContextBudget, KnapsackSlice, presets
from cupel import policy as policies
from cupel.analytics import find_min_budget_for, get_marginal_items
from cupel.demo import session_items, session_policy
from cupel.tokens import CharacterEstimate

BUDGET = ContextBudget(4000, 4000)
TWO = ("--policy", "chat", "--policy", "rag")


def contents(rows) -> list[str]:
    return [row["content"] for row in rows]


def selected(pipeline=None, budget=BUDGET) -> list[str]:
    return [item.content for item in (pipeline or presets.chat()).run(session_items(), budget)]


class TestSelect:
    def test_text_is_the_context(self, cupel, session):
        assert cupel("select", session, "--budget", "4000").out == "\n\n".join(selected()) + "\n"

    def test_the_summary_goes_to_standard_error(self, cupel, session):
        assert cupel("select", session, "--budget", "4000").err.startswith(f"chat: {len(selected())} of 120 items in, ")

    @pytest.mark.parametrize("form", ["json", "jsonl"])
    def test_the_output_can_be_read_again(self, cupel, session, form):
        cupel("select", session, "--budget", "4000", "--format", form, "-o", f"once.{form}")
        again = cupel("select", f"once.{form}", "--budget", "999999", "--format", "json")
        assert contents(again.json["items"]) == selected()

    def test_budget_options_are_those_of_a_context_budget(self, cupel, session):
        options = ["--budget", "3000", "--max", "4000", "--reserve", "1500", "--margin", "5", "--format", "json"]
        budget = ContextBudget(4000, 3000, output_reserve=1500, estimation_safety_margin_percent=5)
        outcome = cupel("select", session, *options)
        assert outcome.json["budget"] == budget.to_dict()
        assert contents(outcome.json["items"]) == selected(budget=budget)

    def test_a_policy_file_is_overridden(self, cupel, session, folder):
        (folder / "mine.toml").write_text(policies.dumps(session_policy(), format="toml"))
        options = [
            "--policy",
            "mine.toml",
            "--set",
            "slicer=knapsack",
            "--set",
            "slicer.bucket_size=10",
            "--format",
            "json",
        ]
        policy = session_policy()
        changed = replace(policy, slicer=KnapsackSlice(10))
        outcome = cupel("select", session, "--budget", "4000", *options)
        assert contents(outcome.json["items"]) == selected(changed)

    def test_overrides_are_part_of_the_name(self, cupel, session):
        outcome = cupel("select", session, "--budget", "4000", "--set", "slicer=knapsack", "--format", "json")
        assert outcome.json["policy"] == "chat (slicer=knapsack)"

    def test_markdown_fences_cannot_be_closed_by_an_item(self, cupel, folder):
        (folder / "a.jsonl").write_text(json.dumps({"content": "x\n````\ny", "tokens": 1}))
        out = cupel("select", "a.jsonl", "--budget", "9", "--format", "markdown").out
        assert out == "### 1. Message, 1 token\n\n`````text\nx\n````\ny\n`````\n"

    @pytest.mark.parametrize(("counter", "tokens"), [("chars", 2), ("tiktoken:o200k_base", 3)])
    def test_tokens_are_counted_by_the_named_counter(self, cupel, folder, counter, tokens):
        (folder / "a.jsonl").write_text('{"content": "twelve chars"}')
        outcome = cupel("select", "a.jsonl", "--budget", "9", "--tokens", counter, "--format", "jsonl")
        assert json.loads(outcome.out)["tokens"] == tokens
        assert f"counted the tokens of 1 item with {counter}" in outcome.err

    def test_without_a_tokeniser_the_estimate_is_used_and_named(self, cupel, folder, monkeypatch):
        monkeypatch.setattr("cupel.cli._reading.default_counter", lambda: CharacterEstimate(4.0))
        (folder / "a.jsonl").write_text('{"content": "hello world"}')
        outcome = cupel("select", "a.jsonl", "--budget", "9", "--format", "jsonl")
        assert json.loads(outcome.out)["tokens"] == 3
        assert "counted the tokens of 1 item with chars, an estimate" in outcome.err

    def test_a_selection_that_the_window_cannot_hold_is_a_warning(self, cupel, folder):
        (folder / "a.jsonl").write_text("".join(f'{{"content": "{n}", "tokens": 300}}\n' for n in range(3)))
        entries = [{"kind": "Message", "require_count": 3}, {"kind": "Mesage", "cap_count": 1}]
        policy = {"scorer": "recency", "slicer": {"type": "count_quota", "entries": entries}}
        (folder / "policy.json").write_text(json.dumps(policy))
        budget = ("--budget", "900", "--max", "1000", "--reserve", "500")
        outcome = cupel("select", "a.jsonl", "--policy", "policy.json", *budget)
        assert (outcome.code, outcome.out) == (0, "0\n\n1\n\n2\n")
        warning, _, note = outcome.err.splitlines()
        assert warning.startswith("cupel select: warning: Selected items require 900 tokens, but the window of 1000 ")
        assert note == "note: CountQuotaSlice limits kinds that no item has: 'Mesage' (did you mean 'Message'?)"

    def test_quiet_prints_no_summary(self, cupel, session):
        assert cupel("select", session, "--budget", "4000", "-q").err == ""

    def test_an_empty_selection_prints_nothing(self, cupel, folder):
        (folder / "a.jsonl").write_text('{"content": "too long", "tokens": 50}')
        assert cupel("select", "a.jsonl", "--budget", "9").out == ""

    @pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown"])
    def test_no_format_needs_rich(self, cupel, session, monkeypatch, form):
        for name in ("rich", "rich.console", "rich.text", "rich.cells"):
            monkeypatch.setitem(sys.modules, name, None)
        assert cupel("select", session, "--budget", "4000", "--format", form).code == 0


class TestExplain:
    def test_every_item_has_a_row(self, cupel, session):
        rows = cupel("explain", session, "--budget", "4000").out.splitlines()[1:]
        assert len(rows) == 120
        assert sum(row.split()[1] == "in" for row in rows) == len(selected())

    @pytest.mark.parametrize("reason", ["needs 2,891, ", "same text as another item", "token count is -1"])
    def test_reasons_are_in_words(self, cupel, session, reason):
        assert reason in cupel("explain", session, "--budget", "4000").out

    @pytest.mark.parametrize("side", ["in", "out"])
    def test_one_side_can_be_shown(self, cupel, session, side):
        rows = cupel("explain", session, "--budget", "4000", "--only", side).out.splitlines()[1:]
        assert {row.split()[1] for row in rows} == {side}

    def test_json_has_the_positions_of_the_items(self, cupel, session):
        document = cupel("explain", session, "--budget", "4000", "--format", "json").json
        items = session_items()
        report = presets.chat().dry_run(items, BUDGET)
        places = {id(item): place for place, item in enumerate(items)}
        assert [row["position"] for row in document["included"]] == [places[id(one.item)] for one in report.included]

    def test_json_has_the_stages(self, cupel, session):
        document = cupel("explain", session, "--budget", "4000", "--format", "json").json
        stages = [event["stage"] for event in document["events"]]
        assert stages == ["Classify", "Score", "Deduplicate", "Slice", "Place"]

    def test_a_counterfactual_is_the_smallest_budget_that_lets_an_item_in(self, cupel, session):
        document = cupel("explain", session, "--budget", "4000", "--format", "json", "--counterfactual").json
        items = session_items()
        prepared = presets.chat().prepare(items)
        for row in document["excluded"][:12]:
            if row["extra_tokens"] is None:
                assert row["reason"]["reason"] != "BudgetExceeded"
                continue
            least = 4000 + row["extra_tokens"]
            holding = [
                budget
                for budget in range(4001, least + 1)
                if any(one is items[row["position"]] for one in prepared.included(ContextBudget(budget, budget)))
            ]
            assert holding == [least]

    def test_a_bar_is_shown_while_counterfactuals_are_searched(self, cupel, session, monkeypatch):
        shown = []

        @contextmanager
        def bar(doing, unit):
            shown.append((doing, unit))
            yield

        monkeypatch.setattr("cupel.cli._selection.progress_bar", bar)
        cupel("explain", session, "--budget", "4000", "--counterfactual")
        assert shown == [("searching budgets for", f"{120 - len(selected())} items")]

    def test_shortfalls_are_printed(self, cupel, session, folder):
        entry = {"kind": "Image", "require_count": 2, "cap_count": 3}
        policy = {"scorer": "recency", "slicer": {"type": "count_quota", "entries": [entry]}}
        (folder / "p.json").write_text(json.dumps(policy))
        outcome = cupel("explain", session, "--budget", "4000", "--policy", "p.json")
        assert "short of Image: 0 of 2 required items" in outcome.err

    def test_a_breakdown_adds_up_to_the_score(self, cupel, session):
        document = cupel("explain", session, "--budget", "6000", "--format", "json", "--breakdown").json
        entry = document["excluded"][0]
        assert entry["breakdown"]["score"] == entry["score"]
        assert sum(part["share"] for part in entry["breakdown"]["parts"]) == pytest.approx(entry["score"])

    def test_there_is_no_breakdown_unless_asked_for(self, cupel, session):
        document = cupel("explain", session, "--budget", "6000", "--format", "json").json
        assert "breakdown" not in document["included"][0]

    def test_a_breakdown_is_a_column_of_the_table(self, cupel, session):
        assert " a token" in cupel("explain", session, "--budget", "6000", "--breakdown").out


class TestCompare:
    def test_the_items_on_which_policies_disagree_are_listed(self, cupel, session):
        document = cupel("compare", session, "--budget", "4000", *TWO, "--format", "json").json
        assert set(contents(document["diffs"])) == set(selected()) ^ set(selected(presets.rag()))

    def test_each_policy_has_a_status_for_each_of_them(self, cupel, session):
        document = cupel("compare", session, "--budget", "4000", *TWO, "--format", "json").json
        chosen = {"chat": selected(), "rag": selected(presets.rag())}
        for diff in document["diffs"]:
            for status in diff["statuses"]:
                assert (status["status"] == "Included") == (diff["content"] in chosen[status["policy"]])

    def test_the_table_counts_them(self, cupel, session):
        count = len(set(selected()) ^ set(selected(presets.rag())))
        out = cupel("compare", session, "--budget", "4000", *TWO).out
        assert f"{count} items that some policies include and others exclude" in out

    def test_without_policies_the_presets_are_compared(self, cupel, session):
        document = cupel("compare", session, "--budget", "4000", "--format", "json").json
        names = [name.replace("_", "-") for name in presets.__all__]
        assert [variant["policy"] for variant in document["variants"]] == names

    def test_agreement_is_said(self, cupel, folder):
        (folder / "a.jsonl").write_text('{"content": "x", "tokens": 1}')
        assert "All policies select the same items." in cupel("compare", "a.jsonl", "--budget", "9", *TWO).out


class TestSimulate:
    @pytest.fixture
    def document(self, cupel, session):
        options = ("--slack", "500", "--item", "# inkstand/ledger", "--steps", "5", "--format", "json")
        return cupel("simulate", session, "--budget", "4000", *options).json

    def test_the_smallest_budget_is_that_of_the_analytics(self, document):
        items = session_items()
        target = next(item for item in items if item.content.startswith("# inkstand/ledger"))
        least = find_min_budget_for(presets.chat(), items, target, 99_999, exact=True)
        assert document["item"]["min_budget"] == least

    def test_marginal_items_are_those_of_the_analytics(self, document):
        expected = get_marginal_items(presets.chat(), session_items(), BUDGET, 500)
        assert contents(document["marginal"]) == [item.content for item in expected]

    def test_the_sweep_has_the_given_budget(self, document):
        assert 4000 in [row["budget"] for row in document["sweep"]]

    def test_a_row_of_the_sweep_is_a_run(self, document):
        prepared = presets.chat().prepare(session_items())
        for row in document["sweep"]:
            items = prepared.run(ContextBudget(row["budget"], row["budget"]))
            assert (row["items"], row["tokens"]) == (len(items), sum(item.tokens for item in items))

    @pytest.mark.parametrize(
        "text", ["What each budget selects\n", "█", "would go if the budget were 400 tokens smaller than 4,000"]
    )
    def test_a_chart_is_drawn(self, cupel, session, text):
        assert text in cupel("simulate", session, "--budget", "4000", "--steps", "4").out

    def test_a_budget_the_pins_exceed_is_a_row_with_the_reason(self, cupel, session):
        options = ("--to", "400", "--steps", "4", "--format", "json")
        document = cupel("simulate", session, "--budget", "4000", *options).json
        assert document["sweep"][0]["error"].startswith("Pinned items require 350 tokens")

    def test_a_quota_policy_is_simulated_too(self, cupel, session, folder):
        policy = {"scorer": "recency", "slicer": {"type": "quota", "quotas": [{"kind": "ToolOutput", "cap": 30}]}}
        (folder / "quota.json").write_text(json.dumps(policy))
        outcome = cupel("simulate", session, "--budget", "4000", "--policy", "quota.json", "--format", "json")
        pipeline = policies.from_dict(policy)
        less = set(selected(pipeline, ContextBudget(3600, 3600)))
        assert contents(outcome.json["marginal"]) == [text for text in selected(pipeline) if text not in less]

    def test_a_slack_that_leaves_no_selection_is_said(self, cupel, session):
        out = cupel("simulate", session, "--budget", "400", "--slack", "100").out
        assert "With 100 tokens less there is no selection: Pinned items require 350" in out

    def test_a_slack_that_leaves_no_selection_is_in_the_json(self, cupel, session):
        document = cupel("simulate", session, "--budget", "400", "--slack", "100", "--format", "json").json
        assert document["marginal_error"].startswith("Pinned items require 350")

    def test_a_slack_beyond_the_budget_is_refused(self, cupel, session):
        assert cupel("simulate", session, "--budget", "400", "--slack", "401").code == 2

    def test_an_item_is_named_by_its_number(self, cupel, session):
        outcome = cupel("simulate", session, "--budget", "4000", "--item", "#1", "--format", "json")
        assert outcome.json["item"]["min_budget"] == 350

    @pytest.mark.parametrize(
        ("item", "says"), [("#121", "numbered from #1"), ("absent", "no item starts with this text")]
    )
    def test_an_item_that_does_not_exist_is_named(self, cupel, session, item, says):
        assert says in cupel("simulate", session, "--budget", "4000", "--item", item).err


@pytest.mark.parametrize("term", ["xterm", "dumb"])
@pytest.mark.parametrize(
    ("command", "figures"),
    [("simulate", ["4,000", "28", "3,996"]), ("explain", ["2,891", "0.213"]), ("compare", ["3,994", "99.8 %"])],
)
def test_forty_columns_show_the_numbers(cupel, session, command, figures, term, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = re.sub("\x1b\\[[0-9;]*m", "", cupel(command, session, "--budget", "4000", "--policy", "chat").out)
    table = out.split("\n\n")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 40
    assert all(figure in table for figure in figures)


@pytest.fixture
def relevance(folder):
    """Arguments for two items and a policy that needs a query."""
    (folder / "items.jsonl").write_text(
        '{"content": "The parser is slow.", "tokens": 5}\n{"content": "Lunch is at noon.", "tokens": 5}\n'
    )
    (folder / "policy.toml").write_text('scorer = "relevance"\nslicer = "best_first"\n')
    return ["items.jsonl", "--policy", "policy.toml", "--budget", "5"]


def test_a_query_decides_what_is_relevant(cupel, relevance):
    assert cupel("select", *relevance, "--query", "when is lunch?", "-q").out == "Lunch is at noon.\n"


@pytest.mark.parametrize("command", ["select", "explain", "simulate", "compare", "inspect"])
def test_every_command_that_selects_takes_a_query(cupel, relevance, command):
    more = ["--policy", "chat"] if command in {"compare", "inspect"} else []
    assert cupel(command, *relevance, *more, "--query", "lunch").code == 0


def test_a_policy_that_cannot_do_without_a_query_names_the_option(cupel, relevance):
    outcome = cupel("select", *relevance)
    assert outcome.code == 2
    assert "RelevanceScorer needs a query: pass query=... to the run, or --query to the command" in outcome.err


def test_a_named_policy_that_scores_by_relevance_asks_for_a_query(cupel, session):
    outcome = cupel("select", session, "--budget", "4000", "--policy", "rag")
    assert "note: rag scores by relevance to a query, and there is none: give it with --query" in outcome.err


@pytest.mark.parametrize("arguments", [["--policy", "rag", "--query", "flaky"], []], ids=["query", "default"])
def test_no_query_is_asked_for_where_none_is_missing(cupel, session, arguments):
    assert "note:" not in cupel("select", session, "--budget", "4000", *arguments).err


@pytest.mark.parametrize("command", ["select", "explain", "compare", "simulate"])
def test_a_selection_beyond_the_window_less_the_reserve_is_told(cupel, folder, command):
    """Required items may exceed what the window leaves (ruling 2.23): the command says so, and goes on."""
    (folder / "tools.jsonl").write_text('{"content": "t", "tokens": 300, "kind": "Tool"}\n')
    entries = [{"kind": "Tool", "require_count": 1}]
    (folder / "all.json").write_text(
        json.dumps({"scorer": "recency", "slicer": {"type": "count_quota", "entries": entries}})
    )
    policies_given = ["--policy", "all.json"] + (["--policy", "chat"] if command == "compare" else [])
    for reserve, told in ((200, True), (100, False)):
        budget = ["--budget", "300", "--max", "400", "--reserve", str(reserve)]
        outcome = cupel(command, "tools.jsonl", *budget, *policies_given)
        assert outcome.code == 0
        assert ("leaves 200 after the output reserve" in outcome.err) is told
