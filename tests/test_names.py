"""A name means one thing: what two modules both called `Step` would make a reader wonder."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import cupel

SHARED = {
    "DocumentSelector": "one for each framework, in its own module",
}
_SHORTEST = 3
"""Letters of the shortest name of a type: shorter ones are type variables."""


def type_names(module: ast.Module) -> set[str]:
    """Return the names of classes and type aliases of a module, without the underscore of private ones."""
    names: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name.lstrip("_"))
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name):
            name = target.id.lstrip("_")
            if name[:1].isupper() and name != name.upper() and len(name) >= _SHORTEST:
                names.add(name)
    return names


def test_no_two_types_bear_one_name() -> None:
    modules: defaultdict[str, list[str]] = defaultdict(list)
    root = Path(cupel.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for name in type_names(ast.parse(path.read_text(encoding="utf-8"))):
            modules[name].append(path.relative_to(root).as_posix())
    clashes = {name: found for name, found in modules.items() if len(found) > 1}
    assert set(clashes) == set(SHARED), clashes


def test_private_classes_and_aliases_count_as_well() -> None:
    module = ast.parse(
        "class _Step: ...\nKey = Callable[[int], str]\n_Pair: TypeAlias = 'tuple[int, int]'\nM = 1\nMAX = 2"
    )
    assert type_names(module) == {"Step", "Key", "Pair"}
