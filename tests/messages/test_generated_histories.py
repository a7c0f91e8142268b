"""Requests of generated histories: `CUPEL_FUZZ_COUNT` fits, and a tenth as many conversations, of each format.

Everything follows from a seed: a failure names it, and `history_of(provider, seed)` gives the history again.
`CUPEL_FUZZ_SEED` is the first one.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest

from cupel import CompositeScorer, KindScorer, OverflowStrategy, Pipeline, RecencyScorer, ReflexiveScorer
from cupel.errors import InvalidItemError
from cupel.messages import MessageSession, PinnedMessagesExceedBudgetError, fit
from cupel.slicers import CountQuotaEntry, CountQuotaSlice, KnapsackSlice
from tests.messages.generators import anthropic, bedrock, gemini, openai, responses
from tests.messages.generators.chance import Chance
from tests.messages.provider_rules import Message, has_words, is_models, violations
from tests.messages.request_checks import CHECKS, COUNTER, TOOLS, Request, weigh
from tests.messages.validators.bound import BoundThinking

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


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_fit_of_a_valid_history_is_a_good_request(provider: Any) -> None:
    found: list[str] = []
    fits = raised = 0
    for seed in range(SEED, SEED + FITS // FITS_OF_ONE):
        chance, history = history_of(provider, seed)
        before, whole = copy.deepcopy(history), weigh(provider, history)
        for number in range(FITS_OF_ONE):
            budget = whole * chance.randint(5, 105) // 100
            options: dict[str, Any] = {
                "policy": chance.choice(POLICIES),
                "forms": chance.choice((None, True, False)),
                "notes": chance.happens(0.9),
                "alternate": alternates(provider, chance),
                "tools": TOOLS.get(provider),
                "thinking": chance.choice(("bound", "bound", "loop")),
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
                provided=wrote(provider, history, alternate=options["alternate"]),
            )
            found += [f"seed {seed}, fit {number}, {budget} tokens: {problem}" for problem in problems(request)]
    print(f"{provider}: {fits} fits, {raised} too small, {len(found)} problems")
    assert found == []


def wrote(provider: Any, history: list[Message], *, alternate: bool) -> BoundThinking:
    """Return a provider that was sent the history before each answer in it, merged where roles must alternate."""
    model = BoundThinking(provider)
    whole = fit(history, 10**9, provider=provider, tools=TOOLS.get(provider), alternate=True) if alternate else None
    model.write([], history if whole is None else whole.messages)
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
            fitted = fit(history, budget, counter=COUNTER, provider=provider, tools=TOOLS.get(provider))
        except PinnedMessagesExceedBudgetError:
            continue
        except InvalidItemError as error:
            if provider != "gemini" or "call without its result" not in str(error):
                raise
            continue
        if fitted.messages:
            found += [f"seed {seed}: {problem}" for problem in violations(provider, fitted.messages, history)]
    assert found == []


class Conversation:
    """A session over a history that grows by what happens between two requests."""

    def __init__(self, provider: Any, seed: int) -> None:
        self.provider = provider
        self.chance, self.history = history_of(provider, seed)
        self.alternate = alternates(provider, self.chance)
        self.budget = weigh(provider, self.history) * self.chance.randint(10, 110) // 100
        self.thinking = self.chance.choice(("bound", "bound", "loop"))
        self.options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "alternate": self.alternate}
        self.options |= {"tools": TOOLS.get(provider), "thinking": self.thinking}
        self.model = BoundThinking(provider, TOOLS.get(provider))
        self.written = 0
        self.session = MessageSession[Any](self.budget, **self.options)
        self.seen = 0
        self.last: list[Message] = []
        self.turns = 0

    def run(self) -> Iterator[str]:
        for end in range(1, len(self.history) + 1):
            history = self.history[:end]
            asks = not is_models(self.provider, history[-1]) and violations(self.provider, history) == []
            # what a model thinks is bound to the request that it answers, so there must be one before each answer
            if asks and (self.thinking == "bound" or self.chance.happens(0.8)):
                yield from (f"turn at {end}: {problem}" for problem in self.turn(history))

    def turn(self, history: list[Message]) -> Iterator[str]:
        self.turns += 1
        before = copy.deepcopy(history)
        if self.chance.happens(0.1):
            self.budget = self.budget * self.chance.choice((80, 100, 100, 130)) // 100
            self.session = MessageSession[Any].from_json(self.session.to_json(), self.budget, **self.options)
        self.model.write(self.last, history[self.written :])
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
        )
        yield from problems(request)
        if lost := [at for at in self.new_words(history) if at not in request.kept]:
            once = self.once(history)
            lost = [at for at in lost if once is not None and at in once.positions]
            yield from [f"new words are lost: {lost}"] if lost else []
        if marked := violations(self.provider, turn.marked(), history, self.thinking):
            yield f"with breakpoints: {marked[0]}"
        if turn.messages == self.last:
            yield "the last request once more"
        self.seen = self.written = len(history)
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


def test_a_step_that_goes_on_in_a_shorter_form_costs_nothing_new_rather_than_less() -> None:
    conversation = Conversation("openai-responses", 1253)  # its bill had a negative number of new tokens
    assert list(conversation.run()) == []
    total = conversation.session.total
    assert min(total.read, total.rewritten, total.new) >= 0
