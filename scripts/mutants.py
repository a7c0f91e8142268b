"""Mutates the core, one change at a time, and tells which changes no test notices.

    python scripts/mutants.py placers slicers/_greedy.py --every 5

Works in a copy of the tree, OUTPUT/tree, where cosmic-ray makes each change. A mutant is judged by the tests of its own
package and, should it survive them, by the tests in WIDER. Each judgement is a fork of this process, which has pytest
and Hypothesis in memory already but not one module of cupel. Changes that cannot alter what a program does are left
out: annotations and what only a type checker reads. The survivors end up as diffs in OUTPUT/PACKAGE.diff. A given N
always tries the same mutants, with the same random examples.
"""

import argparse
import ast
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import hypothesis.strategies  # noqa: F401 - forks find it loaded
import msgspec.json  # noqa: F401 - as above
import numpy as np  # noqa: F401 - as above
import pytest
from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parents[1]
COPIED = ["src", "tests", "conformance", "docs", "conftest.py", "pyproject.toml"]
WIDER = ["tests/pipeline", "tests/diagnostics", "tests/oracle"]
PLUGINS = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
REPEATABLE = ["--hypothesis-profile=mutants", "--hypothesis-seed=0"]
QUIET = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins were loaded before the fork
CPU_SECONDS = 60
WALL_SECONDS = 600
MEMORY_BYTES = 4 << 30


@dataclass
class Tally:
    target: str
    tried: int = 0
    survived: int = 0

    def __str__(self) -> str:
        share = 100 * self.survived / self.tried if self.tried else 0.0
        return f"{self.target:<24} {self.tried:>6} mutants {self.survived:>5} survived ({share:.1f} %)"


def copy_tree(tree: Path) -> None:
    """Copy what the tests need; compile it so that a cached module counts only while its source is unchanged."""
    shutil.rmtree(tree, ignore_errors=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    compilation = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src"]
    subprocess.run(compilation, cwd=tree, check=True)


def mutate(target: str, tree: Path, every: int) -> Tally:
    """Try each `every`th mutant of a package or of one module in it."""
    own = own_tests(target)
    # What the package is about before its slow searches: most mutants end there.
    first = [str(path) for path in [Path(own, f"test_{Path(own).name}.py")] if path.exists()]
    tally = Tally(target)
    began = time.monotonic()
    with Path(tree.parent, f"{target.replace('/', '-').removesuffix('.py')}.diff").open("w", encoding="utf-8") as diffs:
        path = tree / "src" / "cupel" / target
        for mutation in list(mutations(path if path.exists() else path.with_suffix(".py")))[::every]:
            operator = get_operator(mutation.operator_name)(**mutation.operator_args)
            with use_mutation(mutation.module_path, operator, mutation.occurrence) as (before, after):
                tally.tried += 1
                if passes([*first, own]) and passes([tests for tests in WIDER if tests != own]):
                    tally.survived += 1
                    names = str(mutation.module_path.relative_to(tree)), mutation.operator_name
                    diff = unified_diff(before.splitlines(), after.splitlines(), *names, n=2, lineterm="")
                    print(*diff, "", sep="\n", file=diffs, flush=True)
    print(f"{tally} in {time.monotonic() - began:.0f} s", flush=True)
    return tally


def own_tests(target: str) -> str:
    return f"tests/{Path(target).parts[0]}"


def mutations(target: Path) -> Iterator[MutationSpec]:
    """Yield the mutants of a package or module in the order of its text."""
    with use_db(":memory:", WorkDB.Mode.create) as database:
        init([target] if target.is_file() else sorted(target.rglob("*.py")), database, {})
        found = [mutation for item in database.work_items for mutation in item.mutations]
    silent: dict[Path, list[tuple[tuple[int, int], tuple[int, int]]]] = {}
    for one in sorted(found, key=lambda one: (one.module_path, *one.start_pos, one.operator_name, one.occurrence)):
        spans = silent.setdefault(one.module_path, list(without_effect(one.module_path.read_text(encoding="utf-8"))))
        if not any(start <= tuple(one.start_pos) and tuple(one.end_pos) <= end for start, end in spans):
            yield one


def without_effect(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where annotations and blocks for type checkers begin and end."""
    for node in ast.walk(ast.parse(source)):
        spans = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            spans.append(node)
        for span in filter(None, spans):
            yield (span.lineno, span.col_offset), (span.end_lineno, span.end_col_offset)


def passes(tests: list[str]) -> bool:
    """Run tests in a fork and tell whether they pass; one that never ends, or eats all memory, does not."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        signal.alarm(WALL_SECONDS)
        output = os.open("judgement.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os._exit(pytest.main(["-x", "-q", *PLUGINS, *REPEATABLE, *QUIET, *tests]))
    finally:  # a mutant that breaks pytest itself must not return into the parent's loop
        os._exit(70)


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the share of mutants that the tests do not notice.")
    parser.add_argument("targets", nargs="+", help="packages under src/cupel, or modules of one: slicers/_greedy.py")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try only each Nth mutant")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutants", metavar="DIR")
    options = parser.parse_args()
    for target in options.targets:
        if not (ROOT / "src" / "cupel" / target).exists() or not (ROOT / own_tests(target)).is_dir():
            parser.error(f"{target}: there is no src/cupel/{target} with {own_tests(target)} to judge it by")
    tree = options.output.resolve() / "tree"
    copy_tree(tree)
    os.chdir(tree)
    sys.path.insert(0, str(tree / "src"))
    os.environ |= {"PYTHONPATH": sys.path[0], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    pytest.main(["--version"])  # loads its plugins
    gc.freeze()  # spares each fork the search for garbage in what it inherits
    if not passes(sorted({*WIDER, *map(own_tests, options.targets)})):
        sys.exit(f"the tests fail without any change; see {tree}/judgement.txt")
    sys.dont_write_bytecode = True  # the tests are compiled by now, and mutants must not be
    tallies = [mutate(target, tree, options.every) for target in options.targets]
    print(Tally("all", sum(one.tried for one in tallies), sum(one.survived for one in tallies)))
    print(f"survivors: {options.output}/*.diff")


if __name__ == "__main__":
    main()
