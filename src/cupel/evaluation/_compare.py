"""Two policies on the same cases, pair by pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cupel._checks import as_instance, as_integer
from cupel.evaluation._errors import EvaluationError
from cupel.evaluation._evaluate import Evaluation
from cupel.evaluation._intervals import estimates

if TYPE_CHECKING:
    from cupel.evaluation._intervals import Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the second policy differs from the first, on average over pairs."""

    first: str
    second: str
    kept: Estimate
    """Share of the needed items kept: the second's minus the first's."""
    whole: Estimate
    tokens: Estimate
    better: int
    """Cases of which the second keeps more."""
    worse: int
    equal: int

    @property
    def verdict(self) -> str:
        """The comparison in a sentence; a difference whose interval holds 0 is none that can be told from chance."""
        points = f"{100 * self.kept.value:+.1f} points ({100 * self.kept.low:+.1f} to {100 * self.kept.high:+.1f})"
        if self.kept.low > 0:
            return f"{self.second} keeps more than {self.first}: {points}"
        if self.kept.high < 0:
            return f"{self.second} keeps less than {self.first}: {points}"
        return f"{self.second} and {self.first} cannot be told apart by these cases: {points}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "kept": self.kept.to_dict(),
            "whole": self.whole.to_dict(),
            "tokens": self.tokens.to_dict(),
            "better": self.better,
            "worse": self.worse,
            "equal": self.equal,
            "verdict": self.verdict,
        }


def compare(first: Evaluation, second: Evaluation, *, seed: int = 0) -> Comparison:
    """Compare two evaluations of the same cases, pair by pair.

    Cases differ far more than policies do, so the interval of the paired difference is much narrower than the two
    intervals beside each other suggest.

    >>> from cupel import ContextItem, Policy, RecencyScorer, ReflexiveScorer
    >>> from cupel.evaluation import Case, evaluate
    >>> items = [ContextItem("gate B12", 6, future_relevance_hint=1.0), ContextItem("lunch", 6)]
    >>> cases = [Case(items, 6, [0]), Case(items, 6, [0, 1])]
    >>> newest = evaluate(Policy(RecencyScorer()), cases)
    >>> hinted = evaluate(Policy(ReflexiveScorer()), cases)
    >>> compare(newest, hinted).equal
    2
    """
    as_instance("first", first, Evaluation)
    as_instance("second", second, Evaluation)
    if len(first.outcomes) != len(second.outcomes) or any(
        a.case is not b.case for a, b in zip(first.outcomes, second.outcomes, strict=True)
    ):
        raise EvaluationError(
            "first and second are evaluations of different cases; evaluate both policies on the same list"
        )
    seed = as_integer("seed", seed, least=0, error=EvaluationError)
    pairs = list(zip(first.outcomes, second.outcomes, strict=True))
    kept = [b.share - a.share for a, b in pairs]
    whole = [float(b.whole) - float(a.whole) for a, b in pairs]
    tokens = [float(b.tokens) - float(a.tokens) for a, b in pairs]
    ones = [1.0] * len(pairs)
    shares, wholes, sizes = estimates([(kept, ones), (whole, ones), (tokens, ones)], seed=seed)
    better, worse = sum(difference > 0 for difference in kept), sum(difference < 0 for difference in kept)
    equal = len(kept) - better - worse
    return Comparison(first.name, second.name, shares, wholes, sizes, better, worse, equal)
