"""Documents that are hostile, and third parties that misbehave, end in an error with a path."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import cupel.policy
from cupel import ConfigurationError, PolicyConfigError, Scorer
from cupel.policy import json_schema, register_scorer

DEEP = "[" * 100_000


class OddError(ConfigurationError):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)


@register_scorer("hostile.own")
class Own(Scorer):
    def score(self, item, all_items):
        return 0.0

    def to_dict(self):
        return {}

    @classmethod
    def from_dict(cls, fields):
        if "odd" in fields:
            raise OddError(3, "never")
        return fields["missing"]


@register_scorer("hostile.unresolvable")
@dataclass(frozen=True)
class Unresolvable(Scorer):
    size: "Nowhere" = 3  # noqa: F821, UP037

    def score(self, item, all_items):
        return 0.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"scorer = {DEEP}", r"^\$: nested too deeply: at most 100 levels"),
        (".".join(["a"] * 20_000) + " = 1", r"^\$: nested too deeply: at most 100 levels"),
        (f'scorer = "recency"\nn = {"9" * 5000}', r"^\$: not valid TOML: Exceeds the limit"),
        (
            'scorer = {type = "decay", curve = {type = "exponential", half_life = 9}, now = 0001-01-01T00:00:00+14:00}',
            r"^\$\.scorer.*outside the years 1 to 9999|unknown key 'now'",
        ),
    ],
)
def test_toml_beyond_the_limits(text, says) -> None:
    with pytest.raises(PolicyConfigError, match=says):
        cupel.policy.loads(text, format="toml")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (f'{{"scorer": {DEEP}', "nested too deeply"),
        ('{"scorer": {"type": "scaled", "inner": ' * 200 + '"recency"' + "}}" * 200, "nested too deeply"),
        (f'{{"scorer": {"9" * 5000}}}', "not valid JSON: Exceeds the limit"),
        ('{"scorer": "recency", "$schema": 5}', r'^\$\["\$schema"\]: expected a string'),
        ('{"scorer": {"type": "hostile.own"}}', r"^\$\.scorer: KeyError: 'missing'"),
        ('{"scorer": {"type": "hostile.unresolvable"}}', r"^\$\.scorer: .*annotation cannot be resolved: NameError"),
    ],
)
def test_json_and_third_parties(document, says) -> None:
    with pytest.raises(PolicyConfigError, match=says):
        cupel.policy.loads(document)


def test_an_error_of_somebody_elses_class_stays_what_it_is(tmp_path) -> None:
    file = tmp_path / "odd.json"
    file.write_text('{"scorer": {"type": "hostile.own", "odd": 1}}')
    with pytest.raises(OddError) as caught:
        cupel.policy.load(file)
    assert caught.value.__notes__ == ["$.scorer", str(file)]


def test_one_unresolvable_annotation_does_not_break_the_schema() -> None:
    tags = [one.get("title") for one in json_schema()["$defs"]["scorer"]["anyOf"]]
    assert {"recency", "hostile.unresolvable"} <= set(tags)


def test_whole_floats_are_integers_as_in_the_schema() -> None:
    document = {"scorer": "recency", "slicer": {"type": "knapsack", "bucket_size": 7.0}}
    assert cupel.policy.from_dict(document).slicer.bucket_size == 7
