"""Editors that pass next to nothing of an environment on, and catalogues that start an agent in an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import start_agent
from support.editors import AVANTE, Editor
from support.replies import Reply, ToolCall
from support.stage import results, stage

pytestmark = pytest.mark.process

REGISTRY = Editor(
    info={"name": "ACP Registry Validator", "version": "1.0.0"},
    files=True,
    terminal=True,
    more={"_meta": {"terminal_output": True, "terminal-auth": True}},
)
Environment = dict[str, str | None]
REFUSED: Environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
LOCALES: dict[str, tuple[Environment, str]] = {
    "none": ({}, "cat menu.txt; printf 'ü→☕'"),
    "C": ({"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, "cat menu.txt; printf 'ü→☕'"),
    # Here Python itself cannot pass such a character on in a command line.
    "UTF-8 mode refused": (REFUSED, "cat menu.txt"),
}


@pytest.mark.parametrize(("locale", "command"), LOCALES.values(), ids=LOCALES)
async def test_without_a_locale_no_character_of_a_prompt_a_file_a_command_or_an_answer_is_lost(
    tmp_path: Path, locale: Environment, command: str
) -> None:
    calls = [
        ToolCall("read", {"path": "menu.txt"}),
        ToolCall("shell", {"command": command}),
        ToolCall("grep", {"pattern": "süß"}),
        ToolCall("write", {"path": "new.txt", "content": "größer 🍰\n"}),
    ]
    replies = [Reply(tool_calls=calls), Reply("Grüße ☕.")]
    bare: Environment = {"HOME": None, "LANG": None, "PATH": None}
    files = {"menu.txt": "süß ☕\n", "AGENTS.md": "Preise in ¢.\n"}
    async with stage(
        tmp_path, *replies, editor=AVANTE, env=bare | locale, mode="full-access", files=files, dialect="anthropic"
    ) as it:
        assert await it.prompt("Schön 🍰?") == {"stopReason": "end_turn"}
        first, second = (call.body for call in it.server.calls)
        assert "Preise in ¢." in str(first["system"])
        assert "Schön 🍰?" in str(first["messages"])
        read, ran, found, written = results(second)
        assert not any(result.is_error for result in (read, ran, found, written))
        assert "süß ☕" in read.text
        assert "süß ☕" in ran.text
        assert ("ü→☕" in command) == ("ü→☕" in ran.text)
        assert "süß ☕" in found.text
        assert (it.folder / "new.txt").read_text(encoding="utf-8") == "größer 🍰\n"
        assert it.agent.text() == "Grüße ☕."
        assert it.agent.stderr == ""
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert later.agent.text("user_message_chunk") == "Schön 🍰?"
            assert later.agent.text() == "Grüße ☕."


async def test_in_an_empty_home_the_first_and_only_line_answers_initialize_and_names_a_way_to_authenticate(
    tmp_path: Path,
) -> None:
    bare: Environment = {"TERM": "dumb", "LANG": None, "ACP_AGENT_HOME": None}
    async with start_agent(home=tmp_path, env=bare, capabilities=REGISTRY) as agent:
        answer = await agent.initialize()
        assert {method.get("type", "agent") for method in answer["authMethods"]} == {"agent"}
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
        assert agent.methods_between(0) == ["response initialize"]
        assert agent.stderr == ""
