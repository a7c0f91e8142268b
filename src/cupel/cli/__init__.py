"""The `cupel` command."""

from cupel.cli._main import main

__all__ = ["main"]
