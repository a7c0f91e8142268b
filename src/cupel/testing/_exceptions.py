"""What a failed assertion raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from cupel.diagnostics import SelectionReport


class SelectionReportAssertionException(AssertionError):  # noqa: N818  (the specification's name)
    """A report is not what a test expects; test runners show it as a failure, not as an error.

    The message follows the specification's template. What goes beyond it is a note (`__notes__`), and `report` is the
    report in question, which the pytest plugin prints as a table.

    >>> str(SelectionReportAssertionException("HaveAtLeastNExclusions(1) failed: …"))
    'HaveAtLeastNExclusions(1) failed: …'
    """

    __module__ = "cupel.testing"

    def __init__(self, message: str, *, report: SelectionReport | None = None) -> None:
        super().__init__(message)
        self.report = report


class SnapshotMismatchError(SelectionReportAssertionException):
    """A report differs from its snapshot; the message is a unified diff of the two texts."""

    __module__ = "cupel.testing"

    def __init__(
        self,
        message: str,
        *,
        report: SelectionReport | None = None,
        name: str = "",
        path: Path | None = None,
        expected: str | None = None,
        actual: str = "",
    ) -> None:
        super().__init__(message, report=report)
        self.name = name
        self.path = path
        self.expected = expected
        """The stored text; None when a snapshot was required and there was none."""
        self.actual = actual


class ContractViolation(AssertionError):  # noqa: N818  (what was found, not what went wrong)
    """A strategy breaks a law of its contract; the message shows the smallest case found.

    `law` names the law, `strategy` is the repr of the culprit.
    """

    __module__ = "cupel.testing"

    def __init__(self, message: str, *, law: str = "", strategy: str = "") -> None:
        super().__init__(message)
        self.law = law
        self.strategy = strategy
