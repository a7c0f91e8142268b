"""Growth curves as SVG: both axes logarithmic, a line for each row, its name where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 290, 50, 50
COLOURS = ("#0b6e99", "#c2571a", "#2f7d32", "#8e3a9d", "#b3261e", "#6b6b00", "#3f51b5", "#00695c", "#795548", "#546e7a")
LABEL_GAP = 15
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.grid{stroke:#ccc}.title{font-size:15px;font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
)


def draw(title: str, curves: Mapping[str, Points], *, unit: str = "µs") -> str:
    """Draw the curves; points are (number of items, time), all positive."""
    across = _decades([x for points in curves.values() for x, _ in points])
    up = _decades([y for points in curves.values() for _, y in points])
    placed = {
        name: [(_scaled(x, across, LEFT, WIDTH - RIGHT), _scaled(y, up, HEIGHT - BOTTOM, TOP)) for x, y in points]
        for name, points in curves.items()
    }
    label = escape(title, {'"': "&quot;"})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
        *_grid(across, up, unit),
        *_lines(placed),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _grid(across: tuple[int, int], up: tuple[int, int], unit: str) -> Iterator[str]:
    for exponent in range(across[0], across[1] + 1):
        x = _scaled(10.0**exponent, across, LEFT, WIDTH - RIGHT)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{10**exponent:,}</text>'
    for exponent in range(up[0], up[1] + 1):
        y = _scaled(10.0**exponent, up, HEIGHT - BOTTOM, TOP)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_time(10.0**exponent, unit)}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">items</text>'


def _lines(placed: Mapping[str, Points]) -> Iterator[str]:
    label_at = spread({name: points[-1][1] for name, points in placed.items()}, LABEL_GAP)
    start = WIDTH - RIGHT + 14
    for number, (name, points) in enumerate(placed.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        (x, y), label = points[-1], label_at[name]
        to_label = f'x1="{x + 4:.1f}" y1="{y:.1f}" x2="{start - 2}" y2="{label:.1f}"'
        yield f'<line {to_label} stroke="{colour}" stroke-opacity="0.4"/>'
        yield f'<text x="{start + 2}" y="{label + 4:.1f}" style="fill:{colour}">{escape(name)}</text>'


def spread(wanted: Mapping[str, float], gap: float) -> dict[str, float]:
    """Move labels down, as little as possible, until none overlaps the one above it."""
    at: dict[str, float] = {}
    lowest = float("-inf")
    for name in sorted(wanted, key=lambda name: (wanted[name], name)):
        lowest = at[name] = max(wanted[name], lowest + gap)
    return at


def _decades(values: Sequence[float]) -> tuple[int, int]:
    first, last = floor(log10(min(values))), ceil(log10(max(values)))
    return first, max(last, first + 1)


def _scaled(value: float, decades: tuple[int, int], start: float, end: float) -> float:
    first, last = decades
    return start + (log10(value) - first) / (last - first) * (end - start)


def _time(microseconds: float, unit: str) -> str:
    if unit != "µs" or microseconds < 1_000:
        return f"{microseconds:,.0f} {unit}"
    return f"{microseconds / 1_000:,.0f} ms" if microseconds < 1_000_000 else f"{microseconds / 1_000_000:,.0f} s"
