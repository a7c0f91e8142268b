"""Recordings: private, whole, small enough, without secrets, readable by `replay`; a watcher continues from them."""

import json
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import httpx2 as httpx
import pytest

from cupel.errors import ConfigurationError
from cupel.evaluation import EverythingStrategy, read_recordings, replay
from cupel.watch._branches import Branch
from cupel.watch._recordings import Recordings
from tests.watch.agent import PATHS, PROVIDERS, body, history, reply_to, says, step
from tests.watch.upstream import answer, proxied, running

SECRETS = {
    "authorization": "Bearer sk-live-AUTHORIZATION",
    "x-api-key": "sk-ant-live-APIKEY",
    "cookie": "session=live-COOKIEVALUE; other=live-SECONDCOOKIE",
    "x-goog-api-key": "live-GOOGLEKEY",
    "api-key": "live-AZUREKEY",
}


def files(folder):
    return sorted(folder.glob("*.json"))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("budget", [None, 3000])
def test_a_recording_can_be_replayed(tmp_path, provider, budget):
    folder = tmp_path / "windows"
    with running(reply_to) as upstream, proxied(upstream.url, budget=budget, folder=folder) as proxy:
        for count in range(1, 6):
            httpx.post(proxy.url + PATHS[provider], json=body(provider, history(provider, count)))
        proxy.turns(5)
    (recording,) = read_recordings(folder)
    assert recording.provider == provider
    assert list(recording.messages[:-1]) == history(provider, 5)  # and the answer
    assert recording.system == (None if provider == "openai" else "You are an agent.")


def test_recordings_are_readable_by_their_owner_alone(tmp_path):
    folder = tmp_path / "deep" / "windows"
    before = os.umask(0)
    try:
        with running(reply_to) as upstream, proxied(upstream.url, folder=folder) as proxy:
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 1)))
            proxy.turns(1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(folder)] == [0o600]
    assert (folder / ".gitignore").read_text() == "*\n"
    assert len(list(folder.iterdir())) == 2


def test_a_folder_that_others_can_read_is_refused(tmp_path):
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        Recordings(tmp_path)


def test_no_secret_is_written(tmp_path):
    """Not even one that the provider repeats, in an error or in an answer, nor later, with another key."""

    def reply(request):
        said = json.dumps(request.headers) + request.path
        if len(upstream.received) == 1:
            return answer({"error": {"message": said}}, 400)
        return answer(says("openai", said, 20), headers="content-type: application/json\r\nset-cookie: a=SETCOOKIE1")

    folder = tmp_path / "windows"
    with running(reply) as upstream, proxied(upstream.url, budget=3000, folder=folder) as proxy:
        url = f"{proxy.url}{PATHS['openai']}?key=live-QUERYKEY&api-version=2026-01-31"
        messages = history("openai", 14)
        said = httpx.post(url, json=body("openai", messages), headers=SECRETS).json()["choices"][0]["message"]
        other = {"authorization": "Bearer sk-live-SECONDKEY"}
        httpx.post(url, json=body("openai", [*messages, said, *messages[:1]]), headers=other)
        proxy.turns(2)
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"python-httpx2" in written  # the answer is there
    assert b"2026-01-31" in written  # and no word that is no secret is replaced
    for secret in ("AUTHORIZATION", "APIKEY", "COOKIEVALUE", "SECONDCOOKIE", "GOOGLEKEY", "AZUREKEY", "QUERYKEY"):
        assert secret.encode() not in written
    assert b"SECONDKEY" not in written
    assert b"SETCOOKIE1" not in written


def test_a_secret_of_a_call_that_still_runs_is_not_written(tmp_path):
    """The answer of the call before it is recorded while its own request, which repeats its key, is in the branch."""

    def reply(request):
        return [1.5 if b"SECONDKEY" in request.body else 0.5, *reply_to(request)]

    def send(proxy, messages, key):
        headers = {"authorization": f"Bearer sk-live-{key}"}
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", messages), headers=headers)

    first, folder = history("openai", 1), tmp_path / "windows"
    with running(reply) as upstream, proxied(upstream.url, folder=folder) as proxy, ThreadPoolExecutor() as threads:
        threads.submit(send, proxy, first, "FIRSTKEY")
        sleep(0.2)
        running_call = threads.submit(send, proxy, [*first, *step("openai", 1, "sk-live-SECONDKEY")], "SECONDKEY")
        until = monotonic() + 5
        while not files(folder) and monotonic() < until:
            sleep(0.01)
        assert not running_call.done()
        assert b"[secret]" in files(folder)[0].read_bytes()
        assert b"SECONDKEY" not in files(folder)[0].read_bytes()


def test_the_oldest_recordings_are_deleted(tmp_path):
    recordings = Recordings(tmp_path / "windows", most_bytes=5_000)
    for number in range(9):
        messages = [{"role": "user", "content": "x" * 700}]
        recordings.write(Branch(session=f"{number}.0", title="", provider="openai", messages=messages))
    assert [path.name[0] for path in files(tmp_path / "windows")] == ["4", "5", "6", "7", "8"]


def test_a_recording_that_is_too_long_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("cupel.watch._recordings._MOST_FILE", 100)
    folder = tmp_path / "windows"
    with running(reply_to) as upstream, proxied(upstream.url, folder=folder) as proxy:
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 1)))
        proxy.turns(1)
    assert files(folder) == []


def test_a_broken_recording_is_passed_over(tmp_path):
    folder = tmp_path / "windows"
    Recordings(folder)
    for name, text in (("a.0.json", "{"), ("b.x.json", "{}"), ("c.json", "[]"), ("d.0.json", '{"messages": 3}')):
        (folder / name).write_text(text)
    with running(reply_to) as upstream, proxied(upstream.url, folder=folder) as proxy:
        assert proxy.branches == []
        assert httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 1))).is_success


def test_a_watcher_continues_where_another_ended(tmp_path):
    def send(proxy, counts):
        for count in counts:
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", count)))

    with running(reply_to) as upstream:
        with proxied(upstream.url, budget=3000) as proxy:
            send(proxy, range(8, 18))
            proxy.turns(10)
        whole = [request.body for request in upstream.received]
        upstream.received.clear()
        known = []
        for start in range(8, 18, 2):
            with proxied(upstream.url, budget=3000, folder=tmp_path / "windows") as proxy:
                assert known == [_figures(turn) for branch in proxy.branches for turn in branch.turns]
                send(proxy, range(start, start + 2))
                known = [_figures(turn) for turn in proxy.turns(start - 6)]
                assert len(proxy.branches) == 1
        assert [request.body for request in upstream.received] == whole


def test_windows_of_earlier_turns_are_shown_after_a_restart(tmp_path):
    with running(reply_to) as upstream:
        with proxied(upstream.url, budget=3000, folder=tmp_path / "windows") as proxy:
            for count in range(8, 14):
                httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", count)))
            proxy.turns(6)
        with proxied(upstream.url, budget=3000, folder=tmp_path / "windows") as proxy:
            (branch,) = proxy.branches
            sent = [[form.message for form in branch.sent(turn)] for turn in branch.turns]
            assert sent == [request.json["messages"] for request in upstream.received]
            assert any(turn.changes for turn in branch.turns)


def test_watchers_beside_each_other_record_every_conversation(tmp_path):
    """Several agents with one task, each started with a watcher; the folder holds an earlier run of the same agent."""
    folder = tmp_path / "windows"
    sent = body("openai", history("openai", 1))
    with running(reply_to) as upstream:
        with proxied(upstream.url, folder=folder) as proxy:
            httpx.post(proxy.url + PATHS["openai"], json=sent)
            proxy.turns(1)
        with proxied(upstream.url, folder=folder) as one, proxied(upstream.url, folder=folder) as two:
            for proxy, turns in ((one, 2), (two, 1)):  # the first continues the earlier run
                httpx.post(proxy.url + PATHS["openai"], json=sent)
                proxy.turns(turns)
        with proxied(upstream.url, folder=folder) as proxy:
            assert sorted(len(branch.turns) for branch in proxy.branches) == [1, 2]


def test_an_answer_that_is_not_unicode_is_recorded_readably(tmp_path):
    folder, said = tmp_path / "windows", answer(says("openai", "a\ud800b", 9))
    with running(lambda _: said) as upstream, proxied(upstream.url, folder=folder) as proxy:
        httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", 1)))
        proxy.turns(1)
    (recording,) = read_recordings(folder)
    assert recording.messages[-1]["content"] == "a?b"


def test_governing_begins_with_what_looking_has_learned(tmp_path):
    """The provider counts twice as much as cupel; the first governed request is within the budget all the same."""

    def reply(request):
        return answer(says("openai", "Done.", len(request.body) // 2))

    with running(reply) as upstream:
        for budget, steps in ((None, range(8, 14)), (3000, [14])):
            with proxied(upstream.url, budget=budget, folder=tmp_path / "windows") as proxy:
                for count in steps:
                    httpx.post(proxy.url + PATHS["openai"], json=body("openai", history("openai", count)))
                turns = proxy.turns(6 if budget is None else 7)
        assert turns[-1].bill.sent <= 3000 * 1.05


def test_the_same_request_after_a_restart_is_governed(tmp_path):
    sent = body("openai", history("openai", 14))
    with running(reply_to) as upstream:
        for budget in (None, 3000):
            with proxied(upstream.url, budget=budget, folder=tmp_path / "windows") as proxy:
                httpx.post(proxy.url + PATHS["openai"], json=sent)
                proxy.turns(1 if budget is None else 2)
        assert len(upstream.received[1].body) < len(upstream.received[0].body) / 2


def _figures(turn):
    return turn.at, turn.explain, turn.usage, turn.bill, turn.appended, turn.status


def test_a_killed_watcher_continues_in_mid_conversation(tmp_path):
    """In a process of its own, ended by kill -9 while an answer streams."""

    def reply(request):
        return [5.0] if b"never" in request.body else reply_to(request)

    with running(reply) as upstream:
        for round_ in range(2):
            process, url = _started(tmp_path, upstream.url)
            try:
                for count in range(8 + 2 * round_, 10 + 2 * round_):
                    sent = body("openai", history("openai", count))
                    assert httpx.post(f"{url}/chat/completions", json=sent, timeout=20).is_success
                until = monotonic() + 10
                while not _recorded(tmp_path / "windows", 2 * (round_ + 1)) and monotonic() < until:
                    sleep(0.02)
                hanging = history("openai", 1, opening="never ends")
                with pytest.raises(httpx.HTTPError):
                    httpx.post(f"{url}/chat/completions", json=body("openai", hanging), timeout=0.2)
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(10)
                process.stderr.close()
        (recording,) = [json.loads(path.read_text()) for path in files(tmp_path / "windows") if _turns(path) == 4]
        assert [turn["status"] for turn in recording["turns"]] == [200] * 4
        assert recording["messages"][:-1] == history("openai", 11)


def _turns(path):
    return len([turn for turn in json.loads(path.read_text())["turns"] if turn["status"] == 200])


def _recorded(folder, count):
    return any(_turns(path) >= count for path in files(folder))


def _started(folder, upstream):
    command = [sys.executable, "-m", "cupel", "watch", "--upstream", upstream, "--budget", "3000"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("export OPENAI_BASE_URL="):
            return process, line.partition("=")[2].strip()
    raise AssertionError


def test_a_fork_is_replayed_from_where_it_begins(tmp_path):
    """The requests before it are in the recording of the branch that it was forked from."""
    folder, first = tmp_path / "windows", history("openai", 12)
    edited = [*first[:-2], *step("openai", 11, "something else")]
    with running(reply_to) as upstream, proxied(upstream.url, folder=folder) as proxy:
        for messages in (*(first[:count] for count in range(1, len(first) + 1, 2)), edited):
            httpx.post(proxy.url + PATHS["openai"], json=body("openai", messages))
        proxy.turns(14)
    turns = replay(read_recordings(folder), {"everything": EverythingStrategy()}, 1000).strategies["everything"]
    counted = [turn.at for turn in turns if turn.pressed and turn.recording.endswith(".1")]
    assert counted == [len(edited)]
    assert len([turn for turn in turns if turn.pressed and turn.recording.endswith(".0")]) > 5
