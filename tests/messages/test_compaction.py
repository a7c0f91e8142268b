"""Histories that the provider has compacted: its summary stays, and everything before it goes first."""

from typing import Any

import pytest

from cupel import OverflowStrategy, Pipeline, RecencyScorer
from cupel.messages import MessageSession, fit
from cupel.slicers import Slicer
from tests.messages.chat import COUNTER, assistant, kept, rules, use, used, user


class _Nothing(Slicer):
    """Chooses nothing besides the pinned items."""

    def slice(self, scored: Any, budget: Any) -> list[Any]:
        del scored, budget
        return []


REPLACED = "a later compaction replaces it"
OLD = [user("old task " * 50), assistant("old answer " * 80), user("more " * 60), assistant("again " * 90)]
BLOCK = {"type": "compaction", "content": "Summary: all is fine."}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "A" * 200}
NEW = [user("Next?"), assistant("ok " * 60), user("And now?")]
HISTORIES: dict[str, list[Any]] = {
    "anthropic": [*OLD, user("Go on."), assistant([BLOCK, {"type": "text", "text": "Going on."}]), *NEW],
    "openai-responses": [*OLD, user("Go on."), ITEM, *NEW],
}


@pytest.mark.parametrize("provider", sorted(HISTORIES))
def test_a_compacted_history_that_fits_is_sent_whole(provider: str) -> None:
    history = HISTORIES[provider]
    assert fit(history, 2000, counter=COUNTER).messages == history
    assert fit(history, 2000, counter=COUNTER).provider == provider


@pytest.mark.parametrize("provider", sorted(HISTORIES))
def test_messages_before_a_compaction_go_first_and_leave_no_note(provider: str) -> None:
    history = HISTORIES[provider]
    for made in (
        fit(history, 250, counter=COUNTER),
        MessageSession[Any](250, counter=COUNTER, provider=provider).fit(history),  # type: ignore[arg-type]
    ):
        opening = (4,) if provider == "anthropic" else ()  # whose conversations begin with the user
        assert made.positions == (*opening, 5, 6, 7, 8)
        assert made.notes == ()
        assert made.shortened == ()


@pytest.mark.parametrize("provider", sorted(HISTORIES))
def test_a_compaction_is_pinned(provider: str) -> None:
    assert 5 in kept(HISTORIES[provider], 100, forms=False)


def test_only_the_newest_compaction_is_sent() -> None:
    newer = [user("Again."), assistant([{**BLOCK, "content": "Newer."}]), user("So?")]
    history = [*HISTORIES["anthropic"], *newer]
    assert rules(history) == {(5,): REPLACED}


def test_older_compaction_items_go_with_everything_before_the_newest() -> None:
    history = [*HISTORIES["openai-responses"], {**ITEM, "id": "cmp_2"}, user("So?")]
    assert fit(history, 2000, counter=COUNTER).messages == history
    assert kept(history, 100) == [9, 10]


def test_a_compaction_must_be_the_first_block() -> None:
    late = assistant([{"type": "text", "text": "Well."}, BLOCK])
    named = "a compaction block that is not the first of an assistant turn"
    assert rules([user("Hi"), late, user("So?")]) == {(1,): named}
    assert rules([user("Hi"), assistant("Well."), assistant([BLOCK]), user("So?")]) == {(1, 2): named}


def test_a_system_message_between_messages_that_a_compaction_replaces_goes_with_them() -> None:
    system = {"role": "system", "content": "Be brief."}
    history = [*OLD[:3], system, *OLD[3:], user("Go on."), assistant([BLOCK]), *NEW]
    assert kept(history, 250, provider="anthropic") == [5, 6, 7, 8, 9]


def test_a_compaction_in_a_loop_that_thinks_is_parted_from_the_running_loop() -> None:
    """A policy that leaves the message between them out cannot merge the two."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    old = [user("Go."), assistant([thinking, use("a")]), user([used("a", "long " * 400)])]
    newest = user([used("b"), {"type": "text", "text": "And now?"}])
    history = [*old, assistant([BLOCK]), user("Next?"), assistant([thinking, use("b")]), newest]
    policy = Pipeline(scorer=RecencyScorer(), slicer=_Nothing(), overflow=OverflowStrategy.TRUNCATE)
    assert kept(history, 300, policy=policy, provider="anthropic") == [0, 3, 4, 5, 6]
