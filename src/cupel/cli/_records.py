"""What a record of an input file is: an item, a message, or a whole conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from cupel._checks import shown
from cupel._documents import ITEM, is_list, is_object
from cupel.errors import ConfigurationError
from cupel.model import ContextItem

_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Where a record stands, and its fields: as JSON gave them, or as a row of text that still has to be read."""

    where: str
    fields: object
    textual: bool = False


class BadRecordError(Exception):
    """A record that is not what it should be; the message names the field."""


def item_of(record: FileRecord, count: Callable[[str], int]) -> ContextItem:
    """Build the item of a record; a record without a token count gets the counter's."""
    form = _row(cast("Mapping[str, str]", record.fields)) if record.textual else record.fields
    if is_object(form) and form.get("tokens") is None and isinstance(content := form.get("content"), str):
        form = {**form, "tokens": count(content) if content else 0}
    return ITEM.read(form, error=BadRecordError)


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """Read a row of text; a column `metadata.NAME` holds one entry of the metadata."""
    own = {key: text for key, text in cells.items() if not key.startswith(_METADATA)}
    fields = ITEM.read_cells(own, error=BadRecordError)
    entries = {key.removeprefix(_METADATA): text for key, text in cells.items() if key not in own and text}
    if entries:
        fields["metadata"] = {**fields.get("metadata", {}), **entries}
    return fields


def is_message(record: FileRecord) -> bool:
    """Tell whether a record is a message of a chat history: no item has a role or a type."""
    form = record.fields
    return is_object(form) and not record.textual and "tokens" not in form and bool({"role", "type"} & form.keys())


def message_of(record: FileRecord) -> object:
    """Return the message that a record is."""
    if not is_message(record):
        raise BadRecordError("expected a message")
    return record.fields


@dataclass(frozen=True, slots=True)
class NamedConversation:
    """One of many conversations in a file, and the id it goes by."""

    where: str
    messages: Any
    id: object = None


def is_conversation(record: FileRecord) -> bool:
    """Tell whether a record is a list of messages, or an object that has one under `messages`."""
    form = record.fields
    is_named = is_object(form) and not record.textual and "tokens" not in form and "messages" in form
    return is_named or is_list(form)


def conversation_of(record: FileRecord) -> NamedConversation:
    """Return the conversation that a record is."""
    if not is_conversation(record):
        raise BadRecordError("expected a conversation")
    form = record.fields
    return NamedConversation(record.where, *((form["messages"], form.get("id")) if is_object(form) else (form,)))


def chosen_of(conversations: Sequence[NamedConversation], wanted: str | None) -> NamedConversation:
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
    if len(by_id) > 1:
        raise ConfigurationError(f"--conversation {shown(wanted)}: {len(by_id)} conversations have this id")
    by_number = [one for number, one in enumerate(conversations, 1) if str(number) == wanted]
    for one in by_id or by_number:
        return one
    raise ConfigurationError(
        f"--conversation {shown(wanted)}: neither an id nor a number from 1 to {count:,}, the conversations in ITEMS"
    )
