"""The errors the library raises on purpose, and its warnings.

```text
CupelError
├ InvalidItemError            (also ValueError)   an item cannot be built
├ InvalidBudgetError          (also ValueError)   a budget cannot be built
├ ConfigurationError          (also ValueError)   a strategy, pipeline or policy cannot be built
│   ├ ScorerConfigError
│   ├ SlicerConfigError
│   ├ PipelineConfigError
│   └ PolicyConfigError
├ SelectionError                                  a run cannot be completed; the numbers are attributes
│   ├ PinnedExceedsBudgetError
│   ├ BudgetOverflowError
│   ├ TableTooLargeError
│   ├ ScarcityError
│   ├ SearchStoppedError
│   └ StrategyContractError
├ ReportFormatError           (also ValueError)   a serialised report cannot be read
└ MissingExtraError           (also ImportError)  an optional dependency is not installed

CupelWarning                  (a UserWarning)     nothing is refused, but the outcome may not be what was meant
├ BudgetWarning                                   a selection exceeds what the window leaves after the output reserve
└ ConfigurationWarning                            a value is valid, but probably means something else
```

`warnings.filterwarnings("error", category=BudgetWarning)` turns a warning into an error.

Some errors are defined beside the code that raises them; they derive from these classes: a source that failed
(`cupel.pipeline`), a batch job (`cupel.batch`), a vector (`cupel.conformance`), an evaluation (`cupel.evaluation`), a
chat history (`cupel.messages`).

A value of the wrong *type* raises the built-in `TypeError` instead. All of these survive pickling, so they cross
process boundaries with their attributes.
"""

from __future__ import annotations

from cupel._internal.checks import shown

__all__ = [
    "BudgetOverflowError",
    "BudgetWarning",
    "ConfigurationError",
    "ConfigurationWarning",
    "CupelError",
    "CupelWarning",
    "InvalidBudgetError",
    "InvalidItemError",
    "MissingExtraError",
    "PinnedExceedsBudgetError",
    "PipelineConfigError",
    "PolicyConfigError",
    "ReportFormatError",
    "ScarcityError",
    "ScorerConfigError",
    "SearchStoppedError",
    "SelectionError",
    "SlicerConfigError",
    "StrategyContractError",
    "TableTooLargeError",
]


class CupelError(Exception):
    """Root of the tree: `except CupelError` catches everything the library raises on purpose."""


class InvalidItemError(CupelError, ValueError):
    """A context item, kind or source was given a value it cannot hold."""


class InvalidBudgetError(CupelError, ValueError):
    """A budget's numbers contradict each other or are out of range."""


class ConfigurationError(CupelError, ValueError):
    """A strategy, pipeline or policy was configured with a value it cannot work with."""


class ScorerConfigError(ConfigurationError):
    """A scorer cannot be built from these values."""


class SlicerConfigError(ConfigurationError):
    """A slicer cannot be built from these values."""


class PipelineConfigError(ConfigurationError):
    """A pipeline, or an analysis of one, cannot work with this configuration."""


class PolicyConfigError(ConfigurationError):
    """A policy document is malformed; the message names the path."""


class ReportFormatError(CupelError, ValueError):
    """A serialised report is malformed or does not add up; the message names the path."""


class SelectionError(CupelError):
    """A selection could not be completed."""


class PinnedExceedsBudgetError(SelectionError):
    """The pinned items alone need more tokens than the window leaves after the output reserve."""

    def __init__(self, pinned_tokens: int, available_tokens: int) -> None:
        super().__init__(pinned_tokens, available_tokens)
        self.pinned_tokens = pinned_tokens
        self.available_tokens = available_tokens

    def __str__(self) -> str:
        needed, available = shown(self.pinned_tokens), shown(self.available_tokens)
        return f"Pinned items require {needed} tokens, but only {available} are available"


class BudgetOverflowError(SelectionError):
    """The merged selection exceeds the target and the overflow strategy is `THROW`."""

    def __init__(self, selected_tokens: int, target_tokens: int) -> None:
        super().__init__(selected_tokens, target_tokens)
        self.selected_tokens = selected_tokens
        self.target_tokens = target_tokens

    def __str__(self) -> str:
        needed, target = shown(self.selected_tokens), shown(self.target_tokens)
        return f"Selected items require {needed} tokens, exceeding target budget of {target}"


class TableTooLargeError(SelectionError):
    """The knapsack's nominal table has more cells than `max_cells` allows."""

    def __init__(self, candidates: int, capacity: int, cells: int, max_cells: int) -> None:
        super().__init__(candidates, capacity, cells, max_cells)
        self.candidates = candidates
        self.capacity = capacity
        self.cells = cells
        self.max_cells = max_cells

    def __str__(self) -> str:
        steps, cells, most = shown(self.capacity), shown(self.cells), shown(self.max_cells)
        return (
            f"KnapsackSlice: {self.candidates} candidates x ({steps} + 1) capacity steps = {cells} cells, "
            f"more than max_cells={most}; use a larger bucket_size, or max_cells=None to lift the guard"
        )


class ScarcityError(SelectionError):
    """A kind has less than a slicer requires of it, and scarcity is `THROW`.

    `limit` names the field of a `KindLimit`; for a count quota, which looks at the number of candidates alone, it is
    None.
    """

    def __init__(
        self, slicer: str, kind: str, satisfied_count: int, required_count: int, limit: str | None = None
    ) -> None:
        super().__init__(slicer, kind, satisfied_count, required_count, limit)
        self.slicer = slicer
        self.kind = kind
        self.satisfied_count = satisfied_count
        self.required_count = required_count
        self.limit = limit

    def __str__(self) -> str:
        if self.limit is not None:
            got, wanted = shown(self.satisfied_count), shown(self.required_count)
            what = "tokens" if self.limit == "min_tokens" else "items"
            return f"{self.slicer}: found {got} {what} of kind '{self.kind}' that fit, but {self.limit} is {wanted}"
        return (
            f"{self.slicer}: candidate pool for kind '{self.kind}' has {shown(self.satisfied_count)} items "
            f"but RequireCount is {shown(self.required_count)}."
        )


class SearchStoppedError(SelectionError):
    """An exact search would take too long; `enough` is a budget that works, if one is known, not always the least."""

    def __init__(self, enough: int | None) -> None:
        super().__init__(enough)
        self.enough = enough

    def __str__(self) -> str:
        known = "no budget that works was found" if self.enough is None else f"a budget of {shown(self.enough)} works"
        return f"The search for the smallest budget would take too long and was stopped; {known}"


class StrategyContractError(SelectionError):
    """A scorer, slicer or placer returned something its contract does not allow."""

    def __init__(self, strategy: str, breach: str) -> None:
        super().__init__(strategy, breach)
        self.strategy = strategy
        self.breach = breach

    def __str__(self) -> str:
        return f"{self.strategy} broke its contract: {self.breach}"


class MissingExtraError(CupelError, ImportError):
    """An optional dependency is needed; the message says which extra brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.package} is not installed; install it with: pip install 'cupel-context[{self.extra}]'"


class CupelWarning(UserWarning):
    """Root of the library's warnings."""


class BudgetWarning(CupelWarning):
    """A selection exceeds what the window leaves after the output reserve: a provider may refuse it.

    Required items of a count quota and `OverflowStrategy.PROCEED` can exceed it, because only the target is checked
    (ruling 2.23).
    """

    def __init__(self, selected_tokens: int, max_tokens: int, output_reserve: int) -> None:
        super().__init__(selected_tokens, max_tokens, output_reserve)
        self.selected_tokens = selected_tokens
        self.max_tokens = max_tokens
        self.output_reserve = output_reserve

    @property
    def available_tokens(self) -> int:
        """The tokens that the window leaves after the output reserve."""
        return self.max_tokens - self.output_reserve

    def __str__(self) -> str:
        window, left = shown(self.max_tokens), shown(self.available_tokens)
        room, reserve = f"the window holds {window}", ""
        if self.output_reserve:
            room = f"the window of {window} leaves {left} after the output reserve"
            reserve = f", output_reserve={shown(self.output_reserve)}"
        return (
            f"Selected items require {shown(self.selected_tokens)} tokens, but {room}; "
            f"ContextBudget({window}, {left}{reserve}) with OverflowStrategy.THROW or TRUNCATE does not allow that"
        )


class ConfigurationWarning(CupelWarning):
    """A value is valid, but probably means something else, or a provider refuses what is made of it."""
