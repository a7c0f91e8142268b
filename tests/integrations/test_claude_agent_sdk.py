"""Shorter tool outputs in the Claude Agent SDK: the hook alone, and in the Claude Code that the package contains."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, create_sdk_mcp_server, query, tool

from cupel import ConfigurationError
from cupel.integrations.claude_agent_sdk import shorten_tool_outputs
from cupel.shorten import head_tail
from cupel.tokens import CharacterEstimate
from tests.integrations.claude_api import Model, results

COUNTER = CharacterEstimate()
LIMIT = 200
LINES = "\n".join(f"value_{line} = load({line})" for line in range(400))
CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def hook(**options: Any) -> Any:
    return shorten_tool_outputs(LIMIT, counter=COUNTER, **options)


def answer(name: str, response: Any, **options: Any) -> Any:
    """The output that replaces a tool's, or None."""
    event = {"hook_event_name": "PostToolUse", "tool_name": name, "tool_response": response}
    made = asyncio.run(hook(**options)(event, "toolu_1", {"signal": None}))
    if made:
        assert made["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    return made["hookSpecificOutput"]["updatedToolOutput"] if made else None


def test_the_output_of_a_command_keeps_its_shape():
    response = {"stdout": LINES, "stderr": "one warning", "interrupted": False, "isImage": False}
    shorter = answer("Bash", response)
    assert {**shorter, "stdout": LINES} == response
    assert COUNTER.count(shorter["stdout"]) + COUNTER.count("one warning") <= LIMIT
    assert response["stdout"] == LINES


def test_two_long_texts_share_the_limit():
    shorter = answer("Bash", {"stdout": LINES, "stderr": LINES, "interrupted": False})
    assert LIMIT // 4 < COUNTER.count(shorter["stdout"]) <= LIMIT // 2
    assert LIMIT // 4 < COUNTER.count(shorter["stderr"]) <= LIMIT // 2


def test_a_file_is_cut_at_its_end_so_that_its_lines_keep_their_numbers():
    file = {"filePath": "/a.py", "content": LINES, "numLines": 400, "startLine": 1, "totalLines": 400}
    shorter = answer("Read", {"type": "text", "file": file})
    *kept, marker = shorter["file"]["content"].splitlines()
    assert kept == LINES.splitlines()[: len(kept)]
    assert len(kept) > 5
    assert marker not in LINES
    assert {**shorter["file"], "content": LINES} == file


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: text,
        lambda text: [{"type": "text", "text": text}],
        lambda text: {"content": [{"type": "text", "text": text}], "isError": False},
    ],
)
def test_the_texts_of_an_mcp_tool_are_shortened_in_every_wrapper(wrap: Any):
    shorter = answer("mcp__office__read", wrap(LINES))
    assert type(shorter) is type(wrap(LINES))
    assert len(str(shorter)) < len(LINES) // 2
    assert str(shorter).count("value_") > 5


def test_images_and_other_blocks_of_an_mcp_tool_stay():
    image = {"type": "image", "data": "x" * 9000, "mimeType": "image/png"}
    shorter = answer("mcp__office__read", [image, {"type": "text", "text": LINES}, {"type": "text", "text": "Done."}])
    assert shorter[0] is image
    assert shorter[2]["text"] == "Done."
    assert COUNTER.count(shorter[1]["text"]) <= LIMIT


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("Bash", {"stdout": "short", "stderr": "", "interrupted": False}),
        ("Bash", {"stdout": LINES, "isImage": True}),
        ("Bash", {"stdout": LINES, "persistedOutputPath": "/tmp/output.txt"}),
        ("Edit", {"filePath": "/a.py", "originalFile": LINES}),
        ("Read", {"type": "image", "file": {"base64": LINES}}),
        ("Read", {"type": "text", "file": {}}),
        ("Grep", {"mode": "files_with_matches", "filenames": ["a.py"] * 400}),
        ("mcp__office__read", {"rows": [LINES]}),
        ("Future", LINES),
        ("Bash", LINES),
    ],
)
def test_other_outputs_stay_as_they_are(name: str, response: Any):
    assert answer(name, response) is None


def test_a_shortener_of_the_caller_is_used():
    shorter = answer("Bash", {"stdout": LINES, "stderr": ""}, shortener=lambda text, limit: f"{len(text)} {limit}")
    assert shorter["stdout"] == f"{len(LINES)} {LIMIT}"


def test_another_event_is_left_alone():
    assert asyncio.run(hook()({"hook_event_name": "Stop"}, None, {"signal": None})) == {}


@pytest.mark.parametrize(("limit", "error"), [(0, ConfigurationError), ("9", TypeError)])
def test_a_wrong_limit_is_refused_at_once(limit: Any, error: type[Exception]):
    with pytest.raises(error, match="limit must be"):
        shorten_tool_outputs(limit)


@tool("look", "Return many rows.", {"part": str})
async def look(arguments: Any) -> Any:
    return {"content": [{"type": "text", "text": LINES}]}


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The texts of tool results that the model was sent, by the name of the tool, and all its requests."""
    if not CLAUDE.exists():
        pytest.skip("the package brings no Claude Code for this platform")
    home, work = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    path = work / "values.py"
    path.write_text(LINES, encoding="utf-8")
    calls = [
        ("Bash", {"command": f"cat {path}", "description": "Show the file"}),
        ("Read", {"file_path": str(path)}),
        ("Grep", {"pattern": "value", "path": str(work), "output_mode": "content"}),
        ("mcp__office__look", {"part": "a"}),
        ("Edit", {"file_path": str(path), "old_string": "value_3 = load(3)", "new_string": "three = load(3)"}),
    ]
    model = Model(calls)
    with pytest.MonkeyPatch.context() as patch, model.serve():
        for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE", "AWS_"))]:
            patch.delenv(name)
        asyncio.run(_run(model.url, home, work))
    names = [name for name, _ in calls]
    return dict(zip(names, results(model.requests[-1]).values(), strict=True)), model.requests


async def _run(url: str, home: Path, work: Path) -> None:
    options = ClaudeAgentOptions(
        hooks={"PostToolUse": [HookMatcher(hooks=[hook(shortener=partial(head_tail, counter=COUNTER))])]},
        mcp_servers={"office": create_sdk_mcp_server("office", tools=[look])},
        allowed_tools=["Bash", "Read", "Grep", "Edit", "mcp__office__look"],
        cwd=str(work),
        setting_sources=[],
        env={
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "HOME": str(home),
        },
    )
    async for _ in query(prompt="Go on.", options=options):
        pass


@pytest.mark.parametrize("name", ["Bash", "Read", "Grep", "mcp__office__look"])
def test_claude_code_sends_the_model_the_shorter_output(sent: Any, name: str):
    texts, _ = sent
    assert "value_0 = load(0)" in texts[name]
    assert "value_200 = load(200)" not in texts[name]
    assert COUNTER.count(texts[name]) <= LIMIT + 60  # Claude Code numbers lines and adds a reminder


def test_claude_code_numbers_the_lines_of_a_file_as_they_are(sent: Any):
    texts, _ = sent
    assert "3\tvalue_2 = load(2)" in texts["Read"]


def test_claude_code_still_edits_a_file_of_which_the_model_saw_a_part(sent: Any):
    texts, _ = sent
    assert "updated successfully" in texts["Edit"]


def test_an_output_is_shortened_before_the_model_first_sees_it(sent: Any):
    _, requests = sent
    assert len(requests) == 6
    assert all("value_200 = load(200)" not in str(request) for request in requests)
