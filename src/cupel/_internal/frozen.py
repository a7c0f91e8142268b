"""A dictionary that cannot be changed after it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A read-only dict: equal to any dict with the same entries, and it pickles, which a mapping proxy does not.

    >>> FrozenDict({"a": 1}) == {"a": 1}
    True
    """

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is read-only")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __hash__(self) -> int:  # type: ignore[override]
        # Keys only: values may be unhashable, and equal dicts have equal keys.
        return hash(frozenset(self))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[dict[K, V]]]:
        return type(self), (dict(self),)


EMPTY: FrozenDict[Any, Any] = FrozenDict()
