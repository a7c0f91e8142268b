"""Shorter forms of units: the same messages with their outputs, or the words of the user, cut to a limit."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from cupel._internal.checks import as_function, as_text
from cupel.messages._formats import OUTPUTS, PROSE
from cupel.messages._ids import with_ids
from cupel.messages._notes import CALLED_AGAIN
from cupel.shorten import Rarity, Shortening

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from cupel.messages._formats import Part
    from cupel.messages._history import History
    from cupel.messages._units import Message
    from cupel.shorten import Shortener

LEAST_LIMIT: Final = 70
"""Texts of older steps are cut to no fewer tokens; the outputs of calls that were made again later, to these."""
_LONGEST_QUESTION = 300
"""Characters of a message of the user that tells which lines of an output matter; a longer one matches too many."""

_USES = 3
"""The newest calls that used an output tell which parts of it matter."""

UnitKind = Literal["step", "system", "talk", "user"]
"""A `step` holds calls with their outputs, `talk` is the assistant's words without a call."""


def checked_shortener(forms: Shortener | Literal[False] | None) -> Shortener | Literal[False] | None:
    """Return a caller's shortener, False for none, or None for the built-in one."""
    return forms if forms is None or forms is False else as_function("forms", forms)


class Forms:
    """The forms of the units of a history; a form is named by the most tokens that each of its texts may have.

    Everything here is a function of the history, so another process finds the same.

    Args:
        history: what was read of the history.
        shortener: the caller's own, False for none.
        bare: whether the forms lack their thinking.
        called_again: positions of messages whose calls were made again later: their shorter texts say so.
        source: the whole history, of which a view may hold a part.
    """

    def __init__(
        self,
        history: History,
        shortener: Shortener | Literal[False] | None,
        *,
        bare: bool = False,
        called_again: AbstractSet[int] = frozenset(),
        source: Sequence[Any] = (),
    ) -> None:
        self._history = history
        self._source = source
        self._known: dict[int, tuple[int, ...]] = {}
        self._called_again = called_again
        framework = history.options.framework
        self._shortener = False if framework is not None and framework.with_outputs is None else shortener
        self._bare = bare
        self._texts: dict[int, list[int]] = {}
        self._shortenings: dict[tuple[str, str | None], Shortening] = {}

    def kind(self, index: int) -> UnitKind:
        """Return what a unit is."""
        unit = self._history.units[index]
        if unit.role == "exchange" or any(message.is_output for message in self._history.of(index)):
            return "step"
        return "talk" if unit.role == "assistant" else unit.role

    def has_words(self, index: int) -> bool:
        """Return whether a unit holds words of the user."""
        messages = self._history.of(index)
        return any(one.speaks and one.role in ("user", "tool") and not one.is_output for one in messages)

    def sizes(self, index: int) -> list[int]:
        """Return the tokens of each text that may be cut first: outputs, or else the words of the user."""
        if index not in self._texts:
            count = self._history.counter.count
            self._texts[index] = [count(text) for one in self._history.of(index) for text in self._cut_texts(one)]
        return self._texts[index]

    def _cut_texts(self, message: Message) -> list[str]:
        return self._history.format.texts_in(message.view, parts) if (parts := self._parts_of(message)) else []

    def _parts_of(self, message: Message) -> tuple[Part, ...]:
        """Return the parts of a message that are cut where a request must be shorter."""
        if message.results:
            return OUTPUTS
        if message.is_output:
            return PROSE
        return PROSE if message.role == "user" and self._history.options.framework is None else ()

    def tokens(self, index: int, limit: int | None = None) -> int:
        """Return the tokens of a unit in a form."""
        return sum(message.tokens for message in self.messages(index, limit))

    def messages(self, index: int, limit: int | None = None) -> list[Message]:
        """Return the messages of a unit with texts of at most `limit` tokens; the whole, without a limit."""
        wanted = (self.message(one, limit, bare=self._bare) for one in self._history.of(index))
        return [one for one in wanted if one is not None]

    def message(
        self, message: Message, limit: int | None, *, bare: bool = False, asked: tuple[int, ...] | None = None
    ) -> Message | None:
        """Return a message in a form; None if nothing of it is left without its thinking.

        Args:
            message: the message as it is.
            limit: the most tokens of each of its texts.
            bare: whether its thinking is left out.
            asked: the messages that tell what matters in it, where it was sent before in this form.
        """
        parts = self._parts_of(message)
        if limit is None or not parts or self._shortener is False:
            asked = ()
        elif asked is None:
            asked = self._asked(message)
        key = limit, bare, message.at in self._called_again, asked
        if key not in message.made:
            message.made[key] = self._made(message, limit, parts, asked, bare=bare)
        found: Message | None = message.made[key]
        return found

    def _made(
        self, message: Message, limit: int | None, parts: tuple[Part, ...], asked: tuple[int, ...], *, bare: bool
    ) -> Message | None:
        other = self._without_thinking(message) if bare else message
        if other is None or limit is None or not parts or self._shortener is False:
            return other
        fmt, counter = self._history.format, self._history.counter
        texts = fmt.texts_in(other.view, parts)
        if all(counter.count(text) <= limit for text in texts):
            return other
        query, again = self._query(asked, message), message.at in self._called_again
        names = [""] * len(texts) if (ids := self._history.reader.ids) is None else ids.names(message)
        forms = [self._named(text, limit, query, again, name) for text, name in zip(texts, names, strict=True)]
        if forms == texts:
            return other
        view = fmt.with_texts(other.view, forms, parts)
        shorter = self._history.reader.changed(other, view, limit=limit, called_again=again, asked=asked)
        return shorter if shorter is not None and shorter.tokens < other.tokens else other

    def _without_thinking(self, message: Message) -> Message | None:
        history = self._history
        if message.role != "assistant":
            return message
        framework = history.options.framework
        if framework is not None:
            source = framework.bare(message.source)
            if source is message.source:
                return message
            view = framework.view(source)
        else:
            strip = history.format.without_thinking
            view = message.view if strip is None else strip(message.view)
            if view is message.view:
                return message
        return history.reader.changed(message, view, bare=True)

    def _named(self, text: str, limit: int, query: str | None, again: bool, name: str) -> str:  # noqa: FBT001
        """Return a form of a text whose markers carry an id; without it, where that leaves no room for a form."""
        form, allowed = self._text(text, limit, query, again=again), limit
        while name and form != text:
            named = with_ids(form, name)
            allowed -= (excess := self._history.counter.count(named) - limit)
            if excess <= 0 or allowed <= 0:
                return named if excess <= 0 else form
            form = self._text(text, allowed, query, again=again)
        return form

    def _text(self, text: str, limit: int, query: str | None, *, again: bool = False) -> str:
        counter = self._history.counter
        if counter.count(text) <= limit:
            return text
        if again:
            rest = limit - counter.count(f"{CALLED_AGAIN}\n")
            form = self._text(text, max(rest, 1), query)
            raised = "" if callable(self._shortener) else self._shortening(text, query).exception
            if raised and raised not in form and counter.count(raised) <= rest:
                form = raised
            return f"{CALLED_AGAIN}\n{form}" if rest > 0 else self._text(text, limit, query)
        if callable(self._shortener):
            form = as_text("the result of forms", self._shortener(text, limit))
            if counter.count(form) <= limit:
                return form or text
        return self._shortening(text, query).within(limit, counter) or text

    def _shortening(self, text: str, query: str | None) -> Shortening:
        if (text, query) not in self._shortenings:
            self._shortenings[text, query] = Shortening(text, query)
        return self._shortenings[text, query]

    def _asked(self, message: Message) -> tuple[int, ...]:
        """Return the messages that tell what matters in one: the question before it, and later calls that use it."""
        if message.at not in self._known:
            before = bisect_left(self._questions, message.at)
            own = _names(message, message.texts) if message.results else ()
            uses = {at for name in own for at in self._calls.get(name, ()) if at > message.at}
            self._known[message.at] = (*self._questions[max(0, before - 1) : before], *sorted(uses)[-_USES:])
        return self._known[message.at]

    @cached_property
    def _questions(self) -> list[int]:
        """The positions of the user's messages."""
        spoken = (one for one in self._history.messages if one.role == "user" and one.speaks and not one.is_output)
        return [one.at for one in spoken]

    @cached_property
    def _calls(self) -> Mapping[str, list[int]]:
        """The positions of the messages whose calls hold a name."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for one in self._history.messages:
            for name in _names(one, one.arguments) if one.calls else ():
                found[name].append(one.at)
        return found

    def _query(self, asked: Sequence[int], message: Message) -> str | None:
        """Return the words of other messages that matter in one: short questions, and names that calls used."""
        words: list[str] = []
        for at in asked:
            if at >= len(self._source):
                continue
            one = self._history.reader.read(self._source, (at,), more=True)[0]
            if one.calls:
                words += sorted(_names(one, one.arguments) & _names(message, message.texts))
            elif len(question := " ".join(one.texts).strip()) <= _LONGEST_QUESTION:
                words.append(question)
        return " ".join(words) or None


def _names(message: Message, texts: Sequence[str]) -> frozenset[str]:
    """Return the names in the texts of a message."""
    if "names" not in message.made:
        names = Rarity()
        names.add("\n".join(texts))
        message.made["names"] = frozenset(names)
    found: frozenset[str] = message.made["names"]
    return found


def level(sizes: Sequence[int], allowed: int) -> int:
    """Return the limit at which texts of these sizes, each cut to it, take no more than is allowed; at least 1."""
    ordered = sorted(sizes)
    for done, size in enumerate(ordered):
        share = allowed // (len(ordered) - done)
        if size > share:
            return max(1, share)
        allowed -= size
    return max([1, *ordered])
