"""Find by meaning without a model: add a table of word vectors, which you bring, to the relevance of words.

A text's vector is the sum of its words' vectors, each weighted by how rare the word is in the pool. Word vectors are
published as text files with a word and its numbers on each line; `read_table` reads them. This example makes up six.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cupel import BestFirstSlice, CompositeScorer, ContextItem, Pipeline, RelevanceScorer, Scorer


def read_table(path: str | Path) -> dict[str, Any]:
    """Read a file of word vectors: on each line a word, then its numbers."""
    table: dict[str, Any] = {}
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            word, *numbers = line.rstrip().split(" ")
            table[word] = np.array(numbers, dtype=np.float32)
    return table


class WordVectorScorer(Scorer):
    """Scores by the cosine between sums of word vectors; the best item scores 1.

    Args:
        table: A vector for each word, in lower case.
        neighbours: The share of its score that an item passes on to the items beside it, in the order of the pool.
        query: The query this scorer is bound to; `bind` sets it.
    """

    def __init__(self, table: Mapping[str, Any], *, neighbours: float = 0.0, query: str = "") -> None:
        self.table = table
        self.neighbours = neighbours
        self.query = query
        self._last: dict[str, Any] = {}

    def bind(self, query: str) -> WordVectorScorer:
        """Return the scorer for one query; both keep the vectors of the last pool."""
        bound = WordVectorScorer(self.table, neighbours=self.neighbours, query=query)
        bound._last = self._last
        return bound

    def score(self, item: ContextItem, all_items: Sequence[ContextItem]) -> float:
        """Score one item among all."""
        return self.score_all(all_items)[next(at for at, one in enumerate(all_items) if one is item)]

    def score_all(self, items: Sequence[ContextItem]) -> list[float]:
        """Score every item in one product."""
        if list(map(id, items)) != list(map(id, self._last.get("items", ()))):
            self._last.update(items=list(items), **self._study(items))
        query = self._unit(self._words(self.query), self._last["weights"])
        own = np.clip(self._last["matrix"] @ query, 0.0, None)
        scores = own + self._carried(own) + self._carried(own[::-1])[::-1]
        return [float(score) for score in scores / (scores.max() or 1.0)]

    def _study(self, items: Sequence[ContextItem]) -> dict[str, Any]:
        texts = [self._words(item.content) for item in items]
        found = Counter(word for words in texts for word in set(words))
        weights = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in found.items()}
        return {"weights": weights, "matrix": np.array([self._unit(words, weights) for words in texts])}

    def _words(self, text: str) -> list[str]:
        return [word for word in re.findall(r"\w+", text.lower()) if word in self.table]

    def _unit(self, words: Sequence[str], weights: Mapping[str, float]) -> Any:
        rarest = max(weights.values(), default=1.0)  # for words of the query that the pool does not have
        zero = np.zeros_like(next(iter(self.table.values())))
        total = sum((weights.get(word, rarest) * self.table[word] for word in words), zero)
        return total / (np.linalg.norm(total) or 1.0)

    def _carried(self, scores: Any) -> Any:
        carried, found = 0.0, []
        for score in scores:
            found.append(carried)
            carried = self.neighbours * (carried + score)
        return np.array(found)


def main() -> None:
    """Find a text that shares no word with the question."""
    table = {
        "car": np.array([1.0, 0.1, 0.0]),
        "vehicle": np.array([0.9, 0.2, 0.1]),
        "repaired": np.array([0.2, 1.0, 0.0]),
        "fixed": np.array([0.1, 0.9, 0.1]),
        "lunch": np.array([0.0, 0.1, 1.0]),
        "noon": np.array([0.0, 0.0, 0.9]),
    }
    items = [ContextItem("Lunch is at noon.", 5), ContextItem("The vehicle was repaired on Monday.", 7)]
    scorer = CompositeScorer([(RelevanceScorer(stem=False), 1), (WordVectorScorer(table), 1)])
    pipeline = Pipeline(scorer=scorer, slicer=BestFirstSlice())
    for item in pipeline.run(items, 8, query="Who fixed my car?"):
        print(item.content)


if __name__ == "__main__":
    main()
