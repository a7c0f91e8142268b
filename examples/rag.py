"""Retrieval: the passages that a question needs, within a budget, with the reason for each.

python examples/rag.py
"""

from __future__ import annotations

from cupel import ContextItem, Pipeline
from cupel.scorers import RelevanceScorer
from cupel.slicers import BestFirstSlice
from cupel.tokens import default_counter

PASSAGES = (
    "Orders are refunded within 14 days of delivery, if the goods are unused and in their packaging.",
    "The warehouse in Lyon ships on weekdays; orders placed after 16:00 leave on the next working day.",
    "To change a delivery address, write to support before the parcel has left the warehouse.",
    "Gift cards cannot be refunded, exchanged for money, or used to buy other gift cards.",
    "A refund goes to the card that paid; banks take up to five working days to show it.",
    "Our office dog is called Biscuit and is in on Tuesdays and Thursdays.",
)


def main() -> None:
    """Ask two questions of one prepared pool."""
    counter = default_counter()
    items = [ContextItem.counted(text, counter, kind="Document", source="Rag") for text in PASSAGES]
    prepared = Pipeline(scorer=RelevanceScorer(), slicer=BestFirstSlice()).prepare(items, query="refund for gift cards")
    for query in ("How long does a refund take?", "Can I change the address of a delivery?"):
        print(query)
        for entry in prepared.with_query(query).dry_run(60).included:
            print(f"  {entry.score:.2f}  {entry.item.content}")


if __name__ == "__main__":
    main()
