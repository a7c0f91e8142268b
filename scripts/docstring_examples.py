"""Shows the doctests of docstrings as code on the site: a griffe extension, named in mkdocs.yml."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class DocstringExamples(griffe.Extension):
    """Fences each doctest, which would otherwise be read as a quotation."""

    def on_instance(self, *, obj: Any, **_kwargs: Any) -> None:
        """Rewrite the docstring of an object that has just been read."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found.group()}\n```", obj.docstring.value)
