"""Show a policy as a document, validate policy files, or print the JSON Schema they follow."""

from __future__ import annotations

import argparse
import sys

from cupel.cli._items_out import to_json
from cupel.cli._options import EXIT_CODES, read_policy
from cupel.errors import ConfigurationError
from cupel.policy import Policy, json_schema


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXIT_CODES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="print a policy document", epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    show.add_argument("policy", metavar="NAME|FILE", help="a preset, or a policy file")
    show.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="PATH=VALUE", help="change the document first"
    )
    show.add_argument("--format", choices=("json", "toml"), default="json", help="what to print; default: json")
    validate = actions.add_parser(
        "validate", help="check policy files", epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    validate.add_argument("files", metavar="FILE", nargs="+", help="policy files, .json or .toml")
    validate.add_argument("--format", choices=("text", "json"), default="text", help="what to print; default: text")
    schema = actions.add_parser(
        "schema",
        help="print the JSON Schema of policy documents",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    schema.set_defaults(format="json")


def run(args: argparse.Namespace) -> int:
    """Do what the action says."""
    if args.action == "show":
        found = read_policy(args.policy, args.overrides).policy
        sys.stdout.write(found.to_toml() if args.format == "toml" else found.to_json(indent=2) + "\n")
        return 0
    if args.action == "schema":
        print(to_json(json_schema(), indent=2))
        return 0
    return _validate(args.files, args.format)


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
