"""Objects with named fields: one table of fields reads, writes and describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import asdict, astuple

from cupel._checks import did_you_mean, shown, wrong_type
from cupel._documents._values import (
    CONTENT,
    COUNT,
    FLAG,
    INSTANT,
    INTEGER,
    INTEGERS,
    NAME,
    NUMBER,
    OBJECT,
    WORDS,
    Path,
    RefusedError,
    Value,
    check_depth,
    decode_json,
    is_written,
    shown_path,
)
from cupel._frozen import EMPTY
from cupel.errors import CupelError, InvalidBudgetError, InvalidItemError
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource

Aside: TypeAlias = dict[Path, dict[str, Any]]
"""Fields that this version does not know, by the path of the object that had them."""


class Readable(Protocol):
    """What stands inside a document as an object of its own."""

    @property
    def title(self) -> str:
        """The name in a schema."""
        ...

    @property
    def packed(self) -> Any:
        """The type that msgspec reads and writes in its place."""
        ...

    def pack(self, value: Any, /) -> Any:
        """Return what msgspec writes as the value's JSON form."""
        ...

    def unpack(self, packed: Any, /) -> Any:
        """Build a value from what msgspec has read; an error says only that it cannot be built like this."""
        ...

    def read(self, form: object, at: Path | None, *, error: type[Exception], aside: Aside | None) -> Any:
        """Build a value; the error names its path."""
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what `read` takes."""
        ...


@dataclass(frozen=True, slots=True)
class Nested:
    """The value of a field that is an object with a form of its own, or a list of `many`."""

    form: Readable
    many: bool = False

    def read(self, value: object, at: Path, error: type[Exception], aside: Aside | None) -> Any:
        """Build what is at a path."""
        if not self.many:
            return self.form.read(value, at, error=error, aside=aside)
        if not isinstance(value, list):
            raise error(f"{shown_path(at)}: {wrong_type(str(at[-1]), 'a list', value)}")
        entries = cast("list[object]", value)
        return tuple(
            self.form.read(entry, (*at, index), error=error, aside=aside) for index, entry in enumerate(entries)
        )

    @property
    def packed(self) -> Any:
        """The type that msgspec reads and writes."""
        return list[self.form.packed] if self.many else self.form.packed  # type: ignore[name-defined]

    def write(self, value: Any) -> Any:
        """Return what msgspec writes."""
        return [self.form.pack(entry) for entry in value] if self.many else self.form.pack(value)

    def unpack(self, packed: Any) -> Any:
        """Build what msgspec has read."""
        return tuple(map(self.form.unpack, packed)) if self.many else self.form.unpack(packed)

    @property
    def schema(self) -> dict[str, Any]:
        """What `read` takes."""
        one = {"$ref": f"#/$defs/{self.form.title}"}
        return {"type": "array", "items": one} if self.many else one


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its Python name, its key in JSON, its values, and the default that need not be written."""

    name: str
    value: Value | Nested
    default: Any = None
    required: bool = False
    always: bool = False
    """Whether it is written even if it has the default's value."""
    key: str = ""
    """The key in JSON, camelCase unless given; readers take the Python name as well."""

    def __post_init__(self) -> None:
        if not self.key:
            first, *rest = self.name.split("_")
            object.__setattr__(self, "key", first + "".join(word.capitalize() for word in rest))


T = TypeVar("T")

_NO_DEFAULT: Final = object()
_UNFIT: Final = (CupelError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What stops the quick way of reading; the thorough way finds out why, and says so."""


@dataclass(frozen=True)
class WireForm(Generic[T]):
    """The form of one class: `build` makes a value of its fields, `error` is what the class itself raises."""

    noun: str
    build: Callable[..., T]
    fields: tuple[Field, ...]
    error: type[CupelError]
    checked: bool = True
    """Whether the class checks its fields itself."""
    struct: type[msgspec.Struct] | None = None
    """What msgspec reads and writes, if there is a class for it already."""

    @property
    def title(self) -> str:
        """The name in a schema."""
        return self.noun.split(" ", 1)[1].replace(" ", "_")

    @cached_property
    def spellings(self) -> dict[str, Field]:
        """The fields by their keys, in both spellings."""
        return {spelling: field for field in self.fields for spelling in (field.key, field.name)}

    @cached_property
    def packed(self) -> Any:
        """The struct that msgspec reads and writes in place of an object; a default in it is the class's own."""
        if self.struct is not None:
            return self.struct
        fields: list[Any] = []
        for field in self.fields:
            held = field.value.packed if isinstance(field.value, Nested) else Any
            fields.append((field.name, held) if field.required else (field.name, held | None, field.default))
        keys = {field.name: field.key for field in self.fields}
        return msgspec.defstruct(self.title, fields, rename=keys, omit_defaults=True, forbid_unknown_fields=True)

    @cached_property
    def _members(self) -> Callable[[T], tuple[Any, ...]]:
        return attrgetter(*(field.name for field in self.fields))

    @cached_property
    def _struct(self) -> Any:
        """The class if it is a struct of just these fields; its subclasses may have more."""
        names = tuple(field.name for field in self.fields)
        return self.build if getattr(self.build, "__struct_fields__", None) == names else None

    @cached_property
    def _readers(self) -> list[tuple[str, Any, Callable[[Any], Any]]]:
        """The fields that are converted in reading, with defaults that are not."""
        readers: list[tuple[str, Any, Callable[[Any], Any]]] = []
        for field in self.fields:
            default = _NO_DEFAULT if field.required else field.default
            if isinstance(field.value, Nested):
                readers.append((field.name, default, field.value.unpack))
            elif field.value.convert or not self.checked:  # a class that checks what it is given takes most values
                readers.append((field.name, default, field.value.read))
        return readers

    @cached_property
    def _writers(self) -> list[tuple[int, bool, Any, Callable[[Any], Any]]]:
        """The fields that are converted in writing, by their places, and the defaults that are left out."""
        return [
            (place, field.always or field.required, field.default, field.value.write)
            for place, field in enumerate(self.fields)
            if field.value.write is not None
        ]

    def read_json(self, text: str | bytes, *, aside: Aside | None = None) -> T:
        """Build a value from JSON text, as `read` does from plain values; every key must occur once."""
        try:
            packed = msgspec.json.decode(text, type=self.packed)
            if is_written(packed, text):
                return self.unpack(packed)
        except _UNFIT:
            pass
        return self.read(decode_json(text, error=self.error), (), aside=aside)

    def read(
        self, form: object, at: Path | None = None, *, error: type[Exception] | None = None, aside: Aside | None = None
    ) -> T:
        """Build a value from plain JSON values; null means absent.

        The error, by default the class's own, names the path of the object if one is given. With `aside` unknown
        fields are put there, otherwise they are refused.
        """
        raised = error or self.error
        try:
            return self.unpack(msgspec.convert(form, self.packed))
        except _UNFIT:
            pass
        named = self.named(form, at, error=raised, aside=aside)
        arguments = {field.name: _read(field, value, at, raised, aside) for field, value in named}
        try:
            return self.build(**arguments)
        except (CupelError, TypeError, ValueError) as bad:
            _refuse(at, str(bad), raised)

    def read_cells(self, cells: Mapping[str, str], *, error: type[Exception] | None = None) -> dict[str, Any]:
        """Return the fields of a row of text under their Python names; an empty cell means absent."""
        raised = error or self.error
        read: dict[str, Any] = {}
        given = {key: text for key, text in cells.items() if text}
        for field, text in self.named(given, error=raised, partial=True):
            if isinstance(field.value, Nested):  # pragma: no cover - no cell holds a form of its own
                continue
            try:
                read[field.name] = text if field.value.cell is str else field.value.cell(text.strip())
            except (OverflowError, ValueError):
                _refuse(None, f"{field.name} must be {field.value.expected}, got {shown(text)}", raised)
        return read

    def named(
        self,
        form: object,
        at: Path | None = None,
        *,
        error: type[Exception] | None = None,
        aside: Aside | None = None,
        partial: bool = False,
    ) -> list[tuple[Field, Any]]:
        """Return the known fields that are there; with `partial` none has to be."""
        raised = error or self.error
        members = cast("Mapping[Any, Any]", form)
        if not isinstance(form, Mapping):
            _refuse(at, str(wrong_type(self.noun, "an object", form)), raised)
        found: dict[str, tuple[Field, Any]] = {}
        unknown: dict[str, Any] = {}
        for key, value in members.items():
            field = self.spellings.get(key) if isinstance(key, str) else None
            if field is None:
                unknown[key] = value
            elif value is not None:
                if field.name in found:
                    _refuse(at, f"{field.name} is given twice, in both spellings", raised)
                found[field.name] = field, value
        if unknown:
            self._put_aside(unknown, at, raised, aside)
        for field in () if partial else self.fields:
            if field.required and field.name not in found:
                _refuse(at, f"{field.name} is missing", raised)
        return list(found.values())

    def write(self, value: T) -> dict[str, Any]:
        """Return the plain JSON values of an object: fields that have their default's value are left out."""
        plain: dict[str, Any] = msgspec.to_builtins(self.pack(value))
        return plain

    def pack(self, value: Any) -> Any:
        """Return what msgspec writes as the JSON form of an object."""
        members = [*(astuple(value) if type(value) is self._struct else self._members(value))]
        for place, always, default, write in self._writers:
            member = members[place]
            if always or (member is not default and member != default):
                try:
                    members[place] = write(member)
                except (TypeError, ValueError) as bad:
                    raise self._unwritable(self.fields[place], member, bad) from None
            else:
                members[place] = default  # the very object, which msgspec leaves out
        return self.packed(*members)

    def _unwritable(self, field: Field, member: object, bad: Exception) -> Exception:
        """Return what to raise for a member that cannot be written."""
        if isinstance(field.value, Nested):
            return bad
        if isinstance(bad, TypeError):
            return TypeError(f"{field.name} {bad}")
        if isinstance(bad, RefusedError):
            return self.error(f"{field.name}: {bad}")
        return self.error(f"{field.name} must be {field.value.expected}, got {shown(member)}")

    def unpack(self, packed: Any) -> T:
        """Build a value from what msgspec has read."""
        members = asdict(packed)
        for name, default, read in self._readers:
            if (member := members[name]) is not default:
                members[name] = read(member)
        return self.build(**members)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what `read` takes, with unknown fields allowed."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        rules: list[dict[str, Any]] = []
        for field in self.fields:
            own = dict(field.value.schema)
            found = own if field.required else {"anyOf": [own, {"type": "null"}]}
            spellings = list(dict.fromkeys((field.key, field.name)))
            properties.update(dict.fromkeys(spellings, found))
            if len(spellings) == 1:
                required += spellings if field.required else []
            else:
                rules += [{"anyOf": [{"required": [one]} for one in spellings]}] if field.required else []
                both = {spelling: {"not": {"type": "null"}} for spelling in spellings}
                rules.append({"not": {"required": spellings, "properties": both}})
        return {
            "type": "object",
            **({"required": required} if required else {}),
            "properties": properties,
            **({"allOf": rules} if rules else {}),
        }

    def _put_aside(self, unknown: dict[str, Any], at: Path | None, error: type[Exception], aside: Aside | None) -> None:
        key = next(iter(unknown))
        if aside is None:
            _refuse(at, _misspelt(key, self), error)
        try:
            check_depth(unknown)
        except RefusedError as bad:
            _refuse((*(at or ()), key), str(bad), error)
        aside[at or ()] = unknown


def _read(field: Field, value: Any, at: Path | None, error: type[Exception], aside: Aside | None) -> Any:
    if isinstance(field.value, Nested):
        return field.value.read(value, (*(at or ()), field.key), error, aside)
    try:
        return field.value.read(value)
    except RefusedError as bad:
        _refuse((*(at or ()), field.key), str(bad), error)
    except (OverflowError, TypeError, ValueError):
        _refuse(at, str(wrong_type(field.name, field.value.expected, value)), error)


def _misspelt(key: object, form: WireForm[Any]) -> str:
    known = ", ".join(field.key for field in form.fields)
    hint = did_you_mean(str(key), form.spellings) or f"; {form.noun} has {known}"
    return f"unknown key {shown(key)}{hint}"


def _refuse(at: Path | None, problem: str, error: type[Exception]) -> NoReturn:
    raise error(problem if at is None else f"{shown_path(at)}: {problem}") from None


_PERCENTAGE: Final = Value(
    "a number from 0 to 100", {"type": "number", "minimum": 0, "maximum": 100}, NUMBER.read, NUMBER.cell, NUMBER.write
)

ITEM: Final = WireForm(
    "an item",
    ContextItem,
    (
        Field("content", CONTENT, required=True),
        Field("tokens", INTEGER, required=True),
        Field("kind", NAME, ContextKind.MESSAGE, always=True),  # ruling 7.29
        Field("source", NAME, ContextSource.CHAT),
        Field("priority", INTEGER),
        Field("tags", WORDS, ()),
        Field("metadata", OBJECT, EMPTY),
        Field("timestamp", INSTANT),
        Field("future_relevance_hint", NUMBER),
        Field("pinned", FLAG, default=False),
        Field("original_tokens", INTEGER),
    ),
    InvalidItemError,
)
BUDGET: Final = WireForm(
    "a budget",
    ContextBudget,
    (
        Field("max_tokens", COUNT, required=True),
        Field("target_tokens", COUNT, required=True),
        Field("output_reserve", COUNT, 0),
        Field("reserved_slots", INTEGERS, EMPTY),
        Field("estimation_safety_margin_percent", _PERCENTAGE, 0.0),
    ),
    InvalidBudgetError,
)


def budget_of(form: Any, *, error: type[Exception] = InvalidBudgetError) -> ContextBudget:
    """Read a budget from an object, or from a number of tokens that is both window and target."""
    if isinstance(form, int) and not isinstance(form, bool):
        form = {"max_tokens": form, "target_tokens": form}
    return BUDGET.read(form, error=error)
