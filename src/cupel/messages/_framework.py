"""Histories of chat frameworks, read as a provider's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack

from cupel._internal.checks import wrong_type
from cupel.errors import ConfigurationError
from cupel.messages._fit import fit_once
from cupel.messages._formats import FORMATS, FRAMEWORK
from cupel.messages._reading import Options

if TYPE_CHECKING:
    from cupel.messages._formats import Format
    from cupel.messages._reading import Thinking
    from cupel.messages._results import Fitted
    from cupel.messages._rules import SystemMessages
    from cupel.model import ContextBudget
    from cupel.pipeline import Pipeline
    from cupel.shorten import Shortener
    from cupel.tokens import TokenCounter

M = TypeVar("M")


class FitOptions(TypedDict, Generic[M], total=False):
    """The options of `fit` that frameworks' adapters pass on."""

    pin: Callable[[M], bool] | None
    alternate: bool
    system_messages: SystemMessages
    query: str | None
    forms: Shortener | bool | None
    notes: bool
    recall: bool
    thinking: Thinking


@dataclass(frozen=True)
class Framework(Generic[M]):
    """A chat framework: how to read its messages and tools; `fit` returns the caller's objects.

    `views` translates a whole history, message by message, into plain dicts like chat-completions messages, which are
    checked by the rules that every provider accepts; with `format="anthropic"`, into dicts like Anthropic's messages.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Line:
    ...     who: str
    ...     words: str
    >>> lines = Framework(Line, lambda history: [{"role": line.who, "content": line.words} for line in history], dict)
    >>> fitted = lines.fit([Line("user", "Long ago. " * 90), Line("assistant", "Yes."), Line("user", "Now?")], 40)
    >>> fitted.messages
    [Line(who='user', words='Now?')]
    """

    message: type[M] | tuple[type[M], ...]
    """The class of its messages."""
    views: Callable[[Sequence[M]], Iterable[Mapping[str, Any]]]
    """Translates messages one by one: long sessions pass a history without old steps."""
    schema: Callable[[Any], Mapping[str, Any]]
    """The schema of one of the framework's tools."""
    format: Literal["any", "anthropic"] = "any"
    """Whose rules the translated messages are held to."""
    with_outputs: Callable[[M, Sequence[str]], M] | None = None
    """Returns a copy of a message with its tool results replaced by these texts; without it, nothing is shortened."""
    without_thinking: Callable[[M], M] | None = None
    """Returns a copy of a message without the thinking that its provider binds to what came before; itself, if there is
    none."""

    def fit(
        self,
        messages: Iterable[M],
        budget: int | ContextBudget,
        policy: Pipeline | None = None,
        counter: TokenCounter | None = None,
        tools: Iterable[Any] | None = None,
        *,
        system: str | None = None,
        **options: Unpack[FitOptions[M]],
    ) -> Fitted[M]:
        """Return the part of a history that fits a budget, by the rules of `cupel.messages.fit`.

        Where the framework has `with_outputs`, `forms` lets long tool outputs be sent shorter, in copies.
        """
        named: dict[str, Any] = {**options}
        forms, query, notes = named.pop("forms", None), named.pop("query", None), named.pop("notes", True)
        if forms not in (None, False) and self.with_outputs is None:
            msg = "forms must be False: this framework's messages cannot be shortened, for lack of with_outputs"
            raise ConfigurationError(msg)
        info = Options(counter=counter, system=system, tools=self.schemas(tools), framework=self, **named)
        return fit_once(list(messages), info, budget, policy, query=query, forms=forms, notes=notes)

    @property
    def rules(self) -> Format:
        """The rules that the translated messages are held to."""
        return FRAMEWORK if self.format == "any" else FORMATS[self.format]

    def translated(self, messages: Sequence[M], positions: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return some messages of a history as plain dicts."""
        for position, message in zip(positions, messages, strict=True):
            if not isinstance(message, self.message):
                raise wrong_type(f"messages[{position}]", "a message of the framework", message)
        translated = list(self.views(messages))
        if len(translated) != len(messages):
            msg = f"views must translate every message, got {len(translated)} for {len(messages)} messages"
            raise ConfigurationError(msg)
        return translated

    def view(self, message: M) -> Mapping[str, Any]:
        """Return one message as a plain dict."""
        return next(iter(self.views([message])))

    def bare(self, message: M) -> M:
        """Return a copy of a message without its thinking; the message, if it has none."""
        return message if self.without_thinking is None else self.without_thinking(message)

    def shortened(self, message: M, texts: Sequence[str]) -> M:
        """Return a copy of a message with other outputs; where there is no way to write one, the message."""
        return message if self.with_outputs is None else self.with_outputs(message, texts)

    def schemas(self, tools: Iterable[Any] | None) -> list[Mapping[str, Any]]:
        """Return the schemas of the framework's tools."""
        return [self._schema(position, tool) for position, tool in enumerate(tools or ())]

    def _schema(self, position: int, tool: Any) -> Mapping[str, Any]:
        if isinstance(tool, Mapping):
            return tool  # pyright: ignore[reportUnknownVariableType]
        try:
            return self.schema(tool)
        except (AttributeError, TypeError, ValueError) as error:
            raise wrong_type(f"tools[{position}]", "a tool of the framework or its schema", tool) from error
