"""Requests of generated histories: `CUPEL_FUZZ_COUNT` fits, and a tenth as many conversations, of each format.

Everything follows from a seed: a failure names it, and `history_of(provider, seed)` gives the history again.
`CUPEL_FUZZ_SEED` is the first one.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import warnings
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from cupel import CompositeScorer, KindScorer, OverflowStrategy, Pipeline, RecencyScorer, ReflexiveScorer
from cupel.errors import ConfigurationWarning, CupelError, InvalidItemError
from cupel.messages import MessageSession, PinnedMessagesExceedBudgetError, fit, recall_tool
from cupel.messages._formats import FORMATS
from cupel.slicers import CountQuotaEntry, CountQuotaSlice, KnapsackSlice
from tests.messages.generators import anthropic, bedrock, gemini, openai, responses
from tests.messages.generators.chance import Chance
from tests.messages.provider_rules import Message, has_words, is_models, violations
from tests.messages.request_checks import CHECKS, COUNTER, TOOLS, Request, is_compaction, weigh
from tests.messages.validators.bound import BoundThinking, thought_again

FITS = int(os.environ.get("CUPEL_FUZZ_COUNT", "80"))
CONVERSATIONS = FITS // 10
SEED = int(os.environ.get("CUPEL_FUZZ_SEED", "0"))
FITS_OF_ONE = 5
LONGEST = 8
"""Turns of a generated history."""
GENERATORS = {
    "anthropic": anthropic.history,
    "bedrock": bedrock.history,
    "gemini": gemini.history,
    "openai": openai.history,
    "openai-responses": responses.history,
}
PROVIDERS: list[Any] = sorted(GENERATORS)
POLICIES = (
    None,
    None,
    Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.TRUNCATE),
    Pipeline(scorer=CompositeScorer([(RecencyScorer(), 3), (KindScorer(), 1)]), overflow=OverflowStrategy.TRUNCATE),
    Pipeline(scorer=RecencyScorer(), slicer=KnapsackSlice(5), overflow=OverflowStrategy.TRUNCATE),
    Pipeline(
        scorer=RecencyScorer(),
        slicer=CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 2)]),
        overflow=OverflowStrategy.TRUNCATE,
    ),
)


def history_of(provider: str, seed: int) -> tuple[Chance, list[Message]]:
    """Return the history of a seed, and the source of further choices."""
    chance = Chance(seed)
    return chance, GENERATORS[provider](chance, chance.randint(1, LONGEST))


def alternates(provider: str, chance: Chance) -> bool:
    """Whether roles must alternate; Gemini's never do, as words of the user come after results in their own content."""
    return chance.happens(0.1) and provider != "gemini"


def problems(request: Request) -> Iterator[str]:
    for check in CHECKS:
        if problem := check(request):
            yield f"{check.__name__}: {problem}"


@pytest.mark.parametrize("provider", sorted(GENERATORS))
def test_generated_histories_are_valid(provider: str) -> None:
    for seed in range(SEED, SEED + FITS // FITS_OF_ONE):
        assert violations(provider, history_of(provider, seed)[1]) == [], seed


def with_recall(provider: Any, options: dict[str, Any]) -> list[Any] | None:
    """The tools of a request: with the one that is counted where notes have ids."""
    return [*(options["tools"] or []), recall_tool(provider)] if options["recall"] else options["tools"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_fit_of_a_valid_history_is_a_good_request(provider: Any) -> None:
    found: list[str] = []
    fits = raised = 0
    for seed in range(SEED, SEED + FITS // FITS_OF_ONE):
        chance, history = history_of(provider, seed)
        before, whole = copy.deepcopy(history), weigh(provider, history)
        models = {
            alternate: wrote(provider, history, alternate=alternate) for alternate in (False, provider != "gemini")
        }
        for number in range(FITS_OF_ONE):
            budget = whole * chance.randint(5, 105) // 100
            options: dict[str, Any] = {
                "policy": chance.choice(POLICIES),
                "forms": chance.choice((None, True, False)),
                "notes": chance.happens(0.9),
                "alternate": alternates(provider, chance),
                "tools": TOOLS.get(provider),
                "thinking": chance.choice(("bound", "bound", "loop")),
                "recall": number % 2 == 1,
            }
            fits += 1
            try:
                fitted = fit(history, budget, counter=COUNTER, provider=provider, **options)
            except PinnedMessagesExceedBudgetError:
                raised += 1
                continue
            request = Request(
                provider,
                history,
                before,
                budget,
                fitted,
                alternate=options["alternate"],
                by_policy=options["policy"] is not None,
                cuts=options["forms"] is not False,
                noted=options["notes"],
                thinking=options["thinking"],
                provided=models[options["alternate"]],
                tools=with_recall(provider, options),
            )
            found += [f"seed {seed}, fit {number}, {budget} tokens: {problem}" for problem in problems(request)]
    print(f"{provider}: {fits} fits, {raised} too small, {len(found)} problems")
    assert found == []


def wrote(provider: Any, history: list[Message], *, alternate: bool) -> BoundThinking:
    """Return a provider that was sent the history before each answer in it, as it is when it fits."""
    model = BoundThinking(provider)
    whole = fit(history, 10**9, provider=provider, tools=TOOLS.get(provider), alternate=alternate)
    model.write([], whole.messages)
    return model


def broken(chance: Chance, history: list[Message]) -> list[Message]:
    """A history of which messages were lost, sent twice or swapped; Anthropic's never begin with a system message."""
    found = list(history)
    for _ in range(chance.randint(1, 3)):
        one, other = (chance.randrange(len(found)) for _ in range(2))
        if chance.happens(0.3) and len(found) > 1:
            del found[one]
        elif chance.happens(0.5):
            found.insert(other, copy.deepcopy(found[one]))
        else:
            found[one], found[other] = found[other], found[one]
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_fit_of_a_broken_history_is_accepted(provider: Any) -> None:
    found: list[str] = []
    for seed in range(SEED, SEED + FITS // FITS_OF_ONE):
        chance, history = history_of(provider, seed)
        history = broken(chance, history)
        if provider == "anthropic" and history[0]["role"] == "system":
            continue
        budget = weigh(provider, history) * chance.randint(10, 105) // 100
        try:
            with warnings.catch_warnings(record=True) as warned:  # of breakpoints that are there twice
                warnings.simplefilter("always", ConfigurationWarning)
                fitted = fit(history, budget, counter=COUNTER, provider=provider, tools=TOOLS.get(provider))
        except PinnedMessagesExceedBudgetError:
            continue
        except InvalidItemError as error:
            if "must hold something to send" not in str(error) and (
                provider != "gemini" or "call without its result" not in str(error)
            ):
                raise
            continue
        wrong = violations(provider, fitted.messages, history)
        told = "at most 4 cache points" if warned else "\n"
        found += [f"seed {seed}: {problem}" for problem in wrong if not problem.startswith(told)]
    assert found == []


def misshapen(chance: Chance, history: list[Message]) -> list[Message]:
    """A history in which one value is missing, null, empty or of another type."""
    found = copy.deepcopy(history)
    holder, key = chance.choice(list(values(found)))
    given = holder.pop(key)
    wrong = (None, "", [], {}, 7, json.dumps(given, default=repr), {"text": given})
    if chance.happens(0.8):
        holder[key] = chance.choice(wrong)
    return found


def values(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every object in a value with each of its keys."""
    if isinstance(value, dict):
        yield from ((value, key) for key in value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from values(inner)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_misshapen_history_is_an_error_or_nothing_of_it_is_lost_in_silence(
    provider: Any, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[str] = []
    for seed in range(SEED, SEED + FITS // 2):
        chance, history = history_of(provider, seed)
        history = misshapen(chance, history)
        caplog.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                fitted = fit(history, 10**9, counter=COUNTER, provider=provider, tools=TOOLS.get(provider))
            except (CupelError, TypeError):
                continue
        lost = [unit for unit in fitted.dropped if str(unit.item.kind) != "SystemPrompt"]
        start = max((at for at, message in enumerate(history) if is_compaction(message)), default=0)
        lost = [unit for unit in lost if unit.positions[-1] >= start]
        lost = [unit for unit in lost if not is_open(provider, [history[at] for at in unit.positions])]
        told = sum(int(note.split()[1]) for note in fitted.notes)
        if not warned and not caplog.records and told < len(lost):
            found.append(f"seed {seed}: {told} of {len(lost)}: {lost[-1].positions}, {lost[-1].reason}")
    assert found == []


def is_open(provider: str, messages: list[Message]) -> bool:
    """Whether messages are a call that waits for its results, or an answer that nothing follows."""
    return all(is_models(provider, message) for message in messages)


@pytest.mark.parametrize(("provider", "other"), list(permutations(PROVIDERS, 2)))
def test_a_history_in_another_providers_format_is_an_error(provider: Any, other: Any) -> None:
    for seed in range(SEED, SEED + FITS // 20):
        _, history = history_of(provider, seed)
        with contextlib.suppress(CupelError, ConfigurationWarning, TypeError):
            fitted = fit(history, 10**9, counter=COUNTER, provider=other, tools=TOOLS.get(other))
            assert not fitted.omitted, seed
            assert violations(other, fitted.messages) == [], seed


class Conversation:
    """A session over a history that grows by what happens between two requests, and is cut back now and then."""

    def __init__(self, provider: Any, seed: int) -> None:
        self.provider = provider
        self.chance, self.history = history_of(provider, seed)
        self.alternate = alternates(provider, self.chance)
        self.budget = weigh(provider, self.history) * self.chance.randint(10, 110) // 100
        self.thinking = self.chance.choice(("bound", "bound", "loop"))
        self.options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "alternate": self.alternate}
        self.options |= {"tools": TOOLS.get(provider), "thinking": self.thinking, "recall": seed % 2 == 1}
        self.model = BoundThinking(provider, TOOLS.get(provider))
        self.session = MessageSession[Any](self.budget, **self.options)
        self.seen = 0
        """Messages of the last history."""
        self.last: list[Message] = []
        self.turns = 0

    def run(self) -> Iterator[str]:
        end, returns = 0, 2
        while end < len(self.history):
            end += 1
            history = self.history[:end]
            # what a model thinks is bound to the request that it answers, so there must be one before each answer
            if not self.asks(history) or (self.thinking == "loop" and self.chance.happens(0.2)):
                continue
            yield from (f"turn at {end}: {problem}" for problem in self.turn(history))
            yield from (f"turn at {end}: {problem}" for problem in self.shrunken(end))
            if returns and self.chance.happens(0.05):
                returns, end = returns - 1, self.go_back(end)

    def asks(self, history: list[Message]) -> bool:
        """Whether the model is asked at the end of a history."""
        if not history or is_models(self.provider, history[-1]):
            return False
        return violations(self.provider, history) == []

    def go_back(self, end: int) -> int:
        """Return an earlier end of the history, from which on the model answers anew."""
        back = self.chance.choice([at for at in range(1, end + 1) if self.asks(self.history[:at])])
        answers = [thought_again(self.provider, message, end) for message in self.history[back:]]
        self.history = [*self.history[:back], *answers]
        return back - 1

    def shrunken(self, end: int) -> Iterator[str]:
        """Pass a history that lost its beginning to a copy, shorter than the last one or with new messages."""
        start = self.chance.randint(1, end)
        found = self.history[start : end + self.chance.choice((0, start))]
        same = FORMATS[self.provider].normal
        if self.seen != end or not self.asks(found) or same(found[0]) == same(self.history[0]):
            return
        with contextlib.suppress(CupelError):
            turn = self.session.copy().fit(found)
            if not turn.explain().startswith("Warning: the history has"):
                yield f"no warning of {len(found)} messages that lost {start} of {end} before them"

    def turn(self, history: list[Message]) -> Iterator[str]:
        self.turns += 1
        before = copy.deepcopy(history)
        if self.chance.happens(0.1):
            self.budget = self.budget * self.chance.choice((80, 100, 100, 130)) // 100
            if self.options["tools"] and self.chance.happens(0.3):
                self.options["tools"] = self.model.opening = [*self.options["tools"], *TOOLS[self.provider]]
            self.session = MessageSession[Any].from_json(self.session.to_json(), self.budget, **self.options)
        self.model.write(self.last, history[self.seen :])
        is_shorter = len(history) < self.seen
        try:
            turn = self.session.fit(history)
        except PinnedMessagesExceedBudgetError:
            if (once := self.once(history)) is not None:
                yield f"a session raises where a fit does not: {once.total_tokens}"
            return
        request = Request(
            self.provider,
            history,
            before,
            self.budget,
            turn,
            alternate=self.alternate,
            thinking=self.thinking,
            provided=self.model,
            tools=with_recall(self.provider, self.options),
        )
        yield from problems(request)
        if bool(turn.warning) != is_shorter and len(history) != self.seen:  # one of the same length may begin anew
            yield f"the warning {turn.warning!r}, after {self.seen} messages"
        if lost := [at for at in self.new_words(history) if at not in request.kept]:
            once = self.once(history)
            lost = [at for at in lost if once is not None and at in once.positions]
            yield from [f"new words are lost: {lost}"] if lost else []
        if marked := violations(self.provider, turn.marked(), history, self.thinking):
            yield f"with breakpoints: {marked[0]}"
        if turn.messages == self.last and len(history) > self.seen:
            yield "the last request once more"
        if min(turn.bill.read, turn.bill.rewritten, turn.bill.new) < 0:
            yield f"a bill with less than nothing: {turn.bill}"
        self.seen = len(history)
        self.last = turn.messages
        if self.chance.happens(0.5):
            self.session.observe({"prompt_tokens": turn.total_tokens})

    def once(self, history: list[Message]) -> Any:
        try:
            return fit(history, self.budget, **self.options)
        except PinnedMessagesExceedBudgetError:
            return None

    def new_words(self, history: list[Message]) -> list[int]:
        return [at for at in range(self.seen, len(history)) if has_words(self.provider, history[at])]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_turn_of_a_valid_conversation_is_a_good_request(provider: Any) -> None:
    found: list[str] = []
    turns = 0
    for seed in range(SEED, SEED + CONVERSATIONS):
        conversation = Conversation(provider, seed)
        found += [f"seed {seed}, {problem}" for problem in conversation.run()]
        turns += conversation.turns
    print(f"{provider}: {CONVERSATIONS} conversations, {turns} turns, {len(found)} problems")
    assert found == []


def chat(provider: str, chance: Chance, turns: int) -> list[Message]:
    """Return a chat without tools that ends with a question."""
    answers = "model" if provider == "gemini" else "assistant"
    roles = [role for _ in range(turns) for role in ("user", answers)][:-1]
    texts = [f"{number}: {chance.words(chance.choice((20, 80)))}" for number in range(len(roles))]
    if provider.startswith("openai") or provider == "anthropic":
        return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    name = "parts" if provider == "gemini" else "content"
    return [{"role": role, name: [{"text": text}]} for role, text in zip(roles, texts, strict=True)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_chat_without_tools_appends_on_three_turns_of_four(provider: Any) -> None:
    """Its words are told of in notes, and a provider without a cache is no reason to cut it more often."""
    for seed in range(SEED, SEED + max(1, FITS // 80)):
        chance = Chance(seed)
        history = chat(provider, chance, 80)
        budget = chance.choice((2000, 3000))
        session = MessageSession[Any](budget, provider=provider, counter=COUNTER, tools=TOOLS.get(provider))
        cuts = turns = 0
        for end in range(1, len(history) + 1, 2):
            now = history[:end]
            turn = session.fit(now)
            session.observe({"prompt_tokens": turn.total_tokens, "prompt_tokens_details": {"cached_tokens": 0}})
            turns += weigh(provider, now) > budget
            if turn.action == "cut":
                cuts += 1
                request = Request(provider, now, copy.deepcopy(now), budget, turn, provided=BoundThinking(provider))
                assert list(problems(request)) == [], (seed, end)
        assert 0 < 4 * cuts <= turns, seed
