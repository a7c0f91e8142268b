"""An object with named fields in a document: one table of fields reads, writes and describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

from cupel._checks import shown, wrong_type
from cupel._wire._fields import Aside, Field, Nested
from cupel._wire._limits import RefusedError, check_depth
from cupel._wire._paths import Path, shown_path
from cupel.errors import CupelError

T = TypeVar("T")

_Plan: TypeAlias = tuple[tuple[str, Callable[..., Any] | None, str], ...]
"""Of each field its name, its reader if there is something to do, and the key of one that is nested."""

_MANY: Final = 1000
"""Sets of keys that are remembered: a file has a few, a hostile one as many as lines."""


@dataclass(frozen=True)
class WireForm(Generic[T]):
    """The form of one class: `build` makes a value of its fields, `error` is what the class itself raises."""

    noun: str
    build: Callable[..., T]
    fields: tuple[Field, ...]
    error: type[CupelError]
    checked: bool = True
    """Whether the class checks its fields itself."""

    @property
    def title(self) -> str:
        """The name in a schema."""
        return self.noun.split(" ", 1)[1].replace(" ", "_")

    @cached_property
    def spellings(self) -> dict[str, Field]:
        """The fields by their keys, in both spellings."""
        return {spelling: field for field in self.fields for spelling in (field.key, field.name)}

    @cached_property
    def _plans(self) -> dict[tuple[str, ...], _Plan]:
        return {}

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.required)

    @cached_property
    def _members(self) -> Callable[[T], tuple[Any, ...]]:
        return attrgetter(*(field.name for field in self.fields))

    def read(
        self, form: object, at: Path | None = None, *, error: type[Exception] | None = None, aside: Aside | None = None
    ) -> T:
        """Build a value from plain JSON values; null means absent.

        The error, by default the class's own, names the path of the object if one is given. With `aside` unknown
        fields are put there, otherwise they are refused.
        """
        raised = error or self.error
        plan = self._plan(form)
        if plan is not None:
            # Values are mostly as they should be: only a refusal is looked into, field by field.
            try:
                return self.build(**_arguments(plan, cast("dict[str, Any]", form), at or (), raised, aside))
            except (CupelError, OverflowError, TypeError, ValueError):
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
        written: dict[str, Any] = {}
        for (field, key, default, always, write), member in zip(self._writers, self._members(value), strict=True):
            if member is default and not always:
                continue
            if always or member != default:
                try:
                    written[key] = member if write is None else write(member)
                except (TypeError, ValueError) as bad:
                    raise self._unwritable(field, member, bad) from None
        return written

    @cached_property
    def _writers(self) -> list[tuple[Field, str, Any, bool, Callable[[Any], Any] | None]]:
        return [
            (field, field.key, field.default, field.always or field.required, field.value.write)
            for field in self.fields
        ]

    def _unwritable(self, field: Field, member: object, bad: Exception) -> Exception:
        """Return what to raise for a member that cannot be written."""
        if isinstance(field.value, Nested):
            return bad
        if isinstance(bad, TypeError):
            return TypeError(f"{field.name} {bad}")
        if isinstance(bad, RefusedError):
            return self.error(f"{field.name}: {bad}")
        return self.error(f"{field.name} must be {field.value.expected}, got {shown(member)}")

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

    def _plan(self, form: object) -> _Plan | None:
        """Return what to do with the values of an object that has these keys, if its keys are as they should be."""
        if type(form) is not dict:
            return None
        keys = tuple(cast("dict[str, Any]", form))
        plan = self._plans.get(keys)
        if plan is None and all(key in self.spellings for key in keys) and len(self._plans) < _MANY:
            found = [self.spellings[key] for key in keys]
            names = {field.name for field in found}
            if len(names) == len(found) and names.issuperset(self._required):
                plan = tuple(map(self._planned, found))
                self._plans[keys] = plan
        return plan

    def _planned(self, field: Field) -> tuple[str, Callable[..., Any] | None, str]:
        value = field.value
        if isinstance(value, Nested):
            return field.name, value.read, field.key
        # Where the class checks what it is given, most values need no reader.
        return field.name, value.read if value.convert or not self.checked else None, ""

    def _put_aside(self, unknown: dict[str, Any], at: Path | None, error: type[Exception], aside: Aside | None) -> None:
        key = next(iter(unknown))
        if aside is None:
            _refuse(at, _misspelt(key, self), error)
        try:
            check_depth(unknown)
        except RefusedError as bad:
            _refuse((*(at or ()), key), str(bad), error)
        aside[at or ()] = unknown


def _arguments(
    plan: _Plan, form: dict[str, Any], at: Path, error: type[Exception], aside: Aside | None
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for (name, read, nested), value in zip(plan, form.values(), strict=True):
        if value is None:
            continue
        if read is None:
            arguments[name] = value
        else:
            arguments[name] = read(value, (*at, nested), error, aside) if nested else read(value)
    return arguments


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
    from difflib import get_close_matches  # only a failing document pays for the import

    close = get_close_matches(str(key)[:80], form.spellings, n=1)
    known = ", ".join(field.key for field in form.fields)
    hint = f"did you mean {close[0]!r}?" if close else f"{form.noun} has {known}"
    return f"unknown key {shown(key)}; {hint}"


def _refuse(at: Path | None, problem: str, error: type[Exception]) -> NoReturn:
    raise error(problem if at is None else f"{shown_path(at)}: {problem}") from None
