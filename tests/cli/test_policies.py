"""`policy` and `presets`, and `--set` on policy documents."""

import json

import pytest

from cupel import GreedySlice, KnapsackSlice, OverflowStrategy, PolicyConfigError, UShapedPlacer, presets
from cupel import policy as policies
from cupel.cli._policies import overridden

NAMES = [name.replace("_", "-") for name in presets.__all__]


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


@pytest.mark.parametrize("form", ["json", "toml"])
@pytest.mark.parametrize("name", NAMES)
def test_a_shown_policy_can_be_read_again(cupel, name, form):
    shown = cupel("policy", "show", name, "--format", form).out
    assert policies.loads(shown, format=form) == getattr(presets, name.replace("-", "_"))()


def test_a_policy_is_shown_with_its_changes(cupel):
    shown = cupel("policy", "show", "rag", "--set", "scorer.scorers.0.weight=9").out
    assert json.loads(shown)["scorer"]["scorers"][0] == {"scorer": "reflexive", "weight": 9.0}


class TestValidate:
    @pytest.fixture
    def files(self, folder):
        (folder / "good.toml").write_text('scorer = "recency"\n')
        (folder / "bad.json").write_text('{"scorer": "recncy"}')
        return ["good.toml", "bad.json"]

    def test_an_invalid_file_is_exit_code_1(self, cupel, files):
        assert cupel("policy", "validate", *files).code == 1

    def test_each_file_has_a_line(self, cupel, files):
        good, bad = cupel("policy", "validate", *files).out.splitlines()
        assert good == "good.toml: ok"
        assert "did you mean 'recency'?" in bad

    def test_json_says_which_are_valid(self, cupel, files):
        document = cupel("policy", "validate", *files, "--format", "json").json
        assert [row["valid"] for row in document] == [True, False]

    def test_a_file_that_does_not_exist_is_named_in_words(self, cupel):
        outcome = cupel("policy", "validate", "nope.toml")
        assert outcome.code == 2
        assert outcome.err == "cupel policy: error: nope.toml: No such file or directory\n"


@pytest.mark.parametrize("name", presets.__all__)
def test_the_schema_accepts_the_presets(cupel, name):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(policies.to_dict(getattr(presets, name)()), cupel("policy", "schema").json)


class TestDescribe:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_stage_of_a_preset_has_words(self, cupel, name):
        out = cupel("policy", "describe", name).out
        _, _, stages = out.partition("\n\n")
        assert [line for line in stages.splitlines() if not line.startswith(" ")] == [
            "Score",
            "Duplicates",
            "Slice",
            "Place",
            "If the result exceeds the budget",
        ]

    @pytest.fixture
    def odd(self, folder):
        document = {
            "scorer": {
                "type": "composite",
                "scorers": [{"scorer": {"type": "scaled", "inner": "kind"}, "weight": 2.5}],
            },
            "slicer": {"type": "quota", "quotas": [{"kind": "Memory", "cap": 20}], "inner": {"type": "knapsack"}},
            "deduplication": False,
            "overflow": "proceed",
            "description": "Odd \u202e",
        }
        (folder / "odd.json").write_text(json.dumps(document))
        return "odd.json"

    @pytest.mark.parametrize(
        "words",
        [
            "weight 2.5: scaled: ",
            "inner: kind: ",
            "kind Memory, cap 20",
            "inner: knapsack: ",
            "bucket_size: 100 (default)",
            "all stay",
            "keep everything",
        ],
    )
    def test_settings_and_nested_strategies_have_words(self, cupel, odd, words):
        assert words in cupel("policy", "describe", odd).out

    def test_a_description_is_shown_with_code_points(self, cupel, odd):
        assert cupel("policy", "describe", odd).out.startswith("odd: Odd <U+202E>\n")

    def test_json_has_the_same_words(self, cupel, odd):
        description = cupel("policy", "describe", odd, "--format", "json").json["description"]
        assert description.replace("\u202e", "<U+202E>").split() == cupel("policy", "describe", odd).out.split()

    def test_changes_are_described(self, cupel):
        out = cupel("policy", "describe", "chat", "--set", "slicer=knapsack").out
        assert "knapsack: " in out


@pytest.mark.parametrize("words", ["For retrieval:", "It hurts when"])
def test_presets_are_listed_with_their_purpose(cupel, words):
    assert words in " ".join(cupel("presets").out.split())


@pytest.mark.parametrize("arguments", [("presets",), ("policy", "describe", "rag"), ("completion", "--help")])
def test_prose_is_wrapped_to_the_terminal(cupel, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "76")
    assert max(map(len, cupel(*arguments).out.splitlines())) <= 76


def test_a_preset_has_the_first_line_of_its_docstring_as_its_description():
    assert presets.tool_use.__doc__.startswith(f"{presets.tool_use().description}\n")


def test_presets_are_listed_as_json(cupel):
    rows = cupel("presets", "--format", "json").json
    assert {row["name"]: policies.from_dict(row["policy"]).name for row in rows} == dict(zip(NAMES, NAMES, strict=True))
