"""Strategies that other packages bring: the entry-point group `cupel.strategies`, read when an unknown tag is met."""

from __future__ import annotations

from functools import cache

GROUP = "cupel.strategies"


@cache
def load_plugins() -> tuple[str, ...]:
    """Import every plug-in module once, so that its decorators run; returns one line for each that failed to load."""
    from importlib.metadata import entry_points

    failures: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a broken plug-in must not hide the document's own problem
            failures.append(f"the plug-in {point.name} = {point.value} failed to load: {type(error).__name__}: {error}")
    return tuple(failures)
