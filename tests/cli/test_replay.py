"""`cupel replay`: a table, JSON and limits."""

import json

import pytest

from cupel.messages import default_prices
from tests.evaluation import recordings

PRICES = ("marked", "automatic")


@pytest.fixture
def sessions(folder):
    folder.joinpath("sessions.jsonl").write_text(json.dumps({"session": "parcels", "messages": recordings.chat()}))


def test_the_strategies_are_compared_side_by_side(cupel, sessions):
    done = cupel("replay", "sessions.jsonl", "--budget", "900")
    assert done.code == 0
    assert "Words are compared as they are written" in done.out
    assert "\ntail            the newest messages" in done.out
    assert [line.split()[0] for line in done.out.splitlines()[2:6]] == ["everything", "tail", "fit", "session"]
    document = cupel("replay", "sessions.jsonl", "--budget", "900", "--strategy", "fit", "--format", "json").json
    (strategy,) = document["strategies"]
    assert strategy["name"] == "fit"
    assert strategy["turns"] == sum(turn["pressed"] for turn in strategy["each_turn"])


def test_the_reach_of_ids_is_measured_where_the_session_writes_them(cupel, sessions):
    session = ("replay", "sessions.jsonl", "--budget", "900", "--strategy", "session")
    without, with_ids = cupel(*session), cupel(*session, "--recall")
    assert "reach" not in without.out
    assert with_ids.out.splitlines()[1].split()[-2:] == ["reach", "over"]
    assert with_ids.out.splitlines()[2].split()[-2:] == ["100.0%", "0"]


def test_policies_are_ways_to_fit(cupel, sessions):
    done = cupel("replay", "sessions.jsonl", "--budget", "900", "--policy", "chat", "--policy", "rag")
    for strategy in ("fit every turn (chat)", "fit every turn (rag)", "session (chat)", "session (rag)"):
        assert strategy in done.out


def test_a_policy_that_asks_for_a_query_gets_the_newest_user_message(cupel, sessions, folder):
    folder.joinpath("found.json").write_text('{"scorer": {"type": "relevance", "stem": false}}')
    done = cupel("replay", "sessions.jsonl", "--budget", "900", "--policy", "found.json")
    assert done.code == 0
    assert "fit every turn (found)" in done.out


def test_prices_are_mechanisms(cupel, sessions):
    strategy = ("--strategy", "everything", "--format", "json")
    prices = [cupel("replay", "sessions.jsonl", "--budget", "900", "--prices", name, *strategy) for name in PRICES]
    marked, automatic = (done.json["strategies"][0]["price"] for done in prices)
    assert marked < automatic  # beginnings of less than 1,024 tokens are not served


def test_prices_are_those_of_the_provider_unless_given(cupel, sessions):
    found = cupel("replay", "sessions.jsonl", "--budget", "900", "--strategy", "everything", "--format", "json").json
    own = default_prices("openai")
    assert found["prices"] == {"read": own.read, "write": own.write}


@pytest.mark.parametrize(
    ("limit", "code"),
    [(("--fail-above", "1e6"), 0), (("--fail-above", "10"), 1), (("--fail-below", "0"), 0), (("--fail-below", "1"), 1)],
)
def test_a_broken_limit_is_exit_code_1(cupel, sessions, limit, code):
    done = cupel("replay", "sessions.jsonl", "--budget", "500", *limit)
    assert done.code == code
    assert ("cupel replay: session" in done.err) is bool(code)
    assert "cupel replay: fit" not in done.err


def test_a_way_without_any_request_breaks_the_limit_on_the_price(cupel, sessions):
    done = cupel("replay", "sessions.jsonl", "--budget", "20", "--strategy", "fit", "--fail-above", "1e6")
    assert done.code == 1
    assert "fit has no request" in done.out
    assert "the pinned messages need" in done.out


def test_a_budget_that_nothing_exceeds_is_said(cupel, sessions):
    assert "nothing is left out" in cupel("replay", "sessions.jsonl", "--budget", "1m").out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "a conversation is a list"),
        ('[{"role": "user", "content": "x"}]', "no step to replay"),
        ("", "not valid"),
    ],
)
def test_files_that_cannot_be_used_are_exit_code_2(cupel, folder, text, message):
    folder.joinpath("bad.json").write_text(text)
    done = cupel("replay", "bad.json", "--budget", "10")
    assert done.code == 2
    assert message in done.err


def test_overrides_need_a_policy(cupel, sessions):
    done = cupel("replay", "sessions.jsonl", "--budget", "900", "--set", "slicer=knapsack")
    assert done.code == 2
    assert "--policy" in done.err


def test_the_page_of_the_turns(cupel, sessions, folder):
    done = cupel("replay", "sessions.jsonl", "--budget", "900", "--page", "turns.html")
    assert done.code == 0
    assert "wrote turns.html" in done.err
    assert "parcels" in folder.joinpath("turns.html").read_text(encoding="utf-8")


def test_inspect_shows_a_conversation_turn_by_turn(cupel, folder):
    folder.joinpath("chat.json").write_text(json.dumps(recordings.chat()))
    page = cupel("inspect", "chat.json", "--budget", "900", "--format", "json").json
    assert page["turns"]["strategies"] == [
        "everything",
        "tail",
        "fit every turn",
        "session",
    ]
    assert len(page["turns"]["conversations"][0]["steps"]) == 12
    named = cupel(
        "inspect", "chat.json", "--budget", "900", "--policy", "chat", "--tokens", "chars", "--format", "json"
    )
    assert named.json["turns"] != page["turns"]


def test_inspect_counts_the_system_prompt_and_the_tools_of_a_request(cupel, folder):
    chat = {"messages": recordings.chat()}
    folder.joinpath("bare.json").write_text(json.dumps(chat))
    folder.joinpath("full.json").write_text(json.dumps({**chat, "system": "Be brief. " * 9}))
    bare, full = (
        cupel("inspect", name, "--budget", "9000", "--format", "json").json["turns"]["conversations"][0]
        for name in ("bare.json", "full.json")
    )
    assert bare["strategies"][0][0]["sent"] < full["strategies"][0][0]["sent"]
    assert [row["role"] for row in full["opening"]] == ["system"]


def test_without_tools_every_answer_is_a_turn(cupel, folder):
    talk = [{"role": role, "content": f"{role} {n} " * 40} for n in range(9) for role in ("user", "assistant")]
    folder.joinpath("chat.json").write_text(json.dumps(talk))
    turns = cupel("inspect", "chat.json", "--budget", "900", "--format", "json").json["turns"]
    assert turns["conversations"][0]["steps"] == list(range(1, 18, 2))
    assert all("used" not in turn for turn in turns["conversations"][0]["strategies"][3])


def test_inspect_has_no_turns_where_the_model_never_speaks(cupel, folder):
    folder.joinpath("chat.json").write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    assert "turns" not in cupel("inspect", "chat.json", "--budget", "900", "--format", "json").json


def test_inspect_names_the_command_for_the_turns_of_a_very_long_conversation(cupel, folder, monkeypatch):
    monkeypatch.setattr("cupel.cli._pages._MOST_MESSAGES", 10)
    folder.joinpath("chat.json").write_text(json.dumps(recordings.chat()))
    done = cupel("inspect", "chat.json", "--budget", "900", "--format", "json")
    assert "turns" not in done.json
    assert "cupel replay chat.json --budget 900 --page" in done.err


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "cheap"])
def test_a_limit_that_nothing_breaks_is_refused(cupel, sessions, value):
    outcome = cupel("replay", "sessions.jsonl", "--budget", "500", f"--fail-above={value}")
    assert outcome.code == 2
    assert "expected a number, zero or more" in outcome.err


@pytest.mark.parametrize("strategy", ["everything", "tail"])
def test_without_a_session_or_fit_the_limit_holds_for_the_other_ways(cupel, sessions, strategy):
    outcome = cupel("replay", "sessions.jsonl", "--budget", "500", "--strategy", strategy, "--fail-above", "1")
    assert outcome.code == 1
    assert f"cupel replay: {strategy} costs" in outcome.err


def test_the_tail_is_held_to_the_facts_it_keeps(cupel, sessions):
    outcome = cupel("replay", "sessions.jsonl", "--budget", "500", "--strategy", "tail", "--fail-below", "100%")
    assert outcome.code == 1
    assert "cupel replay: tail keeps" in outcome.err


@pytest.mark.parametrize(("limit", "value"), [("--fail-above", "1e9"), ("--fail-below", "0")])
def test_a_limit_that_cannot_be_judged_is_broken(cupel, sessions, limit, value):
    outcome = cupel("replay", "sessions.jsonl", "--budget", "1m", limit, value)
    assert outcome.code == 1
    assert f"cupel replay: {limit} cannot be judged" in outcome.err


@pytest.mark.parametrize(
    "message",
    [{"role": "user", "content": [1]}, {"role": "user", "content": {"a": 1}}, 7, {"role": 3}, {"content": []}],
)
def test_a_malformed_conversation_is_named_with_its_file(cupel, folder, message):
    rows = [{"id": "fine", "messages": recordings.chat()}, {"id": "odd", "messages": [*recordings.chat(), message]}]
    folder.joinpath("odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = cupel("replay", "odd.jsonl", "--budget", "500", "-q")
    assert outcome.code == 2
    assert "odd.jsonl:2" in outcome.err
