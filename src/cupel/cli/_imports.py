"""`--import MODULE`: strategies of one's own, registered before a policy names them."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from cupel._checks import shown


def imported(name: str) -> str:
    """Import a module, also from the current folder; installed modules are found first, so that none is shadowed."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        import_module(name)
    except Exception as error:  # whatever the module does wrong is the user's to read, not a fault of the command
        raise argparse.ArgumentTypeError(f"cannot import {shown(name)}: {type(error).__name__}: {error}") from error
    return name
