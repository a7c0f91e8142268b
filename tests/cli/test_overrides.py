"""`--set` on policy documents."""

import pytest

from cupel import GreedySlice, KnapsackSlice, OverflowStrategy, PolicyConfigError, UShapedPlacer, presets
from cupel.cli._policies import overridden


def test_nothing_to_change_gives_the_policy_itself():
    policy = presets.chat()
    assert overridden(policy, []) is policy


@pytest.mark.parametrize(
    ("assignments", "attribute", "value"),
    [
        (["slicer=knapsack"], "slicer", KnapsackSlice()),
        (['slicer={"type": "knapsack", "bucket_size": 7}'], "slicer", KnapsackSlice(7)),
        (["slicer=knapsack", "slicer.bucket_size=7", "slicer=greedy"], "slicer", GreedySlice()),
        (["slicer.type=knapsack"], "slicer", KnapsackSlice()),
        (["placer=u_shaped"], "placer", UShapedPlacer()),
        (["deduplication=false"], "deduplicate", False),
        (["overflow=truncate"], "overflow", OverflowStrategy.TRUNCATE),
        (["name=mine"], "name", "mine"),
    ],
)
def test_paths_and_values(assignments, attribute, value):
    assert getattr(overridden(presets.chat(), assignments), attribute) == value


@pytest.mark.parametrize(
    "assignment", ["slicer", "=x", "scorer.scorers.x.weight=1", "scorer.scorers.7=1", "nowhere.deep=1", "name.first=1"]
)
def test_paths_that_lead_nowhere(assignment):
    with pytest.raises(PolicyConfigError):
        overridden(presets.chat(), [assignment])
