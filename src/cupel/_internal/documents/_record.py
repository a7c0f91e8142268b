"""Records: objects with named fields, declared once to be read, written and described; those of items and budgets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from cupel._internal.checks import did_you_mean, shown, wrong_type
from cupel._internal.documents._codecs import Codec, MapOf, MismatchError, Schema, as_object, step, unknown_word
from cupel._internal.documents._scalars import ANY_NUMBER, FLAG, METADATA, NAME, WORDS, Instant, Integer, Number, Text
from cupel._internal.documents._text import RefusedError, decode_json, is_written
from cupel._internal.frozen import EMPTY
from cupel.errors import ConfigurationError, CupelError, InvalidBudgetError, InvalidItemError, MissingExtraError
from cupel.model import ContextBudget, ContextItem, ContextKind, ContextSource

T = TypeVar("T")

REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    Args:
        name: The constructor's argument and the attribute.
        codec: The codec of its values.
        default: The value that is left out in writing; without one the field is required.
        key: The key in documents, by default the name.
        note: The description in a schema.
        get: Reads the value off an object that has no such attribute.
        always: Whether the default is written too.
    """

    name: str
    codec: Codec[Any]
    default: Any = REQUIRED
    key: str = ""
    note: str = ""
    get: Callable[[Any], Any] | None = None
    always: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.name)

    @property
    def required(self) -> bool:
        """Whether the field must be there."""
        return self.default is REQUIRED

    def described(self) -> Schema:
        """Return the JSON Schema of the field's value, with its default and note."""
        described = self.codec.schema()
        default = self.default.value if isinstance(self.default, Enum) else self.default
        if isinstance(default, (bool, int, float, str)):
            described["default"] = default
        if self.note:
            described["description"] = self.note
        return described


@dataclass(frozen=True)
class Record(Codec[T]):
    """An object with fixed keys: `build` is called with the fields that are there as keyword arguments."""

    build: Callable[..., T]
    fields: tuple[Field, ...] = ()
    rules: Mapping[str, Any] = EMPTY
    """More keywords of the schema; `build` refuses objects that break them."""

    def decode(self, value: Any, /) -> T:
        members = as_object(value)
        known = [field.key for field in self.fields]
        for key in members:
            if key not in known:
                raise unknown_word("key", key, known).inside(key)
        arguments: dict[str, Any] = {}
        for field in self.fields:
            if field.key in members:
                arguments[field.name] = step(field.codec.decode, members[field.key], field.key)
            elif field.required:
                raise RefusedError(f"the key {field.key!r} is missing")
        return construct(self.build, **arguments)

    def encode(self, value: T, /) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for field in self.fields:
            member = (field.get or attrgetter(field.name))(value)
            if field.required or member != field.default:
                written[field.key] = step(field.codec.encode, member, field.key)
        return written

    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {field.key: field.described() for field in self.fields},
            "required": [field.key for field in self.fields if field.required],
            "additionalProperties": False,
            **self.rules,
        }


def record(
    described: type[T], *fields: Field, build: Callable[..., T] | None = None, rules: Mapping[str, Any] = EMPTY
) -> Record[T]:
    """Return the record of a dataclass, with the defaults of the class; `build` replaces its constructor."""
    defaults = {member.name: _default(member) for member in dataclasses.fields(cast("Any", described))}
    settled = (
        replace(field, default=defaults.get(field.name, REQUIRED)) if field.required else field for field in fields
    )
    return Record(build or described, tuple(settled), rules)


def _default(member: dataclasses.Field[Any]) -> Any:
    if member.default_factory is not MISSING:
        return member.default_factory()
    return REQUIRED if member.default is MISSING else member.default


def construct(build: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a constructor; a configuration error keeps its class, everything else is a refused document."""
    try:
        return build(*args, **kwargs)
    except (MissingExtraError, RefusedError):  # a missing extra is not the document's fault
        raise
    except ConfigurationError as error:
        raise RefusedError(str(error), cause=error) from error
    except (CupelError, TypeError, ValueError) as error:
        raise RefusedError(str(error)) from error
    except Exception as error:  # somebody else's constructor
        raise RefusedError(f"{type(error).__name__}: {error}") from error


_FLAGS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _cell_value(codec: Codec[Any], text: str) -> Any:
    """Return the JSON value of a CSV cell: text as it is, words between semicolons, everything else as JSON."""
    if isinstance(codec, Text):
        return text
    text = text.strip()
    if isinstance(codec, Instant):
        return text
    if isinstance(codec, Number):
        return float(text)
    if codec is FLAG:
        return _FLAGS.get(text.lower())
    if codec is WORDS and not text.startswith("["):
        return [word.strip() for word in text.split(";") if word.strip()]
    return decode_json(text)


_NO_DEFAULT: Final = object()
_UNFIT: Final = (CupelError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of the fast path; the thorough one finds the reason and its path."""


@dataclass(frozen=True)
class PackedRecord(Codec[T], Generic[T]):
    """The record of a class that is read and written often: msgspec handles it as a struct.

    Keys are accepted in both spellings, and null means absent. Whatever the struct does not accept is read field by
    field, which names the problem. Many objects are read at once, as columns of their fields.
    """

    noun: str
    build: Callable[..., T]
    fields: tuple[Field, ...]
    error: type[CupelError]
    """The error of the class."""
    checked: bool = True
    """Whether the class checks its fields itself; then unknown fields are refused, otherwise ignored."""
    struct: type[msgspec.Struct] | None = None
    """The struct, if the class itself is one with these keys."""

    converts = True

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
        """The struct that msgspec reads and writes; its defaults are those of the class."""
        return self.struct or self._spelt({field.name: field.key for field in self.fields})

    def _spelt(self, keys: dict[str, str]) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for field in self.fields:
            held = field.codec.packed
            fields.append((field.name, held) if field.required else (field.name, held | None, field.default))
        return msgspec.defstruct(
            self.title, fields, rename=keys, omit_defaults=True, forbid_unknown_fields=self.checked, gc=False
        )

    @cached_property
    def _lists(self) -> list[msgspec.json.Decoder[list[Any]]]:
        """Decoders of lists in one spelling of the keys."""
        structs: list[Any] = [self._spelt(dict(zip(self._names, self._names, strict=True))), self.packed]
        return [msgspec.json.Decoder(list[struct]) for struct in structs]  # type: ignore[valid-type]

    @cached_property
    def _names(self) -> list[str]:
        return [field.name for field in self.fields]

    @cached_property
    def _members(self) -> Callable[[T], tuple[Any, ...]]:
        names = self._names
        return attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)

    @cached_property
    def _writers(self) -> list[tuple[int, bool, Any, Callable[[Any], Any]]]:
        """The fields to convert before writing, by position, with the defaults that are left out."""
        return [
            (place, field.always or field.required, field.default, field.codec.encode)
            for place, field in enumerate(self.fields)
            if not field.codec.verbatim
        ]

    def read_json(self, text: str | bytes) -> T:
        """Build a value from JSON text; every key must occur once."""
        try:
            packed = msgspec.json.decode(text, type=self.packed)
            if is_written(packed, text):
                return self._unpacked(packed)
        except _UNFIT:
            pass
        return self.read(decode_json(text, error=self.error), rooted=True)

    def read(self, value: Any, *, error: type[Exception] | None = None, rooted: bool = False) -> T:
        """Build a value from plain JSON values.

        Args:
            value: The object.
            error: Raised instead of the class's own error.
            rooted: Whether the error names the path of the object itself, `$`.
        """
        try:
            return self._unpacked(msgspec.convert(value, self.packed))
        except _UNFIT:
            pass
        try:
            if self.checked and isinstance(value, Mapping):
                self._check_keys(value.keys())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
            return self.decode(value)
        except RefusedError as bad:
            raise bad.raised_as(error or self.error, rooted=rooted) from None

    def _unpacked(self, packed: Any) -> T:
        members = [*self._members(packed)]
        for place, default, decode in self._conversions:
            member = members[place]
            if member is None and default is not _NO_DEFAULT:
                members[place] = default
            elif decode is not None and member is not default:
                members[place] = decode([member])[0]
        return self._build_in_order(*members)

    def read_list(self, text: msgspec.Raw) -> list[T] | None:
        """Build values from the JSON text of a list; None if they have to be read one by one.

        That is so after an error, which has no path yet, and where one list mixes the spellings of keys.
        """
        for decoder in self._lists:
            try:
                return self.decode_column(decoder.decode(text))
            except _UNFIT:
                continue
        return None

    def decode_column(self, values: Sequence[Any], /) -> list[T]:
        return self._built([*zip(*map(self._members, values), strict=True)]) if values else []

    def of_columns(self, columns: Mapping[str, Sequence[Any]], count: int) -> list[T]:
        """Build values from columns of their fields; None means absent, as does a missing column.

        What a class that checks its fields refuses is left to it, so that its own error is raised.
        """
        return self._built([columns.get(field.name) or [field.default] * count for field in self.fields])

    def _built(self, columns: list[Sequence[Any]]) -> list[T]:
        for place, default, decode in self._conversions:
            values = columns[place]
            if default is _NO_DEFAULT:
                pass
            elif default is not None:
                values = [default if value is None else value for value in values]
            elif None in values:
                there = iter(decode([value for value in values if value is not None]) if decode else ())
                columns[place] = [value if value is None else next(there) for value in values]
                continue
            columns[place] = decode(values) if decode else values
        return list(map(self._build_in_order, *columns))

    @cached_property
    def _conversions(self) -> list[tuple[int, Any, Callable[[Sequence[Any]], Sequence[Any]] | None]]:
        """The fields to convert after reading: their places, what None stands for, and how to decode them."""
        found: list[tuple[int, Any, Any]] = []
        for place, field in enumerate(self.fields):
            decode = field.codec.decode_column if field.codec.converts or not self.checked else None
            default = _NO_DEFAULT if field.required else field.default
            if decode or default not in (_NO_DEFAULT, None):
                found.append((place, default, decode))
        return found

    @cached_property
    def _build_in_order(self) -> Callable[..., T]:
        """The constructor with positional arguments, twice as fast as with a dictionary of keywords for each value."""
        arguments = ", ".join(f"{name}={name}" for name in self._names)
        source = f"lambda {', '.join(self._names)}: build({arguments})"
        build: Callable[..., T] = eval(source, {"build": self.build})  # noqa: S307  (it holds names of fields only)
        return build

    def decode(self, value: Any, /) -> T:
        arguments: dict[str, Any] = {}
        for field, member in self.named(value):
            try:
                arguments[field.name] = field.codec.decode(member)
            except MismatchError as bad:
                if bad.path:
                    raise bad.inside(field.key) from None
                raise RefusedError(str(wrong_type(field.name, bad.expected, member))) from None
            except RefusedError as bad:
                raise bad.inside(field.key) from None
        try:
            return self.build(**arguments)
        except (CupelError, TypeError, ValueError) as bad:
            raise RefusedError(str(bad)) from None

    def named(self, value: Any, *, partial: bool = False) -> list[tuple[Field, Any]]:
        """Return the known fields that are there; with `partial` none has to be."""
        members: Mapping[Any, Any] = value
        if not isinstance(value, Mapping):
            raise RefusedError(str(wrong_type(self.noun, "an object", members)))
        found: dict[str, tuple[Field, Any]] = {}
        for key, member in members.items():
            field = self.spellings.get(key)
            if field is None or member is None:
                continue
            if field.name in found:
                raise RefusedError(f"{field.name} is given twice, in both spellings")
            found[field.name] = field, member
        for field in () if partial else self.fields:
            if field.required and field.name not in found:
                raise RefusedError(f"{field.name} is missing")
        return list(found.values())

    def read_cells(self, cells: Mapping[str, str], *, error: type[Exception] | None = None) -> dict[str, Any]:
        """Return the fields of a CSV row under their Python names; an empty cell means absent."""
        raised = error or self.error
        given = {key: text for key, text in cells.items() if text}
        try:
            self._check_keys(given)
            named = self.named(given, partial=True)
        except RefusedError as bad:
            raise raised(str(bad)) from None
        read: dict[str, Any] = {}
        for field, text in named:
            try:
                read[field.name] = field.codec.decode(_cell_value(field.codec, text))
            except (OverflowError, ValueError):
                raise raised(f"{field.name} must be {field.codec.expected}, got {shown(text)}") from None
        return read

    def write(self, value: T) -> dict[str, Any]:
        """Return an object as plain JSON values; fields that have their default are left out."""
        plain: dict[str, Any] = msgspec.to_builtins(self.encode(value))
        return plain

    def encode(self, value: Any, /) -> Any:
        members = [*self._members(value)]
        for place, always, default, encode in self._writers:
            member = members[place]
            if always or (member is not default and member != default):
                try:
                    members[place] = encode(member)
                except (TypeError, ValueError) as bad:
                    raise self._unwritable(self.fields[place], member, bad) from None
            else:
                members[place] = default  # the same object, which msgspec leaves out
        return self.packed(*members)

    def _unwritable(self, field: Field, member: object, bad: Exception) -> Exception:
        if field.codec.packed is not Any:  # a record within, which names its own field
            return bad
        if isinstance(bad, TypeError):
            return TypeError(f"{field.name} {bad}")
        if isinstance(bad, MismatchError):
            return self.error(f"{field.name} must be {field.codec.expected}, got {shown(member)}")
        return self.error(f"{field.name}: {bad}")

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.title}"}

    def definition(self) -> Schema:
        """Return the JSON Schema of the objects that `read` accepts, with unknown fields allowed."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        rules: list[dict[str, Any]] = []
        for field in self.fields:
            own = field.codec.schema()
            if field.key == field.name:
                properties[field.key] = own if field.required else {"anyOf": [own, {"type": "null"}]}
                required += [field.key] if field.required else []
                continue
            given = {one: {"not": {"type": "null"}} for one in (field.key, field.name)}
            properties |= {one: {"anyOf": [own, {"type": "null"}]} for one in given}
            if field.required:
                rules.append({"anyOf": [{"required": [one], "properties": {one: given[one]}} for one in given]})
            rules.append({"not": {"required": list(given), "properties": given}})
        return {
            "type": "object",
            **({"required": required} if required else {}),
            "properties": properties,
            **({"allOf": rules} if rules else {}),
        }

    def _check_keys(self, keys: Iterable[Any]) -> None:
        for key in keys:
            if key not in self.spellings:
                known = ", ".join(field.key for field in self.fields)
                hint = did_you_mean(str(key), self.spellings) or f"; {self.noun} has {known}"
                raise RefusedError(f"unknown key {shown(key)}{hint}")


def _field(name: str, codec: Codec[Any], default: Any = REQUIRED, *, always: bool = False) -> Field:
    first, *rest = name.split("_")
    return Field(name, codec, default, key=first + "".join(word.capitalize() for word in rest), always=always)


_INTEGER: Final = Integer()
_COUNT: Final = Integer(least=0)

ITEM: Final = PackedRecord(
    "an item",
    ContextItem,
    (
        _field("content", Text(can_be_empty=False)),
        _field("tokens", _INTEGER),
        _field("kind", NAME, ContextKind.MESSAGE, always=True),  # ruling 7.29
        _field("source", NAME, ContextSource.CHAT),
        _field("priority", _INTEGER, None),
        _field("tags", WORDS, ()),
        _field("metadata", METADATA, EMPTY),
        _field("timestamp", Instant(), None),
        _field("future_relevance_hint", ANY_NUMBER, None),
        _field("pinned", FLAG, default=False),
        _field("original_tokens", _INTEGER, None),
    ),
    InvalidItemError,
)
BUDGET: Final = PackedRecord(
    "a budget",
    ContextBudget,
    (
        _field("max_tokens", _COUNT),
        _field("target_tokens", _COUNT),
        _field("output_reserve", _COUNT, 0),
        _field("reserved_slots", MapOf(_COUNT, NAME), EMPTY),
        _field("estimation_safety_margin_percent", Number(least=0, most=100), 0.0),
    ),
    InvalidBudgetError,
)


def budget_of(fields: Any, *, error: type[Exception] = InvalidBudgetError) -> ContextBudget:
    """Read a budget from an object, or from a number of tokens that is both window and target."""
    if isinstance(fields, int) and not isinstance(fields, bool):
        fields = {"max_tokens": fields, "target_tokens": fields}
    return BUDGET.read(fields, error=error)
