"""List the presets: what each is for, and when it hurts."""

from __future__ import annotations

import argparse
import inspect
from typing import Final

import cupel.policy
from cupel.cli._options import add_format
from cupel.cli._output import print_json
from cupel.cli._policies import preset, preset_names

EXAMPLES: Final = """\
  cupel presets
  cupel policy show rag --format toml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """List them."""
    about = {name: _about(name) for name in preset_names()}
    if args.format == "json":
        print_json(
            [
                {"name": name, "about": words, "policy": cupel.policy.to_dict(preset(name)())}
                for name, words in about.items()
            ]
        )
        return 0
    width = max(map(len, about))
    for name, words in about.items():
        for number, line in enumerate(words.split("\n")):
            print(f"{name if number == 0 else '':<{width}}  {line}")
    return 0


def _about(name: str) -> str:
    """Return the preset's own words, without its example."""
    text = inspect.getdoc(preset(name)) or ""
    return "\n".join(line for line in text.split(">>>")[0].strip().split("\n") if line)
