"""The command: alone, and around an agent."""

import os
import re
import signal
import subprocess
import sys

import httpx2 as httpx
import pytest

from cupel.cli import main
from cupel.errors import ConfigurationError
from cupel.watch import WatchOptions
from cupel.watch._launch import prepared
from tests.watch.agent import body, history, reply_to
from tests.watch.upstream import running

AGENT = """
import json, os, sys, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
message = {"role": "user", "content": "Hello"}
headers = {"authorization": "Bearer sk-12345678"}
request = urllib.request.Request(url, json.dumps({"messages": [message]}).encode(), headers)
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"], sys.argv[1:])
sys.exit(7)
"""


def watch(*arguments, cwd, **options):
    command = [sys.executable, "-m", "cupel", "watch", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_command_is_started_with_the_base_urls_and_its_exit_code_is_passed_on(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    with running(reply_to) as upstream:
        environment = {**os.environ, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        process = watch("--", sys.executable, "agent.py", "--flag", "-x", cwd=tmp_path, env=environment)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (7, "Done. ['--flag', '-x']\n")
        assert upstream.received[0].path == "/v1/chat/completions"
    assert re.search(r"http://127\.0\.0\.1:\d+/_cupel/\?token=\S{20}", err)
    assert err.splitlines()[-2:] == [
        "1 call seen: 13 tokens, 0% of them cached, recorded in windows",
        "0 requests changed: 0 tokens saved, a price of 0 uncached tokens saved; 0 calls not read",
    ]
    assert len(list((tmp_path / "windows").glob("*.json"))) == 1
    assert main(["replay", str(tmp_path / "windows"), "--budget", "100"]) == 0


def test_alone_it_prints_the_lines_to_export_and_ends_with_ctrl_c(tmp_path):
    with running(reply_to) as upstream:
        process = watch("--upstream", upstream.url, "--no-record", "--budget", "3k", cwd=tmp_path)
        lines = [process.stderr.readline() for _ in range(4)]
        url = re.fullmatch(r"export OPENAI_BASE_URL=(http://127.0.0.1:\d+)/v1\n", lines[2])[1]
        assert lines[3] == f"export ANTHROPIC_BASE_URL={url}\n"
        assert lines[0] == f"governing the calls to {upstream.url}\n"
        assert lines[1].startswith(f"see them at {url}/_cupel/?token=")
        assert httpx.post(f"{url}/v1/chat/completions", json=body("openai", history("openai", 9))).is_success
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "1 call seen" in err
    assert list(tmp_path.iterdir()) == []


def test_a_request_to_end_prints_the_summary(tmp_path):
    with running(reply_to) as upstream:
        process = watch("--upstream", upstream.url, "--no-record", cwd=tmp_path)
        url = next(line for line in process.stderr if "OPENAI_BASE_URL" in line).partition("=")[2].strip()
        assert httpx.post(f"{url}/chat/completions", json=body("openai", history("openai", 1))).is_success
        assert httpx.post(f"{url}/engines/m/completions", json={"prompt": "x"}).is_success
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=15)
    assert process.returncode == 143
    assert "1 call seen" in err
    assert err.splitlines()[-1].endswith("; 1 call not read: 1 × POST /v1/engines/m/completions")


def test_a_command_that_is_not_there_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "--no-record", "--", "no-such-agent"]) == 2
    assert "no-such-agent: No such file or directory" in capsys.readouterr().err


def test_beyond_loopback_it_warns(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "--host", "0.0.0.0", "--no-record", "--", sys.executable, "-c", ""]) == 0
    assert "warning: anybody who reaches 0.0.0.0" in capsys.readouterr().err


@pytest.mark.parametrize("upstream", ["api.openai.com", "ftp://x", "https://", "https://user:key@x", "https://x?key=1"])
def test_an_upstream_that_is_no_plain_url_is_refused(upstream):
    with pytest.raises(ConfigurationError, match="upstream must be a URL"):
        WatchOptions(upstream=upstream)


def test_an_upstream_of_the_environment_that_is_no_url_is_named(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "gateway")
    with pytest.raises(ConfigurationError, match="ANTHROPIC_BASE_URL must be a URL"):
        WatchOptions()


@pytest.mark.parametrize("port", ["65536", "99999999999999999999"])
def test_a_port_that_does_not_exist_is_refused(tmp_path, capsys, monkeypatch, port):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "--port", port, "--", "true"]) == 2
    assert f"port must be from 0 to 65535, got {port}" in capsys.readouterr().err


def test_calls_that_could_not_be_governed_are_told_at_the_end(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    with running(reply_to) as upstream:
        environment = {**os.environ, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        process = watch("--budget", "5", "--", sys.executable, "agent.py", cwd=tmp_path, env=environment)
        _, err = process.communicate(timeout=30)
    assert "; 1 not governed: governing failed, the original request was sent: Pinned" in err


def test_a_budget_must_be_positive():
    with pytest.raises(ConfigurationError, match="budget must be at least 1, got 0"):
        WatchOptions(budget=0)


@pytest.mark.parametrize(("options", "missing"), [({}, "a budget"), ({"budget": 9, "folder": None}, "a folder")])
def test_recall_needs_something_that_is_left_out_and_recorded(options, missing):
    with pytest.raises(ConfigurationError, match=f"recall needs {missing}"):
        WatchOptions(recall=True, **options)


def test_claude_code_keeps_its_tool_search_unless_it_is_set():
    assert prepared(["/usr/bin/claude", "-p"], {})[1]["ENABLE_TOOL_SEARCH"] == "true"
    assert prepared(["claude"], {"ENABLE_TOOL_SEARCH": "false"})[1]["ENABLE_TOOL_SEARCH"] == "false"
    for wrapper in (["npx", "claude"], ["./start.sh"]):
        assert prepared(wrapper, {})[1]["ENABLE_TOOL_SEARCH"] == "true"


def test_codex_gets_a_provider_without_websockets_or_an_error():
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/openai"}
    arguments, _ = prepared(["codex", "exec", "fix it"], environment)
    assert arguments[0] == "codex"
    assert arguments[-2:] == ["exec", "fix it"]
    assert "supports_websockets=false" in arguments[4]
    assert 'base_url="http://127.0.0.1:1/openai"' in arguments[4]
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        prepared(["codex"], {})


def test_the_proxy_itself_is_reached_without_another_proxy():
    environment = prepared(["agent"], {"NO_PROXY": "internal"})[1]
    assert environment["NO_PROXY"] == "internal,127.0.0.1,localhost"


def test_an_upstream_of_the_environment_is_kept():
    upstreams = WatchOptions().upstreams({"ANTHROPIC_BASE_URL": "https://gateway.example/x"})
    assert upstreams == {"/openai": "https://api.openai.com/v1", "/anthropic": "https://gateway.example/x"}
    assert WatchOptions(upstream="https://x/v1").variables(1)["OPENAI_BASE_URL"] == "http://127.0.0.1:1"
