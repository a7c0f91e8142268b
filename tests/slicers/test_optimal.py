"""`OptimalSlice` through its public face: configuration, limits, certificates, and what happens without the solver."""

import pickle
import subprocess
import sys

import pytest

import cupel.policy
import cupel.slicers._optimal as search
from cupel import (
    ContextBudget,
    ContextItem,
    KindLimit,
    MissingExtraError,
    OptimalSlice,
    Pipeline,
    ReflexiveScorer,
    ScarcityBehavior,
    ScarcityError,
    ScoredItem,
    SelectionReport,
    SlicerConfigError,
)
from cupel.analytics import optimality_gap
from cupel.diagnostics import (
    BudgetExceeded,
    Certificate,
    CountCapExceeded,
    CountRequirementShortfall,
    QuotaCapExceeded,
    Superseded,
    TokenRequirementShortfall,
)


def item(name, tokens, score, kind="Message", **fields):
    return ContextItem(name, tokens, kind=kind, future_relevance_hint=score, **fields)


def report(items, budget, limits=(), **options):
    options.setdefault("exact", False)
    slicer = OptimalSlice(limits, **options)
    return Pipeline(scorer=ReflexiveScorer(), slicer=slicer).dry_run(items, budget)


def contents(found):
    return sorted(entry.item.content for entry in found.included)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": -0.1}, "gap must be from 0 to 1, got -0.1"),
        ({"gap": float("nan")}, "gap must be from 0 to 1, got nan"),
        ({"gap": 1}, "gap must be less than 1"),
        ({"max_core": -1}, "max_core must be >= 0, got -1"),
        ({"limits": [KindLimit("a"), KindLimit("A")]}, "limits[1]: kind 'A' has an entry already"),
    ],
)
def test_bad_values(options, message):
    with pytest.raises(SlicerConfigError) as raised:
        OptimalSlice(exact=False, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"gap": "small"}, "gap"),
        ({"max_core": 1.5}, "max_core"),
        ({"exact": 1}, "exact"),
        ({"scarcity": "throw"}, "scarcity"),
        ({"limits": ["a"]}, "limits"),
    ],
)
def test_bad_types(options, name):
    with pytest.raises(TypeError, match=name):
        OptimalSlice(**{"exact": False, **options})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_count": -1}, "min_count for kind 'a' must be >= 0, got -1"),
        ({"max_tokens": -1}, "max_tokens for kind 'a' must be >= 0, got -1"),
        ({"min_count": 3, "max_count": 2}, "min_count must not exceed max_count for kind 'a', got 3 and 2"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens must not exceed max_tokens for kind 'a', got 3 and 2"),
    ],
)
def test_bad_limits(fields, message):
    with pytest.raises(SlicerConfigError) as raised:
        KindLimit("a", **fields)
    assert str(raised.value) == message


def test_without_the_solver_exactness_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MissingExtraError, match=r"cupel-context\[optimal\]"):
        OptimalSlice()
    with pytest.raises(MissingExtraError, match=r"cupel-context\[optimal\]"):
        cupel.policy.from_dict({"scorer": "reflexive", "slicer": "optimal"})
    assert contents(report([item("a", 5, 0.5)], 10)) == ["a"]


def test_the_package_does_not_import_the_solver():
    code = "import sys, cupel; cupel.OptimalSlice(exact=False); sys.exit('highspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_document():
    form = {
        "type": "optimal",
        "limits": [{"kind": "Tool", "min_count": 1, "max_tokens": 9}],
        "gap": 0.25,
        "exact": False,
    }
    policy = cupel.policy.from_dict({"scorer": "reflexive", "slicer": form})
    assert policy.slicer == OptimalSlice([KindLimit("Tool", 1, max_tokens=9)], gap=0.25, exact=False)
    assert cupel.policy.to_dict(policy)["slicer"] == form


def test_an_empty_target_chooses_nothing_and_is_short_of_nothing():
    found = report([item("a", 5, 0.5)], 0, [KindLimit("Message", 1)], scarcity=ScarcityBehavior.THROW)
    assert contents(found) == []
    assert found.certificate == Certificate(0, 0, "optimal")


def test_worthless_items_stay_out_and_free_ones_are_in():
    found = report([item("worthless", 5, 0.00001), item("free", 0, 0.0), item("good", 5, 0.5)], 100)
    assert contents(found) == ["free", "good"]


def test_a_minimum_takes_even_what_is_worth_nothing():
    found = report([item("worthless", 5, 0.0, "Note"), item("good", 5, 0.5)], 5, [KindLimit("note", 1)])
    assert contents(found) == ["worthless"]


def test_items_over_a_limit_say_which():
    items = [item("a", 5, 0.9, "Tool"), item("b", 5, 0.8, "Tool"), item("c", 50, 0.7, "Tool"), item("d", 5, 0.6, "Doc"),
             item("e", 5, 0.5, "Doc"), item("f", 50, 0.4)]  # fmt: skip
    found = report(items, 40, [KindLimit("Tool", max_count=1), KindLimit("Doc", max_count=5, max_tokens=7)])
    reasons = {entry.item.content: entry.reason for entry in found.excluded}
    assert reasons == {
        "b": CountCapExceeded("Tool", 1, 1),
        "c": BudgetExceeded(50, 30),
        "e": QuotaCapExceeded("Doc", 7, 10),
        "f": BudgetExceeded(50, 30),
    }


def test_a_form_is_out_for_the_other_form_not_for_the_limit():
    forms = [
        item("whole", 30, 0.9, metadata={"cupel:id": "log"}),
        item("short", 5, 0.9, metadata={"cupel:id": "log", "cupel:worth": 0.5}),
    ]
    found = report(forms, 40, [KindLimit("Message", max_count=1, max_tokens=20)])
    assert [(entry.item.content, entry.reason) for entry in found.excluded] == [("whole", Superseded("short"))]


def test_a_form_that_reaches_a_minimum_is_not_given_up_for_one_of_equal_worth():
    log = {"cupel:id": "log"}
    forms = [item(name, tokens, score, "Log", metadata=log)
             for name, tokens, score in (("whole", 7, 0.5), ("half", 6, 0.2), ("stub", 1, 0.2))]  # fmt: skip
    found = report([*forms, item("other", 1, 0.5)], 12, [KindLimit("Log", min_tokens=5, max_tokens=6)])
    assert contents(found) == ["half", "other"]


def test_minima_are_kept_in_their_order_and_shortfalls_reported():
    items = [item("a", 6, 0.9, "A"), item("b", 6, 0.9, "B"), item("b2", 3, 0.1, "B")]
    first, second = KindLimit("A", 1, min_tokens=8), KindLimit("B", min_count=2)
    found = report(items, 10, [first, second])
    assert contents(found) == ["a", "b2"]
    assert found.count_requirement_shortfalls == (CountRequirementShortfall("B", 2, 1),)
    assert found.certificate.token_shortfalls == (TokenRequirementShortfall("A", 8, 6),)
    assert "Short of A: 8 tokens required, 6 found." in found.explain()
    assert SelectionReport.from_json(found.to_json()) == found
    found = report(items, 10, [second, first])
    assert contents(found) == ["b", "b2"]


def test_a_shortfall_counts_the_items_selected():
    items = [item("a", 6, 0.2, "A"), item("b", 7, 0.1, "B"), item("b2", 6, 0.1, "B")]
    found = report(items, 15, [KindLimit("B", min_tokens=4), KindLimit("A", 2, 2)])
    assert contents(found) == ["a", "b2"]
    assert found.count_requirement_shortfalls == (CountRequirementShortfall("A", 2, 1),)


@pytest.mark.parametrize(("limit", "message"), [
    (KindLimit("A", 3), "OptimalSlice: found 1 items of kind 'A' that fit, but min_count is 3"),
    (KindLimit("A", min_tokens=9), "OptimalSlice: found 6 tokens of kind 'A' that fit, but min_tokens is 9"),
])  # fmt: skip
def test_scarcity_throws(limit, message):
    with pytest.raises(ScarcityError) as raised:
        report([item("a", 6, 0.9, "A")], 10, [limit], scarcity=ScarcityBehavior.THROW)
    assert str(raised.value) == message
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


def test_pinned_items_do_not_count():
    pytest.importorskip("highspy")
    items = [item("system", 5, 0.0, "System", pinned=True), item("best", 5, 0.9, "System"), item("o", 5, 0.1, "System")]
    found = report(items, 15, [KindLimit("System", max_count=1)], exact=True)
    assert contents(found) == ["best", "system"]
    assert found.certificate == Certificate(9000, 9000, "optimal")


def test_the_gap_of_a_certified_report_is_that_of_its_certificate():
    forms = [item("full", 60, 0.9, metadata={"cupel:id": "t"}),
             item("stub", 10, 0.9, metadata={"cupel:id": "t", "cupel:worth": 0.5})]  # fmt: skip
    budget = ContextBudget(30, 30)
    found = report([*forms, item("b", 20, 0.4)], budget)
    assert contents(found) == ["b", "stub"]
    gap = optimality_gap(found, budget)
    assert (gap.selected_score, gap.gap, gap.ratio, gap.capacity_tokens) == (0.85, 0.0, 1.0, 30)
    assert gap.upper_bound == pytest.approx(0.85)


def tight(count=40):
    """Many items of almost equal density, so that prices decide little."""
    return [ScoredItem(item(f"item {n}", 1000 + 7 * n, 0.5 + 0.0031 * n), 0.5 + 0.0031 * n) for n in range(count)]


def certificate(slicer, scored, target):
    from cupel._internal.columns import Candidates

    return slicer.prepare(Candidates.of(scored))(ContextBudget(target, target)).certificate


def test_a_core_beyond_the_limit_leaves_the_selection_with_its_bound():
    pytest.importorskip("highspy")
    limited = certificate(OptimalSlice(gap=0.0, max_core=3), tight(), 5_500)
    best = certificate(OptimalSlice(gap=0.0), tight(), 5_500)
    assert limited.proof == "limit"
    assert limited.value <= best.value < limited.bound
    assert limited.gap == (limited.bound - limited.value) / limited.bound > 0
    assert (best.proof, best.gap) == ("optimal", 0.0)


@pytest.mark.parametrize("failing", ["branch", "relax"])
def test_a_failed_run_is_not_read_as_an_answer(monkeypatch, failing):
    pytest.importorskip("highspy")
    scored = [ScoredItem(ContextItem(e.item.content, e.item.tokens, metadata={"cupel:group": f"g{n // 2}"}), e.score)
              for n, e in enumerate(tight())]  # fmt: skip
    limits = [KindLimit("Message", 3)]
    best = certificate(OptimalSlice(limits, gap=0.0), scored, 5_500)
    run = search.run_solver
    monkeypatch.setattr(
        search, "run_solver", lambda *model: None if (len(model) > 1) is (failing == "branch") else run(*model)
    )
    kept = certificate(OptimalSlice(limits, gap=0.0), scored, 5_500)
    assert 0 < kept.value <= best.value <= kept.bound
    assert kept.proof == "limit" or failing == "relax"


def test_other_users_of_the_solver_do_not_disturb():
    """A scheduler that was started with more threads makes a run with one thread fail."""
    pytest.importorskip("highspy")
    code = """if True:
        import highspy
        other = highspy.Highs()
        other.setOptionValue("output_flag", False)
        other.setOptionValue("threads", 2)
        other.addVar(0.0, 1.0)
        other.run()
        from cupel import ContextBudget, ContextItem, OptimalSlice, ScoredItem
        pool = [ScoredItem(ContextItem(str(n), 1000 + 7 * n), 0.5 + 0.0031 * n) for n in range(40)]
        print(sum(item.tokens for item in OptimalSlice(gap=0.0).slice(pool, ContextBudget(5_500, 5_500))))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alone = OptimalSlice(gap=0.0).slice(tight(), ContextBudget(5_500, 5_500))
    assert done.stdout == f"{sum(one.tokens for one in alone)}\n"


@pytest.mark.parametrize("exact", [False, True])
def test_the_largest_numbers(exact):
    if exact:
        pytest.importorskip("highspy")
    scored = [ScoredItem(item(f"item {n}", 10**15 + n, 0.5), score) for n, score in enumerate((1e300, 1e12, 0.5, 0.25))]
    found = certificate(OptimalSlice(gap=0.0, exact=exact), scored, 10**15 + 5)
    assert found.value == 2**63 - 1 <= found.bound
    found = certificate(OptimalSlice(gap=0.0, exact=exact), scored, 2**53)
    assert found.value == found.bound == 2**63 - 1 + 10**16 + 7500


def test_amounts_that_the_solver_refuses_prove_what_a_price_proves():
    pytest.importorskip("highspy")
    scored = [ScoredItem(item(f"item {n}", 10**15, 0.5), score) for n, score in enumerate((1e300, 1e6))]
    limits, target = [KindLimit("Message", max_count=3, max_tokens=1 << 40)], 13 * 10**14
    assert certificate(OptimalSlice(limits), scored, target) == certificate(
        OptimalSlice(limits, exact=False), scored, target
    )


def test_the_choice_settles_where_everything_fits():
    from cupel._internal.columns import Candidates

    chooser = OptimalSlice(exact=False).prepare(Candidates.of(tight(3)))
    total = 3_021
    assert chooser.span(ContextBudget(total, total)) == (total, None)
    assert chooser.span(ContextBudget(total, total - 1)) == (total - 1, total)


def test_a_group_that_can_never_be_in_is_left_out():
    pair = [item(name, tokens, 1.0, metadata={"cupel:group": "pair"}) for name, tokens in (("a", 5), ("b", -1))]
    assert contents(report([*pair, item("c", 5, 0.1)], 10)) == ["c"]


def test_a_longer_form_that_is_worth_no_more_is_not_taken():
    forms = [item(name, tokens, 0.5, metadata={"cupel:id": "x"}) for name, tokens in (("long", 50), ("short", 5))]
    assert contents(report(forms, 100)) == ["short"]
