"""The seven presets are the ruled ones."""

import pytest

from cupel import presets

RULED = {  # ruling 14.3
    "chat": ("chat", {"recency": 3, "kind": 1}, {}),
    "code_review": ("code-review", {"kind": 2, "priority": 2, "recency": 1}, {}),
    "rag": ("rag", {"reflexive": 3, "kind": 1}, {"placer": "u_shaped"}),
    "document_qa": (
        "document-qa",
        {"kind": 2, "reflexive": 2, "priority": 1},
        {"slicer": "knapsack", "placer": "u_shaped"},
    ),
    "tool_use": ("tool-use", {"kind": 2, "recency": 2, "priority": 1}, {}),
    "long_running": ("long-running", {"recency": 3, "frequency": 1, "kind": 1}, {}),
    "debugging": ("debugging", {"priority": 3, "kind": 2, "recency": 1}, {}),
}


@pytest.mark.parametrize(("function", "ruled"), RULED.items(), ids=RULED.keys())
def test_presets_are_the_ruled_ones(function, ruled):
    name, weights, rest = ruled
    scorers = [{"scorer": tag, "weight": float(weight)} for tag, weight in weights.items()]
    document = {"name": name, "scorer": {"type": "composite", "scorers": scorers}, **rest}
    assert getattr(presets, function)().to_dict() == document


def test_every_preset_says_whom_it_serves_and_when_it_hurts():
    assert set(presets.__all__) == set(RULED)
    for function in presets.__all__:
        text = getattr(presets, function).__doc__
        assert text.startswith("For ")
        assert "It hurts when" in text or "It hurts with" in text
