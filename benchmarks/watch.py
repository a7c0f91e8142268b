"""`python -m benchmarks.watch`: how much `cupel watch` delays a request with 100 kB of messages.

Provider, proxy and client are three processes on one machine. The conversation grows by a step a turn; the delay is the
median time until the answer's first byte, less that of the same requests without the proxy.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from http.client import HTTPConnection
from statistics import median, quantiles
from time import perf_counter, sleep
from typing import Any

SIZE = 100_000
TURNS = 60
PAUSE = 0.15
"""A model takes longer than this for its answer; the proxy observes meanwhile."""
ANSWER = json.dumps(
    {"choices": [{"message": {"role": "assistant", "content": "Done."}}], "usage": {"prompt_tokens": 25_000}}
).encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)


async def provide() -> None:
    """Answer every request at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                writer.write(HEAD + ANSWER)
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


def main() -> None:
    """Measure without the proxy, looking, and governing with budgets that the history exceeds."""
    provider = subprocess.Popen([sys.executable, "-m", __spec__.name, "provide"], stdout=subprocess.PIPE, text=True)
    assert provider.stdout is not None
    try:
        port = int(provider.stdout.readline())
        direct = measure(port)
        print(f"direct      median {1000 * median(direct):6.2f} ms")
        for name, options in (("looking", ()), ("governing", ("--budget", "20k")), ("tight", ("--budget", "8k"))):
            with tempfile.TemporaryDirectory() as folder:
                upstream = f"http://127.0.0.1:{port}"
                command = [sys.executable, "-m", "cupel", "watch", "--upstream", upstream, *options]
                proxy = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
                assert proxy.stderr is not None
                line = next(line for line in proxy.stderr if "OPENAI_BASE_URL" in line)
                sleep(2)  # the token counter is loaded meanwhile
                times = measure(int(line.rpartition(":")[2].partition("/")[0]))
                proxy.terminate()
                proxy.wait(10)
                proxy.stderr.close()
            delay, late = 1000 * (median(times) - median(direct)), 1000 * quantiles(times, n=20)[-1]
            print(f"{name:<11} median delay {delay:6.2f} ms, 95 % of the answers within {late:.1f} ms")
    finally:
        provider.terminate()
        provider.wait(10)


if __name__ == "__main__":
    asyncio.run(provide()) if "provide" in sys.argv else main()
