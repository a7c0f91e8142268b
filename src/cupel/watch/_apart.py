"""Work in a process of its own: it stalls nobody here, and its memory is free again when it ends."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar, cast

from cupel.errors import SelectionError

P = ParamSpec("P")
R = TypeVar("R")
_LONGEST: Final = 120
"""Seconds after which the process is ended."""
_MAIN: Final = "from cupel.watch._apart import answer; answer()"


def apart(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of a function of a module, computed by another Python process."""
    asked = pickle.dumps((function, args, kwargs))
    command = [sys.executable, "-P", "-c", _MAIN]  # -P: no module of the user's folder is imported
    # In a session of its own, Ctrl-C in the terminal does not end it.
    done = subprocess.run(  # noqa: S603  (our own interpreter)
        command, input=asked, capture_output=True, timeout=_LONGEST, check=False, start_new_session=True
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SelectionError(said or f"the process ended with code {done.returncode}")
    return cast("R", pickle.loads(done.stdout))  # noqa: S301  (our own process wrote it)


def answer() -> None:
    """Read a function and its arguments from standard input; write its result to standard output."""
    function, args, kwargs = pickle.loads(sys.stdin.buffer.read())  # noqa: S301
    sys.stdout.buffer.write(pickle.dumps(function(*args, **kwargs)))
