"""The core stays light, and the contract that keeps it so can fail."""

import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

import cupel
from scripts.allowed_dependencies import AllowedDependenciesContract
from scripts.private_modules import PrivateModulesContract

HEAVY = ["asyncio", "dask", "hypothesis", "numpy", "opentelemetry", "pyarrow", "pytest", "rich", "tiktoken"]


def test_importing_cupel_loads_nothing_heavy():
    code = "import sys, cupel; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert sorted(set(done.stdout.split()) & set(HEAVY)) == []


def test_every_module_stands_in_a_layer():
    settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    root = Path(cupel.__file__).parent
    here = {path.stem for path in root.glob("[a-z]*") if path.suffix in {"", ".py"}} | {"__main__"}
    inner = {f"_internal.{path.stem}" for path in (root / "_internal").glob("[a-z]*")}
    expected = {f"cupel.{name}" for name in here | inner}
    assert sorted(name for layer in layers for name in layer.split(" | ")) == sorted(expected)


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
        ("cupel._internal.checks", False),
        ("cupel._internal.documents._form", False),
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
