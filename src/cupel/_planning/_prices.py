"""What a provider charges for a prompt that it has seen before."""

from __future__ import annotations

from dataclasses import dataclass

from cupel._checks import as_finite, as_integer
from cupel.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """How a provider caches prompts, in units of one uncached input token.

    A mechanism, not a price list: whatever the model costs, a token that is read from the cache costs `read` of it and
    one that is written `write`. Start from `marked()`, `automatic()` or `automatic_paid()` and change what differs.

    >>> Prices.marked(ttl=3600, write=2).write
    2.0
    """

    read: float = 0.1
    """The price of a token that the cache serves."""
    write: float = 1.25
    """The price of a token that it does not."""
    ttl: float = 300.0
    """How many seconds a prompt is remembered after its last use."""
    marks: int = 4
    """How many marks a request may carry; 0 where the provider finds the common beginning by itself."""
    minimum: int = 0
    """The shortest beginning that is cached, in tokens."""
    step: int = 1
    """The cached beginning is a multiple of this many tokens."""

    def __post_init__(self) -> None:
        for name in ("read", "write", "ttl"):
            object.__setattr__(self, name, as_finite(name, getattr(self, name), least=0, error=ConfigurationError))
        for name, least in (("marks", 0), ("minimum", 0), ("step", 1)):
            object.__setattr__(self, name, as_integer(name, getattr(self, name), least=least, error=ConfigurationError))
        if self.read > self.write:
            msg = f"read must not exceed write, got read={self.read}, write={self.write}: caching would never pay"
            raise ConfigurationError(msg)

    @classmethod
    def marked(cls, *, read: float = 0.1, write: float = 1.25, ttl: float = 300, marks: int = 4) -> Prices:
        """The caller marks where a prompt may be cut; writing costs more than sending."""
        return cls(read=read, write=write, ttl=ttl, marks=marks)

    @classmethod
    def automatic(
        cls, *, read: float = 0.1, write: float = 1.0, ttl: float = 300, minimum: int = 1024, step: int = 128
    ) -> Prices:
        """The provider finds what it has seen by itself, and writing costs nothing extra."""
        return cls(read=read, write=write, ttl=ttl, marks=0, minimum=minimum, step=step)

    @classmethod
    def automatic_paid(cls, *, read: float = 0.1, write: float = 1.25, ttl: float = 1800) -> Prices:
        """The provider finds what it has seen by itself, and writing costs more than sending."""
        return cls(read=read, write=write, ttl=ttl, marks=0)

    def cached(self, tokens: int) -> int:
        """Return how many of a common beginning's tokens the cache serves.

        >>> Prices.automatic().cached(1500), Prices.automatic().cached(1000)
        (1408, 0)
        """
        return 0 if tokens < self.minimum else tokens // self.step * self.step
