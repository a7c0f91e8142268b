"""The logs that Claude Code and Codex write of sessions in which every cause of a cache miss is provoked.

The provider is on loopback and keeps prefixes for each model; it says what of each request had been sent before. Time
is not waited for: the provider forgets, and the lines of the log that follow are dated later.
"""

import json
import os
import re
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cupel.evaluation import read_recordings
from tests.watch.caching import CachingProvider
from tests.watch.provider import AgentProvider
from tests.watch.test_clients import FOLDER, KEY, PROVIDERS, QUIET
from tests.watch.upstream import running

pytestmark = pytest.mark.skipif(not FOLDER, reason="CUPEL_NODE_SDKS names no folder with the agents")

IDLE, MODEL, OPENING = "idle beyond the time to live", "model switched", "instructions or tools changed"
COMPACTED, EDITED, TAIL = "compaction", "messages edited or rewound", "end of the last request not cached"
LATER = timedelta(minutes=20)
CONTINUES = {"claude": ["--continue"], "codex": ["resume", "--last"]}
READS = 4


class Session:
    """Runs an agent again and again in one conversation; `again` has what was sent again for each cause."""

    def __init__(self, agent, folder, upstream, provider, cache):
        self.agent, self.upstream, self.provider, self.cache = agent, upstream, provider, cache
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir()
        self.home.mkdir()
        self.paths = [self.work / f"notes_{number}.txt" for number in range(60)]
        for number, path in enumerate(self.paths):
            path.write_text(
                "".join(f"note {number}.{line}: value_{number * line} was measured\n" for line in range(99))
            )
        self.model, self.more, self.again, self.counts, self.later = "", (), {}, {}, []

    def ask(self, words, cause="", *more, reads=READS):
        """Ask the agent something, after which it reads files."""
        self.provider.paths = [str(path) for path in self.paths[: self.provider.asked + reads]]
        begun = len(self.cache.served)
        program = str(Path(FOLDER).resolve() / "node_modules" / ".bin" / self.agent)
        if self.agent == "claude":
            arguments = ["-p", "--model", self.model, "--allowedTools=Read", *self.more, *more, "--", words]
        else:
            settings = {"name": "x", "base_url": f"{self.upstream.url}/v1", "env_key": "OPENAI_API_KEY"}
            settings |= {"wire_api": "responses", "supports_websockets": False}
            given = ", ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
            arguments = ["-c", 'model_provider="x"', "-c", f"model_providers.x={{{given}}}", *self.more]
            arguments += ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
            arguments += ["-m", self.model, *more, words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "CODEX_HOME": str(self.home), **QUIET}
        environment |= {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.upstream.url}
        done = subprocess.run(
            [program, *arguments],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        for served in self.cache.served[begun:]:
            self.counts[served.total, served.read] = cause
            self.again[cause] = self.again.get(cause, 0) + served.again

    def go_on(self, words, cause="", *more, **options):
        self.ask(words, cause, *CONTINUES[self.agent], *more, **options)

    def idle(self):
        """Let the provider forget, and remember that all lines from here on were written later."""
        self.cache.expire()
        self.later.append({path: len(path.read_text().splitlines()) for path in self.logs()})

    def logs(self):
        return [path for path in self.home.rglob("*.jsonl") if path.parent.name != "home"]

    def date(self):
        """Date the lines after each pause later."""
        for path in self.logs():
            lines = path.read_text().splitlines()
            for begun in self.later:
                lines[begun.get(path, 0) :] = [TIME.sub(later, line) for line in lines[begun.get(path, 0) :]]
            path.write_text("".join(f"{line}\n" for line in lines))


TIME = re.compile(r'(?<="timestamp":")[^"]+')


def later(found):
    moved = datetime.fromisoformat(found[0]) + LATER
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def session(request, tmp_path):
    cache = CachingProvider(PROVIDERS[request.param])
    provider = AgentProvider([], cache)
    with running(provider) as upstream:
        yield Session(request.param, tmp_path, upstream, provider, cache)


def check(session):
    """Compare the log with what the provider knows: at least 95 % of each cause, and nothing for another one."""
    session.date()
    calls = [call for recording in read_recordings(session.home) for call in recording.calls]
    assert len(calls) == len({(call.bill.sent, call.bill.read) for call in calls})
    found = {}
    for call in calls:
        truth = session.counts[call.bill.sent, call.bill.read]
        for cause, tokens in call.causes.items():
            found[truth, cause] = found.get((truth, cause), 0) + tokens
    for truth, again in session.again.items():
        own = sum(tokens for (one, cause), tokens in found.items() if one == truth and cause in {truth, TAIL})
        assert own >= 0.95 * again, (truth, again, found)
    assert {cause for truth, cause in found if cause not in {truth, TAIL}} == set(), found
    return found


@pytest.mark.parametrize("session", ["claude"], indirect=True)
def test_claude_code(session):
    session.model = "claude-sonnet-4-6"
    session.ask("Read the notes.")
    session.go_on("Read more.")
    session.idle()
    session.go_on("After a pause.", IDLE)
    session.model = "claude-haiku-4-5"
    session.go_on("Another model.", MODEL)
    session.more = ("--append-system-prompt", "Be brief.")
    session.go_on("Another system prompt.", OPENING)
    session.more += ("--tools", "Read,Bash")
    session.go_on("Other tools.", OPENING)
    (session.work / "CLAUDE.md").write_text("Always be kind. " * 50)
    session.go_on("Other instructions.", OPENING)
    (log,) = session.logs()
    session.go_on("/compact", "not logged", reads=0)
    session.again.pop("not logged")
    session.go_on("After a compaction.", COMPACTED)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    answers = [line["uuid"] for line in lines if line["type"] == "assistant"]
    session.ask("Go back.", EDITED, "--resume", log.stem, "--resume-session-at", answers[-3])
    session.idle()
    session.go_on("After another pause.", IDLE)
    found = check(session)
    assert {cause for _, cause in found} >= {IDLE, MODEL, OPENING, COMPACTED, EDITED}


@pytest.mark.parametrize("session", ["codex"], indirect=True)
def test_codex(session):
    session.model = "gpt-5.1"
    session.ask("Read the notes.")
    session.go_on("Read more.")
    session.idle()
    session.go_on("After a pause.", IDLE)
    session.model = "gpt-5.2"
    session.go_on("Another model.", MODEL)
    session.more = ("-c", 'mcp_servers.m={command="cat"}')
    session.go_on("Other tools.", OPENING)
    session.more += ("-c", "model_auto_compact_token_limit=9000")
    session.go_on("A compaction.", COMPACTED, reads=0)
    session.more = session.more[:2]
    session.go_on("Read more.")
    found = check(session)
    assert {cause for _, cause in found} >= {IDLE, MODEL, OPENING, COMPACTED}
