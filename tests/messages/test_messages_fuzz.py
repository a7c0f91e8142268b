"""Whatever the history and the budget, the provider would accept what `fit` returns, and nothing in it was altered.

`CUPEL_FUZZ_CASES` sets how many fits are checked; without it the same 1,500 are checked every time.
"""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cupel import CompositeScorer, ContextBudget, KindScorer, OverflowStrategy, Pipeline, RecencyScorer, ReflexiveScorer
from cupel.diagnostics import Filtered
from cupel.errors import InvalidItemError
from cupel.messages import (
    Fitted,
    Framework,
    MessageSession,
    PinnedMessagesExceedBudgetError,
    fit,
    from_items,
    to_items,
)
from cupel.messages._notes import cleaned
from cupel.shorten import head_tail
from cupel.slicers import CountQuotaEntry, CountQuotaSlice, KnapsackSlice
from cupel.tokens import CharacterEstimate
from tests.messages.chat import EVERYTHING, format_of
from tests.messages.histories import BY_PROVIDER
from tests.messages.provider_rules import (
    alternation,
    programs_kept_whole,
    reasoning_kept_together,
    unseen,
    violations,
)
from tests.messages.validators.bound import without_thinking

CASES = int(os.environ.get("CUPEL_FUZZ_CASES", "1500"))
"""How many fits are checked, over all providers; each history is fitted into `BUDGETS` budgets."""
BUDGETS = 10
POLICIES = (
    Pipeline(scorer=ReflexiveScorer(), overflow=OverflowStrategy.TRUNCATE),
    Pipeline(scorer=CompositeScorer([(RecencyScorer(), 3), (KindScorer(), 1)]), overflow=OverflowStrategy.TRUNCATE),
    Pipeline(scorer=RecencyScorer(), slicer=KnapsackSlice(5), overflow=OverflowStrategy.TRUNCATE),
    Pipeline(
        scorer=RecencyScorer(),
        slicer=CountQuotaSlice([CountQuotaEntry("ToolOutput", 1, 2)]),
        overflow=OverflowStrategy.TRUNCATE,
    ),
)
COUNTER = CharacterEstimate()


def budgets(messages: list[Any], provider: str) -> list[int | ContextBudget]:
    """Nothing, everything, the least that is possible and one less, and steps between."""
    everything = fit(messages, 10**9, counter=COUNTER, provider=provider).total_tokens
    try:
        fit(messages, 0, counter=COUNTER, provider=provider, forms=False)
        least = 0
    except PinnedMessagesExceedBudgetError as error:
        least = error.pinned_tokens
    steps = [least + (everything - least) * step // 5 for step in range(1, 5)]
    with_reserve = ContextBudget(everything + 50, everything, output_reserve=50, estimation_safety_margin_percent=10.0)
    return [0, max(0, least - 1), least, *steps, max(0, everything - 1), everything, with_reserve]


class Expectation:
    """What must hold for every fit of one history."""

    def __init__(self, provider: str, messages: list[Any], forms: Any = None) -> None:
        self.provider, self.forms = provider, forms
        self.messages = messages
        self.snapshot = copy.deepcopy(messages)
        self.positions = {id(message): position for position, message in enumerate(messages)}
        sendable = [m for m in messages if not violations(provider, [m], messages)]
        self.users = [m for m in sendable if m.get("role") == "user"]
        self.must = [m for m in sendable if m.get("role") in ("system", "developer")]
        # Of a broken history nobody can say which results are waited for; its last message is, if the user wrote it.
        self.whole = not violations(provider, messages)
        self.must += unseen(provider, messages) if self.whole else [m for m in self.users if m is messages[-1]]

    def check(self, budget: int | ContextBudget, policy: Pipeline | None, pins: frozenset[int]) -> None:
        def pin(message: Any) -> bool:
            return self.positions[id(message)] in pins

        try:
            fitted = fit(
                self.messages,
                budget,
                policy,
                COUNTER,
                provider=self.provider,
                pin=pin,
                forms=self.forms,
                thinking="loop",
            )
        except PinnedMessagesExceedBudgetError as error:
            self.check_error(error, budget if isinstance(budget, int) else budget.max_tokens - budget.output_reserve)
            return
        self.check_messages(fitted, cut=self.forms is None)
        report = fitted.report
        assert report.total_candidates == len(report.included) + len(report.excluded)
        assert fitted.total_tokens == sum(entry.item.tokens for entry in report.included)
        target = budget if isinstance(budget, int) else budget.target_tokens
        pinned = sum(entry.item.tokens for entry in report.included if entry.item.pinned)
        assert fitted.total_tokens <= max(target, pinned)

    @staticmethod
    def check_error(error: PinnedMessagesExceedBudgetError, available: int) -> None:
        assert error.available_tokens == available < error.pinned_tokens
        assert error.pinned_tokens == sum(tokens for _, tokens in error.parts)

    def check_messages(self, fitted: Fitted[Any], cut: bool = False) -> None:
        assert self.messages == self.snapshot, "the input was altered"
        kept = positions_kept(fitted, self.messages)
        check_sources(without_notes(fitted.messages), [self.messages[at] for at in kept], cut)
        if fitted.messages:
            assert violations(self.provider, fitted.messages, self.messages) == []
        else:
            assert not self.users, "a user message could have been sent"
        sources = [self.messages[at] for at in kept]
        if self.provider == "openai-responses":
            assert reasoning_kept_together(sources, self.messages) == []
            assert not self.whole or programs_kept_whole(sources, self.messages) == []
        assert all(self.positions[id(message)] in kept for message in self.must), "a pinned message is missing"


def positions_kept(fitted: Fitted[Any], messages: list[Any]) -> list[int]:
    dropped = [position for unit in fitted.dropped for position in unit.positions]
    assert len(set(dropped)) == len(dropped), "a message was dropped twice"
    return [position for position in range(len(messages)) if position not in dropped]


def without_notes(messages: list[Any]) -> list[Any]:
    """The messages of a request, notes removed."""
    return [bare for message in messages if (bare := cleaned(message, format_of(message), EVERYTHING)) is not None]


def as_sent(message: Any, own: Any) -> Any:
    """Return the caller's message, without its thinking where that is bound to another prefix and was removed."""
    bare = without_thinking("anthropic", own)
    return bare if bare != own and without_thinking("anthropic", message) == message else own


def check_sources(messages: list[Any], sources: list[Any], cut: bool) -> None:
    """Every message is the caller's own, or a copy without empty lists; with `cut`, or a copy with shorter outputs."""
    assert len(messages) == len(sources)
    for message, source in zip(messages, sources, strict=True):
        own = as_sent(message, source)
        if cut and own not in (message, {**message, "tool_calls": []}):
            assert skeleton(message, ("outputs", "prose")) == skeleton(own, ("outputs", "prose"))
        else:
            assert own in (message, {**message, "tool_calls": []}), "neither the message nor a mended copy"


def test_what_a_framework_gets_suits_every_model() -> None:
    """Frameworks translate one history for any provider: paired as OpenAI wants it, with ends as Anthropic does."""
    plain: Framework[Any] = Framework(dict, list, dict)

    @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(BY_PROVIDER["openai"])
    def run(messages: list[Any]) -> None:
        for budget in (15, 60, 300, 10**6):
            try:
                fitted = plain.fit(messages, budget, counter=COUNTER)
            except PinnedMessagesExceedBudgetError:
                continue
            sent = [m if m.get("tool_calls") != [] else {**m, "tool_calls": None} for m in fitted.messages]
            assert not sent or violations("openai", sent) == [], "the framework itself leaves empty lists out"
            talk = [message for message in fitted.messages if message["role"] not in ("system", "developer")]
            assert not talk or talk[0]["role"] == "user"
            assert not talk or talk[-1]["role"] != "assistant" or talk[-1] is messages[-1]

    run()


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_every_budget_gives_a_request_the_provider_accepts(provider: str) -> None:
    cases = 0

    @settings(
        max_examples=-(-CASES // len(BY_PROVIDER) // BUDGETS),
        deadline=None,
        derandomize="CUPEL_FUZZ_CASES" not in os.environ,  # the everyday run is the same every day
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        BY_PROVIDER[provider],
        st.sampled_from(POLICIES),
        st.frozensets(st.integers(0, 12), max_size=2),
        st.sampled_from((None, False)),
    )
    def run(messages: list[Any], policy: Pipeline, pins: frozenset[int], forms: Any) -> None:
        nonlocal cases
        expectation = Expectation(provider, messages, forms)
        if not violations(provider, messages):
            assert fit(messages, 10**9, counter=COUNTER, provider=provider).messages == messages, "legal, yet not kept"
        for number, budget in enumerate(budgets(messages, provider)):
            expectation.check(budget, policy if number % 2 else None, pins if number % 3 else frozenset())
            cases += 1

    run()
    print(f"{provider}: {cases} cases")


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_with_every_option_the_request_is_accepted(provider: str) -> None:
    """Alternation is strict where it is asked for, and system messages that compete or expire leave nothing behind."""

    @settings(
        max_examples=-(-CASES // len(BY_PROVIDER) // 20),
        deadline=None,
        derandomize="CUPEL_FUZZ_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(BY_PROVIDER[provider], st.sampled_from(("keep", "compete", 0, 1, 2)), st.booleans())
    def run(messages: list[Any], system_messages: Any, alternate: bool) -> None:
        options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "system_messages": system_messages}
        try:
            everything = fit(messages, 10**9, alternate=alternate, **options)
        except InvalidItemError:
            return
        for share in (100, 70, 30):
            budget = everything.total_tokens * share // 100
            try:
                fitted = fit(messages, budget, alternate=alternate, **options)
            except PinnedMessagesExceedBudgetError:
                continue
            assert not fitted.messages or violations(provider, fitted.messages, messages) == []
            assert not alternate or alternation(provider, fitted.messages) == []
        del options["counter"]
        items = to_items(messages, COUNTER, alternate=alternate, **options)
        halved = from_items(items[::2], messages, alternate=alternate, **options)
        assert not halved or violations(provider, halved, messages) == []

    run()


def longer(message: Any) -> Any:
    """A message whose texts are long."""
    fmt = format_of(message)
    texts = [text * (4000 // max(len(text), 1)) for text in fmt.texts_in(message, ("outputs", "prose"))]
    return fmt.with_texts(message, texts, ("outputs", "prose"))


def skeleton(message: Any, parts: tuple[str, ...]) -> Any:
    """A message without the texts of these parts."""
    fmt = format_of(message)
    empty = fmt.with_texts(message, [""] * len(fmt.texts_in(message, parts)), parts)
    bare: dict[str, Any] = json.loads(json.dumps(empty))
    if bare.get("tool_calls") == []:  # which may not be sent
        del bare["tool_calls"]
    return bare


def check_shortened(fitted: Fitted[Any], history: list[Any]) -> None:
    kept = positions_kept(fitted, history)
    for message, position in zip(without_notes(fitted.messages), kept, strict=True):
        own = as_sent(message, history[position])
        if position in fitted.shortened:
            assert message != own
            assert own.get("role") not in ("system", "developer")
            # Outputs may be cut, and the words of the user where nothing else helps.
            allowed = ("outputs", "prose") if own.get("role") == "user" else ("outputs",)
            assert skeleton(message, allowed) == skeleton(own, allowed)
        else:
            assert own in (message, {**message, "tool_calls": []})


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_with_shorter_forms_the_request_is_accepted_and_nothing_of_the_callers_is_altered(provider: str) -> None:
    shortened = 0

    @settings(
        max_examples=-(-CASES // len(BY_PROVIDER) // 3),
        deadline=None,
        derandomize="CUPEL_FUZZ_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(BY_PROVIDER[provider], st.integers(10, 100), st.sampled_from((True, head_tail)), st.sampled_from(POLICIES))
    def run(messages: list[Any], share: int, forms: Any, policy: Pipeline) -> None:
        nonlocal shortened
        history = [longer(message) for message in messages]
        snapshot = copy.deepcopy(history)
        options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "thinking": "loop"}
        try:
            budget = fit(history, 10**9, **options).total_tokens * share // 100
        except InvalidItemError:  # nothing of it can be sent
            return
        try:
            fitted = fit(history, budget, policy if share % 2 else None, forms=forms, **options)
        except PinnedMessagesExceedBudgetError:
            return
        assert history == snapshot
        assert not fitted.messages or violations(provider, fitted.messages, history) == []
        assert fitted.total_tokens == sum(entry.item.tokens for entry in fitted.report.included) <= budget
        assert len(fitted.shortened) == 0 or share < 100
        check_shortened(fitted, history)
        shortened += len(fitted.shortened)

    run()
    assert shortened


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_notes_count_the_steps_that_a_request_leaves_out(provider: str) -> None:
    """A session recognises its notes in a stored request; a fit, which has no memory, takes them for words."""

    @settings(
        max_examples=-(-CASES // len(BY_PROVIDER) // 20),
        deadline=None,
        derandomize="CUPEL_FUZZ_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(BY_PROVIDER[provider], st.integers(20, 95))
    def run(messages: list[Any], share: int) -> None:
        options: dict[str, Any] = {"provider": provider, "counter": COUNTER}
        try:
            budget = fit(messages, 10**9, **options).total_tokens * share // 100
            fitted = fit(messages, budget, **options)
        except PinnedMessagesExceedBudgetError:
            return
        noted = sum(int(note.split()[1]) for note in fitted.notes)
        left_out = sum(not isinstance(unit.reason, Filtered) for unit in fitted.dropped)
        trimmed = sum(isinstance(unit.reason, Filtered) for unit in fitted.dropped)
        assert noted <= left_out + trimmed
        assert fitted.notes == () or noted >= 1
        words = json.dumps(fitted.messages).count("earlier step")
        assert json.dumps(fit(fitted.messages, 10**9, **options).messages).count("earlier step") == words
        session = MessageSession[Any](budget, **options)
        turn = session.fit(messages)
        stored = MessageSession[Any].from_json(session.to_json(), 10**9, **options).fit(turn.messages)
        assert "earlier step" not in json.dumps(stored.messages)

    run()


class Conversation:
    """A session over a history that grows, is rewritten now and then, and has cancelled calls."""

    def __init__(self, provider: Any, messages: list[Any], share: int, seed: int) -> None:
        self.provider: Any = provider
        self.options: dict[str, Any] = {"provider": provider, "counter": COUNTER, "thinking": "loop"}
        self.options["recall"] = bool(seed % 2)
        self.messages = [self.longer(message, number) for number, message in enumerate(messages)]
        self.budget = fit(self.messages, 10**9, **self.options).total_tokens * share // 100
        self.session = MessageSession[Any](self.budget, **self.options)
        self.random = random.Random(seed)
        self.history: list[Any] = []
        self.seen = 0
        self.last: tuple[int | None, ...] = ()

    @staticmethod
    def longer(message: Any, number: int) -> Any:
        """Outputs of several sizes: what was cut once may have to be cut again."""
        fmt = format_of(message)
        texts = [
            f"{text} {at}\n" * (1, 40, 7, 90)[number % 4] for at, text in enumerate(fmt.texts_in(message, ("outputs",)))
        ]
        return fmt.with_texts(message, texts, ("outputs",))

    def run(self) -> None:
        for message in self.messages:
            self.history.append(message)
            if self.random.random() < 0.05 and len(self.history) > 4:
                del self.history[self.random.randrange(1, len(self.history) - 2)]
                self.seen, self.last = max(0, self.seen - 1), ()
            if self.random.random() < 0.7:
                self.turn(copy.deepcopy(self.history))

    def turn(self, history: list[Any]) -> None:
        try:
            once = fit(history, self.budget, forms=True, **self.options)
        except (PinnedMessagesExceedBudgetError, InvalidItemError):
            once = None
        try:
            turn = self.session.fit(history)
        except (PinnedMessagesExceedBudgetError, InvalidItemError):
            assert once is None, "a session raises where a fit does not"
            return
        if turn.messages:
            assert violations(self.provider, turn.messages, history) == []
        new = [] if once is None else [at for at in self.words(history) if at >= self.seen and at in once.positions]
        assert all(at in turn.positions for at in new), "new words of the user are lost"
        assert not new or turn.positions != self.last, "the request before once more"
        self.seen, self.last = len(history), turn.positions

    def words(self, history: list[Any]) -> list[int]:
        """Positions of messages with words of the user, beside results too."""
        return [at for at, message in enumerate(history) if unseen(self.provider, [message]) and _speaks(message)]


def _speaks(message: Any) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    spoken = isinstance(content, str) or any(block.get("type") != "tool_result" for block in blocks)
    return message.get("role") == "user" and spoken


@pytest.mark.parametrize("provider", sorted(BY_PROVIDER))
def test_a_session_sends_every_new_word_that_a_fit_sends(provider: str) -> None:
    @settings(
        max_examples=-(-CASES // len(BY_PROVIDER) // 15),
        deadline=None,
        derandomize="CUPEL_FUZZ_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(BY_PROVIDER[provider], st.integers(10, 90), st.integers(0, 10**6))
    def run(messages: list[Any], share: int, seed: int) -> None:
        Conversation(provider, messages, share, seed).run()

    run()
