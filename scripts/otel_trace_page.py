"""Writes the trace shown in docs/how-to/opentelemetry.md: a real run, exported by the real SDK, as text.

Times differ from run to run and are left out; everything else is what a backend receives.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cupel import ContextBudget, ContextItem, Pipeline, ReflexiveScorer
from cupel.integrations.opentelemetry import CupelVerbosity, OpenTelemetryTraceCollector

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "opentelemetry.md"
BLOCK = re.compile(r"(<!-- trace: scripts/otel_trace_page\.py -->\n+```text\n).*?(```\n)", re.DOTALL)


def spans() -> list[ReadableSpan]:
    """Select the context of a small question at the highest verbosity, inside a span of the application."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    items = [
        ContextItem("Answer in one paragraph.", 12, kind="SystemPrompt", pinned=True),
        ContextItem("What broke the build?", 8, future_relevance_hint=1.0),
        ContextItem("step 3 failed: exit code 2", 90, kind="ToolOutput", future_relevance_hint=0.75),
        ContextItem("step 3 failed: exit code 2", 90, kind="ToolOutput", future_relevance_hint=0.5),
        ContextItem("The build has seven steps …", 240, kind="Document", future_relevance_hint=0.25),
    ]
    collector = OpenTelemetryTraceCollector(CupelVerbosity.FULL, tracer_provider=provider)
    with provider.get_tracer("application").start_as_current_span("answer"):
        Pipeline(scorer=ReflexiveScorer()).run(items, ContextBudget(256, 200), trace=collector)
    return list(exporter.get_finished_spans())


def as_text(finished: list[ReadableSpan]) -> str:
    """Draw spans as a tree, attributes and events below each."""
    (root,) = (span for span in finished if span.parent is None)
    return "\n".join(_lines(root, finished, "")) + "\n"


def _lines(span: ReadableSpan, finished: list[ReadableSpan], indent: str) -> Iterator[str]:
    yield f"{indent}{span.name}"
    for name, value in (span.attributes or {}).items():
        yield f"{indent}    {name} = {value!r}"
    for event in span.events:
        yield f"{indent}    event {event.name}"
        for name, value in (event.attributes or {}).items():
            yield f"{indent}        {name} = {value!r}"
    # Children are exported before their parent, in the order in which they ended.
    for child in finished:
        if child.parent is not None and child.parent.span_id == span.context.span_id:
            yield from _lines(child, finished, f"{indent}  ")


def renewed(page: str) -> str:
    """Give the page with the trace of this version in it."""
    text, places = BLOCK.subn(lambda block: block[1] + as_text(spans()) + block[2], page)
    if places != 1:
        raise ValueError(f"{PAGE.name} must have one place for the trace, found {places}")
    return text


def main() -> int:
    """Renew the page, or with --check only say whether it is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="do not write; exit with 1 if the page is stale")
    check = parser.parse_args().check
    before = PAGE.read_text(encoding="utf-8")
    after = renewed(before)
    if check:
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
