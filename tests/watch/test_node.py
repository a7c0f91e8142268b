"""The SDKs for Node as clients; `make test-watch-node` installs them and says where they are."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.messages.provider_rules import violations
from tests.watch.agent import FIELD, PROVIDERS, history
from tests.watch.provider import Provider
from tests.watch.upstream import proxied, running

FOLDER = os.environ.get("CUPEL_NODE_SDKS", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="CUPEL_NODE_SDKS names no folder with the SDKs")


def ask(url, provider, messages, mode):
    command = ["node", str(Path(__file__).with_name("client.cjs")), str(Path(FOLDER).resolve()), url, provider, mode]
    done = subprocess.run(command, input=json.dumps(messages), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("budget", [None, 3000], ids=["looking", "governing"])
@pytest.mark.parametrize("mode", ["plain", "stream"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_texts_tool_calls_and_retries(provider, mode, budget, tmp_path):
    replies = Provider()
    with running(replies) as upstream, proxied(upstream.url, budget=budget, folder=tmp_path / "windows") as proxy:
        assert "src/app.py" in ask(proxy.url, provider, [{"role": "user", "content": "Read it"}], mode)
        replies.failures = [429, 500]
        assert "Hello there." in ask(proxy.url, provider, history(provider, 14), mode)
        turns = proxy.turns(4)
    assert [turn.status for turn in turns] == [200, 429, 500, 200]
    assert turns[3].bill.settled
    assert [note for turn in turns for note in turn.notes] == []
    assert len({request.body for request in upstream.received[1:]}) == 1
    sent = upstream.received[-1].json[FIELD[provider]]
    assert violations(provider, sent, history(provider, 14)) == []
    assert (sent == history(provider, 14)) == (budget is None)
    assert not any(b"sk-live-SECRET" in path.read_bytes() for path in (tmp_path / "windows").glob("*"))
