"""Scorers that contain scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cupel.errors import ScorerConfigError

if TYPE_CHECKING:
    from cupel.scorers._base import Scorer

_DEEPEST: Final = 200
"""A limit of our own, well before the interpreter's."""


def refuse_cycles(root: Scorer) -> None:
    """Raise when a scorer contains itself, or too many others in one another; branches may share a scorer.

    Walks with a stack of its own, so that deep nesting cannot exhaust the interpreter's, and goes by identity: equal
    scorers are different nodes.
    """
    finished: set[int] = set()
    path: set[int] = {id(root)}
    stack = [(root, iter(getattr(root, "children", ())))]
    while stack:
        node, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            path.discard(id(node))
            finished.add(id(node))
        elif id(child) in path:
            msg = f"{type(root).__name__}: cycle detected, {type(child).__name__} is contained in itself"
            raise ScorerConfigError(msg)
        elif len(stack) > _DEEPEST:
            msg = f"{type(root).__name__}: more than {_DEEPEST} scorers are nested in one another"
            raise ScorerConfigError(msg)
        elif id(child) not in finished:
            path.add(id(child))
            stack.append((child, iter(getattr(child, "children", ()))))
