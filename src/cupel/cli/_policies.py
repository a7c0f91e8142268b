"""Policies as the command line names them: a preset or a file, with changes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from cupel import presets
from cupel._checks import did_you_mean
from cupel.cli._overrides import overridden
from cupel.errors import PolicyConfigError
from cupel.page import Variant
from cupel.policy import Policy


def read_policy(name: str | None, overrides: Sequence[str], query: str | None = None) -> Variant:
    """Find a policy by preset name or file, apply the overrides, and bind it to a query."""
    wanted = name or "chat"
    found = overridden(_find(wanted), overrides).bind(query)
    flags = " ".join([f"--policy {shlex.quote(wanted)}", *(f"--set {shlex.quote(change)}" for change in overrides)])
    label = found.name or Path(wanted).stem
    return Variant(found, f"{label} ({', '.join(overrides)})" if overrides else label, flags)


def policies_to_compare(names: Sequence[str] | None, overrides: Sequence[str], query: str | None) -> list[Variant]:
    """Return the policies that are named, or one that is named and then all presets."""
    wanted = list(names or preset_names())
    if len(wanted) == 1:
        wanted += [name for name in preset_names() if name != wanted[0].replace("_", "-")]
    return [read_policy(name, overrides, query) for name in wanted]


def preset_names() -> list[str]:
    """Name the presets as the command line spells them."""
    return [name.replace("_", "-") for name in presets.__all__]


def preset(name: str) -> Callable[[], Policy]:
    """Return the function that makes a preset; `_` and `-` are the same."""
    make: Callable[[], Policy] = getattr(presets, name.replace("-", "_"))
    return make


def _find(name: str) -> Policy:
    known = preset_names()
    if name.replace("_", "-") in known:
        return preset(name)()
    if Path(name).exists():
        return Policy.load(name)
    likely = did_you_mean(name, known)
    raise PolicyConfigError(f"policy {name}: neither a file nor a preset{likely} (presets: {', '.join(known)})")
