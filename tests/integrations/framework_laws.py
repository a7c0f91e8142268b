"""What the adapter of every framework must hold to, told in its own messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pytest

from cupel.messages import PinnedMessagesExceedBudgetError
from cupel.tokens import CharacterEstimate

if TYPE_CHECKING:
    from cupel.messages import Fitted

COUNTER = CharacterEstimate()
LARGE = 100_000


class FrameworkLaws(ABC):
    """Subclasses translate; the laws are inherited as tests."""

    @abstractmethod
    def fit(self, messages: list[Any], budget: int, **options: Any) -> Fitted[Any]:
        """Fit the framework's messages, counted by `COUNTER`."""

    @abstractmethod
    def user(self, text: str) -> Any:
        """Something the user says."""

    @abstractmethod
    def answer(self, text: str) -> Any:
        """Something the model says."""

    @abstractmethod
    def call(self, key: str, *, thinking: str = "") -> Any:
        """A call by the model, after thinking."""

    @abstractmethod
    def result(self, key: str, text: str, words: str = "") -> list[Any]:
        """The result of a call, with the user's words beside it."""

    def kept(self, messages: list[Any], budget: int, **options: Any) -> list[int]:
        """Return the positions of the messages that are kept; copies are shortened or carry one of the notes."""
        fitted = self.fit(messages, budget, **options)
        sent = [(one, at) for one, at in zip(fitted.messages, fitted.positions, strict=True) if at is not None]
        copies = {at for one, at in sent if one is not messages[at]}
        assert copies >= set(fitted.shortened)
        assert len(copies.difference(fitted.shortened)) <= len(fitted.notes)
        assert fitted.total_tokens <= budget
        return [at for _, at in sent]

    def thinking_loop(self, steps: int) -> list[Any]:
        """A question and tool steps of which only the first begins with thinking."""
        history = [self.user("Look at everything.")]
        for step in range(steps):
            thinking = "Where do I begin?" if step == 0 else ""
            history += [self.call(f"c{step}", thinking=thinking), *self.result(f"c{step}", "x" * 40)]
        return history

    def test_a_running_result_is_kept_before_anything_else(self):
        old = [self.user("Tell me a story."), self.answer("Once upon a time. " * 20)]
        history = [*old, self.user("And the log?"), self.call("a"), *self.result("a", "line " * 100)]
        least = self.fit(history[2:], LARGE).total_tokens
        note = 20  # tokens of a note that says how many steps are omitted
        assert self.kept(history, least + note, forms=False) == [2, 3, 4]
        assert self.kept(history, least + note) == [0, 2, 3, 4], "a shorter result leaves room for the user's words"

    def test_a_running_result_that_does_not_fit_is_named(self):
        history = [self.user("And the log?"), self.call("a"), *self.result("a", "line " * 1000)]
        with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[1:3\] \(results that the model has yet"):
            self.fit(history, 500, forms=False)

    def test_a_running_result_that_does_not_fit_is_shortened(self):
        log = "\n".join(f"line {number}" for number in range(1000))
        history = [self.user("And the log?"), self.call("a"), *self.result("a", log)]
        fitted = self.fit(history, 500)
        assert fitted.shortened == (2,)
        assert fitted.total_tokens <= 500

    def test_results_that_the_model_has_seen_may_go(self):
        history = [self.user("And the log?"), self.call("a"), *self.result("a", "line " * 1000), self.answer("Fine.")]
        history.append(self.user("Good."))
        assert self.kept(history, 500, forms=False) == [0, 3, 4]
        assert self.kept(history, 500) == [0, 1, 2, 3, 4], "unless a shorter text will do"

    def test_the_words_beside_a_running_result_are_kept_with_it(self):
        history = [self.user("And the log?"), self.call("a"), *self.result("a", "line " * 100, "Stop looking!")]
        assert self.kept(history, 200) == list(range(len(history)))
        with pytest.raises(PinnedMessagesExceedBudgetError) as caught:
            self.fit(history, 50, forms=False)
        named = [part for part, _ in caught.value.parts]
        assert any(
            "results that the model has yet to see" in part or "the newest user message" in part for part in named
        )

    def test_a_thinking_loop_keeps_its_first_step_and_its_newest(self):
        history = self.thinking_loop(30)
        whole = self.fit(history, LARGE).total_tokens
        assert self.kept(history, whole) == list(range(61))
        for budget in range(170, whole, 50):
            kept = self.kept(history, budget, forms=False, thinking="loop")
            assert kept[:3] == [0, 1, 2]
            assert kept[-2:] == [59, 60]
            assert len(kept) > 3

    def test_a_call_never_loses_the_thinking_it_continues(self):
        history = [self.user("Hi"), self.call("a", thinking="Hm."), *self.result("a", "x" * 2000)]
        history += [self.call("b"), *self.result("b", "y")]
        with pytest.raises(PinnedMessagesExceedBudgetError, match=r"messages\[1:3\] \(needed beside another"):
            self.fit(history, 100, forms=False, thinking="loop")

    def test_a_loop_that_is_over_may_lose_its_thinking(self):
        history = [*self.thinking_loop(5), self.answer("Done."), self.user("And now?")]
        whole = self.fit(history, LARGE).total_tokens
        chosen = [self.kept(history, budget, forms=False, thinking="loop") for budget in range(70, whole, 5)]
        assert all(kept[0] == 0 and kept[-1] == 12 for kept in chosen)
        assert any(1 not in kept for kept in chosen), "the first step may go"

    def test_a_wrong_message_or_tool_is_named(self):
        with pytest.raises(TypeError, match=r"messages\[1\] must be a message of the framework, got str: 'Hi'"):
            self.fit([self.user("Hi"), "Hi"], LARGE)
        with pytest.raises(TypeError, match=r"tools.*, got int: 7|must be Tool"):
            self.fit([self.user("Hi")], LARGE, tools=[7])

    def test_the_options_of_fit_are_taken(self):
        log = "\n".join(f"line {number} of the log" for number in range(200))
        history = [self.user("And the log?"), self.call("a"), *self.result("a", log), self.answer("Fine.")]
        history.append(self.user("Good."))
        assert self.fit(history, 700, forms=False).shortened == ()
        assert self.fit(history, 700, forms=True).shortened == (2,)
        questions = [self.user(text) for text in ("One?", "Two?", "Three?")]
        assert self.kept(questions, LARGE) == [0, 1, 2]
        assert self.kept(questions, LARGE, alternate=True) == [2]
        with pytest.raises(ValueError, match="system_messages must be"):
            self.fit(history, LARGE, system_messages="lose")
        with pytest.raises(TypeError, match="colour"):
            self.fit(history, LARGE, colour="red")
