"""The recipes of docs/how-to/web-server.md, in several processes, with the machine's Redis and PostgreSQL."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from cupel import MessageSession
from tests.servers import worker

TURNS = 12
PATIENCE = 60


@pytest.fixture(params=["Redis, with a lock", "PostgreSQL"])
def title(request, redis_url, database_url, monkeypatch) -> str:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("DATABASE_URL", database_url)
    return request.param


@pytest.fixture
def key(request) -> str:
    return request.node.name


@pytest.fixture
def start(title, key, tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start a process that puts the texts to the conversation; its journal is the file of the name."""
    begun = []

    def process(journal: str, *texts: str, **settings: str) -> subprocess.Popen:
        command = [sys.executable, worker.__file__, title, key, str(tmp_path / journal), *texts]
        begun.append(subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    yield process
    for one in begun:
        one.kill()
        one.communicate()


def requests(journal: Path) -> list[list[worker.Message]]:
    return [json.loads(line) for line in journal.read_text("utf-8").splitlines()]


def wait_for_request(journal: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (journal.exists() and journal.read_text("utf-8")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stored(title: str, key: str) -> list[worker.Message]:
    with worker.recipe(title)["conversation"](key) as (_, history):
        return history


def ended(process: subprocess.Popen) -> str:
    """Wait for a process and return what it complained of; nothing if it did its work."""
    _, complaint = process.communicate(timeout=PATIENCE)
    assert bool(process.returncode) is bool(complaint), complaint
    return complaint


def test_two_processes_continue_one_conversation_as_one_process_would(title, key, start, tmp_path):
    asked = {name: [f"{name} {turn}" for turn in range(TURNS)] for name in ("left", "right")}
    assert [ended(process) for process in [start("journal", *texts) for texts in asked.values()]] == ["", ""]
    sent = requests(tmp_path / "journal")
    order = [request[-1]["content"] for request in sent]
    assert sorted(order) == sorted(asked["left"] + asked["right"])
    assert sum(one.split()[0] != other.split()[0] for one, other in pairwise(order)) > 3

    alone, history, cuts = MessageSession(worker.BUDGET, provider="openai"), [], 0
    for request in sent:
        history.append(request[-1])
        turn = alone.fit(history)
        assert request == turn.messages
        cuts += turn.action == "cut"
        message, usage = worker.answer(turn.messages)
        alone.observe(usage)
        history.append(message)
    assert cuts > 1
    assert stored(title, key) == history


def test_a_killed_process_leaves_nothing_and_the_next_one_gets_in(title, key, start, tmp_path):
    assert ended(start("first", "one", LOCK_TIMEOUT="4")) == ""
    killed = start("killed", "two", LOCK_TIMEOUT="4", ANSWER_SECONDS="60")
    wait_for_request(tmp_path / "killed")
    waiting = start("waiting", "three")
    time.sleep(0.5)
    killed.kill()
    killed.wait()
    assert ended(waiting) == ""
    (request,) = requests(tmp_path / "waiting")
    assert [message["content"] for message in request if message["role"] == "user"] == ["one", "three"]
    history = stored(title, key)
    assert [message["content"].split(":")[0] for message in history] == [
        "one",
        "answer to one",
        "three",
        "answer to three",
    ]


def test_nobody_gets_in_while_a_process_answers(title, key, start, tmp_path):
    slow = start("slow", "one", ANSWER_SECONDS="2")
    wait_for_request(tmp_path / "slow")
    assert ended(start("waiting", "two")) == ""
    assert ended(slow) == ""
    assert [len(request) for request in requests(tmp_path / "waiting")] == [3]


def test_a_failed_answer_stores_nothing_and_ends_its_lock(title, key):
    names = worker.recipe(title)
    answers = names["answer"]

    def ask(text: str) -> None:
        with names["conversation"](key) as (session, history):
            names["respond"](session, history, text)

    ask("one")
    names["answer"] = None  # not callable: the model cannot be reached
    with pytest.raises(TypeError):
        ask("two")
    names["answer"] = answers
    ask("three")
    assert [message["content"] for message in stored(title, key)][::2] == ["one", "three"]


def test_who_waits_too_long_is_told(title, key):
    names = worker.recipe(title)
    names["LOCK"]["blocking_timeout"], names["WAIT"] = 0.2, "200ms"
    with names["conversation"](key) as (session, history):
        names["respond"](session, history, "question")
        with pytest.raises(Exception, match="lock") as refused, names["conversation"](key):
            pass
    assert refused.type.__name__ == ("LockNotAvailable" if title == "PostgreSQL" else "LockError")


@pytest.mark.parametrize("title", ["Redis, with a lock"], indirect=True)
def test_a_process_that_outlives_its_lock_overwrites_nothing(title, key, start, tmp_path):
    slow = start("slow", "one", LOCK_TIMEOUT="1", ANSWER_SECONDS="4")
    wait_for_request(tmp_path / "slow")
    assert ended(start("quick", "two")) == ""
    assert "LockNotOwnedError" in ended(slow)
    assert [message["content"].split(":")[0] for message in stored(title, key)] == ["two", "answer to two"]
