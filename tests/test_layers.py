"""The core stays light, and the contract that keeps it so can fail."""

import subprocess
import sys

import grimp
import pytest

from scripts.allowed_dependencies import AllowedDependenciesContract
from scripts.private_modules import PrivateModulesContract

HEAVY = ["asyncio", "dask", "hypothesis", "numpy", "opentelemetry", "pyarrow", "pytest", "rich", "tiktoken"]


def test_importing_cupel_loads_nothing_heavy():
    code = "import sys, cupel; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert sorted(set(done.stdout.split()) & set(HEAVY)) == []


@pytest.mark.parametrize(
    ("imports", "breaches"),
    [
        ([], []),
        (["json", "os", "cupel.errors", "msgspec"], []),
        (["rich", "json"], ["cupel.model._item:7 imports rich"]),
        (["numpy", "yaml"], ["cupel.model._item:7 imports numpy", "cupel.model._item:7 imports yaml"]),
    ],
)
def test_allowed_dependencies(imports, breaches):
    graph = grimp.ImportGraph()
    for module in ["cupel.model", "cupel.model._item", "cupel.modelling"]:
        graph.add_module(module)
    for imported in imports:
        graph.add_import(importer="cupel.model._item", imported=imported, line_number=7, line_contents="import it")
    graph.add_import(importer="cupel.modelling", imported="rich", line_number=1, line_contents="import rich")
    contract = AllowedDependenciesContract(
        name="light",
        session_options={"root_packages": ["cupel"]},
        contract_options={"source_modules": ["cupel.model"], "allowed": ["msgspec"]},
    )
    check = contract.check(graph=graph, verbose=False)
    assert (check.kept, check.metadata["breaches"]) == (not breaches, breaches)


@pytest.mark.parametrize(
    ("imported", "is_private"),
    [
        ("cupel.slicers", False),
        ("cupel.pipeline._run", False),
        ("cupel._checks", False),
        ("cupel._documents._form", False),
        ("cupel.__main__", False),
        ("_thread", False),
        ("cupel.slicers._base", True),
        ("cupel.slicers._base.inner", True),
        ("cupel.slicers.deep._base", True),
    ],
)
def test_private_modules(imported, is_private):
    graph = grimp.ImportGraph()
    graph.add_import(importer="cupel.pipeline._stage", imported=imported, line_number=3, line_contents="import it")
    contract = PrivateModulesContract(name="private", session_options={"root_packages": ["cupel"]}, contract_options={})
    check = contract.check(graph=graph, verbose=False)
    breaches = [f"cupel.pipeline._stage:3 imports {imported}"] if is_private else []
    assert (check.kept, check.metadata["breaches"]) == (not breaches, breaches)
