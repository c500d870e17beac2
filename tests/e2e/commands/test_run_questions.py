"""The questions of `acp-agent run`, with somebody at the terminal, with nobody, and
with somebody who leaves.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from acp_agent.sandbox.bubblewrap import fault
from support.called import call_command
from support.compactions import messages
from support.models import ModelServer, Reply, ToolCall, model_server
from support.terminal import at_a_terminal

TOUCH = ToolCall("shell", {"command": "touch ran"})


def told(server: ModelServer, request: int) -> str:
    """The text of the last result in a request."""
    return messages(server.calls[request].body)[-1]["content"][0]["content"][0]["text"]


@pytest.mark.process
async def test_a_terminal_gets_no_sequence_and_no_secret_of_an_answer_and_another_program_all_of_it(
    tmp_path: Path,
) -> None:
    key = "Zq9aB3dE5fG7haB3dE5fG7h"
    script = [
        Reply(
            [
                "\x1b[2J\x1b]0;title\x07 \x9b2J ",
                "\x1b",
                "[31mYour key is ",
                *key,
                " now.",
            ]
        )
        for _ in range(2)
    ]
    async with model_server(script, "openai") as server:
        env = {**server.env(), "MY_API_KEY": key}
        async with at_a_terminal(tmp_path, "run", "Say it.", env=env) as person:
            with anyio.fail_after(40):
                assert await person.ended() == 0
        assert not {"\x1b", "\x07", "\x9b"} & set(person.shown)
        assert "Your key is *** now." in person.shown
        piped = await call_command(tmp_path, "run", "Say it.", env=env)
        assert (
            piped.out
            == f"\x1b[2J\x1b]0;title\x07 \x9b2J \x1b[31mYour key is {key} now.\n"
        )


@pytest.mark.process
async def test_who_leaves_in_place_of_an_answer_is_not_there_and_who_answers_is(
    tmp_path: Path,
) -> None:
    script = [
        Reply("I run.", tool_calls=[TOUCH]),
        Reply("Again.", tool_calls=[TOUCH]),
        Reply("Ran."),
    ]
    async with (
        model_server(script, "openai") as server,
        at_a_terminal(tmp_path, "run", "Run it.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("Allow?")
            person.type("\x04")
            await person.until("nobody is here to ask")
            assert not (tmp_path / "ran").exists()
            await person.until("Allow?", times=2)
            person.type("y\n")
            assert await person.ended() == 0
        assert told(server, 1).startswith("Nobody is here to ask, so nothing was done.")
        assert (tmp_path / "ran").exists()


@pytest.mark.process
async def test_what_was_typed_before_a_question_was_shown_is_no_answer_to_it(
    tmp_path: Path,
) -> None:
    asks = anyio.Event()
    fake = "? Read the plan\n  [y] Allow  [n] Reject\n  Allow me? "
    script = [
        Reply([f"{fake}\n\n", "Well."], hold=asks, hold_after=1, tool_calls=[TOUCH]),
        Reply("Not run."),
    ]
    async with (
        model_server(script, "openai") as server,
        at_a_terminal(tmp_path, "run", "Run it.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("Allow me?")
            person.type("y\ny\ny")
            asks.set()
            await person.until("Allow? ")
            assert not (tmp_path / "ran").exists()
            person.type("n\n")
            assert await person.ended() == 0
        assert "Do not try it again" not in person.shown
        assert "✗ " in person.shown
        assert "did not allow this call" in told(server, 1)
        assert not (tmp_path / "ran").exists()


async def test_without_somebody_to_ask_nothing_that_needs_permission_runs(
    tmp_path: Path,
) -> None:
    call = ToolCall("shell", {"command": "touch ran"})
    script = [
        Reply("I run.", tool_calls=[call]),
        Reply("Not."),
        Reply("I run.", tool_calls=[call]),
        Reply("Ran."),
    ]
    async with model_server(script, "openai") as server:
        refused = await call_command(tmp_path, "run", "Run it.", env=server.env())
        assert refused.code == 0
        assert "Allow it with --mode full-access" in refused.err
        assert not (tmp_path / "ran").exists()
        assert told(server, 1).startswith("Nobody is here to ask, so nothing was done.")
        assert (
            await call_command(
                tmp_path,
                "run",
                "--mode",
                "full-access",
                "--follow",
                "Again.",
                env=server.env(),
            )
        ).code == 0
        assert (tmp_path / "ran").exists()


async def test_a_question_is_not_offered_to_the_model_where_nobody_can_answer(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Alone.")], "openai") as server:
        assert (
            await call_command(tmp_path, "run", "Alone.", env=server.env())
        ).code == 0
        assert "ask_user" not in [
            tool["name"] for tool in server.calls[0].body["tools"]
        ]


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (
            ToolCall("read", {"path": "../other/a.txt"}),
            "Allow it with --add-dir {other}.",
        ),
        (
            ToolCall("write", {"path": "../other/b.txt", "content": "b"}),
            "Allow edits there with --add-dir {other} --mode accept-edits.",
        ),
        (
            ToolCall("shell", {"command": "ls", "cwd": "../other"}),
            "Allow commands there with --add-dir {other} --mode accept-edits.",
        ),
        (
            ToolCall("shell", {"command": "cat a.py; echo b >> ../other/a.txt"}),
            "Allow commands there with --add-dir {other} --mode accept-edits.",
        ),
        (
            ToolCall("shell", {"command": "touch ran"}),
            "Allow it with --mode full-access",
        ),
        (
            ToolCall("shell", {"command": "ls ../other", "outside": True}),
            "Allow it with --mode full-access",
        ),
        (
            ToolCall("write", {"path": ".git/hooks/pre-commit", "content": "b"}),
            "Allow it with --mode full-access",
        ),
        (
            ToolCall("write", {"path": "b.txt", "content": "b"}),
            "Allow it with --mode full-access, or edits in the project with --mode accept-edits.",
        ),
    ],
)
async def test_a_call_outside_of_the_project_is_allowed_by_the_folder_that_the_advice_names(
    tmp_path: Path, call: ToolCall, advice: str
) -> None:
    shop = tmp_path / "shop"
    other = tmp_path / "other"
    for folder in (shop, other):
        folder.mkdir()
    (other / "a.txt").write_text("There.\n")
    script = [Reply("", tool_calls=[call]), Reply("Done.")] * 2
    async with model_server(script, "openai") as server:
        ran = await call_command(tmp_path, "run", "Do it.", env=server.env(), cwd=shop)
        said = advice.format(other=other)
        assert f"nobody is here to ask. {said}" in ran.err
        options = said.partition(" with ")[2].rstrip(".").split()
        if "--add-dir" not in options:
            return
        ran = await call_command(
            tmp_path, "run", *options, "Do it.", env=server.env(), cwd=shop
        )
        assert "Not allowed" not in ran.err


@pytest.mark.parametrize("output", ["json", "stream-json"])
async def test_the_result_of_a_run_lists_the_calls_that_were_not_allowed(
    tmp_path: Path, output: str
) -> None:
    calls = [
        ToolCall("read", {"path": "gone.txt"}),
        ToolCall("shell", {"command": "touch ran"}),
    ]
    script = [Reply("", tool_calls=calls), Reply("Not run.")]
    async with model_server(script, "openai") as server:
        ran = await call_command(
            tmp_path, "run", f"--output={output}", "Do it.", env=server.env()
        )
    result = json.loads(ran.out.splitlines()[-1])
    [refused] = result["refusedCalls"]
    assert "touch ran" in refused["title"]
    assert refused["reason"] == "nobody_asked"
    assert refused["toolCallId"]
    assert result["status"] == "completed"


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
async def test_a_command_that_the_sandbox_stopped_is_allowed_by_the_folder_that_the_advice_names(
    tmp_path: Path,
) -> None:
    shop = tmp_path / "shop"
    other = tmp_path / "the other"
    for folder in (shop, other):
        folder.mkdir()
    # Below /tmp, the sandbox hides the folder instead of making it read-only.
    says = "echo \"cannot create '../the other/b.txt': Read-only file system\" >&2"
    command = f"echo b > '../the other/b.txt' || {{ {says}; exit 1; }}"
    call = ToolCall("shell", {"command": command})
    script = [Reply("", tool_calls=[call]), Reply("Done.")] * 2
    async with model_server(script, "openai") as server:
        words = ("run", "--mode", "accept-edits", "Do it.")
        ran = await call_command(tmp_path, *words, env=server.env(), cwd=shop)
        assert "It failed in the sandbox" in ran.err
        advice = f"Allow commands there with --add-dir '{other}' --mode accept-edits."
        assert f"nobody is here to ask. {advice}" in ran.err
        options = ("--add-dir", str(other), "--mode", "accept-edits")
        ran = await call_command(
            tmp_path, "run", *options, "Do it.", env=server.env(), cwd=shop
        )
        assert "Not allowed" not in ran.err
    assert (other / "b.txt").read_text() == "b\n"


RULE = """\
on: before_tool_call
when:
  tool: write
then:
  block: Not today.
"""
RECIPE = """\
---
name: look
description: Look
allowed_tools: [read]
---
Look at it.
"""


async def test_the_result_of_a_run_lists_the_calls_that_a_mode_a_hook_or_a_recipe_refused(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    for name, text in (("hooks/no.yaml", RULE), ("recipes/look.md", RECIPE)):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    write = ToolCall("write", {"path": "b.txt", "content": "b"})
    touch = ToolCall("shell", {"command": "touch ran"})
    (tmp_path / "b.txt").write_text("a")
    script = [Reply("", tool_calls=[write, touch]), Reply("Not done.")] * 3
    async with model_server(script, "openai") as server:
        env = {**server.env(), "ACP_AGENT_HOME": str(home)}
        reasons: list[list[str]] = []
        for words in (("--mode", "plan", "Do it."), ("Do it.",), ("-r", "look")):
            ran = await call_command(tmp_path, "run", "--output=json", *words, env=env)
            refused = json.loads(ran.out)["refusedCalls"]
            reasons.append([call["reason"] for call in refused])
            assert [call["title"] for call in refused] == ["Write b.txt", "touch ran"]
    assert reasons == [
        ["hook", "mode"],
        ["hook", "nobody_asked"],
        ["recipe", "recipe"],
    ]
    assert (tmp_path / "b.txt").read_text() == "a"
