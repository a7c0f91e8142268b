"""What the document components of all frameworks share."""

from typing import Any

import pytest

from cupel import Pipeline, RecencyScorer
from cupel.integrations._adapters import select_documents
from cupel.tokens import CharacterEstimate


def chosen(documents: list[str], policy: Any) -> list[str]:
    return select_documents(documents, 4, policy, CharacterEstimate(4.0), text=str, score=lambda _: None)


def test_documents_are_chosen_by_a_policy() -> None:
    documents = ["a" * 8, "", "b" * 8, "c" * 8]
    assert chosen(documents, None) == chosen(documents, Pipeline(scorer=RecencyScorer())) == documents[::2]


@pytest.mark.parametrize("wrong", ["rag", Pipeline, 3])
def test_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"policy must be a Pipeline, got {type(wrong).__name__}: "):
        chosen(["a"], wrong)
