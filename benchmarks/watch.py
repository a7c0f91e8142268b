"""`python -m benchmarks.watch`: how much `cupel watch` delays a request with 100 kB of messages, and 100 at once.

Provider, proxy and client are three processes on one machine. The conversation grows by a step a turn; the delay is the
median time until the answer's first byte, less that of the same requests without the proxy. The 100 conversations of
40 kB all send their requests at the same moment; their figures are the waits from the second request on, and the
processor time of the proxy for a call. At the end, small requests are sent beside one of 20 MB: their longest wait, and
the memory of the proxy before and afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from math import nan
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, sleep
from typing import Any

SIZE = 100_000
TURNS = 60
LARGE = 20_000_000
MANY = 100
"""Conversations at once, and the requests of each of them."""
ROUNDS = 5
PAUSE = 0.15
"""A model takes longer than this for its answer; the proxy observes meanwhile."""
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:"


async def provide() -> None:
    """Answer every request at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                size = int(length.partition(b":")[2])
                await reader.readexactly(size)
                message = {"role": "assistant", "content": "Done."}
                said = json.dumps({"choices": [{"message": message}], "usage": {"prompt_tokens": size // 3}})
                writer.write(f"{HEAD} {len(said)}\r\n\r\n{said}".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def step(number: int) -> list[dict[str, Any]]:
    """Return a tool call and its output of about 1.4 kB."""
    call = {"name": "read", "arguments": json.dumps({"path": f"src/module_{number}.py"})}
    lines = (f"{line}: value_{number}_{line} = compute(previous, {line * number})" for line in range(28))
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(lines)},
    ]


def bodies() -> list[bytes]:
    """Return the requests of a conversation that begins with 100 kB."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the bug."}]
    found: list[bytes] = []
    number = 0
    while len(found) < TURNS:
        messages += step(number)
        number += 1
        body = json.dumps({"model": "m", "messages": messages}).encode()
        if len(body) >= SIZE:
            found.append(body)
    return found


def measure(port: int) -> list[float]:
    """Return the seconds until the first byte of each answer."""
    connection = HTTPConnection("127.0.0.1", port)
    times: list[float] = []
    for body in bodies():
        start = perf_counter()
        connection.request("POST", "/v1/chat/completions", body)
        response = connection.getresponse()
        times.append(perf_counter() - start)
        response.read()
        sleep(PAUSE)
    connection.close()
    return times


async def talk(port: int, number: int, times: list[float]) -> None:
    """Send the requests of one of many conversations, and add the seconds until the answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Find bug {number}."}]
    for at in range(30):
        messages += step(1000 * number + at)
    for at in range(30, 30 + ROUNDS):
        messages += step(1000 * number + at)
        body = json.dumps({"model": "m", "messages": messages}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start = perf_counter()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length:"
        writer.write(f"{head} {len(body)}\r\n\r\n".encode() + body)
        await reader.readuntil(b"\r\n\r\n")
        if at > 30:
            times.append(perf_counter() - start)
        await reader.read()
        writer.close()
        await asyncio.sleep(1)


async def talk_all(port: int) -> list[float]:
    """Return the seconds that the requests of all conversations wait."""
    times: list[float] = []
    await asyncio.gather(*(talk(port, number, times) for number in range(MANY)))
    return times


@contextmanager
def proxy(port: int, *options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run a proxy in front of a provider."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cupel", "watch", "--upstream", f"http://127.0.0.1:{port}", *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
        assert process.stderr is not None
        line = next(line for line in process.stderr if "OPENAI_BASE_URL" in line)
        sleep(2)  # the token counter is loaded meanwhile
        yield int(line.rpartition(":")[2].partition("/")[0]), process
        process.terminate()
        process.wait(30)
        process.stderr.close()


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Return the processor time that a process has used, where the system tells it."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[str]) -> float:
    """Return the megabytes that a process holds, where the system tells it."""
    try:
        told = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    except OSError:
        return nan
    return int(told.partition("VmRSS:")[2].split()[0]) / 1000


def small_beside_large(port: int) -> tuple[float, float]:
    """Send small requests beside one of 20 MB; return their longest wait, and the time of the large one."""
    large = [message for number in range(LARGE // 1700) for message in step(number)]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Find it."}, *large]}).encode()

    def send(body: bytes) -> float:
        connection, start = HTTPConnection("127.0.0.1", port), perf_counter()
        connection.request("POST", "/v1/chat/completions", body)
        connection.getresponse().read()
        connection.close()
        return perf_counter() - start

    waits: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send, body)
        while not sending.done() or len(waits) < TURNS:
            talk = [{"role": "user", "content": f"Find bug {len(waits)}."}, *step(len(waits))]
            waits.append(send(json.dumps({"model": "m", "messages": talk}).encode()))
            sleep(0.02)
        return max(waits), sending.result()


def main() -> None:
    """Measure without the proxy, looking, and governing with budgets that the history exceeds."""
    provider = subprocess.Popen([sys.executable, "-m", __spec__.name, "provide"], stdout=subprocess.PIPE, text=True)
    assert provider.stdout is not None
    try:
        port = int(provider.stdout.readline())
        direct = measure(port)
        print(f"direct      median {1000 * median(direct):6.2f} ms")
        for name, options in (("looking", ()), ("governing", ("--budget", "20k")), ("tight", ("--budget", "8k"))):
            with proxy(port, *options) as (ours, process):
                times = measure(ours)
            delay, late = 1000 * (median(times) - median(direct)), 1000 * quantiles(times, n=20)[-1]
            print(f"{name:<11} median delay {delay:6.2f} ms, 95 % of the answers within {late:.1f} ms")
        for name, options in (("looking", ()), ("governing", ("--budget", "8k"))):
            with proxy(port, *options) as (ours, process):
                before = processor_seconds(process)
                waits = asyncio.run(talk_all(ours))
                sleep(3)  # it still observes
                used = (processor_seconds(process) - before) / (MANY * ROUNDS)
            late = quantiles(waits, n=20)[-1]
            print(
                f"{name}, {MANY} at once: median wait {median(waits):.2f} s, 95 % within {late:.2f} s, "
                f"{1000 * used:.1f} ms of processor time a call"
            )
        for name, options in (("looking", ()), ("governing", ("--budget", "8k"))):
            with proxy(port, *options) as (ours, process):
                before = memory(process)
                longest, took = small_beside_large(ours)
                sleep(10)  # it still observes
                after = memory(process)
            print(
                f"{name}, beside {LARGE / 1e6:.0f} MB: no small request waits longer than {longest:.2f} s, "
                f"the large one takes {took:.1f} s; {before:.0f} MB before, {after:.0f} MB afterwards"
            )
    finally:
        provider.terminate()
        provider.wait(10)


if __name__ == "__main__":
    asyncio.run(provide()) if "provide" in sys.argv else main()
