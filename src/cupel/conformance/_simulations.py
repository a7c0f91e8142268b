"""Run budget simulations: what a smaller budget would lose, and the budget an item needs."""

from __future__ import annotations

from cupel._checks import shown
from cupel.conformance._compare import Check, Mismatch, compare_value
from cupel.conformance._inputs import build_budget, build_items, find_item
from cupel.conformance._pipelines import build_pipeline, compare_output
from cupel.conformance._vector import TomlTable


def simulation(document: TomlTable) -> Check:
    """Build what a simulation needs; the check runs the method that the `simulation` table names."""
    pipeline = build_pipeline(document.table("config"))
    items = build_items(document.tables("items"))
    asked = document.table("simulation")
    expected = document.table("expected")

    def marginal() -> Mismatch | None:
        from cupel.analytics import get_marginal_items

        budget = build_budget(document.table("budget"))
        lost = get_marginal_items(pipeline, items, budget, asked.need("slack_tokens"))
        return compare_output(document, items, lost)

    def find_min_budget() -> Mismatch | None:
        from cupel.analytics import find_min_budget_for

        target = find_item(asked.table("target"), items)
        found = find_min_budget_for(pipeline, items, target, asked.need("search_ceiling"))
        return compare_value("budget", expected.option("budget"), found)

    methods = {"marginal_items": marginal, "find_min_budget": find_min_budget}
    if (method := asked.text("method")) not in methods:
        raise asked.error("method", f"unknown method {shown(method)}, expected one of {', '.join(methods)}")
    return methods[method]
