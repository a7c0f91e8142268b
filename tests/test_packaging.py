"""What is built is what people get: metadata, files and an import that works without the source tree."""

import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cupel

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def test_the_version_is_written_once():
    assert cupel.__version__ == importlib.metadata.version("cupel-context")


def test_the_wheel_holds_the_package_and_nothing_else(unpacked: Path):
    assert {path.name for path in unpacked.iterdir()} == {
        "cupel",
        "_cupel_pytest.py",
        f"cupel_context-{cupel.__version__}.dist-info",
    }
    assert (unpacked / "cupel" / "py.typed").read_bytes() == b""


def test_the_wheel_holds_every_file_of_the_package(unpacked: Path):
    def files(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    assert files(unpacked / "cupel") == files(ROOT / "src" / "cupel")


def test_the_metadata_names_licence_readme_command_and_plugin(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        info = f"cupel_context-{cupel.__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "License-Expression: MIT\n" in metadata
    assert "Description-Content-Type: text/markdown\n" in metadata
    assert "Requires-Python: >=3.11\n" in metadata
    assert "[console_scripts]\ncupel = cupel.cli:main\n" in entry_points
    assert "[pytest11]\ncupel = _cupel_pytest\n" in entry_points


def test_only_three_packages_are_installed_without_an_extra():
    required = [line for line in importlib.metadata.requires("cupel-context") or [] if "extra ==" not in line]
    assert sorted(re.split(r"[^\w-]", line)[0] for line in required) == ["msgspec", "numpy", "tomli"]


def test_the_wheel_works_without_the_source_tree(unpacked: Path, tmp_path: Path):
    code = "import cupel; print(cupel.__version__, cupel.__file__)"
    environment = os.environ | {"PYTHONPATH": str(unpacked)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    version, _, path = done.stdout.strip().partition(" ")
    assert (version, Path(path)) == (cupel.__version__, unpacked / "cupel" / "__init__.py")
