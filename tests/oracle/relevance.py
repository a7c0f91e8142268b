"""BM25 over the pool, spelled out: every item is read again for every score."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import snowballstemmer

from tests.oracle.records import Item, fold

_MONTHS = "january february march april may june july august september october november december"
_STOP = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with what when where which who whom whose why how do does did done has have had having would could "
    "should can might shall must i me my you your yours he him his she her hers we us our its them been being were am "
    "from about so than too very just also any some more most other s t re ve ll d m"
)
MONTHS, STOP = _MONTHS.split(), _STOP.split()


def _terms(spec: Mapping[str, Any], text: str) -> list[str]:
    """Only words of plain letters or plain digits are understood here; vectors show the rest."""
    stop = [word.lower() for word in spec.get("stop", STOP)]
    stem = spec.get("stem", True)
    stemmer = snowballstemmer.stemmer("english" if stem is True else stem) if stem else None
    words = [word for word in re.findall(r"[a-z]+|[0-9]+", text.lower()) if word not in stop]
    return [stemmer.stemWord(word) if stemmer else word for word in words]


def _document(spec: Mapping[str, Any], item: Item) -> list[str]:
    terms = _terms(spec, item.content)
    if spec.get("dates", True) and item.timestamp is not None:
        terms += _terms(spec, MONTHS[item.timestamp.month - 1])
        terms += [str(item.timestamp.day), str(item.timestamp.year)]
    return terms


def _own(spec: Mapping[str, Any], item: Item, items: Sequence[Item]) -> float:
    k1, b = float(spec.get("k1", 1.2)), float(spec.get("b", 0.75))
    documents = [_document(spec, other) for other in items]
    total = sum(len(document) for document in documents)
    mean = total / len(items) if total else 1.0
    mine = _document(spec, item)
    query = _terms(spec, spec["query"])
    result = 0.0
    for term in dict.fromkeys(query):
        holders = sum(1 for document in documents if term in document)
        frequency = mine.count(term)
        if frequency == 0:
            continue
        rarity = math.log(1.0 + (len(items) - holders + 0.5) / (holders + 0.5))
        norm = k1 * (1.0 - b + b * len(mine) / mean)
        result += query.count(term) * rarity * (k1 + 1.0) * frequency / (frequency + norm)
    return result


def _spread(spec: Mapping[str, Any], items: Sequence[Item]) -> list[float]:
    """Each score, with what reaches it from both sides of its source's line of time (undated items: of the list)."""
    own = [_own(spec, item, items) for item in items]
    share = float(spec.get("neighbours", 0.0))
    spread = []
    for position, item in enumerate(items):
        line = [
            other
            for other in range(len(items))
            if fold(items[other].source) == fold(item.source)
            and (items[other].timestamp is None) == (item.timestamp is None)
        ]
        if item.timestamp is not None:
            line = sorted(line, key=lambda other: (items[other].timestamp, other))
        place = line.index(position)
        spread.append(
            own[position] + _carried(own, line[:place], share) + _carried(own, line[place + 1 :][::-1], share)
        )
    return spread


def _carried(own: list[float], line: list[int], share: float) -> float:
    carried = 0.0
    for position in line:
        carried = share * (carried + own[position])
    return carried


def relevance(spec: Mapping[str, Any], item: Item, items: Sequence[Item]) -> float:
    if spec.get("optional") and spec.get("query") is None:
        return 0.0
    # An object that is listed twice has the score of its last place.
    scores = {id(other): score for score, other in zip(_spread(spec, items), items, strict=True)}
    best = max(scores.values())
    return scores[id(item)] / best if best > 0.0 else 0.0
