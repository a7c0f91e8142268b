"""Redis and PostgreSQL of the machine, in private instances on loopback that end with the tests."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS_TO_START = 30


def pytest_collection_modifyitems(config, items):
    """Skip these tests unless they were asked for by name, as `make test-servers` does."""
    asked = any("servers" in Path(argument.partition("::")[0]).parts for argument in config.args)
    for item in items:
        if HERE in item.path.parents and not asked:
            item.add_marker(pytest.mark.skip(reason="a real Redis and PostgreSQL: make test-servers"))


@contextmanager
def running(command: list[str], is_ready: Callable[[], object], user: str | None) -> Iterator[None]:
    """Run a server until the block ends; fail with its output if it does not start."""
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, user=user)
        try:
            deadline = time.monotonic() + SECONDS_TO_START
            while server.poll() is None:
                try:
                    is_ready()
                    break
                except Exception:  # noqa: BLE001  (each client has errors of its own)
                    assert time.monotonic() < deadline, f"{command[0]} has not started"
                    time.sleep(0.05)
            else:
                log.seek(0)
                raise AssertionError(log.read().decode("utf-8", "replace"))
            yield
        finally:
            server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown: SIGTERM would wait for its clients
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    redis = pytest.importorskip("redis")
    binary = shutil.which("redis-server")
    assert binary, "redis-server is not installed: scripts/install-servers"
    url = f"redis://127.0.0.1:{free_port()}/0"
    command = [binary, "--bind", "127.0.0.1", "--port", url.rpartition(":")[2].removesuffix("/0"), "--save", ""]
    with running(command, lambda: redis.Redis.from_url(url).ping(), None):
        yield url


@pytest.fixture(scope="session")
def database_url() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    installed = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), *map(Path, [shutil.which("initdb") or "-"])]
    initdb = next((file for file in installed if file.is_file()), None)
    assert initdb, "initdb of PostgreSQL is not installed: scripts/install-servers"
    owner = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    user = owner if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="cupel-postgres-"))
    try:
        if user:
            shutil.chown(folder, user)
        data, port = folder / "data", free_port()
        made = [initdb, "-D", data, "-U", owner, "--auth", "trust", "--no-sync", "--encoding", "UTF8"]
        subprocess.run(made, check=True, capture_output=True, user=user, cwd=folder)
        command = [str(initdb.with_name("postgres")), "-D", str(data), "-h", "127.0.0.1", "-p", str(port)]
        command += ["-c", "unix_socket_directories=", "-c", "fsync=off"]
        url = f"postgresql://{owner}@127.0.0.1:{port}/postgres"
        with running(command, lambda: psycopg.connect(url).close(), user):
            yield url
    finally:
        shutil.rmtree(folder)
