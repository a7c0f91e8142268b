"""Hypothesis strategies for policies of every shape, and for items and budgets to try them on."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from cupel import (
    BestFirstSlice,
    ChronologicalPlacer,
    CompositeScorer,
    ContextBudget,
    ContextItem,
    CountConstrainedKnapsackSlice,
    CountQuotaEntry,
    CountQuotaSlice,
    DecayScorer,
    Exponential,
    FixedClock,
    FrequencyScorer,
    GreedySlice,
    KindScorer,
    KnapsackSlice,
    MetadataKeyScorer,
    MetadataTrustScorer,
    OverflowStrategy,
    PinRule,
    Pipeline,
    PriorityScorer,
    QuotaEntry,
    QuotaSlice,
    RecencyScorer,
    ReflexiveScorer,
    RelevanceScorer,
    ScaledScorer,
    ScarcityBehavior,
    Step,
    StreamSlice,
    SystemFirst,
    TagScorer,
    UShapedPlacer,
    Window,
)
from cupel.scorers import ENGLISH

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KINDS = ["Message", "Document", "ToolOutput", "Memory", "two words", 'quo"te', "é", "K\u212a"]
TAGS = ["urgent", "docs", "a.b", "tab\there", "line\nbreak", "\x00\x7f", "back\\slash", "日本", ""]

texts = st.text(st.characters(codec="utf-8"), max_size=8)
weights = st.floats(0.0, 1e6).map(lambda weight: weight + 0.0)  # no -0.0: equal to 0.0, so its sign need not survive
positive = st.floats(1e-6, 1e6)
units = st.floats(0.0, 1.0).map(lambda unit: unit + 0.0)
durations = st.timedeltas(timedelta(microseconds=1), timedelta(days=4000))
instants = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001

curves = st.one_of(
    st.builds(Exponential, durations),
    st.builds(Window, durations),
    st.builds(Step, st.lists(st.tuples(durations, units), min_size=1, max_size=3)),
)
leaf_scorers = st.one_of(
    st.sampled_from([RecencyScorer(), PriorityScorer(), FrequencyScorer(), ReflexiveScorer()]),
    st.builds(KindScorer, st.none() | st.dictionaries(st.sampled_from(KINDS), weights, max_size=3)),
    st.builds(TagScorer, st.dictionaries(st.sampled_from(TAGS), weights, max_size=4)),
    st.builds(
        TagScorer, st.dictionaries(st.sampled_from(TAGS), weights, max_size=4), case_sensitive=st.just(value=False)
    ),
    st.builds(MetadataTrustScorer, units),
    st.builds(MetadataKeyScorer, texts.filter(bool), texts, positive),
    st.builds(
        RelevanceScorer,
        neighbours=st.floats(0.0, 0.99).map(lambda share: share + 0.0),
        k1=units,
        b=units,
        stem=st.sampled_from([True, False, "german"]),
        stop=st.just(ENGLISH) | st.lists(st.sampled_from(["The", "der", "é"])),
        dates=st.booleans(),
        query=st.sampled_from(["a b", "C"]),
        optional=st.booleans(),
    ),
    st.builds(DecayScorer, st.builds(FixedClock, instants), curves, null_timestamp_score=units),
)
scorers = st.recursive(
    leaf_scorers,
    lambda inner: st.one_of(
        st.builds(CompositeScorer, st.lists(st.tuples(inner, positive), min_size=1, max_size=3)),
        st.builds(ScaledScorer, inner),
    ),
    max_leaves=6,
)


def _distinct_kinds(entries):
    return st.lists(entries, max_size=3, unique_by=lambda entry: entry.kind)


@st.composite
def quotas(draw):
    cap = draw(st.floats(0.0, 100.0).map(lambda value: value + 0.0))
    return QuotaEntry(draw(st.sampled_from(KINDS)), require=draw(st.floats(0.0, min(cap, 33.0))) + 0.0, cap=cap)


@st.composite
def count_entries(draw):
    cap = draw(st.integers(0, 4))
    return CountQuotaEntry(draw(st.sampled_from(KINDS)), draw(st.integers(0, cap)), cap)


scarcities = st.sampled_from(ScarcityBehavior)
knapsacks = st.builds(
    KnapsackSlice, st.just("auto") | st.integers(1, 200), max_cells=st.none() | st.sampled_from([50_000_000, 1_000_000])
)
slicers = st.recursive(
    st.sampled_from([GreedySlice(), BestFirstSlice()]) | knapsacks | st.builds(StreamSlice, st.integers(1, 99)),
    lambda inner: st.one_of(
        st.builds(QuotaSlice, _distinct_kinds(quotas()), inner, leftover=st.sampled_from(["unused", "share"])),
        st.builds(
            CountQuotaSlice,
            _distinct_kinds(count_entries()),
            inner.filter(lambda slicer: not isinstance(slicer, KnapsackSlice)),
            scarcity=scarcities,
        ),
        st.builds(CountConstrainedKnapsackSlice, _distinct_kinds(count_entries()), knapsacks, scarcity=scarcities),
    ),
    max_leaves=3,
)
policies = st.builds(
    Pipeline,
    scorer=scorers,
    slicer=slicers,
    placer=st.sampled_from([ChronologicalPlacer(), UShapedPlacer(), SystemFirst(), SystemFirst(UShapedPlacer())]),
    deduplicate=st.booleans(),
    overflow=st.sampled_from(OverflowStrategy),
    name=st.none() | texts,
    description=st.none() | texts,
    pins=st.lists(
        st.builds(
            PinRule,
            kind=st.sampled_from(KINDS),
            tag=st.none() | st.sampled_from(TAGS),
            source=st.none() | st.sampled_from(["Chat", "tool"]),
            metadata=st.dictionaries(texts, texts | st.integers(0, 9) | st.booleans() | st.just(0.5), max_size=2),
            newest=st.none() | st.integers(1, 9),
        ),
        max_size=2,
    ),
)

items = st.lists(
    st.builds(
        ContextItem,
        st.sampled_from(["a", "b", "c", "d", "e", "f"]),
        st.integers(0, 300),
        kind=st.sampled_from(KINDS),
        priority=st.none() | st.integers(-3, 3),
        tags=st.lists(st.sampled_from(TAGS), max_size=3),
        metadata=st.fixed_dictionaries({}, optional={"cupel:trust": st.sampled_from(["0.3", "0.9", "high"])}),
        timestamp=st.none() | instants,
        future_relevance_hint=st.none() | units,
        pinned=st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
)
budgets = st.integers(0, 1500).map(lambda tokens: ContextBudget(tokens, tokens))
