"""What must hold where a framework keeps conversations and cupel their sessions, whatever the framework."""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from cupel import ConfigurationError
from cupel.messages import PinnedMessagesExceedBudgetError
from cupel.tokens import CharacterEstimate
from tests.messages.provider_rules import violations

if TYPE_CHECKING:
    from cupel.messages import Turn

Message = dict[str, Any]

COUNTER = CharacterEstimate()
BUDGET, TURNS = 2400, 9
HUGE = "word " * 20_000
_COUNT = re.compile(r"\[cupel: (\d+) earlier step")


def output(part: str) -> str:
    """What the tool returns for a part."""
    return "\n".join(f"value_{part}_{line} = load({line})" for line in range(56))


def reply(key: str) -> list[str] | str:
    """What the model does when it was asked `ask NUMBER …`, or saw the result of a call with this id.

    It looks at two parts at once, for every third question also at a third one, and answers.
    """
    if key.startswith("ask"):
        number = key.split()[1]
        return [f"{number}.1a", f"{number}.1b"]
    number, step = key.split(".")
    return [f"{number}.2a"] if step == "1b" and int(number) % 3 == 0 else f"Part {number} is fine."


def weigh(messages: list[Any]) -> int:
    return COUNTER.count(json.dumps(messages)) if messages else 0


def common(earlier: list[Any], later: list[Any]) -> int:
    """How many messages or parts two requests begin with in common."""
    pairs = enumerate(zip(earlier, later, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(earlier), len(later)))


class Application(ABC):
    """An application on a framework, as one process runs it; `stored` is what outlives the process."""

    def __init__(self, stored: Any, ratio: float) -> None:
        self.stored = stored
        self.ratio = ratio
        """The provider's tokens for one of ours; 0 where it does not say."""
        self.requests: list[list[Message]] = []
        """What the model was sent, as plain messages."""

    def sent(self, request: list[Message]) -> tuple[int, int]:
        """Note a request, and return its tokens as the provider counts them: all, and those that its cache has."""
        known = max((common(earlier, request) for earlier in self.requests), default=0)
        self.requests.append(request)
        return round(self.ratio * weigh(request)), round(self.ratio * weigh(request[:known]))

    @abstractmethod
    def plain(self, messages: list[Any]) -> list[Message]:
        """The framework's messages as the provider would have them."""

    @abstractmethod
    async def ask(self, thread: str, text: str, way: str) -> None:
        """Let the user say something, and the agent answer."""

    @abstractmethod
    def history(self, thread: str) -> list[Message]:
        """The whole conversation, as plain messages."""

    @abstractmethod
    def states(self, thread: str) -> list[str]:
        """All states of sessions that are stored with a conversation."""

    @abstractmethod
    def overwrite_state(self, thread: str, state: str) -> None:
        """Replace the stored state."""

    @abstractmethod
    def forget(self, thread: str, count: int) -> None:
        """Take the oldest messages away."""


def number(thread: str, turn: int) -> int:
    """The number of a question: conversations never ask the same."""
    return turn + 30 * len(thread)


def tools_returned(request: list[Message]) -> list[str]:
    """The texts of a request that tools returned."""
    found: list[str] = []
    for message in request:
        content = message.get("content")
        if message["role"] == "tool":
            found.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
        elif isinstance(content, list):
            found += [part["content"] for part in content if part["type"] == "tool_result"]
    return found


def said(request: list[Message]) -> list[Any]:
    """What a request says but for the system prompt, however frameworks join messages."""
    found: list[Any] = []
    for message in request:
        if message["role"] != "system":
            content = message.get("content") or []
            found += [content] if isinstance(content, str) else content
            found += message.get("tool_calls", [])
    return found


class ConversationLaws(ABC):
    """Subclasses bring an application; the laws are inherited as tests."""

    provider: ClassVar = "openai"
    ways: ClassVar[tuple[str, ...]] = ("invoke", "ainvoke", "stream", "astream")
    sends_the_turn: ClassVar = True
    """Whether a request is what the session chose, and nothing else but a system prompt."""
    shortens_questions: ClassVar = False
    """Whether the user's messages can be shortened, as those of a provider's own format can."""

    @abstractmethod
    def application(self, stored: Any = None, *, ratio: float = 1.0, **options: Any) -> Application:
        """Start the application, with a session's options."""

    def talk(self, application: Application, thread: str, turns: range, way: str | None = None) -> Application:
        """Ask one question after the other."""

        async def ask() -> None:
            for turn in turns:
                text = f"ask {number(thread, turn)} for {thread}"
                await application.ask(thread, text, way or self.ways[0])

        asyncio.run(ask())
        return application

    @pytest.fixture(params=("invoke", "ainvoke", "stream", "astream"))
    def way(self, request: pytest.FixtureRequest) -> str:
        if request.param not in self.ways:
            pytest.skip("the framework has no such way")
        return request.param

    def test_every_request_is_what_the_session_chose_and_legal_and_fits(self, way: str) -> None:
        turns: list[Turn[Any]] = []
        application = self.talk(self.application(on_turn=turns.append), "anna", range(TURNS), way)
        history = application.history("anna")
        assert len(application.requests) == 2 * TURNS + TURNS // 3
        for request in application.requests:
            assert violations(self.provider, request, [*history, request[-1]]) == []
        for turn in turns:
            bill = turn.bill
            assert bill.read + bill.rewritten + bill.new == bill.sent == turn.total_tokens <= BUDGET
        if self.sends_the_turn:
            chosen = [said(application.plain(turn.messages)) for turn in turns]
            assert [said(request) for request in application.requests] == chosen
        assert any(turn.dropped for turn in turns)

    def test_notes_tell_of_every_step_that_is_left_out(self, way: str) -> None:
        turns: list[Turn[Any]] = []
        application = self.talk(self.application(on_turn=turns.append), "anna", range(TURNS), way)
        told = [sum(int(note.split()[1]) for note in turn.notes) for turn in turns]
        assert told == [sum(str(unit.item.kind) != "SystemPrompt" for unit in turn.dropped) for turn in turns]
        sent = [sum(map(int, _COUNT.findall(json.dumps(request)))) for request in application.requests]
        assert sent == told if self.sends_the_turn else {*sent} <= {*told}
        assert max(told) > 0

    def test_every_way_of_asking_sends_the_same(self, way: str) -> None:
        expected = self.talk(self.application(ratio=0), "anna", range(4)).requests
        assert self.talk(self.application(ratio=0), "anna", range(4), way).requests == expected

    def test_the_history_stays_whole_and_shortened_outputs_are_copies(self) -> None:
        application = self.talk(self.application(), "anna", range(TURNS))
        parts = [reply(f"ask {number('anna', turn)}") for turn in range(TURNS)]
        whole = tools_returned(application.history("anna"))
        assert {output(part) for both in parts for part in both} <= set(whole)
        sent = {text for request in application.requests for text in tools_returned(request)}
        assert sent - set(whole), "nothing was shortened, so nothing was shown"
        assert all(text == output(text.split("_")[1]) for text in whole)

    def test_a_request_mostly_begins_with_the_last_one(self) -> None:
        requests = self.talk(self.application(), "anna", range(TURNS)).requests
        pairs = list(pairwise(map(said, requests)))  # frameworks join messages that become neighbours
        again = sum(weigh(later[: common(earlier, later)]) for earlier, later in pairs)
        assert again >= 0.35 * sum(weigh(earlier) for earlier, _ in pairs)
        assert sum(common(earlier, later) == len(earlier) for earlier, later in pairs) >= len(pairs) // 3

    def test_another_process_goes_on_with_the_same_requests(self, way: str) -> None:
        expected = self.talk(self.application(), "anna", range(TURNS), way).requests
        stored, requests = None, []
        for turn in range(TURNS):
            application = self.application(stored)
            application.requests = requests  # the provider remembers what it was sent
            stored = self.talk(application, "anna", range(turn, turn + 1), way).stored
        assert requests == expected

    def test_options_reach_the_session(self) -> None:
        application = self.talk(
            self.application(forms=False, note=lambda _messages, _last: "gone"), "anna", range(TURNS)
        )
        sent = {text for request in application.requests for text in tools_returned(request)}
        assert any("gone" in text for text in sent)
        assert all(text.endswith(output(text.split("value_")[1].split("_")[0])) for text in sent), (
            "nothing is shortened"
        )

    def test_conversations_are_kept_apart(self) -> None:
        application = self.application()
        for turn in range(5):
            for thread in ("anna", "ben"):
                self.talk(application, thread, range(turn, turn + 1))
        for thread in ("anna", "ben"):
            alone = self.talk(self.application(), thread, range(5)).requests
            assert [request for request in application.requests if f"for {thread}" in str(request)] == alone

    def test_conversations_at_once_are_kept_apart_in_tasks(self) -> None:
        application = self.application()
        names = ("anna", "ben", "clara.")

        async def ask(thread: str) -> None:
            for turn in range(4):
                text = f"ask {number(thread, turn)} for {thread}"
                await application.ask(thread, text, self.ways[1])

        async def ask_all() -> None:
            await asyncio.gather(*map(ask, names))

        asyncio.run(ask_all())
        for thread in names:
            alone = self.talk(self.application(), thread, range(4)).requests
            assert [request for request in application.requests if f"for {thread}" in str(request)] == alone

    def test_conversations_at_once_are_kept_apart_in_threads(self) -> None:
        application = self.application()
        names = ("anna", "ben", "clara.")
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda thread: self.talk(application, thread, range(4)), names))
        for thread in names:
            alone = self.talk(self.application(), thread, range(4)).requests
            assert [request for request in application.requests if f"for {thread}" in str(request)] == alone

    def test_a_stored_state_is_small_whatever_the_conversation_holds(self) -> None:
        application = self.talk(self.application(), "anna", range(24))
        entries = max(map(len, application.requests))
        sizes = [len(state) for state in application.states("anna")]
        assert max(sizes) < 2000 + 70 * entries
        assert "value_" not in str(application.states("anna"))

    def test_the_budget_is_kept_in_the_providers_tokens(self) -> None:
        turns: list[Turn[Any]] = []
        self.talk(self.application(ratio=1.6, on_turn=turns.append), "anna", range(TURNS))
        plain: list[Turn[Any]] = []
        self.talk(self.application(on_turn=plain.append), "anna", range(TURNS))
        assert max(turn.total_tokens for turn in turns[3:]) < 0.85 * max(turn.total_tokens for turn in plain[3:])

    def test_a_state_of_another_version_is_refused_by_the_name_of_its_place(self) -> None:
        application = self.talk(self.application(), "anna", range(2))
        application.overwrite_state("anna", '{"version": 9}')
        with pytest.raises(ConfigurationError, match=r"cupel_session.*: state is of version 9, this is version \d"):
            self.talk(application, "anna", range(2, 3))

    def test_a_message_larger_than_the_budget_is_named_or_shortened_and_the_conversation_goes_on(self) -> None:
        turns: list[Turn[Any]] = []
        application = self.talk(self.application(on_turn=turns.append), "anna", range(3))
        before = len(application.requests)
        if self.shortens_questions:
            asyncio.run(application.ask("anna", f"ask 500 {HUGE}", self.ways[0]))
        else:
            with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[\d+\] \(the newest user message"):
                asyncio.run(application.ask("anna", f"ask 500 {HUGE}", self.ways[0]))
            assert len(application.requests) == before
        self.talk(application, "anna", range(4, 7))
        assert all(violations(self.provider, request) == [] for request in application.requests[before:])
        assert HUGE not in str(application.requests)
        assert max(turn.total_tokens for turn in turns) <= BUDGET

    def test_a_history_that_shrank_is_a_history(self) -> None:
        application = self.talk(self.application(), "anna", range(4))
        application.forget("anna", 5)  # a question, two calls at once, their results and more calls
        before = len(application.requests)
        self.talk(application, "anna", range(4, 7))
        assert all(violations(self.provider, request) == [] for request in application.requests[before:])
        assert f"ask {number('anna', 0)} for" not in str(application.requests[before:])

    def test_wrong_options_are_refused_at_once(self) -> None:
        with pytest.raises(ValueError, match="keep must be from 0 to 1, got -1"):
            self.application(keep=-1)
        with pytest.raises((TypeError, ValueError), match="prices"):  # the second is pydantic's
            self.application(prices=3)
