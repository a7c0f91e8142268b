"""Pools with known needs, drawn by seed."""

import random

from cupel import ContextItem
from cupel.evaluation import Case


def hinted_case(number: int, *, truth: float, size: int = 30) -> Case:
    """The needed items have high hints with probability `truth`, and priorities say nothing."""
    draw = random.Random(number)
    needed = set(draw.sample(range(size), 4))
    items = [
        ContextItem(
            f"{number}.{at}",
            10,
            priority=draw.randrange(100),
            future_relevance_hint=draw.random() if draw.random() > truth else float(at in needed),
        )
        for at in range(size)
    ]
    return Case(items, 60, needed, group=f"g{number % 6}", name=f"c{number}")
