"""The documentation runner notices everything that can be wrong with a page."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs_runner import (
    NOT_RUN_COMMANDS,
    Block,
    DocumentationError,
    blocks,
    missing_requirements,
    plain_call,
    run_page,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a page given as text in an empty directory of its own and return how many blocks were run or parsed."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    page = tmp_path / "page.md"

    def run_text(text: str) -> int:
        page.write_text(dedent(text), encoding="utf-8")
        return run_page(page, work)

    return run_text


def fenced(language: str, code: str) -> str:
    return f"```{language}\n{dedent(code)}\n```\n"


def test_blocks_know_their_language_line_and_excuse():
    text = (
        "# Title\n\n<!-- not run: needs a cluster -->\n\n```python title='x'\na = 1\n```\n\ntext\n\n```json\n{}\n```\n"
    )
    assert list(blocks(text)) == [Block("python", "a = 1\n", 6, excused=True), Block("json", "{}\n", 12, excused=False)]


def test_an_excuse_reaches_only_the_next_block():
    text = "<!-- not run: slow -->\n" + fenced("python", "a") + fenced("python", "b")
    assert [block.excused for block in blocks(text)] == [True, False]


def test_indented_and_nested_fences():
    text = (
        "- item\n\n    ```python\n    if True:\n        a = 1\n    ```\n\n````markdown\n```python\nraise\n```\n````\n"
    )
    assert [(block.language, block.code) for block in blocks(text)] == [
        ("python", "if True:\n    a = 1\n"),
        ("markdown", "```python\nraise\n```\n"),
    ]


def test_blocks_of_a_page_share_names_and_directory(run):
    page = (
        fenced("python", "from pathlib import Path\nPath('a.txt').write_text('hello')\nx = 20")
        + fenced("pycon", ">>> x + 1\n21\n>>> y = x + 2")
        + fenced("console", "$ cat a.txt\nhello\n$ printf 'from the shell' > b.txt")
        + fenced("python", "assert (y, Path('b.txt').read_text()) == (22, 'from the shell')")
    )
    assert run(page) == 4


def test_names_do_not_leak_into_the_next_page(run):
    run(fenced("python", "x = 1"))
    with pytest.raises(NameError):
        run(fenced("python", "x"))


def test_dataclasses_with_postponed_annotations_work(run):
    code = """
        from __future__ import annotations
        from dataclasses import dataclass

        @dataclass
        class Point:
            x: int

        assert Point(1) == Point(1)
    """
    assert run(fenced("python", code)) == 1


@pytest.mark.parametrize(
    "page",
    [
        fenced("console", "$ echo one two three\none ... three"),
        fenced("console", "$ echo 'one   two'\none two"),
        fenced("console", "$ echo anything"),
        fenced("console", "$ sh -c 'exit 2'  # exit 2"),
        fenced("console", "$ echo to-stderr >&2\nto-stderr"),
        fenced("console", "$ printf 'a\\nb\\n' \\\n>   | wc -l\n2"),
        fenced("console", "$ python -c 'import sys; print(sys.prefix != sys.base_prefix)'\nTrue"),
        fenced("json", '{"a": [1, 2.5, null]}'),
        fenced("jsonl", '{"a": 1}\n{"a": 2}'),
        fenced("toml", "when = 2026-01-01T10:00Z"),
        "<!-- not run: needs a cluster -->\n" + fenced("python", "raise RuntimeError"),
    ],
)
def test_a_right_page_passes(run, page):
    assert run(page) == 1


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (fenced("pycon", ">>> 1 + 1\n3"), r"(?s)Expected:.*3.*Got:.*2"),
        (fenced("pycon", ">>> 1 / 0\n0"), "ZeroDivisionError"),
        (fenced("pycon", "1 + 1"), "needs a line that starts with '>>> '"),
        (fenced("console", "$ false"), r"page\.md: line 2: \$ false\nexit code 1, expected 0"),
        (fenced("console", "$ true  # exit 2"), "exit code 0, expected 2"),
        (fenced("console", "$ echo one\ntwo"), r"(?s)expected\ntwo.*got\none"),
        (fenced("console", "$ true\nsome output"), r"(?s)expected\nsome output.*got\n"),
        (fenced("console", "echo forgot the dollar"), r"page\.md: line 2: a console block begins"),
        (fenced("console", "$ no-such-command-anywhere"), "exit code 127"),
        (fenced("json", "{'a': 1}"), r"page\.md: line 2: not valid json"),
        (fenced("jsonl", '{"a": 1}\n{'), "not valid jsonl"),
        (fenced("toml", "a = "), "not valid toml"),
        (fenced("pyton", "1"), r"page\.md: line 1: unknown block language 'pyton'"),
        (fenced("bash", "ls"), "unknown block language 'bash'"),
        (fenced("", "ls"), "unknown block language ''"),
        ("```python\n1", r"page\.md: line 1: code block without an end"),
    ],
)
def test_a_wrong_page_fails(run, page, message):
    with pytest.raises(DocumentationError, match=message):
        run(page)


def test_an_exception_points_at_the_line_of_the_page(run):
    with pytest.raises(ZeroDivisionError) as caught:
        run("# Title\n\n" + fenced("python", "a = 1\na / 0"))
    assert (caught.traceback[-1].path.name, caught.traceback[-1].lineno + 1) == ("page.md", 5)


def test_an_excused_block_must_compile(run):
    with pytest.raises(SyntaxError):
        run("<!-- not run: needs a cluster -->\n" + fenced("python", "1 +"))


def test_an_excuse_needs_a_reason(run):
    with pytest.raises(ZeroDivisionError):
        run("<!-- not run: -->\n" + fenced("python", "1 / 0"))


@pytest.mark.parametrize("language", ["text", "mermaid", "html"])
def test_shown_languages_are_left_alone(run, language):
    assert run(fenced(language, "{ not code")) == 0


@pytest.mark.parametrize("start", NOT_RUN_COMMANDS)
def test_commands_that_are_shown_only(run, start):
    run(fenced("console", f"$ {start.strip()} || exit 3\noutput of that"))


def test_a_command_that_merely_resembles_one_is_run(run):
    with pytest.raises(DocumentationError, match="exit code 127"):
        run(fenced("console", "$ makeshift"))


def test_requirements():
    below = "# Title\n\n<!-- requires: json, no_such_module, os.path -->\n\ntext"
    assert missing_requirements(below) == ["no_such_module"]
    assert missing_requirements("# Title\n\ntext\n\n<!-- requires: no_such_module -->\n") == []


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("cupel --version", ["--version"]),
        ("cupel select 'my items.jsonl' \\\n    --budget 9", ["select", "my items.jsonl", "--budget", "9"]),
        ("cupel select items.jsonl > window.txt", None),
        ("cupel batch requests.jsonl -o out.jsonl", None),
        ("cat items.jsonl", None),
    ],
)
def test_a_call_of_the_command_alone_runs_without_a_process(line, arguments):
    assert plain_call(line) == arguments


def test_output_and_exit_code_of_the_command_are_compared(run):
    assert run(fenced("console", "$ cupel selct  # exit 2\n...unknown command 'selct'...")) == 1
    with pytest.raises(DocumentationError, match="exit code 2, expected 0"):
        run(fenced("console", "$ cupel selct"))
    with pytest.raises(DocumentationError, match="expected\nanother version"):
        run(fenced("console", "$ cupel --version\nanother version"))
