"""CONTRIBUTING says what a built-in strategy and a reason need; every one of them has it."""

import dataclasses
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

import cupel
from cupel import Placer, SelectionReport, diagnostics
from cupel.diagnostics import KNOWN_REASONS, ExclusionReason, UnknownReason
from cupel.policy import registered
from cupel.scorers import Scorer
from cupel.slicers import Slicer

ROOT = Path(__file__).parents[1]
FAMILIES = {"scorers": (Scorer, "score_all"), "slicers": (Slicer, "prepare"), "placers": (Placer, "arrange")}
TAGS = {
    family: {one.strategy: tag for tag, one in registered()[family[:-1]].items() if one.built_in} for family in FAMILIES
}


def built_in():
    for family, (base, _) in FAMILIES.items():
        package = importlib.import_module(f"cupel.{family}")
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) and issubclass(value, base) and not inspect.isabstract(value):
                yield pytest.param(family, value, id=name)


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def its_module(family, strategy):
    file = Path(inspect.getfile(strategy))
    assert file.is_relative_to(ROOT / "src/cupel" / family) or file == ROOT / f"src/cupel/{family}.py"
    assert dataclasses.is_dataclass(strategy)
    assert strategy.__dataclass_params__.frozen
    assert "__slots__" in vars(strategy)
    assert ">>>" in strategy.__doc__
    assert strategy.__doc__.splitlines()[0].endswith(".")
    base, whole_pass = FAMILIES[family]
    assert getattr(strategy, whole_pass) is not getattr(base, whole_pass)


def its_export(family, strategy):
    assert strategy.__name__ in cupel.__all__
    assert getattr(cupel, strategy.__name__) is strategy


def its_declaration(family, strategy):
    tag = TAGS[family][strategy]
    assert f'.declare("{tag}"' in re.sub(r"\(\s+", "(", text("src/cupel/policy/_document.py"))
    assert f'"const": "{tag}"' in text("docs/reference/policy.schema.json")


def a_naive_version(family, strategy):
    oracle = importlib.import_module(f"tests.oracle.{family}")
    assert callable(getattr(oracle, f"_{TAGS[family][strategy]}"))


def a_vector(family, strategy):
    tag = TAGS[family][strategy]
    vectors = [file.read_text(encoding="utf-8") for file in (ROOT / "conformance").rglob("*.toml")]
    assert any(re.search(rf'(?:{family[:-1]}|type) = "{tag}"', vector) for vector in vectors)


def its_row(family, strategy):
    assert re.search(rf'`"?{TAGS[family][strategy]}"?`', text("docs/reference/policy-document.md"))
    page = {"scorers": "docs/explanation/scores.md", "slicers": "docs/explanation/choosing-a-slicer.md"}.get(family)
    assert page is None or f"`{strategy.__name__}" in text(page)


CHECKS = [its_module, its_export, its_declaration, a_naive_version, a_vector, its_row]
"""One for each number of the list, in its order."""


def section(title: str) -> str:
    return text("CONTRIBUTING.md").split(f"## {title}\n")[1].split("\n## ")[0]


LIST = "Add a scorer, a slicer or a placer to cupel"


def test_every_item_of_the_list_has_its_check():
    headings = re.findall(r"^\d+\. \*\*(.*?)\*\*", section(LIST), re.MULTILINE)
    assert [heading.lower().replace(" ", "_") for heading in headings] == [check.__name__ for check in CHECKS]


def test_the_walk_through_names_files_that_exist():
    told = "".join(map(section, (LIST, "Change a slicer", "Add a reason", "Where things are")))
    named = set(re.findall(r"`((?:src|docs|tests|scripts|conformance)/[^`]*)`", told))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == ["src/cupel/scorers/_brevity.py"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("family", "strategy"), list(built_in()))
def test_every_built_in_strategy_has_what_the_list_asks_for(check, family, strategy):
    check(family, strategy)


def test_nothing_is_declared_that_is_not_exported():
    assert {strategy for tags in TAGS.values() for strategy in tags} == {one.values[1] for one in built_in()}


def test_the_readme_counts_what_there_is():
    words = {3: "three", 4: "four", 8: "eight", 9: "nine", 10: "ten", 13: "thirteen", 14: "fourteen", 15: "fifteen"}
    counted = {family: sum(one.values[0] == family for one in built_in()) for family in FAMILIES}
    for family, number in counted.items():
        assert f"{words[number]} {family}" in text("README.md")


def test_every_reason_is_known_by_its_name():
    exported = (getattr(diagnostics, name) for name in diagnostics.__all__)
    reasons = {one for one in exported if inspect.isclass(one) and issubclass(one, ExclusionReason)}
    assert reasons - {ExclusionReason, UnknownReason} == set(KNOWN_REASONS.values())


@pytest.mark.parametrize("name", KNOWN_REASONS)
def test_every_reason_has_what_the_walk_through_asks_for(name):
    reason = KNOWN_REASONS[name]
    assert issubclass(reason, ExclusionReason)
    assert reason.__module__ == "cupel.diagnostics._reasons"
    assert getattr(diagnostics, name) is reason
    assert f"`{name}`" in text("docs/reference/report-format.md")
    assert name in json.dumps(json.loads(text("docs/reference/report.schema.json")))
    values = {"str": "x", "int": 1, "float": 0.5}
    made = reason(**{field: values[str(kind)] for field, kind in reason.__annotations__.items()})
    document = {
        "events": [],
        "included": [],
        "excluded": [
            {"item": {"content": "a", "tokens": 1, "kind": "Message"}, "score": 0.0, "reason": made.to_dict()}
        ],
        "total_candidates": 1,
        "total_tokens_considered": 1,
    }
    report = SelectionReport.from_dict(document)
    assert report.excluded[0].reason == made
    assert name not in report.explain(report.excluded[0].item), "a sentence, not the name"
