"""A name means one thing: what two modules both called `Step` would make a reader wonder."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import cupel

SHARED = {
    "Candidate": "what may be chosen: of a turn's plan, and an argument of a tool",
    "DocumentSelector": "one for each framework, in its own module",
    "Upgrade": "a larger form for a smaller one: of a slicer, and of a turn's plan",
}


def test_no_two_classes_bear_one_name() -> None:
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(Path(cupel.__file__).parent.rglob("*.py")):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            modules[name].append(path.name)
    clashes = {name: found for name, found in modules.items() if len(found) > 1}
    assert set(clashes) == set(SHARED), clashes
