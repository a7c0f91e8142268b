"""Short histories, and what a fit makes of them."""

from typing import Any

from cupel import ContextBudget
from cupel.diagnostics import Filtered
from cupel.messages import POSITIONS_KEY, fit, provider_of, to_items
from cupel.messages._formats import FORMATS, REPLY_FRAME, Format
from cupel.messages._formats.media import ImageRule
from cupel.messages._units import Message
from cupel.tokens import CharacterEstimate

COUNTER = CharacterEstimate(4.0)


def message_tokens(message: Message) -> int:
    """Tokens of a message that a format has read."""
    return message.extra + sum(map(COUNTER.count, message.texts))


LARGE = 100_000
OPTIONS: dict[str, Any] = {"provider": "openai", "counter": COUNTER}


def format_of(message: Any) -> Format:
    """The format that a single message is recognised as."""
    return FORMATS[provider_of([message])]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def calling(*ids: str, content: str | None = None) -> dict[str, Any]:
    calls = [{"id": key, "type": "function", "function": {"name": f"tool_{key}", "arguments": "{}"}} for key in ids]
    return assistant(content, tool_calls=calls)


def result(key: str, text: str = "fine") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": text}


def use(key: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": "look", "input": {"at": "log"}}


def used(key: str, text: str = "fine") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": text}


def kept(messages: list[Any], budget: int | ContextBudget = LARGE, **options: Any) -> list[int]:
    """The positions that a fit keeps."""
    fitted = fit(messages, budget, counter=COUNTER, **options)
    dropped = {position for unit in fitted.dropped for position in unit.positions}
    return [position for position in range(len(messages)) if position not in dropped]


def rules(messages: list[Any], budget: int = LARGE, **options: Any) -> dict[tuple[int, ...], str]:
    """The units that a provider's rule excludes, with the rule."""
    fitted = fit(messages, budget, counter=COUNTER, **options)
    return {unit.positions: unit.reason.filter_name for unit in fitted.dropped if isinstance(unit.reason, Filtered)}


def units(messages: list[Any], **options: Any) -> list[tuple[int, ...]]:
    return [tuple(item.metadata[POSITIONS_KEY]) for item in to_items(messages, COUNTER, **options)]


def weigh(messages: list[Any]) -> int:
    """Tokens of a request as we count them, notes included."""
    infos = [FORMATS["openai"].read(message, "message", ImageRule()) for message in messages]
    return REPLY_FRAME + sum(map(message_tokens, infos))


class _Everything:
    """The signatures of all texts, for tests that strip notes whoever wrote them."""

    def __contains__(self, signature: object) -> bool:
        return signature != ""


EVERYTHING: Any = _Everything()
