"""The ruler keeps the evidence it should, and says when there is nothing to measure."""

import gzip
import json

import pytest

from benchmarks.relevance import BUDGETS, WORD_VECTORS, measure_relevance, table


@pytest.fixture
def evidence(tmp_path):
    turns = [
        {"id": str(n), "content": f"{word} {n} " * 60, "timestamp": f"2025-01-01T12:{n:02}:00Z"}
        for n, word in enumerate(["apple", "bridge", "comet"] + ["weather"] * 40)
    ]
    questions = [{"query": word, "needed": [str(n)]} for n, word in enumerate(["apple", "bridge", "comet"])]
    path = tmp_path / "conversations.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"items": turns, "questions": questions}) + "\n")
    return path


def test_a_way_that_reads_the_question_keeps_its_evidence(evidence):
    rows = {row["way"]: row for row in measure_relevance(evidence=evidence)}
    assert rows["relevance, neighbours 0.5, best first"]["kept"] == dict.fromkeys(BUDGETS, 1.0)
    assert rows["preset `chat`"]["kept"] == dict.fromkeys(BUDGETS, 1.0)
    assert "| relevance, best first | 1.000 |" in table(list(rows.values()))


def test_without_the_data_nothing_is_measured(tmp_path):
    assert measure_relevance(evidence=tmp_path / "none.gz") == []
    assert "not measured" in table([])


def test_a_table_of_word_vectors_that_the_environment_names_is_measured(evidence, tmp_path, monkeypatch):
    words = tmp_path / "words.txt"
    words.write_text("apple 1 0 0 0\nbridge 0 1 0 0\ncomet 0 0 1 0\nweather 0 0 0 1\n", encoding="utf-8")
    monkeypatch.setenv(WORD_VECTORS, str(words))
    rows = {row["way"]: row for row in measure_relevance(evidence=evidence)}
    assert rows["word vectors alone"]["kept"] == dict.fromkeys(BUDGETS, 1.0)
    assert rows["relevance, neighbours 0.5, and word vectors"]["kept"] == dict.fromkeys(BUDGETS, 1.0)
