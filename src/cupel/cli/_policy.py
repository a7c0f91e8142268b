"""Describe a policy in plain words, show it as a document, validate policy files, or print their JSON Schema."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Protocol

from cupel.cli._description import describe_policy
from cupel.cli._items_out import to_json
from cupel.cli._options import EXIT_CODES, add_import, read_policy
from cupel.errors import ConfigurationError
from cupel.policy import Policy, json_schema


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXIT_CODES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    describe = _action(actions, "describe", "say in plain words what a policy does")
    _add_policy(describe)
    describe.add_argument("--format", choices=("text", "json"), default="text", help="what to print; default: text")
    show = _action(actions, "show", "print a policy document")
    _add_policy(show)
    show.add_argument("--format", choices=("json", "toml"), default="json", help="what to print; default: json")
    validate = _action(actions, "validate", "check policy files")
    validate.add_argument("files", metavar="FILE", nargs="+", help="policy files, .json or .toml")
    add_import(validate)
    validate.add_argument("--format", choices=("text", "json"), default="text", help="what to print; default: text")
    schema = _action(actions, "schema", "print the JSON Schema of policy documents")
    add_import(schema)
    schema.set_defaults(format="json")


class _Actions(Protocol):
    """What `add_subparsers` returns; argparse does not publish the type's name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser: ...


def _action(actions: _Actions, name: str, about: str) -> argparse.ArgumentParser:
    return actions.add_parser(
        name,
        help=about,
        description=f"{about.capitalize()}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="NAME|FILE", help="a preset, or a policy file")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="PATH=VALUE", help="change the document first"
    )
    add_import(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the action says."""
    if args.action == "validate":
        return _validate(args.files, args.format)
    if args.action == "schema":
        print(to_json(json_schema(), indent=2))
        return 0
    found = read_policy(args.policy, args.overrides)
    if args.action == "describe":
        words = describe_policy(found.policy, found.name)
        sys.stdout.write(
            to_json({"name": found.name, "description": words}, indent=2) + "\n" if args.format == "json" else words
        )
        return 0
    document = found.policy.to_toml() if args.format == "toml" else found.policy.to_json(indent=2) + "\n"
    sys.stdout.write(document)
    return 0


def _validate(files: list[str], form: str) -> int:
    """Check each file; a file that cannot be read at all is a matter for `OSError`."""
    faults: dict[str, str | None] = {}
    for name in files:
        try:
            Policy.load(name)
            faults[name] = None
        except (ConfigurationError, TypeError) as error:
            faults[name] = str(error)
    if form == "json":
        print(
            to_json(
                [{"file": name, "valid": fault is None, "error": fault} for name, fault in faults.items()], indent=2
            )
        )
    else:
        for name, fault in faults.items():
            print(f"{name}: ok" if fault is None else fault)
    return 1 if any(fault is not None for fault in faults.values()) else 0
