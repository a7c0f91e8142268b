"""The pytest plugin: snapshots of selection reports, and the selection shown when a test about one fails.

pytest loads this module in every session of every environment cupel is installed in. It therefore imports nothing of
cupel until a test uses the fixture, or fails after having imported cupel itself.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from cupel.diagnostics import SelectionReport
    from cupel.testing._snapshot import Snapshots

_WRITTEN = "cupel_snapshot_written"
"""The property a test carries for each snapshot it wrote; pytest-xdist brings it back from its workers."""
_ENVIRONMENT = "CUPEL_UPDATE_SNAPSHOTS"
_SHOWN = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two flags."""
    group = parser.getgroup("cupel")
    group.addoption(
        "--cupel-update-snapshots",
        action="store_true",
        help=f"write snapshots that differ instead of failing; the same as {_ENVIRONMENT}=1",
    )
    group.addoption(
        "--cupel-require-snapshots",
        action="store_true",
        help="fail where a snapshot is missing instead of writing it; meant for continuous integration",
    )


@pytest.fixture
def cupel_snapshot(request: pytest.FixtureRequest) -> Snapshots:
    """Compare a selection report with the one in `__snapshots__` beside the test: `cupel_snapshot(report)`."""
    from cupel.testing._snapshot import DIRECTORY, Snapshots

    node = request.node
    _, *names = node.nodeid.split("::")

    def written(path: Path) -> None:
        node.user_properties.append((_WRITTEN, os.path.relpath(path, request.config.rootpath)))

    return Snapshots(
        request.path.parent / DIRECTORY,
        ".".join([request.path.stem, *names]),
        update=bool(request.config.getoption("cupel_update_snapshots")) or os.environ.get(_ENVIRONMENT) == "1",
        require=bool(request.config.getoption("cupel_require_snapshots")),
        on_written=written,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the selection to the report of a failed test."""
    outcome = yield
    if outcome.when == "call" and outcome.failed and call.excinfo is not None and "cupel.diagnostics" in sys.modules:
        from cupel.testing._snapshot import selection_table

        outcome.sections.extend(
            (f"cupel selection: {name}", selection_table(report)) for name, report in _selections(item, call.excinfo)
        )
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the snapshots that were written, so that they are reviewed before they are committed."""
    written = dict.fromkeys(
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == _WRITTEN
    )
    for path in written:
        terminalreporter.write_line(f"cupel: wrote snapshot {path}")


def _selections(
    item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]
) -> Iterator[tuple[str, SelectionReport]]:
    """Find the report an assertion was about, or else those in the variables of the test."""
    from cupel.diagnostics import SelectionReport
    from cupel.pipeline import ContextResult
    from cupel.testing import SelectionReportAssertionException

    failure = excinfo.value
    if isinstance(failure, SelectionReportAssertionException) and failure.report is not None:
        yield "the report asserted about", failure.report
        return
    frames = [entry.frame for entry in excinfo.traceback if entry.path == item.path]
    found: dict[int, tuple[str, SelectionReport]] = {}
    for name, value in frames[-1].f_locals.items() if frames else ():
        report = value.report if isinstance(value, ContextResult) else value
        if isinstance(report, SelectionReport):
            found.setdefault(id(report), (name, report))
    yield from list(found.values())[:_SHOWN]
