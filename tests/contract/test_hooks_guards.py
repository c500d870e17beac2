"""Hooks that guard calls and fail: no call runs for that, unless the user wants it to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import ZED_BETA
from support.models import model_server
from support.replies import Reply, ToolCall
from support.second import second_agent
from support.stage import Stage, results, stage
from support.terminal import run_command

PYTHON = "from acp_agent.hooks import Outcome, hook\n"
RECIPE = """\
---
hooks:
  before_tool_call: {{handler: log_tool_usage{}}}
---
Write them.
"""
USAGE = "state/logs/tool-usage.jsonl"


def made(name: str) -> ToolCall:
    return ToolCall("write", {"path": name, "content": "made\n"})


def command(line: str, **more: Any) -> Callable[[Path, str], Mapping[str, Any]]:
    """A guard in config.yaml."""

    def put(home: Path, on_error: str) -> Mapping[str, Any]:
        chosen = {"on_error": on_error} if on_error else {}
        return {"PreToolUse": [{"command": line, "name": "guard", "timeout": 5, **more, **chosen}]}

    return put


def of_claude(home: Path, on_error: str) -> Mapping[str, Any]:
    hook = {"type": "command", "command": "exit 3", "name": "guard", **({"on_error": on_error} if on_error else {})}
    return {"PreToolUse": [{"matcher": "Write", "hooks": [hook]}]}


def file(name: str, text: str, mode: int = 0o755) -> Callable[[Path, str], Mapping[str, Any]]:
    """A guard in the user's hooks folder.

    :param text: `{}` stands for what says its `on_error`.
    """

    def put(home: Path, on_error: str) -> Mapping[str, Any]:
        path = home / "state" / "hooks" / name
        path.parent.mkdir(mode=0o700, parents=True)
        said = f", on_error='{on_error}'" if name.endswith(".py") else f"; echo on_error: {on_error}"
        path.write_text(text.replace("{}", said if on_error else ""))
        path.chmod(mode)
        return {}

    return put


def handler(home: Path, on_error: str) -> Mapping[str, Any]:
    (home / USAGE).mkdir(parents=True)  # where the file should be, so that none can be written
    recipes = home / "state" / "recipes"
    recipes.mkdir(mode=0o700)
    (recipes / "guard.md").write_text(RECIPE.format(f", on_error: {on_error}" if on_error else ""))
    return {}


SAYS = '#!/bin/sh\n[ "$1" = hook ] && { echo PreToolUse{}; exit; }\n'
GUARDS = {
    "a time-out": (command("sleep 60", timeout=0.3), "It did not answer within 0.3 seconds."),
    "a status": (command("echo no license >&2; exit 3"), "It ended with status 3. It said: no license"),
    "a crash": (command("kill -9 $$"), "It was ended by SIGKILL."),
    "no JSON": (command("echo Refused."), "What it printed is no JSON object"),
    "half of a JSON": (command("echo '{\"decision\": '"), "Its answer is no JSON"),
    "another form": (command('echo \'{"decision": "no"}\''), "Its answer is wrong. decision:"),
    "too much": (command("yes | head -c 3000000"), "It printed more than 1024 KiB on stdout"),
    "Claude Code's form": (of_claude, "It ended with status 3."),
    "a program": (file("guard", SAYS + "exit 3\n"), "It ended with status 3."),
    "a program that vanishes": (file("guard", SAYS.replace("exit;", 'rm "$0"; exit;')), "It could not be started"),
    "a function": (file("guard.py", PYTHON + "@hook('PreToolUse'{})\ndef guard(e, s):\n    1 / 0\n"), "ZeroDivision"),
    "an answer that is none": (
        file("guard.py", PYTHON + "@hook('PreToolUse'{})\nasync def guard(e, s):\n    return True\n"),
        "It returned a bool",
    ),
    "a recipe's handler": (handler, f"{USAGE} cannot be written"),
}
KINDS = ("a time-out", "Claude Code's form", "a program", "a function", "a recipe's handler")
"""One of each kind of hook."""
UNUSABLE = {
    "a program that cannot say what it wants": (file("guard", "#!/bin/sh\nexit 4\n"), "ended with status 4"),
    "a script that may not be executed": (file("guard.sh", SAYS, 0o644), "not executable: chmod +x"),
    "a program without its interpreter": (file("guard", "#!/no/such/python\n"), "It could not be started"),
    "a file of Python that cannot be loaded": (file("guard.py", "import no_such_module\n"), "ModuleNotFoundError"),
}


def asked(it: Stage) -> list[str]:
    """What the user was told in each permission request."""
    return [json.dumps(params["toolCall"].get("content")) for params in it.agent.desk.permissions]


def prompt(kind: str) -> str:
    return "/guard" if kind == "a recipe's handler" else "Write them."


@pytest.mark.parametrize("kind", [*GUARDS, *UNUSABLE])
async def test_the_user_is_asked_about_each_call_whose_guard_fails_and_told_why(tmp_path: Path, kind: str) -> None:
    put, why = {**GUARDS, **UNUSABLE}[kind]
    config = {"hooks": put(tmp_path / "home", "")}
    replies = [Reply(tool_calls=[made("a.txt"), made("b.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, mode="full-access", files={}) as it:
        it.agent.permission_answer = lambda params: (
            "allow_once" if params["toolCall"]["rawInput"]["path"] == "a.txt" else "reject_once"
        )
        assert await it.prompt(prompt(kind)) == {"stopReason": "end_turn"}
        first, second = asked(it)
        assert all("failed. " in text and why in text for text in (first, second)), first
        assert ((it.folder / "a.txt").exists(), (it.folder / "b.txt").exists()) == (True, False)
        assert why in it.agent.text() or why in json.dumps(it.agent.updates())


@pytest.mark.parametrize("kind", KINDS)
async def test_on_error_block_refuses_each_call_without_a_question(tmp_path: Path, kind: str) -> None:
    put, why = GUARDS[kind]
    config = {"hooks": put(tmp_path / "home", "block")}
    replies = [Reply(tool_calls=[made("a.txt"), made("b.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, mode="full-access", files={}) as it:
        assert await it.prompt(prompt(kind)) == {"stopReason": "end_turn"}
        assert asked(it) == []
        assert not list(it.folder.iterdir())
        told = [result.text for result in results(it.server.calls[1].body)]
        assert [text.startswith("A hook refused this call. ") and why in text for text in told] == [True, True], told


@pytest.mark.parametrize("kind", KINDS)
async def test_on_error_allow_lets_calls_run(tmp_path: Path, kind: str) -> None:
    config = {"hooks": GUARDS[kind][0](tmp_path / "home", "allow")}
    replies = [Reply(tool_calls=[made("a.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, mode="full-access", files={}) as it:
        await it.prompt(prompt(kind))
        assert (asked(it), (it.folder / "a.txt").exists()) == ([], True)


async def test_a_failure_outweighs_an_allow_and_nothing_outweighs_a_refusal(tmp_path: Path) -> None:
    allow = {"command": ["echo", '{"decision": "allow"}']}
    refuse = {"command": "echo Not b. >&2; grep -q '\"tool_input\": {[^}]*b.txt' && exit 2; exit 0", "name": "strict"}
    config = {"hooks": {"PreToolUse": [allow, {"command": "exit 3", "name": "guard"}, allow, refuse]}}
    replies = [Reply(tool_calls=[made("a.txt"), made("b.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, files={}) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt("Write them.")
        assert len(asked(it)) == 1
        assert "A hook refused this call. Not b." in results(it.server.calls[1].body)[1].text
        assert not list(it.folder.iterdir())


async def test_what_always_covers_does_not_silence_a_guard_that_goes_on_failing(tmp_path: Path) -> None:
    config = {"hooks": {"PreToolUse": [{"command": "exit 3", "name": "guard"}]}}
    replies = [Reply(tool_calls=[made("a.txt")]), Reply(tool_calls=[made("b.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, files={}) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt("Write them.")
        assert len(asked(it)) == 2


async def test_where_the_editor_cannot_ask_the_call_is_refused_and_the_model_told_why(tmp_path: Path) -> None:
    async def refuse(params: Mapping[str, Any]) -> Any:
        raise AgentError(-32601, "Method not found")

    config = {"hooks": {"PreToolUse": [{"command": "exit 3", "name": "guard"}]}}
    replies = [Reply(tool_calls=[made("a.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, mode="full-access", files={}) as it:
        it.agent.handlers["session/request_permission"] = refuse
        assert await it.prompt("Write it.") == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert "The user could not be asked, so nothing was done." in result.text
        assert "The hook guard failed. It ended with status 3." in result.text
        assert not list(it.folder.iterdir())


async def test_a_question_that_is_cancelled_ends_the_turn_and_the_call_did_not_run(tmp_path: Path) -> None:
    config = {"hooks": {"PreToolUse": [{"command": "exit 3", "name": "guard"}]}}
    async with stage(tmp_path, Reply(tool_calls=[made("a.txt")]), config=config, mode="full-access", files={}) as it:
        it.agent.permission_answer = "cancelled"
        assert await it.prompt("Write it.") == {"stopReason": "cancelled"}
        assert not list(it.folder.iterdir())


@pytest.mark.process
async def test_where_nobody_sits_at_the_terminal_the_call_is_refused_in_every_mode(tmp_path: Path) -> None:
    async with model_server([Reply(tool_calls=[made("a.txt")]), Reply("Done.")], "openai") as server:
        server.write_config(tmp_path, {"hooks": {"PreToolUse": [{"command": "exit 3", "name": "guard"}]}})
        ran = await run_command(tmp_path, "run", "--mode", "full-access", "Write it.", env=server.env())
        assert (ran.code, ran.out) == (0, "Done.\n")
        assert "The hook guard failed. It ended with status 3." in ran.err
        assert "nobody is here to ask" in ran.err
        assert "--mode" not in ran.err
        assert server.calls[1].mentions("The hook guard failed. It ended with status 3.")
        assert not (tmp_path / "a.txt").exists()


async def test_an_editor_of_version_2_shows_why_it_asks(tmp_path: Path) -> None:
    async with model_server([Reply(tool_calls=[made("a.txt")]), Reply("Done.")], "openai") as server:
        server.write_config(tmp_path, {"hooks": {"PreToolUse": [{"command": "exit 3", "name": "guard"}]}})
        async with second_agent(home=tmp_path, env=server.env()) as it:
            it.agent.permission_answer = "reject_once"
            await it.answer(await it.open(tmp_path), "Write it.")
            [request] = it.agent.desk.permissions
            assert request["description"].startswith("The hook guard failed. It ended with status 3.")
            assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("how", ["beside it", "by its name"])
async def test_a_guard_that_is_switched_off_in_a_session_is_off_and_has_not_failed(tmp_path: Path, how: str) -> None:
    GUARDS["a program"][0](tmp_path / "home", "block")
    guard = tmp_path / "home" / "state" / "hooks" / "guard"
    off = guard.with_name("guard.disable")
    replies = [Reply(tool_calls=[made("a.txt")]), Reply("One."), Reply(tool_calls=[made("b.txt")]), Reply("Two.")]
    async with stage(tmp_path, *replies, mode="full-access", files={}, editor=ZED_BETA) as it:
        await it.prompt("Write it.")
        assert not (it.folder / "a.txt").exists()
        told = len(it.agent.updates(kind="notice"))
        if how == "beside it":
            off.touch()
        else:
            guard.rename(off)
        await it.prompt("Write the other.")
        assert (it.folder / "b.txt").exists()
        assert (asked(it), len(it.agent.updates(kind="notice"))) == ([], told)


async def test_hooks_that_guard_no_call_are_still_taken_lightly_where_they_fail(tmp_path: Path) -> None:
    names = ("SessionStart", "UserPromptSubmit", "PostToolUse", "turn_end", "Stop")
    config = {"hooks": {name: [{"command": "exit 3", "name": name}] for name in names}}
    replies = [Reply(tool_calls=[made("a.txt")]), Reply("Done.")]
    async with stage(tmp_path, *replies, config=config, mode="full-access", files={}) as it:
        assert await it.prompt("Write it.") == {"stopReason": "end_turn"}
        assert (asked(it), (it.folder / "a.txt").exists()) == ([], True)
        assert "Done." in it.agent.text()
