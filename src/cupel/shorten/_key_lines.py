"""The lines that tell most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace

from cupel._checks import as_finite
from cupel.errors import ConfigurationError
from cupel.shorten._head_tail import keep_ends
from cupel.shorten._lines import Note, Page
from cupel.shorten._names import names_note, ranked_names
from cupel.shorten._rarity import names_in, token_weights, tokens_in
from cupel.shorten._request import Request
from cupel.tokens import TokenCounter


def key_lines(
    text: str,
    limit: int,
    *,
    counter: TokenCounter | None = None,
    known: Mapping[str, int] | None = None,
    names: float = 0.0,
) -> str:
    r"""Return the lines with most rare names not yet covered by better ones, for their length; verbatim, in order.

    `known` says in how many other texts a name stood (see `Rarity`), so that what is common in a conversation counts
    little. `names` is a share of the limit: the marker then also lists names of the lines that are missing. A quarter
    served best for the outputs of a coding agent's tools.

    >>> log = "".join(f"copied part {number} of the archive to the store\n" for number in range(40))
    >>> log += "checksum of part_17.bin differs: 9f3a, see verify.log\n" + log
    >>> print(key_lines(log, 60))
    copied part 0 of the archive to the store
    … 39 lines …
    checksum of part_17.bin differs: 9f3a, see verify.log
    … 79 lines, 948 tokens left out …
    """
    names = as_finite("names", names, least=0, most=1, error=ConfigurationError)
    request = Request.of(text, limit, counter)
    if request.is_met:
        return text
    page = Page.of(request)
    ranking = _greedy(page.lines, known or {})
    kept = page.keep(ranking, _names_of_the_rest(page, known or {}, names))
    return kept or keep_ends(request)


def _greedy(lines: list[str], known: Mapping[str, int]) -> Iterator[int]:
    """Positions by names not yet covered for each character; a gain only shrinks, so it is renewed when it is next."""
    first: dict[str, int] = {}
    for position, line in enumerate(lines):  # a repeated line has nothing that is not covered
        first.setdefault(line, position)
    distinct, positions = list(first), list(first.values())
    holding = tokens_in(distinct)
    weight = token_weights(set[str]().union(*holding), known)
    of = weight.__getitem__
    gains = [-sum(map(of, names)) / (len(line) + 1) for line, names in zip(distinct, holding, strict=True)]
    heap = [(gain, index) for index, gain in enumerate(gains) if gain]
    heapify(heap)
    while heap:
        promised, index = heap[0]
        gain = -sum(map(of, holding[index])) / (len(distinct[index]) + 1)
        if gain != promised:  # names were covered since
            if gain:
                heapreplace(heap, (gain, index))
            else:
                heappop(heap)
            continue
        heappop(heap)
        yield positions[index]
        for name in holding[index]:
            weight[name] = 0.0


def _names_of_the_rest(page: Page, known: Mapping[str, int], share: float) -> Note:
    """What the marker says beside its numbers: names that no kept line holds, within their share of the room."""
    if not share:
        return ""
    ranked = ranked_names(page.request.text, known)
    room = int(page.request.room * share)

    def note(kept: list[int]) -> str:
        present = names_in("".join(page.lines[position] for position in kept))
        missing: list[str] = []
        used = 0
        for name in ranked:
            if name not in present:
                missing.append(name)
                used += len(name) + 1
                if used > room:
                    break
        return names_note(missing, len(missing))

    return note
