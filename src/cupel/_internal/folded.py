"""Names that compare without ASCII case and keep the spelling they were given."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

from cupel._internal.checks import as_mapping, as_text, shown
from cupel._internal.frozen import FrozenDict
from cupel.errors import CupelError, InvalidItemError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MOST_KNOWN = 1024
_ASCII_FOLD = str.maketrans(ascii_uppercase, ascii_lowercase)
V = TypeVar("V")


def fold_ascii(text: str) -> str:
    """Lower A to Z and nothing else: `str.lower` would also fold the Kelvin sign into `k` (ruling 2.11)."""
    return text.lower() if text.isascii() else text.translate(_ASCII_FOLD)


class FoldedName:
    """Base of `ContextKind` and `ContextSource`: equality and hash use `key`, display uses `value`."""

    __slots__ = ("key", "value")
    noun: ClassVar[str]
    known: ClassVar[dict[str, Any]]
    """The names that plain strings stand for, so that each is built once."""

    key: str
    """The ASCII-folded form two names are compared by."""
    value: str
    """The spelling given at construction."""

    def __init_subclass__(cls) -> None:
        cls.known = {}

    def __init__(self, value: str) -> None:
        value = as_text(self.noun, value)
        if not value.strip():
            raise InvalidItemError(f"{self.noun} must not be blank, got {shown(value)}")
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "key", fold_ascii(value))

    @classmethod
    def of(cls, value: Self | str) -> Self:
        """Return `value` when it is one of these already, else build one from the string."""
        if isinstance(value, cls):
            return value
        if type(value) is not str:  # an unhashable value must reach the constructor's own error
            return cls(value)  # type: ignore[arg-type]
        name = cls.known.get(value)
        if name is None:
            if len(cls.known) >= _MOST_KNOWN:
                cls.known.clear()
            name = cls.known[value] = cls(value)
        return name

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name}")

    def __eq__(self, other: object) -> bool:
        # Never equal to a plain str: no hash could agree with every spelling's hash (ruling 2.14).
        if type(other) is type(self):
            return self.key == other.key
        return NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self.key))

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.value,)


N = TypeVar("N", bound=FoldedName)


def folded_map(
    mapping: Mapping[N | str, object],
    name_type: type[N],
    check: Callable[[object, str], V],
    *,
    field: str,
    error: type[CupelError],
) -> FrozenDict[N, V]:
    """Freeze a mapping keyed by names, refusing keys that fold together as ambiguous (ruling 2.15).

    `check(value, where)` validates and converts one value; `where` names it for the message.
    """
    frozen: dict[N, V] = {}
    for raw, value in as_mapping(field, mapping).items():
        try:
            name = name_type.of(raw)
        except InvalidItemError as blank:
            raise error(f"{field}: {blank}") from None
        if name in frozen:
            first = next(other for other in frozen if other == name)
            msg = f"{field}: {shown(first.value)} and {shown(name.value)} are the same {name_type.noun}; keep one"
            raise error(msg)
        frozen[name] = check(value, f"{field}[{shown(name.value)}]")
    return FrozenDict(frozen)
