"""The lines that tell most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain, repeat

from cupel._checks import as_finite
from cupel.errors import ConfigurationError
from cupel.shorten._head_tail import keep_ends
from cupel.shorten._lines import Note, Page
from cupel.shorten._names import names_note, ranked_names
from cupel.shorten._rarity import blanked, names_in, token_weights
from cupel.shorten._request import ShortenCall
from cupel.tokens import TokenCounter

_POOL = 8
"""Of a text that is longer than so many times the room, only the likeliest lines are compared with one another."""


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
    request = ShortenCall.of(text, limit, counter)
    if request.is_met:
        return text
    page = Page.of(request)
    candidates = _candidates(page, known or {})
    ranking = _greedy(page.lines, candidates, known or {})
    kept = page.keep(ranking, _names_of_the_rest(page, candidates, known or {}, names))
    return kept or keep_ends(request)


def _candidates(page: Page, known: Mapping[str, int]) -> list[int]:
    """Positions of the lines to choose from: the first of equal ones, and of very many those that promise most."""
    backwards = dict(zip(reversed(page.lines), reversed(range(len(page.lines))), strict=True))
    positions = sorted(backwards.values())
    room = _POOL * page.request.room
    return positions if len(page.request.text) <= room else _likeliest(page.lines, positions, known, room)


def _greedy(lines: list[str], positions: Sequence[int], known: Mapping[str, int]) -> Iterator[int]:
    """Positions by names not yet covered for each character; a gain only shrinks, so it is renewed when it is next."""
    holding = {at: set(blanked(lines[at]).split()) for at in positions}
    weight = token_weights(set[str]().union(*holding.values()), known)
    of = weight.__getitem__

    def gain(at: int) -> float:
        return sum(map(of, holding[at])) / (len(lines[at]) + 1)

    heap = [(-gain(at), at) for at in positions]
    heapify(heap)
    while heap:
        promised, at = heap[0]
        now = gain(at)
        if not now:
            heappop(heap)
        elif now != -promised:  # names were covered since
            heapreplace(heap, (-now, at))
        else:
            heappop(heap)
            yield at
            weight.update(dict.fromkeys(holding[at], 0))


def _likeliest(lines: list[str], positions: list[int], known: Mapping[str, int], room: int) -> list[int]:
    """Positions of the lines in which most names stand for the first time, for each character, within some room."""
    blank = blanked("\n".join([lines[at].rstrip("\n") for at in positions]))
    holding = [line.split() for line in blank.split("\n")]
    tokens = list(chain.from_iterable(holding))
    holders = list(chain.from_iterable(map(repeat, range(len(holding)), map(len, holding))))
    first = dict(zip(reversed(tokens), reversed(holders), strict=True))
    gains = [0] * len(positions)
    for token, weight in token_weights(first, known).items():
        gains[first[token]] += weight
    density = {at: -gain / (len(lines[at]) + 1) for at, gain in zip(positions, gains, strict=True)}
    ranked = sorted(positions, key=density.__getitem__)
    lengths = accumulate(len(lines[at]) for at in ranked)
    return sorted(at for at, length in zip(ranked, lengths, strict=True) if length <= room)


def _names_of_the_rest(page: Page, candidates: list[int], known: Mapping[str, int], share: float) -> Note:
    """What the marker says beside its numbers: names that no kept line holds, within their share of the room."""
    if not share:
        return ""
    ranked = ranked_names("".join(page.lines[position] for position in candidates), known)
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
        return names_note(missing)

    return note
