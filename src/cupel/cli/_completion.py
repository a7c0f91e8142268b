"""Print a completion script for a shell.

Put it where your shell looks: `cupel completion bash > ~/.local/share/bash-completion/completions/cupel`,
`cupel completion zsh > ~/.zfunc/_cupel`, `cupel completion fish > ~/.config/fish/completions/cupel.fish`.
"""

from __future__ import annotations

import argparse
import re
from typing import Any, NamedTuple

from cupel.cli._main import COMMANDS
from cupel.cli._output import print_json
from cupel.cli._parser import parser_of
from cupel.cli._policies import preset_names


class OptionHelp(NamedTuple):
    """An option as completion knows it: its spellings, its help, and the words that may follow."""

    flags: list[str]
    help: str
    values: list[str] | None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to write for")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text is the script, json what it is made from; default: text",
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    commands = described_commands()
    if args.format == "json":
        print_json({name: [option._asdict() for option in options] for name, (_, options) in commands.items()})
        return 0
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    print(writers[args.shell](commands), end="")
    return 0


def described_commands() -> dict[str, tuple[str, list[OptionHelp]]]:
    """Return every command's summary and options, read off its parser."""
    return {name: (summary, _options(parser_of(name))) for name, (_, summary) in COMMANDS.items()}


def _options(parser: argparse.ArgumentParser) -> list[OptionHelp]:
    found: list[OptionHelp] = []
    for action in parser._actions:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (argparse offers no other way)
        values = [str(value) for value in action.choices] if action.choices else None
        if action.option_strings:
            takes = action.nargs != 0
            if action.dest == "policy":
                values = preset_names()
            found.append(OptionHelp(list(action.option_strings), _short(action.help), values if takes else []))
        elif values:
            found.append(OptionHelp([], _short(action.help), values))
    return found


def _short(text: Any) -> str:
    """Return the help up to its first aside, without characters that a shell would read."""
    return re.sub("['`\\[\\]]", "", re.split("[;(]", str(text or ""))[0].strip())


def _bash(commands: dict[str, tuple[str, list[OptionHelp]]]) -> str:
    cases: list[str] = []
    for name, (_, options) in commands.items():
        words = [flag for option in options for flag in option.flags] + [
            value for option in options if not option.flags for value in option.values or ()
        ]
        values = "".join(
            f"        {'|'.join(option.flags)}) _cupel_offer '{' '.join(option.values)}' -f; return ;;\n"
            for option in options
            if option.flags and option.values
        )
        inner = f'      case "$previous" in\n{values}      esac\n' if values else ""
        cases.append(f"    {name})\n{inner}      words='{' '.join(words)}' ;;\n")
    names = " ".join(commands)
    return (
        "# bash completion for cupel\n"
        '_cupel_offer() { COMPREPLY=($(compgen -W "$1" $2 -- "${COMP_WORDS[COMP_CWORD]}")); }\n'
        "_cupel() {\n"
        '  local previous="${COMP_WORDS[COMP_CWORD-1]}" words=""\n'
        "  COMPREPLY=()\n"
        f'  if [ "$COMP_CWORD" -eq 1 ]; then _cupel_offer "{names} --help --version"; return; fi\n'
        '  case "${COMP_WORDS[1]}" in\n' + "".join(cases) + "  esac\n"
        '  _cupel_offer "$words"\n'
        "}\n"
        "complete -o default -F _cupel cupel\n"
    )


def _zsh(commands: dict[str, tuple[str, list[OptionHelp]]]) -> str:
    listing = "".join(f"    '{name}:{summary}'\n" for name, (summary, _) in commands.items())
    cases: list[str] = []
    for name, (_, options) in commands.items():
        specs = [_zsh_spec(option, flag) for option in options for flag in option.flags]
        specs += [f"'1:what:({' '.join(option.values or [])})'" for option in options if not option.flags]
        cases.append(f"    {name}) _arguments {' '.join(specs)} '*:file:_files' ;;\n")
    return (
        "#compdef cupel\n"
        "_cupel() {\n"
        "  local -a commands=(\n" + listing + "  )\n"
        "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
        "  local command=$words[2]\n"
        "  shift words; (( CURRENT-- ))\n"
        "  case $command in\n" + "".join(cases) + "  esac\n"
        "}\n"
        "compdef _cupel cupel\n"
    )


def _zsh_spec(option: OptionHelp, flag: str) -> str:
    about = f"'{flag}[{option.help.replace(':', ' ')}]"
    if option.values is None:
        return f"{about}:value:_files'"
    return f"{about}:value:({' '.join(option.values)})'" if option.values else f"{about}'"


def _fish(commands: dict[str, tuple[str, list[OptionHelp]]]) -> str:
    lines = ["# fish completion for cupel"]
    lines += [
        f"complete -c cupel -n __fish_use_subcommand -f -a {name} -d '{summary}'"
        for name, (summary, _) in commands.items()
    ]
    for name, (_, options) in commands.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for option in options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            takes = (
                ""
                if option.values == []
                else (" -r" if option.values is None else f" -x -a '{' '.join(option.values)}'")
            )
            if flags:
                lines.append(f"complete -c cupel {seen} {flags}{takes} -d '{option.help}'")
            else:
                lines.append(f"complete -c cupel {seen} -f -a '{' '.join(option.values or [])}'")
    return "\n".join(lines) + "\n"
