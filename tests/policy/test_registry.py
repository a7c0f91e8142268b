"""Third-party strategies get a tag and then serialise like built-ins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import find

import cupel.policy
from cupel import (
    ContextKind,
    DecayScorer,
    Pipeline,
    Placer,
    PolicyConfigError,
    RecencyScorer,
    Scorer,
    ScorerConfigError,
    Slicer,
    Window,
)
from cupel._internal.documents import Field, Integer
from cupel.conformance import load_vector, run_vector
from cupel.policy import json_schema, register_placer, register_scorer, register_slicer, registered
from cupel.policy._registry import SCORERS
from cupel.testing import strategies

pytestmark = pytest.mark.usefixtures("fresh_registries")


class Mood(Enum):
    CALM = "calm"
    WILD = "wild"


@dataclass(frozen=True)
class Bounds:
    low: float
    high: float = 1.0


class Plain(Scorer):
    def score(self, item, all_items):
        return 0.5

    def __eq__(self, other):
        return type(other) is Plain

    __hash__ = None


@dataclass(frozen=True)
class Everything(Plain):
    """One field of every form that annotations can express."""

    inner: Scorer
    bounds: Bounds
    mood: Mood = Mood.CALM
    mode: Literal["fast", 2] = "fast"
    times: int = 1
    rate: float = 0.5
    on: bool = False
    label: str | None = None
    kind: ContextKind = ContextKind.MEMORY
    pause: timedelta = timedelta(0)
    since: datetime | None = None
    names: list[str] = field(default_factory=list)
    pairs: tuple[int, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    extra: Any = None
    hidden: int = field(init=False, default=7)
    shared: ClassVar[int] = 3


EVERYTHING = Everything(
    RecencyScorer(),
    Bounds(0.25),
    Mood.WILD,
    2,
    times=3,
    rate=0.75,
    on=True,
    label="x",
    kind=ContextKind("note"),
    pause=timedelta(milliseconds=1500),
    since=datetime(2026, 1, 1, tzinfo=UTC),
    names=["a", "b"],
    pairs=(1, 2),
    weights={"a": 2.0},
    extra={"deep": [1, {"er": None}]},
)


def test_a_dataclass_is_written_and_read_by_its_fields():
    register_scorer("everything")(Everything)
    document = cupel.policy.to_dict(Pipeline(scorer=EVERYTHING))
    assert document["scorer"] == {
        "type": "everything",
        "inner": "recency",
        "bounds": {"low": 0.25},
        "mood": "wild",
        "mode": 2,
        "times": 3,
        "rate": 0.75,
        "on": True,
        "label": "x",
        "kind": "note",
        "pause": 1.5,
        "since": "2026-01-01T00:00:00Z",
        "names": ["a", "b"],
        "pairs": [1, 2],
        "weights": {"a": 2.0},
        "extra": {"deep": [1, {"er": None}]},
    }
    read = cupel.policy.from_dict(document).scorer
    assert all(getattr(read, name) == getattr(EVERYTHING, name) for name in Everything.__dataclass_fields__)
    assert cupel.policy.to_dict(Pipeline(scorer=Everything(RecencyScorer(), Bounds(0.0))))["scorer"] == {
        "type": "everything",
        "inner": "recency",
        "bounds": {"low": 0.0},
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "slow"}, "$.scorer.mode: expected one of 'fast', 2, got the string 'slow'"),
        ({"mode": True}, "$.scorer.mode: expected one of"),
        ({"bounds": {"lo": 1}}, "$.scorer.bounds.lo: unknown key 'lo'"),
        ({"kind": " "}, "$.scorer.kind: "),
        ({"since": "yesterday"}, "$.scorer.since: expected an RFC 3339"),
        ({"extra": {"a": object()}}, "$.scorer.extra.a: "),
        ({"hidden": 3}, "$.scorer.hidden: unknown key"),
        ({"names": "ab"}, "$.scorer.names: expected a list"),
    ],
)
def test_a_derived_document_is_as_strict_as_a_built_in(change, message):
    register_scorer("everything")(Everything)
    with pytest.raises(PolicyConfigError) as caught:
        cupel.policy.from_dict({"scorer": {"type": "everything", "inner": "recency", "bounds": {"low": 0}} | change})
    assert message in str(caught.value)


def test_default_factories_are_not_shared():
    register_scorer("everything")(Everything)
    document = {"scorer": {"type": "everything", "inner": "recency", "bounds": {"low": 0}}}
    assert cupel.policy.from_dict(document).scorer.names is not cupel.policy.from_dict(document).scorer.names


def test_none_that_is_no_default_goes_through_json_but_not_through_toml():
    @register_scorer("optional")
    @dataclass(frozen=True)
    class Optional(Plain):
        limit: int | None = 3

    policy = Pipeline(scorer=Optional(None))
    assert cupel.policy.loads(cupel.policy.dumps(policy)).scorer.limit is None
    with pytest.raises(PolicyConfigError, match=r"\$\.scorer\.limit: TOML has no null"):
        cupel.policy.dumps(policy, format="toml")


def test_plain_classes_and_every_family():
    register_scorer("plain")(Plain)

    @register_slicer("first")
    @dataclass(frozen=True)
    class First(Slicer):
        count: int = 1

        def slice(self, scored, budget):
            return [entry.item for entry in scored[: self.count]]

    @register_placer("reversed")
    @dataclass(frozen=True)
    class Reversed(Placer):
        def place(self, scored):
            return [entry.item for entry in reversed(scored)]

    policy = Pipeline(scorer=Plain(), slicer=First(2), placer=Reversed())
    assert cupel.policy.to_dict(policy) == {
        "scorer": "plain",
        "slicer": {"type": "first", "count": 2},
        "placer": "reversed",
    }
    assert cupel.policy.loads(cupel.policy.dumps(policy, format="toml"), format="toml") == policy
    nested = {"scorer": "plain", "slicer": {"type": "quota", "quotas": [], "inner": "first"}}
    assert cupel.policy.to_dict(cupel.policy.from_dict(nested)) == nested


def test_own_methods_come_first():
    @register_scorer("own")
    class Own(Plain):
        def __init__(self, words):
            self.words = words

        def to_dict(self):
            return {"words": " ".join(self.words)}

        @classmethod
        def from_dict(cls, fields):
            if not fields["words"]:
                raise ScorerConfigError("words must not be empty")
            return cls(fields["words"].split())

    assert cupel.policy.to_dict(Pipeline(scorer=Own(["a", "b"])))["scorer"] == {"type": "own", "words": "a b"}
    assert cupel.policy.from_dict({"scorer": {"type": "own", "words": "c d"}}).scorer.words == ["c", "d"]
    with pytest.raises(ScorerConfigError, match=r"^\$\.scorer: words must not be empty"):
        cupel.policy.from_dict({"scorer": {"type": "own", "words": ""}})


def test_errors_of_a_constructor_carry_the_path():
    class PickyError(ScorerConfigError):
        def __init__(self, code, detail):
            super().__init__(f"{code}: {detail}")

    @register_scorer("picky")
    @dataclass(frozen=True)
    class Picky(Plain):
        size: int

        def __post_init__(self):
            if self.size == 1:
                raise ValueError("size must not be 1")
            if self.size == 2:
                raise TypeError("size must not be 2")
            if self.size == 3:
                raise PickyError(3, "never")

    for size in (1, 2):
        with pytest.raises(PolicyConfigError, match=rf"^\$\.scorer: size must not be {size}$"):
            cupel.policy.from_dict({"scorer": {"type": "picky", "size": size}})
    with pytest.raises(PickyError) as caught:
        cupel.policy.from_dict({"scorer": {"type": "picky", "size": 3}})
    assert caught.value.__notes__ == ["$.scorer"]


def test_unregistered_strategies_say_how_to_register():
    with pytest.raises(PolicyConfigError) as caught:
        cupel.policy.to_dict(Pipeline(scorer=EVERYTHING))
    assert "$.scorer: Everything cannot be serialised: it has no scorer tag" in str(caught.value)
    assert '@register_scorer("some_tag")' in str(caught.value)


def test_clocks_that_cannot_be_written_are_named():
    class LabClock:
        def now(self):
            return datetime(2026, 1, 1, tzinfo=UTC)

    policy = Pipeline(scorer=DecayScorer(LabClock(), Window(timedelta(1))))
    with pytest.raises(PolicyConfigError, match=r"\$\.scorer\.now: .*LabClock"):
        cupel.policy.to_dict(policy)


def test_tags_and_classes_are_taken_once():
    register_scorer("plain")(Plain)
    register_scorer("plain")(Plain)  # importing a module twice is no accident
    with pytest.raises(PolicyConfigError, match="'plain' is already registered"):
        register_scorer("plain")(Everything)
    with pytest.raises(PolicyConfigError, match="Plain is already registered as the scorer 'plain'"):
        register_scorer("simple")(Plain)
    with pytest.raises(PolicyConfigError, match="'recency' is already registered"):
        register_scorer("recency")(Everything)


@pytest.mark.parametrize("tag", ["", " ", "two words", "9lives", "a/b"])
def test_tags_are_words(tag):
    with pytest.raises(PolicyConfigError, match="a scorer tag is a word"):
        register_scorer(tag)(Plain)


def test_what_cannot_be_registered():
    class Opaque(Plain):
        def __init__(self, callback):
            self.callback = callback

    with pytest.raises(TypeError, match="register_slicer expects a subclass of Slicer"):
        register_slicer("plain")(Plain)
    with pytest.raises(TypeError, match="register_scorer expects a subclass of Scorer"):
        register_scorer("plain")(Plain())
    with pytest.raises(PolicyConfigError, match="Opaque cannot be serialised: make it a dataclass"):
        register_scorer("opaque")(Opaque)


def test_annotations_without_a_form_are_named():
    @register_scorer("unsupported")
    @dataclass(frozen=True)
    class Unsupported(Plain):
        when: int | str = 3

    @register_scorer("typed")
    @dataclass(frozen=True)
    class Typed(Plain):
        type: str = "x"

    with pytest.raises(PolicyConfigError, match=r"Unsupported\.when cannot be serialised: int \| str has no codec"):
        cupel.policy.from_dict({"scorer": "unsupported"})
    with pytest.raises(PolicyConfigError, match=r"Typed\.type cannot be serialised"):
        cupel.policy.to_dict(Pipeline(scorer=Typed()))


def test_a_plug_in_is_loaded_when_its_tag_is_met(monkeypatch, tmp_path):
    (tmp_path / "cupel_test_plugin.py").write_text(
        "from dataclasses import dataclass\n"
        "from cupel import Scorer\n"
        "from cupel.policy import register_scorer\n"
        "@register_scorer('from_plugin')\n"
        "@dataclass(frozen=True)\n"
        "class FromPlugin(Scorer):\n"
        "    def score(self, item, all_items):\n"
        "        return 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    asked = []

    def entry_points(*, group):
        asked.append(group)
        return [
            EntryPoint("good", "cupel_test_plugin", group),
            EntryPoint("broken", "cupel_no_such_module", group),
        ]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    cupel.policy.from_dict({"scorer": "recency"})
    assert asked == []
    assert type(cupel.policy.from_dict({"scorer": "from_plugin"}).scorer).__name__ == "FromPlugin"
    with pytest.raises(PolicyConfigError) as caught:
        cupel.policy.from_dict({"scorer": "elsewhere"})
    assert "the plug-in broken = cupel_no_such_module failed to load: ModuleNotFoundError" in str(caught.value)
    assert "from_plugin" in str(caught.value)
    assert asked == ["cupel.strategies"]
    assert {"title": "from_plugin"}.items() <= json_schema()["$defs"]["scorer"]["anyOf"][-1].items()


def test_what_is_registered_can_be_looked_up():
    register_scorer("everything")(Everything)
    found = registered()
    assert list(found) == ["scorer", "curve", "slicer", "placer"]
    assert found["scorer"]["everything"].strategy is Everything
    assert found["curve"]["window"].strategy is Window
    definitions = json_schema()["$defs"]
    for family, tags in found.items():
        assert [one.schema() for one in tags.values()] == [
            form for form in definitions[family]["anyOf"] if "title" in form
        ]


def test_a_document_that_was_never_text_may_hold_a_function():
    assert cupel.policy.from_dict({"scorer": {"type": "embedding", "embed": len}}).scorer.embed is len


@dataclass(frozen=True)
class Brevity(Scorer):
    """Prefers short items."""

    __module__ = "cupel.scorers._brevity"  # as if it were built in

    half: int = 100

    def score(self, item, all_items):
        return self.half / (self.half + item.tokens)


def test_a_declaration_is_all_that_documents_vectors_and_the_kit_need(tmp_path):
    SCORERS.declare("brevity", Brevity, Field("half", Integer(least=1)))
    assert cupel.policy.from_dict({"scorer": {"type": "brevity", "half": 7}}).scorer == Brevity(7)
    assert cupel.policy.to_dict(Pipeline(scorer=Brevity())) == {"scorer": "brevity"}
    assert registered()["scorer"]["brevity"].schema()["properties"]["half"] == {
        "type": "integer",
        "minimum": 1,
        "default": 100,
    }
    vector = tmp_path / "brevity.toml"
    vector.write_text(
        """
        test = { stage = "scoring", scorer = "brevity" }
        config = { half = 10 }
        items = [{ content = "a", tokens = 30 }]
        expected = [{ content = "a", score_approx = 0.25 }]
        """,
        encoding="utf-8",
    )
    assert run_vector(load_vector(vector)).passed
    assert find(strategies.scorers(), lambda scorer: type(scorer) is Brevity and scorer.half != 100) == Brevity(1)
