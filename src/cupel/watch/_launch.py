"""Start the proxy, alone or around a command that is pointed at it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cupel._internal.checks import shown
from cupel._internal.text import plural
from cupel.errors import ConfigurationError, MissingExtraError
from cupel.watch._conversations import Store
from cupel.watch._recordings import MOST_BYTES, Recordings
from cupel.watch._serving import listening
from cupel.watch._verdict import suggested_budget, summary, verdict

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    import uvicorn

    from cupel.watch._watcher import Watcher

_UPSTREAMS: Final = {
    "OPENAI_BASE_URL": ("/openai", "https://api.openai.com/v1"),
    "ANTHROPIC_BASE_URL": ("/anthropic", "https://api.anthropic.com"),
}
"""For each variable that points clients at a provider, the prefix under which it is forwarded, and the default."""
_SIGNALLED: Final = 128
"""The exit code of a program that a signal ends is larger than the signal's number by this."""
_MOST_NAMED: Final = 10
_SWITCH: Final = 0.0005
"""Seconds after which the observer's threads let the proxy go on; by default, answers would wait for up to 5 ms."""
SERVER: Final[dict[str, Any]] = {
    "http": "h11",
    "ws": "none",
    "log_level": "critical",
    "server_header": False,
    "date_header": False,
    "proxy_headers": False,
    "h11_max_incomplete_event_size": 1 << 20,
    "timeout_keep_alive": 75,
    "timeout_graceful_shutdown": 5,
}
"""Options of uvicorn under which answers pass unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How to watch.

    Args:
        upstream: The base URL to forward to; without one, OpenAI and Anthropic, or those that the environment names.
        budget: The tokens of a request; None only looks.
        recall: Write ids into governed requests, by which the tool of cupel's MCP server finds what was left out.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allow_hosts: Names that a Host header may have, besides this machine's own addresses.
        allow_origins: Origins of web pages whose calls are forwarded, such as `http://localhost:3000`.
        folder: Where conversations are recorded; None records nothing.
        most_bytes: Bytes that all recordings may take.
        command: A program to start with the base URLs set, and its arguments; the proxy ends with it.
    """

    upstream: str | None = None
    budget: int | None = None
    recall: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    folder: Path | None = Path("windows")
    most_bytes: int = MOST_BYTES
    command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = {prefix: name for name, (prefix, _) in _UPSTREAMS.items()}
        for prefix, url in self.upstreams(os.environ).items():
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username:
                name = names.get(prefix, "upstream")
                raise ConfigurationError(f"{name} must be a URL such as https://api.openai.com, got {shown(url)}")
        if self.budget is not None and self.budget < 1:
            raise ConfigurationError(f"budget must be at least 1, got {shown(self.budget)}")
        if self.recall and (self.budget is None or self.folder is None):
            missing = "a budget, beyond which something is left out" if self.budget is None else "a folder to record to"
            raise ConfigurationError(f"recall needs {missing}")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the proxy."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def upstreams(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the upstream for each prefix of the proxy's paths."""
        if self.upstream is not None:
            return {"": self.upstream}
        return {prefix: environment.get(name) or default for name, (prefix, default) in _UPSTREAMS.items()}

    def variables(self, port: int) -> dict[str, str]:
        """Return the environment variables that point clients at the proxy."""
        host = self.host if self.is_loopback else "127.0.0.1"
        base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        if self.upstream is None:
            return {name: f"{base}{prefix}" for name, (prefix, _) in _UPSTREAMS.items()}
        version = "" if urlsplit(self.upstream).path.rstrip("/").endswith("/v1") else "/v1"
        return {"OPENAI_BASE_URL": f"{base}{version}", "ANTHROPIC_BASE_URL": base}


def run_watch(options: WatchOptions, say: Callable[[str], object]) -> int:
    """Watch until interrupted, or until the command ends; return its exit code.

    Args:
        options: How to watch.
        say: Is called with each line for the user: where the page is, and which variables to export.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("uvicorn", "watch") from None
    from cupel.watch._server import PAGE, WatchApp
    from cupel.watch._watcher import Watcher

    upstreams = options.upstreams(os.environ)
    store = Store(budget=options.budget, recall=options.recall, upstream=" and ".join(upstreams.values()))
    recordings = None if options.folder is None else Recordings(options.folder, most_bytes=options.most_bytes)
    sys.setswitchinterval(_SWITCH)
    logging.getLogger("cupel").addHandler(logging.NullHandler())  # nothing may disturb the screen of the command
    with listening(options.host, options.port) as listener:
        watcher = Watcher(store, recordings)
        hosts = (options.host, *options.allow_hosts)
        origins = options.allow_origins
        app = WatchApp(watcher, upstreams, hosts=hosts, any_address=not options.is_loopback, origins=origins)
        config = uvicorn.Config(app, lifespan="on", **SERVER)
        variables = options.variables(listener.getsockname()[1])
        if not options.is_loopback:
            say(f"warning: anybody who reaches {options.host} can use this proxy")
        say(f"{'looking at' if options.budget is None else 'governing'} the calls to {store.upstream}")
        say(f"see them at {_origin(variables)}{PAGE}/?token={app.token}")
        for name, value in variables.items() if not options.command else ():
            say(f"export {name}={value}")
        watcher.warm_up()
        try:
            with _ended_by(signal.SIGTERM):
                return asyncio.run(_serve(config, store, listener, options.command, {**os.environ, **variables}))
        finally:
            watcher.close()
            for line in _summary(watcher, options.folder):
                say(line)


@contextmanager
def _ended_by(number: signal.Signals) -> Generator[None, None, None]:
    """End as with Ctrl-C, with the summary, when a signal arrives."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(_SIGNALLED + number)

    before = signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, before)


def _summary(watcher: Watcher, folder: Path | None) -> list[str]:
    """Return lines on everything that was seen; the last one says what governing changed, and what was not read."""
    total, in_full = watcher.total, watcher.in_full
    about = "" if total.settled else "about "
    cached = f"{total.read / total.sent:.0%} of them cached" if total.sent else "none of them answered"
    recorded = "" if folder is None else f", recorded in {folder}"
    failed = f"; {watcher.failures:,} not governed: {watcher.reason}" if watcher.failures else ""
    lines = [f"{plural(watcher.seen, 'call')} seen: {about}{total.sent:,} tokens, {cached}{recorded}{failed}"]
    budget = watcher.store.budget
    if budget is not None and total.price > in_full.price:
        found = suggested_budget(watcher.store.live, budget)
        advice = "no budget was found" if found is None else f"a budget of about {found:,} is one"
        lines.append(f"{verdict(total, in_full)}; {advice} at which it would not")
    unread = watcher.unread.most_common()
    named = ", ".join(f"{count:,} × {name}" for name, count in unread[:_MOST_NAMED])
    more = f" and {len(unread) - _MOST_NAMED:,} more" if len(unread) > _MOST_NAMED else ""
    not_read = f"{plural(watcher.unread.total(), 'call')} not read{f': {named}{more}' if named else ''}"
    return [*lines, f"{summary(watcher.changed, total, in_full)}; {not_read}"]


def _origin(variables: Mapping[str, str]) -> str:
    return "/".join(variables["OPENAI_BASE_URL"].split("/")[:3])


async def _serve(
    config: uvicorn.Config, store: Store, listener: socket.socket, command: Sequence[str], environment: dict[str, str]
) -> int:
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            store.closed = True  # an open page would be waited for
            await super().shutdown(sockets)

    server = Server(config)
    if not command:
        await server.serve(sockets=[listener])
        return 0
    arguments, environment = prepared(command, environment)
    child = await asyncio.create_subprocess_exec(*arguments, env=environment)
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    with _signals_for(child):
        serving = asyncio.create_task(server.serve([listener]))
        code = await child.wait()
        server.should_exit = True
        await serving
    return code if code >= 0 else _SIGNALLED - code


@contextmanager
def _signals_for(child: Process) -> Generator[None, None, None]:
    """Leave Ctrl-C to the command, which gets it too, and pass the request to end on to it."""

    def handle(number: int, _frame: object) -> None:
        if number == signal.SIGTERM:
            child.terminate()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def prepared(command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return a command and its environment with the settings that some agents need to use another base URL.

    >>> prepared(["claude"], {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1/anthropic"})[1]["ENABLE_TOOL_SEARCH"]
    'true'
    """
    found = dict(environment)
    found["OPENAI_API_BASE"] = found.get("OPENAI_BASE_URL", "")  # LiteLLM's name, which aider reads
    for name in ("no_proxy", "NO_PROXY"):
        found[name] = ",".join(filter(None, (found.get(name), "127.0.0.1", "localhost")))
    # Claude Code turns it off for another base URL; it may be started by npx or a script.
    found.setdefault("ENABLE_TOOL_SEARCH", "true")
    arguments, program = list(command), Path(command[0]).stem
    if program == "codex":
        if not found.get("OPENAI_API_KEY"):
            msg = "codex cannot be watched with a ChatGPT login: set OPENAI_API_KEY, so that it uses the API"
            raise ConfigurationError(msg)
        provider = (
            f'{{name="cupel", base_url="{found["OPENAI_BASE_URL"]}", env_key="OPENAI_API_KEY", '
            'wire_api="responses", supports_websockets=false}'
        )
        arguments[1:1] = ["-c", 'model_provider="cupel"', "-c", f"model_providers.cupel={provider}"]
    return arguments, found
