"""The words of the page's scripts under node are the library's."""

from cupel import ContextBudget, ContextItem, OverflowStrategy, Pipeline
from cupel._internal.text import percent, visible
from cupel.demo import session_items, session_policy
from cupel.diagnostics import KNOWN_REASONS, vocabulary
from cupel.page import Variant, excluded_words, page_payload
from tests.page.pools import SCORER, SLICERS, random_items


def test_reasons_are_said_in_the_librarys_words(scripts):
    items = [*random_items(2), ContextItem("a rule that is pinned, and long " * 9, 300, pinned=True)]
    chosen = Pipeline(scorer=SCORER, slicer=SLICERS["count quota"], overflow=OverflowStrategy.TRUNCATE)
    said = set()
    for target in (300, 340, 500, 900):
        budget = ContextBudget(1000, target)
        variants = [Variant(chosen, "mine", "")]
        payload = page_payload(items, budget, variants, title="T", source=None, fixed_window=True)
        told = scripts.ask("answers", policy=payload["policies"][0], items=payload["items"])
        rows = told[payload["slider"]["stops"].index(target)]["excluded"]
        report = chosen.dry_run(items, budget)
        said_there = scripts.ask("words", rows=rows, items=payload["items"], reasons=payload["reasons"])
        assert said_there == [[entry.reason.title, entry.reason.say()] for entry in report.excluded]
        said.update(entry.reason.name for entry in report.excluded)
    assert said == {"BudgetExceeded", "PinnedOverride", "Deduplicated", "NegativeTokens", "CountCapExceeded"}
    assert set(payload["reasons"]) == set(KNOWN_REASONS)


def test_a_reason_nobody_knows_goes_by_its_name(scripts):
    assert scripts.ask("words", rows=[{"reason": "TooOld", "position": 0}], items=[], reasons=vocabulary()) == [
        ["TooOld", "TooOld"]
    ]


def test_small_functions_that_exist_twice(scripts):
    texts = ["pay\u202etxt.exe\x1b[2J", "tab\t line\n émoji 👩‍🔧 हिन्दी", "\x00\x7f\x9b\ufeff\u2028\u2066\u00ad"]
    assert scripts.ask("unseen", texts=texts) == [visible(text) for text in texts]
    for part, whole in ((3999, 4000), (4000, 4000), (0, 7), (1, 3)):
        assert scripts.ask("percent", part=part, whole=whole) == percent(part, whole)


def test_terminal_and_page_say_the_same(scripts):
    """What `cupel explain` prints is what the page shows, but for the capital and the full stop."""
    report = session_policy().dry_run(session_items(), ContextBudget(2000, 2000))
    entry = report.excluded[0]
    row = {"position": 0, **entry.reason.to_dict()}
    ((_, words),) = scripts.ask("words", rows=[row], items=[{"tokens": entry.item.tokens}], reasons=vocabulary())
    assert words == excluded_words(entry.reason)
