"""Many conversations in one file, of which a command takes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cupel._checks import shown
from cupel.cli._records import Record
from cupel.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Conversation:
    """One of many conversations in a file, and the id it goes by."""

    where: str
    messages: Any
    id: object = None


def conversation_of(record: Record) -> Conversation | None:
    """Return the conversation that a record is: a list of messages, or an object that has one under `messages`."""
    form: Any = record.fields
    if not record.textual and isinstance(form, Mapping) and "tokens" not in form and "messages" in form:
        members = cast("Mapping[str, Any]", form)
        return Conversation(record.where, members["messages"], members.get("id"))
    return Conversation(record.where, form) if isinstance(form, list) else None


def chosen_of(conversations: Sequence[Conversation], wanted: str | None) -> Conversation:
    """Return the conversation that is asked for; the only one if there is but one."""
    count = len(conversations)
    if wanted is None:
        if count > 1:
            raise ConfigurationError(
                f"ITEMS has {count:,} conversations: choose one with --conversation, by its id or its number from 1, "
                "or select for all of them with cupel batch"
            )
        return conversations[0]
    by_id = [one for one in conversations if one.id is not None and str(one.id) == wanted]
    if len(by_id) == 1:
        return by_id[0]
    if by_id:
        raise ConfigurationError(f"--conversation {shown(wanted)}: {len(by_id)} conversations have this id")
    numbers = {str(number): one for number, one in enumerate(conversations, 1)}
    if wanted in numbers:
        return numbers[wanted]
    raise ConfigurationError(
        f"--conversation {shown(wanted)}: neither an id nor a number from 1 to {count:,}, the conversations in ITEMS"
    )


def refuse_choice(conversation: str | None, there: str) -> None:
    """Refuse to choose a conversation where there is nothing to choose from."""
    if conversation is not None:
        raise ConfigurationError(f"--conversation {shown(conversation)}: ITEMS has {there}, nothing to choose from")
