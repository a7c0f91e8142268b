"""Describe a policy in plain words, show it as a document, validate policy files, or print their JSON Schema."""

from __future__ import annotations

import argparse
import sys
from typing import Final

import cupel.policy
from cupel.cli._options import add_format, add_import, add_overrides
from cupel.cli._output import print_json
from cupel.cli._policies import describe_policy, read_policy
from cupel.errors import ConfigurationError
from cupel.page import Variant
from cupel.policy import json_schema

_ACTIONS: Final = {
    "describe": "say in plain words what a policy does",
    "show": "print a policy document",
    "validate": "check policy files",
    "schema": "print the JSON Schema of policy documents",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parsers = {
        name: actions.add_parser(name, help=about, description=f"{about.capitalize()}.")
        for name, about in _ACTIONS.items()
    }
    for name in ("describe", "show"):
        parsers[name].add_argument("policy", metavar="NAME|FILE", help="a preset, or a policy file")
        add_overrides(parsers[name], "change the document first")
    parsers["validate"].add_argument("files", metavar="FILE", nargs="+", help="policy files, .json or .toml")
    for name in ("validate", "schema"):
        add_import(parsers[name])
    add_format(parsers["describe"])
    add_format(parsers["show"], ("json", "toml"))
    add_format(parsers["validate"])


def run(args: argparse.Namespace) -> int:
    """Do what the action says."""
    match args.action:
        case "validate":
            return _validate(args.files, args.format)
        case "schema":
            print_json(json_schema())
        case "describe":
            _describe(read_policy(args.policy, args.overrides), args.format)
        case _:
            policy = read_policy(args.policy, args.overrides).policy
            toml = args.format == "toml"
            text = cupel.policy.dumps(policy, format="toml") if toml else cupel.policy.dumps(policy, indent=2) + "\n"
            sys.stdout.write(text)
    return 0


def _describe(found: Variant, form: str) -> None:
    words = describe_policy(found.policy, found.name)
    if form == "json":
        print_json({"name": found.name, "description": words})
    else:
        sys.stdout.write(words)


def _validate(files: list[str], form: str) -> int:
    """Check each file; a file that cannot be read at all is a matter for `OSError`."""
    faults = {name: _fault(name) for name in files}
    if form == "json":
        print_json([{"file": name, "valid": fault is None, "error": fault} for name, fault in faults.items()])
    else:
        for name, fault in faults.items():
            print(f"{name}: ok" if fault is None else fault)
    return 1 if any(faults.values()) else 0


def _fault(name: str) -> str | None:
    try:
        cupel.policy.load(name)
    except (ConfigurationError, TypeError) as error:
        return str(error)
    return None
