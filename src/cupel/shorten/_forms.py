"""Forms of one item, and trying forms in order: the first that keeps its promise is taken."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from cupel._internal.checks import as_finite, as_instance, as_text, shown, wrong_type
from cupel.errors import ConfigurationError, InvalidItemError
from cupel.model import ID_KEY, WORTH_KEY, ContextItem
from cupel.shorten._request import AsyncShortener, Request, Shortener
from cupel.shorten._select import shorten
from cupel.tokens import TokenCounter, counter_or_default

if TYPE_CHECKING:
    from concurrent.futures import Future

ShorterForm: TypeAlias = ContextItem | str
"""A shorter form: an item, or its text."""

_EXPECTED = "an item, a text, or a pair of one and its worth"


def forms(
    full: ContextItem,
    *shorter: ShorterForm | tuple[ShorterForm, float],
    id: str,  # noqa: A002 - the name of the metadata key
    counter: TokenCounter | None = None,
) -> tuple[ContextItem, ...]:
    """Return an item and its shorter forms, marked as forms of one thing: `cupel:id`, and `cupel:worth` of each.

    A shorter form is a text or an item, or a pair of it and its worth: the share of the full item's score that it
    keeps, from 0 to 1. Without one, the worth is the square root of the share of tokens, so a quarter of the length is
    worth half. Texts are counted; all else, from kind and time to metadata, is the full item's.

    >>> full = ContextItem("a long report", 900, kind="ToolOutput")
    >>> for item in forms(full, "its summary", ("a stub", 0.1), id="call-17"):
    ...     print(item.content, item.tokens, item.kind, dict(item.metadata))
    a long report 900 ToolOutput {'cupel:id': 'call-17'}
    its summary 2 ToolOutput {'cupel:id': 'call-17', 'cupel:worth': 0.0471...}
    a stub 2 ToolOutput {'cupel:id': 'call-17', 'cupel:worth': 0.1}
    """
    full = as_instance("full", full, ContextItem)
    label = as_text("id", id)
    if not label:
        msg = "id must not be empty, got ''"
        raise InvalidItemError(msg)
    if full.pinned:
        msg = f"full must not be pinned: a pinned item is always in, and has no shorter form; got {shown(full.content)}"
        raise InvalidItemError(msg)
    _require_same("full", ID_KEY, full, label)
    _require_same("full", WORTH_KEY, full, 1.0)
    named = msgspec.structs.replace(full, metadata={**full.metadata, ID_KEY: label})
    made = [_form(f"shorter[{place}]", entry, named, counter) for place, entry in enumerate(shorter)]
    seen = {full.content: "full"}
    for place, item in enumerate(made):
        if item.content in seen:
            msg = f"shorter[{place}] must differ from {seen[item.content]}, got the same content: {shown(item.content)}"
            raise InvalidItemError(msg)
        seen[item.content] = f"shorter[{place}]"
    return (named, *made)


def _form(
    path: str, entry: ShorterForm | tuple[ShorterForm, float], full: ContextItem, counter: TokenCounter | None
) -> ContextItem:
    pair = cast("tuple[object, ...]", entry if isinstance(entry, tuple) else (entry, None))
    if len(pair) != 2:  # noqa: PLR2004 - a pair
        raise wrong_type(path, _EXPECTED, entry)
    form, worth = pair
    if isinstance(form, ContextItem):
        content, tokens = form.content, form.tokens
        _require_same(path, ID_KEY, form, full.metadata[ID_KEY])
        if worth is None:
            worth = form.metadata.get(WORTH_KEY)
        else:
            _require_same(path, WORTH_KEY, form, worth)
    elif isinstance(form, str):
        content, tokens = form, counter_or_default(counter).count(form)
    else:
        raise wrong_type(path, _EXPECTED, form)
    if not content:
        msg = f"{path} must not be empty, got ''"
        raise InvalidItemError(msg)
    if not 0 <= tokens <= full.tokens:
        msg = f"{path} must have from 0 to the {full.tokens} tokens of the full item, got {tokens}"
        raise InvalidItemError(msg)
    if worth is None:
        worth = sqrt(tokens / full.tokens) if full.tokens else 1.0
    worth = as_finite(f"{path}: worth", worth, least=0, most=1, error=InvalidItemError)
    metadata = {**full.metadata, WORTH_KEY: worth}
    return msgspec.structs.replace(full, content=content, tokens=tokens, metadata=metadata, original_tokens=full.tokens)


def _require_same(path: str, key: str, item: ContextItem, expected: object) -> None:
    found = item.metadata.get(key, expected)
    if found != expected:
        msg = f"{path}.metadata[{key!r}] must be {shown(expected)} or absent, got {shown(found)}"
        raise InvalidItemError(msg)


@dataclass(frozen=True, slots=True)
class FormFailure:
    """A form that was tried and failed: its name and the reason; `error` is the exception, if it raised one.

    >>> FormFailure("summary", "took longer than 2 seconds").reason
    'took longer than 2 seconds'
    """

    form: str
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Shortened:
    """A shortened text, which form made it, and which forms before it failed.

    `form` is the function's name: `shorten` where every form failed, `full` where the text was within the limit.

    >>> from cupel.shorten import head_tail
    >>> try_forms("within the limit", 10, head_tail)
    Shortened(text='within the limit', tokens=3, form='full', failures=())
    """

    text: str
    tokens: int
    form: str
    failures: tuple[FormFailure, ...] = ()


def try_forms(
    text: str, limit: int, *forms: Shortener, counter: TokenCounter | None = None, timeout: float | None = None
) -> Shortened:
    r"""Return the first form of a text that is made in time, without an error, and within the limit.

    A form also fails if it returns something other than a string, or more tokens or characters than it may. After the
    last one comes `shorten`, which does not fail. `timeout` is in seconds, for each form that is not of this package; a
    function that has not returned by then goes on in its thread, and its result is ignored.

    >>> from cupel.shorten import head_tail
    >>> def summary(text: str, limit: int) -> str:
    ...     raise ConnectionError("the model cannot be reached")
    >>> tried = try_forms("one line of many\n" * 90, 25, summary, head_tail)
    >>> tried.form, tried.tokens, tried.failures[0].reason
    ('head_tail', 21, 'ConnectionError: the model cannot be reached')
    """
    attempt = _Attempt.of(text, limit, counter, timeout)
    failures: list[FormFailure] = []
    for form in () if attempt.request.is_met else forms:
        try:
            seconds = None if _is_own(form) else timeout
            made: object = form(text, limit) if seconds is None else _in_thread(form, text, limit, seconds)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises is reported
            failures.append(attempt.failure(form, error))
            continue
        if taken := attempt.taken(form, made, failures):
            return taken
    return attempt.last_resort(failures)


async def atry_forms(
    text: str,
    limit: int,
    *forms: Shortener | AsyncShortener,
    counter: TokenCounter | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the limit is for each form, and running out of it is no error
) -> Shortened:
    r"""Return the same as `try_forms`, with forms that may be awaited; one that runs out of time is cancelled.

    Cancelling the caller cancels the form that is being tried.

    >>> import asyncio
    >>> from cupel.shorten import head_tail
    >>> async def summary(text: str, limit: int) -> str:
    ...     await asyncio.sleep(60)
    ...     return "a summary, too late"
    >>> tried = asyncio.run(atry_forms("one line of many\n" * 90, 25, summary, head_tail, timeout=0.5))
    >>> tried.form, tried.failures
    ('head_tail', (FormFailure(form='summary', reason='took longer than 0.5 seconds', error=None),))
    """
    import asyncio

    attempt = _Attempt.of(text, limit, counter, timeout)
    failures: list[FormFailure] = []
    for form in () if attempt.request.is_met else forms:
        clock = asyncio.timeout(None if _is_own(form) else timeout)
        try:
            async with clock:
                made = await _awaited(form, text, limit, threaded=clock.when() is not None)
        except Exception as error:  # noqa: BLE001 - as above
            late = isinstance(error, TimeoutError) and clock.expired()
            failures.append(attempt.failure(form, _OutOfTimeError() if late else error))
            continue
        if taken := attempt.taken(form, made, failures):
            return taken
    return attempt.last_resort(failures)


class _OutOfTimeError(Exception):
    """A form did not return in time; a separate class, since a form may raise TimeoutError itself."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The checks before, between and after the forms, shared by both functions."""

    request: Request
    timeout: float | None

    @classmethod
    def of(cls, text: str, limit: int, counter: TokenCounter | None, timeout: float | None) -> _Attempt:
        if timeout is not None and as_finite("timeout", timeout, error=ConfigurationError, least=0) == 0:
            msg = "timeout must be more than 0 seconds, got 0"
            raise ConfigurationError(msg)
        return cls(Request.of(text, limit, counter, exact=True), timeout)

    def failure(self, form: Callable[..., object], error: Exception) -> FormFailure:
        if isinstance(error, _OutOfTimeError):
            return FormFailure(_name(form), f"took longer than {self.timeout:g} seconds")
        return FormFailure(_name(form), f"{type(error).__name__}: {error!s:.200}", error)

    def taken(self, form: Callable[..., object], made: object, failures: list[FormFailure]) -> Shortened | None:
        request, name = self.request, _name(form)
        if inspect.isawaitable(made):
            if inspect.iscoroutine(made):
                made.close()
            reason = "has to be awaited: use atry_forms"
        elif not isinstance(made, str):
            reason = f"returned {type(made).__name__}, not a string"
        elif len(made) > len(request.text):
            reason = f"returned {len(made):,} characters for {len(request.text):,}"
        elif (tokens := request.counter.count(made)) > (request.limit or 0):
            reason = f"returned {tokens:,} tokens, more than the limit of {request.limit:,}"
        else:
            return Shortened(made, tokens, name, tuple(failures))
        failures.append(FormFailure(name, reason))
        return None

    def last_resort(self, failures: list[FormFailure]) -> Shortened:
        request = self.request
        if request.is_met:
            return Shortened(request.text, request.tokens, "full")
        made = shorten(request.text, request.limit or 0, counter=request.counter)
        return Shortened(made, request.counter.count(made), "shorten", tuple(failures))


def _name(form: Callable[..., object]) -> str:
    form = _inner(form)
    return getattr(form, "__name__", type(form).__name__)


def _is_own(form: Callable[..., object]) -> bool:
    """Whether a form is the package's own: its result must not depend on a busy machine, so it has no time limit."""
    import cupel.shorten

    return getattr(cupel.shorten, _name(form), None) is _inner(form)


def _inner(form: Callable[..., object]) -> Callable[..., object]:
    while isinstance(form, partial):
        form = cast("partial[object]", form).func
    return form


def _in_thread(form: Shortener, text: str, limit: int, timeout: float) -> object:
    from concurrent.futures import wait

    outcome = _started(form, text, limit)
    wait([outcome], timeout)
    if not outcome.done():
        raise _OutOfTimeError
    return outcome.result()


async def _awaited(form: Shortener | AsyncShortener, text: str, limit: int, *, threaded: bool) -> object:
    import asyncio

    if inspect.iscoroutinefunction(_inner(form)) or not threaded:
        made: Any = form(text, limit)
    else:
        made = await asyncio.wrap_future(_started(form, text, limit))
    return await cast("Awaitable[object]", made) if inspect.isawaitable(made) else made


def _started(form: Callable[[str, int], object], text: str, limit: int) -> Future[object]:
    """Call a function in a new thread, which continues if the caller stops waiting."""
    from concurrent.futures import Future  # brings logging, which few need

    outcome: Future[object] = Future()
    outcome.set_running_or_notify_cancel()  # from here on it cannot be cancelled

    def run() -> None:
        try:
            outcome.set_result(form(text, limit))
        except Exception as error:  # noqa: BLE001 - raised again where the outcome is asked for
            outcome.set_exception(error)

    # A daemon, so that a function that never returns does not keep the process alive.
    Thread(target=run, name="cupel-shorten", daemon=True).start()
    return outcome
