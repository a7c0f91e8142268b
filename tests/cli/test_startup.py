"""What starting up may load."""

import subprocess
import sys

HEAVY = ["numpy", "rich", "pyarrow", "tiktoken", "opentelemetry", "hypothesis", "pytest"]


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_import_cupel_loads_nothing_heavy():
    assert loaded_by("import cupel") & {*HEAVY, "asyncio"} == set()


def test_import_cupel_and_version_load_almost_nothing():
    """The version is there before the core is: `cupel --version` costs little more than Python itself."""
    modules = loaded_by("from cupel.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass")
    assert modules & {*HEAVY, "msgspec", "asyncio", "cupel.pipeline"} == set()


def test_a_selection_loads_neither_rich_nor_numpy():
    code = "from cupel.cli import main; main(['presets'])"
    assert loaded_by(code) & {"rich", "numpy", "pyarrow"} == set()
