"""Searching for a counterexample, and showing it."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, reject, settings
from hypothesis.errors import Flaky, Unsatisfiable, UnsatisfiedAssumption

from cupel.errors import SelectionError, StrategyContractError
from cupel.testing._assertions import ContractViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from hypothesis.strategies import SearchStrategy

    from cupel.model import ContextItem, ScoredItem

__tracebackhide__ = True  # pytest leaves these frames out of a failure
_LONGEST_REPR: Final = 200


class Sample(Protocol):
    """One input of a strategy."""

    @property
    def matters(self) -> bool:
        """Whether there is anything to decide."""
        ...

    def __str__(self) -> str:
        """Return the case as code that builds it."""
        ...


C = TypeVar("C", bound=Sample)
R = TypeVar("R")


def search(cases: SearchStrategy[C], laws: Callable[[C], None], strategy: object, max_examples: int | None) -> None:
    """Try the laws on many cases; the first one broken is raised for the smallest case Hypothesis can find."""
    refused = answered = 0

    @given(cases)
    def hold(case: C) -> None:
        nonlocal refused, answered
        try:
            laws(case)
        except UnsatisfiedAssumption:
            refused += 1
            raise
        answered += case.matters

    quietly = settings(
        # The message shows the case; Hypothesis would print it a second time, after a costly search for an explanation.
        verbosity=Verbosity.quiet,
        print_blob=False,
        phases=set(settings().phases) - {Phase.explain},
        report_multiple_bugs=False,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given, HealthCheck.filter_too_much],
        max_examples=max_examples if max_examples is not None else settings().max_examples,
    )
    try:
        quietly(hold)()
    except Unsatisfiable:
        pass  # all were refused, see below
    except Flaky as flaky:
        # Replaying a failure needs the same result twice, which is what this strategy does not give.
        raise _broken(strategy, "the same input always gives the same result", _last_seen(flaky)) from None
    if refused and not answered:
        raise _broken(strategy, "it answers some cases", f"all {refused} cases that matter were refused")


def violation(strategy: object, law: str, case: Sample, found: str = "") -> ContractViolation:
    """Say which law a strategy breaks, on which case, and what was found instead."""
    return _broken(strategy, law, f"{case}\n{found}" if found else str(case))


def attempt(strategy: object, case: Sample, call: Callable[[], R]) -> R:
    """Call the strategy; a refusal ends the case, any other error is a breach."""
    try:
        return call()
    except StrategyContractError as error:
        raise violation(strategy, "it keeps what the pipeline demands", case, f"found: {error}") from error
    except SelectionError:
        reject()
    except Exception as error:
        raise violation(strategy, "it does not raise", case, f"raised: {type(error).__name__}: {error}") from error


@contextmanager
def unchanged(strategy: object, case: Sample, name: str, kept: list[R]) -> Generator[list[R]]:
    """Give a strategy a list, and see that it has changed neither the list nor what is in it."""
    given, before = list(kept), repr(kept)
    yield given
    if not same(given, kept):
        raise violation(strategy, "the list it was given is left unchanged", case, listed(f"afterwards: {name}", given))
    if repr(kept) != before:
        raise violation(strategy, "the items it was given are left unchanged", case, f"before: {before}")


def same(left: Sequence[object], right: Sequence[object]) -> bool:
    """Tell whether two sequences hold the very same objects in the same order."""
    return len(left) == len(right) and all(map(_is, left, right))


def copied(items: Sequence[ContextItem]) -> list[ContextItem]:
    """Copy items in reverse, so that those listed first lie last in memory; one listed twice stays one object."""
    copies: dict[int, ContextItem] = {}
    for item in reversed(items):
        if id(item) not in copies:
            copies[id(item)] = copy(item)
    return [copies[id(item)] for item in items]


def positions(returned: Iterable[ContextItem], items: Sequence[ContextItem]) -> list[int]:
    """Return where each returned item stands first."""
    places: dict[int, int] = {}
    for position, item in enumerate(items):
        places.setdefault(id(item), position)
    return [places.get(id(item), -1) for item in returned]


def listed(name: str, values: Iterable[Any]) -> str:
    """Return a list as code, an element a line."""
    lines = [f"    {value!r}," for value in values]
    return "\n".join([f"{name} = [", *lines, "]"]) if lines else f"{name} = []"


def referred(scored: Sequence[ScoredItem], **returned: Iterable[ContextItem]) -> str:
    """Return lists of items, a line each, as references to what was given, so that equal twins can be told apart."""
    places = {id(entry.item): f"scored[{position}].item" for position, entry in enumerate(scored)}
    return "\n".join(
        f"{name.replace('_', ' ')} = [{', '.join(places.get(id(item), repr(item)) for item in items)}]"
        for name, items in returned.items()
    )


def as_items(strategy: object, case: Sample, method: str, returned: object) -> list[ContextItem]:
    """Return what a strategy returned as a list."""
    try:
        return list(returned)  # type: ignore[call-overload,no-any-return]
    except TypeError:
        raise violation(strategy, f"{method} returns a list of items", case, f"returned: {returned!r}") from None


def _broken(strategy: object, law: str, details: str) -> ContractViolation:
    shown = repr(strategy)
    if len(shown) > _LONGEST_REPR:  # a strategy that remembers can have a lot to show
        shown = f"{shown[: _LONGEST_REPR - 1]}…"
    return ContractViolation(f"{shown} breaks a law: {law}\n{details}", law=law, strategy=shown)


def _is(left: object, right: object) -> bool:
    return left is right


def _last_seen(flaky: Flaky) -> str:
    causes = getattr(flaky, "exceptions", ())
    seen = [str(cause) for cause in causes if isinstance(cause, ContractViolation)]
    return f"once, but not again, this was found:\n{seen[0]}" if seen else str(flaky)
