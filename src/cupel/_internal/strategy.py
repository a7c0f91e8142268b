"""The base class of strategies: the specified method, and the one that the pipeline calls."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar


class Strategy(ABC):
    """Base of scorers, slicers and placers.

    Each has the method that the specification names and a second one, for everything at once, which the pipeline calls.
    The base class of a family implements the second in terms of the first; built-ins override the second. If a class
    overrides only the first, even as a subclass of a built-in, its second method is reset to that of the base class, so
    that the pipeline uses the override.
    """

    __slots__ = ()

    _faces: ClassVar[tuple[str, str]]
    """The names of the two methods, declared by each family."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        specified, whole = cls._faces
        written = next(vars(base) for base in cls.__mro__ if specified in vars(base) or whole in vars(base))
        if whole not in written:
            family = next(base for base in cls.__mro__ if "_faces" in vars(base))
            setattr(cls, whole, vars(family)[whole])
