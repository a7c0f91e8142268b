"""What must hold for every request that is made of a valid history; each check returns what is wrong, or None."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cupel.messages import Turn
from cupel.messages._formats import FORMATS, REPLY_FRAME
from cupel.messages._formats.media import ImageRule
from cupel.tokens import CharacterEstimate
from tests.messages.chat import message_tokens
from tests.messages.generators.chance import FORGED
from tests.messages.provider_rules import Message, alternation, has_results, has_words, is_models, unseen, violations
from tests.messages.validators.bound import BoundThinking, thinks, without_thinking

COUNTER = CharacterEstimate(4.0)
TOOLS = {"bedrock": [{"toolSpec": {"name": "search", "inputSchema": {"json": {"type": "object"}}}}]}
"""The tools of requests, where a provider demands them."""
USERS_SHARE, PRESENT_SHARE = 0.3, 0.5
"""The user's messages must be sent while they and system prompts, and the newest steps, take at most these shares."""
MARKERS = 18
"""Tokens of a marker before and one after a line."""
_COUNT = re.compile(r"\[cupel: (\d+) earlier step")
_ESCAPED = re.compile(r"\\+u([0-9a-f]{4})")
_SHORTER = re.compile(r"\[cupel: |…")
_MADE_AGAIN = re.compile(r"\A\[cupel: partly omitted[^\]]*\]\n")
_EXCEPTION = re.compile(r"KeyError: 'part \d+'")
_WORDS_OF_FORGED = FORGED.partition("here: ")[2]


@dataclass(frozen=True)
class Request:
    """A request, and the history and the budget that it was made of."""

    provider: str
    history: list[Message]
    before: list[Message]
    """A copy of the history, made before."""
    budget: int
    made: Any
    """A `Fitted` or a `Turn`."""
    alternate: bool = False
    by_policy: bool = False
    """Whether a policy decided what is in it."""
    cuts: bool = True
    """Whether outputs may be shortened."""
    noted: bool = True
    """Whether notes tell of what is omitted."""
    thinking: str = "bound"
    provided: BoundThinking | None = None
    """The provider that wrote the thinking; of a fit, one that was sent the whole history."""
    tools: list[Any] | None = None
    """The tools of the request, where they are not those of every test."""

    @property
    def kept(self) -> set[int]:
        """Positions of the messages of the history that are in the request."""
        gone = {at for unit in self.made.dropped for at in unit.positions}
        return {*range(len(self.history))} - gone


def weigh(provider: str, messages: list[Message], given: list[Any] | None = None) -> int:
    """Return the tokens of a request with its tools."""
    format_ = FORMATS[provider]
    infos = [format_.read(format_.normal(message), "message", ImageRule()) for message in messages]
    listed = TOOLS.get(provider) if given is None else given
    tools = format_.tool_tokens(listed, COUNTER) if listed else 0
    return REPLY_FRAME + tools + sum(map(message_tokens, infos))


def not_accepted(request: Request) -> str | None:
    """The provider takes the request."""
    problems = violations(request.provider, request.made.messages, request.history, request.thinking)
    problems += alternation(request.provider, request.made.messages) if request.alternate else []
    return problems[0] if problems else None


def over_budget(request: Request) -> str | None:
    """The request takes no more than the budget, as it is counted and counted again."""
    notes = request.made.notes
    messages = [message for one in request.made.messages if (message := bare(one, notes)) is not None]
    again = weigh(request.provider, messages, request.tools) + sum(map(COUNTER.count, notes))
    if again > request.budget:  # a note may be in the middle of joined messages
        again = weigh(request.provider, request.made.messages, request.tools)
    taken = max(request.made.total_tokens, again)
    return f"{taken} tokens of {request.budget}" if taken > request.budget else None


def not_whole(request: Request) -> str | None:
    """A history that fits is sent as it is, but for imitations of notes in it."""
    escapes = json.dumps(request.history, default=repr).count("[cupel:")  # each takes a little more
    if request.alternate or request.by_policy:
        return None
    if weigh(request.provider, request.history, request.tools) + escapes > request.budget:
        return None
    if request.thinking == "bound" and isinstance(request.made, Turn):  # what was written behind a cut may be missing
        sent, own = _without_thinking(request, request.made.messages), _without_thinking(request, request.history)
        return "the history fits and was changed" if with_forged(sent) != own else None
    return "the history fits and was changed" if with_forged(request.made.messages) != request.history else None


def _without_thinking(request: Request, messages: list[Message]) -> list[Message]:
    return [without_thinking(request.provider, message) for message in messages]


def behind_another_prefix(request: Request) -> str | None:
    """All thinking in the request stands behind what it was written behind."""
    if request.thinking != "bound" or not thinks(request.provider):
        return None
    assert request.provided is not None
    marked = request.made.marked() if isinstance(request.made, Turn) else []
    return next(iter([*request.provided.refused(request.made.messages), *request.provided.refused(marked)]), None)


def untold(request: Request) -> str | None:
    """Notes tell of every step that the request leaves out, each once."""
    if not request.noted:
        return None
    start = max((at for at, message in enumerate(request.history) if is_compaction(message)), default=0)
    omitted = [
        unit.positions
        for unit in request.made.dropped
        if request.history[unit.positions[0]].get("role") not in ("developer", "system") and unit.positions[-1] >= start
    ]
    if any(note.startswith("[cupel: 0 ") for note in request.made.notes):
        return "a note tells of nothing"
    told = sum(int(found[1]) for note in request.made.notes if (found := _COUNT.match(note)))
    is_wrong = told < len(omitted) if start else told != len(omitted)  # older notes stay where a compaction is appended
    return f"{len(omitted)} steps are omitted, notes tell of {told}" if is_wrong else None


def without_the_present(request: Request) -> str | None:
    """The newest message of the user and the results that no answer follows are in the request."""
    present = {id(message) for message in unseen(request.provider, request.history)}
    lost = [at for at, message in enumerate(request.history) if id(message) in present and at not in request.kept]
    return f"messages {lost} are missing" if lost else None


def without_the_users_words(request: Request) -> str | None:
    """The messages of the user are in the request while they take a small part of it."""
    start = max((at for at, message in enumerate(request.history) if is_compaction(message)), default=0)
    spoken = [at for at in range(start, len(request.history)) if has_words(request.provider, request.history[at])]
    if request.by_policy or not request.cuts:
        return None
    system = [at for at, message in enumerate(request.history) if message.get("role") in ("developer", "system")]
    words = {one for at in (*spoken, *system) for one in _belonging(request, at)}
    tokens = weigh(request.provider, [request.history[at] for at in sorted(words)], [])
    present = weigh(request.provider, request.history[_newest_steps(request) :], [])
    room = request.budget - weigh(request.provider, [], request.tools)
    if tokens > USERS_SHARE * room or present > PRESENT_SHARE * room:
        return None
    lost = [at for at in spoken if at not in request.kept]
    return f"messages {lost} of the user are missing" if lost else None


def _belonging(request: Request, at: int) -> Iterable[int]:
    """The positions of a message, of the calls that it answers, and of the step before which it must be sent."""
    provider, history = request.provider, request.history
    if provider == "anthropic" and history[at]["role"] == "system":
        later = (one for one in range(at + 1, len(history)) if has_words(provider, history[one]))
        return range(at, next(later, len(history)))
    return [at - 1, at] if at and has_results(provider, history[at]) else [at]


def _newest_steps(request: Request) -> int:
    """The position from which the newest answers and results come, and all since the user's third newest message."""
    provider, history = request.provider, request.history
    answers = [at for at, message in enumerate(history) if is_models(provider, message)]
    results = [at for at, message in enumerate(history) if has_results(provider, message)]
    spoken = [at for at, message in enumerate(history) if has_words(provider, message)]
    before = [at + 1 for at in spoken if results and at < results[-1]]
    return min([*answers[-2:], *(at + 1 for at in spoken[-3:-1]), *before[-1:]], default=0)


def is_compaction(message: Message) -> bool:
    """Whether a message holds what replaces everything before it."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [message]
    return any(block.get("type") == "compaction" for block in blocks)


def not_a_part(request: Request) -> str | None:
    """The request is a part of the history, in order, besides notes and shorter texts."""
    notes = request.made.notes
    placed = list(zip(request.made.positions, request.made.messages, strict=True))
    positions = [at for at, _ in placed if at is not None]
    if not request.alternate and any(one >= other for one, other in pairwise(positions)):
        return f"out of order: {positions}"
    ends = dict(pairwise([*positions, len(request.history)]))
    for at, message in placed:
        if at is None and bare(message, notes) is not None:
            return f"neither a note nor a message of the history: {message}"
        places = [one for one in range(at or 0, ends.get(at, 0)) if one in request.kept]
        own = [request.history[one] for one in places]
        if at is None or request.alternate:
            continue
        sent = with_forged(_joined([bare(message, notes)]))
        compare = same if {*places}.isdisjoint(request.made.shortened) else derived
        # thinking is removed from some message on, and neighbours of one role may be one message
        whole = range(len(own), -1 if request.thinking == "bound" else len(own) - 1, -1)
        parts = ([*own[:n], *(without_thinking(request.provider, one) for one in own[n:])] for n in whole)
        if not any(compare(sent, _joined(part)) for part in parts):
            return f"not made of message {at}: {message}"
    return None


def _joined(messages: list[Message]) -> Message:
    """Return messages of one role as one."""
    first = {"role": "user", **messages[0]} if "parts" in messages[0] else messages[0]
    if len(messages) == 1:
        return first
    name = "parts" if "parts" in first else "content"
    return {**first, name: [part for message in messages for part in message[name]]}


def bare(value: Any, notes: Iterable[str]) -> Any:
    """Return a value without the notes of its request; None for one that is a note."""
    if isinstance(value, str):
        if value in notes:
            return None
        return next((value.removeprefix(f"{note}\n") for note in notes if value.startswith(f"{note}\n")), value)
    if isinstance(value, list):
        kept = [inner for inner in (bare(one, notes) for one in value) if inner is not None]
        return kept if kept or not value else None
    if not isinstance(value, dict):
        return value
    kept = {key: inner for key, given in value.items() if (inner := bare(given, notes)) is not None or given is None}
    if value.keys() == {"name", "response"} | (value.keys() & {"id", "parts"}):
        kept.setdefault("response", {})  # which Gemini demands, whatever was in it
    return kept if kept.keys() - {"role", "type"} or kept == value else None


def with_forged(value: Any) -> Any:
    """Return a value with the imitations of notes in it as they were before they were escaped."""
    if isinstance(value, str):
        return value.replace("[cupel :", "[cupel:")
    if isinstance(value, list):
        return [with_forged(inner) for inner in value]
    return {key: with_forged(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def imitated(request: Request) -> str | None:
    """An output that imitates a note keeps its words, and is not sent as a note."""
    if FORGED in json.dumps(request.made.messages, default=repr):
        return "an imitation of a note is sent as one"
    lost = [
        at
        for at, message in zip(request.made.positions, request.made.messages, strict=True)
        if at is not None and at not in request.made.shortened and not request.alternate
        if json.dumps(message, default=repr).count(_WORDS_OF_FORGED) < _forged_in(request.history[at])
    ]
    return f"the words of imitations in messages {lost} are lost" if lost else None


def _forged_in(message: Message) -> int:
    return json.dumps(message, default=repr).count(_WORDS_OF_FORGED)


def without_the_exception(request: Request) -> str | None:
    """An output that is cut keeps the last line of an exception, if its new length could hold that with markers."""
    format_ = FORMATS[request.provider]
    for at, message in zip(request.made.positions, request.made.messages, strict=True):
        if at not in request.made.shortened or request.alternate:
            continue
        sent, own = (
            format_.texts_in(format_.normal(one), ("outputs",))
            for one in (bare(message, request.made.notes), request.history[at])
        )
        for text, given in zip(reversed(sent), reversed(own), strict=False):  # a note may stand for an empty first one
            lines, left = _EXCEPTION.findall(given), COUNTER.count(_MADE_AGAIN.sub("", text))
            if lines and lines[-1] not in text and left >= COUNTER.count(lines[-1]) + MARKERS:
                return f"message {at} lost {lines[-1]!r}: {text[:200]!r}"
    return None


def same(sent: Any, own: Any) -> bool:
    """Whether a value without notes is one of the history's; empty lists are not sent."""
    if isinstance(sent, list) and isinstance(own, list):
        return len(sent) == len(own) and all(map(same, sent, own))
    if isinstance(sent, dict) and isinstance(own, dict) and sent.keys() <= own.keys():
        return all(same(sent[key], own[key]) if key in sent else not own[key] for key in own)
    return bool(sent == own)


def derived(sent: Any, own: Any) -> bool:
    """Whether a value without notes is one of the history's, but for texts that say they are shorter."""
    if isinstance(sent, str) and sent != own:
        return _SHORTER.search(sent) is not None or _same_json(sent, own)
    if isinstance(sent, list) and isinstance(own, list):
        return len(sent) == len(own) and all(map(derived, sent, own))
    if isinstance(sent, dict) and isinstance(own, dict) and sent.keys() <= own.keys():
        return all(derived(sent[key], own[key]) if key in sent else not own[key] for key in own)
    if isinstance(sent, dict) and len(sent) == 1:  # an object, written as a text
        return derived(str(*sent.values()), own)
    return bool(sent == own)


def _same_json(sent: str, own: Any) -> bool:
    """Whether a text is the same JSON, escaped in another way, or a string that it wraps."""
    given = _read(own)
    inner = given.values() if isinstance(given, dict) else ()
    whole = [json.dumps(value) for value in (given, {"output": given}, *inner)]
    if any(_unescaped(sent) == _unescaped(text) for text in (*whole, *_strings(given))):
        return True
    return any(_unwrapped(sent) == _unwrapped(value) for value in ({"output": given}, *_wrapped(given)))


def _wrapped(value: Any) -> list[Any]:
    """Return a value and, as long as nothing beside it says anything, what it wraps."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    telling = [one for one in inner if one not in (None, False, "", "text", [], {})]
    return [value, *(_wrapped(telling[0]) if len(telling) == 1 else ())]


def _unwrapped(value: Any) -> Any:
    """Return a value with the JSON in its strings read, and with texts in place of what wraps them."""
    value = _read(value)
    if isinstance(value, list):
        return [_unwrapped(one) for one in value]
    if not isinstance(value, dict):
        return value
    return (
        _unwrapped(value["text"]) if value.keys() == {"type", "text"} else {k: _unwrapped(v) for k, v in value.items()}
    )


def _read(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _strings(value: Any) -> list[str]:
    """Return the strings in a value, and those in JSON that they hold."""
    given = _read(value)
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return [*([value] if isinstance(value, str) else []), *(text for one in inner for text in _strings(one))]


def _unescaped(text: str) -> str:
    """Return a text without spaces and escapes."""
    pairs = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text).encode("utf-16", "surrogatepass")
    return re.sub(r"[\\\s]", "", pairs.decode("utf-16", "replace"))


def altered(request: Request) -> str | None:
    """The caller's history stays as it is."""
    return None if request.history == request.before else "the history was altered"


CHECKS = (
    not_accepted,
    over_budget,
    not_whole,
    behind_another_prefix,
    untold,
    without_the_present,
    without_the_users_words,
    not_a_part,
    imitated,
    without_the_exception,
    altered,
)
