"""A scorer that counts its passes."""

from cupel import ReflexiveScorer, Scorer


class CountingScorer(Scorer):
    """Scores by the relevance hint; `passes` says how often the whole pool was scored."""

    def __init__(self):
        self.passes = 0

    def score(self, item, all_items):
        raise AssertionError("the pipeline scores a pass at a time")

    def score_all(self, items):
        self.passes += 1
        return ReflexiveScorer().score_all(items)
