"""Which format a history is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cupel.integrations.messages._dialect import dialect_of
from cupel.integrations.messages._plain import is_sequence, plain, wrong_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cupel.integrations.messages._dialect import Provider


def provider_of(
    messages: Sequence[object], *, system: object = None, tools: Sequence[object] | None = None
) -> Provider:
    """Return the format of a history, as `fit` recognises it; one that any format would take counts as Anthropic's.

    >>> provider_of([{"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}])
    'openai-responses'
    """
    if not is_sequence(messages):
        raise wrong_type("messages", "a list of messages", messages)
    views = [plain(message, f"messages[{index}]") for index, message in enumerate(messages)]
    for index, view in enumerate(views):
        if not isinstance(view, dict):
            raise wrong_type(f"messages[{index}]", "a message", view)
    return cast("Provider", dialect_of(views, None, system=system, tools=plain(tools, "tools")).name)
