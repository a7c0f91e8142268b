"""The public surface: what is listed is there, what is there is listed, and importing it is light."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import pydoc
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import cupel

if TYPE_CHECKING:
    from types import ModuleType

FAMILIES = [
    "cupel.analytics",
    "cupel.batch",
    "cupel.conformance",
    "cupel.demo",
    "cupel.diagnostics",
    "cupel.errors",
    "cupel.evaluation",
    "cupel.messages",
    "cupel.model",
    "cupel.pipeline",
    "cupel.placers",
    "cupel.policy",
    "cupel.presets",
    "cupel.page",
    "cupel.scorers",
    "cupel.shorten",
    "cupel.slicers",
    "cupel.testing",
    "cupel.tokens",
    "cupel.watch",
]


def imported_names(module: ModuleType) -> set[str]:
    """The names that a module imports from others."""
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    imports = (node.names for node in nodes if isinstance(node, ast.ImportFrom))
    return {name.asname or name.name for names in imports for name in names}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_lists_exactly_what_it_offers(name: str) -> None:
    module = importlib.import_module(name)
    imported = set() if hasattr(module, "__path__") else imported_names(module)  # a package only re-exports
    visible = {
        attribute
        for attribute, value in vars(module).items()
        if not attribute.startswith("_")
        and not inspect.ismodule(value)
        and attribute not in {"annotations", "TYPE_CHECKING", *imported}
    }
    if name != "cupel.errors":
        assert visible == set(module.__all__)
    assert list(module.__all__) == sorted(module.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))


def test_every_top_level_name_resolves_to_its_family() -> None:
    for name in cupel.__all__:
        value = getattr(cupel, name)
        if inspect.isclass(value):
            assert value.__module__.startswith("cupel.")
    assert set(cupel.__all__) <= set(dir(cupel))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'cupel' has no attribute 'Pipelime'"):
        cupel.Pipelime  # noqa: B018


def test_namespaces_are_reachable_from_the_top() -> None:
    found = {module.name for module in pkgutil.iter_modules(cupel.__path__) if not module.name.startswith("_")}
    for name in found - {"cli", "demo"}:
        assert getattr(cupel, name).__name__ == f"cupel.{name}"


def run_python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return done.stdout.strip()


@pytest.mark.parametrize("name", FAMILIES)
def test_help_has_a_text_for_every_class_and_function(name: str) -> None:
    module = importlib.import_module(name)
    for offered in (getattr(module, name) for name in module.__all__):
        if inspect.isclass(offered) or inspect.isfunction(offered):
            assert offered.__name__ in pydoc.render_doc(offered)


def test_a_whole_run_without_knapsack_needs_no_numpy() -> None:
    code = (
        "import sys\n"
        "from cupel import ContextBudget, ContextItem, Pipeline, RecencyScorer\n"
        "Pipeline(scorer=RecencyScorer()).dry_run([ContextItem('a', 1)], ContextBudget(5, 5))\n"
        "print([m for m in ('numpy', 'rich', 'asyncio') if m in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_results_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib\n"
        "from cupel import *\n"
        "tags = lambda i: [f't{i % 3}', f't{i % 7}']\n"
        "items = [ContextItem(f'{i % 17}', i % 13, kind=f'k{i % 5}', tags=tags(i)) for i in range(200)]\n"
        "scorer = CompositeScorer([(FrequencyScorer(), 1), (KindScorer({f'k{i}': i for i in range(5)}), 1)])\n"
        "slicer = QuotaSlice([QuotaEntry(f'k{i}', require=10, cap=30) for i in range(5)])\n"
        "report = Pipeline(scorer=scorer, slicer=slicer).dry_run(items, ContextBudget(60, 60))\n"
        "print(hashlib.sha256(repr(list(report)).encode()).hexdigest())"
    )
    assert len({run_python(code, PYTHONHASHSEED=seed) for seed in ("0", "1", "12345")}) == 1
