"""List the presets: what each is for, and when it hurts."""

from __future__ import annotations

import argparse
import inspect
import json

from cupel import presets
from cupel.cli._items_out import to_json
from cupel.cli._options import add_format, describe, preset, preset_names


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(parser, "  cupel presets\n  cupel policy show rag --format toml")
    add_format(parser, ("text", "json"))


def run(args: argparse.Namespace) -> int:
    """List them."""
    if args.format == "json":
        rows = [
            {"name": name, "about": _about(name), "policy": json.loads(preset(name).to_json())}
            for name in preset_names()
        ]
        print(to_json(rows, indent=2))
        return 0
    width = max(map(len, preset_names()))
    for name in preset_names():
        first, *rest = _about(name).split("\n")
        print(f"{name:<{width}}  {first}")
        for line in rest:
            print(f"{'':<{width}}  {line}")
    return 0


def _about(name: str) -> str:
    """Return the preset's own words, without its example."""
    text = inspect.getdoc(getattr(presets, name.replace("-", "_"))) or ""
    kept = [line for line in text.split(">>>")[0].strip().split("\n") if line]
    return "\n".join(kept)
