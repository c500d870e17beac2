"""What editors are sent according to how they display it: messages, plans, output,
errors, menus, hints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.editors import (
    AGENTIC,
    BARE,
    CODECOMPANION,
    JUPYTER,
    OLD_AGENTIC,
    TOAD,
    ZED,
    Editor,
)
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, conversation

PLAN = ToolCall(
    "plan",
    {
        "entries": [
            {"content": "Look", "status": "completed"},
            {"content": "Mend *it*", "status": "in_progress"},
            {"content": "Test"},
        ]
    },
)
READ = ToolCall("read", {"path": "a.txt"})
NOTE = "System note: When creating or editing Jupyter notebooks (.ipynb), use the tools for them."
HISTORY = "The previous ACP session could not be loaded.\n<conversation_history>\nAda: Hi\n</conversation_history>"


def joined(it: Stage, kind: str = "agent_message_chunk", since: int = 0) -> str:
    """The chunks of one kind as an editor joins them that does not look at ids."""
    return "".join(
        update["content"]["text"] for update in it.agent.updates(kind=kind, since=since)
    )


def read_by_model(it: Stage, call: int = -1) -> str:
    """The newest user message of a request."""
    return [
        said
        for role, said in conversation(it.server.calls[call].body)
        if role == "user"
    ][-1]


# --- messages ---


@pytest.mark.parametrize(
    "editor", [ZED, CODECOMPANION, BARE], ids=lambda editor: str(editor.info)
)
async def test_each_later_message_of_a_turn_begins_with_an_empty_line_also_on_replay(
    tmp_path: Path, editor: Editor
) -> None:
    replies = [
        Reply("First.", tool_calls=[PLAN]),
        Reply(["Sec", "ond."], tool_calls=[READ]),
        Reply("Third."),
    ]
    async with stage(tmp_path, *replies, Reply("Next turn."), editor=editor) as it:
        await it.prompt()
        whole = "First.\n\nSecond.\n\nThird."
        assert joined(it) == whole
        begun = len(it.agent.lines)
        await it.prompt()
        assert joined(it, since=begun) == "Next turn."
        begun = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        # The user's message is between the two.
        assert joined(it, since=begun) == f"{whole}Next turn."
        assert len(set(it.agent.texts())) == 4


async def test_thoughts_are_set_apart_like_messages(tmp_path: Path) -> None:
    replies = [
        Reply("", thinking="Hm.", tool_calls=[PLAN]),
        Reply("Done.", thinking="So."),
    ]
    async with stage(
        tmp_path, *replies, dialect="anthropic", config={"thought_level": "low"}
    ) as it:
        await it.prompt()
        assert joined(it, "agent_thought_chunk") == "Hm.\n\nSo."
        assert joined(it) == "Done."


async def test_a_note_of_the_agent_is_set_apart_once(tmp_path: Path) -> None:
    rules = tmp_path / "home" / "state" / "hooks" / "rules.yaml"
    rules.parent.mkdir(parents=True, mode=0o700)
    rules.write_text(
        "- on: before_tool_call\n  when: {tool: read}\n  then: {stop: Enough.}\n"
    )
    async with stage(tmp_path, Reply("I look.", tool_calls=[READ])) as it:
        await it.prompt()
        assert joined(it) == "I look.\n\nA hook ended the turn. Enough."


# --- plans ---


async def test_an_editor_that_shows_plans_sees_no_call_for_one(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(tool_calls=[PLAN, READ]), Reply("Done.")) as it:
        await it.prompt()
        assert [call["name"] for call in it.calls()] == ["read"]
        [plan] = it.agent.updates(kind="plan")
        assert [entry["content"] for entry in plan["entries"]] == [
            "Look",
            "Mend *it*",
            "Test",
        ]
        begun = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        again = it.agent.updates(since=begun)
        assert [
            update["name"] for update in again if update["sessionUpdate"] == "tool_call"
        ] == ["read"]
        assert [
            update["entries"] for update in again if update["sessionUpdate"] == "plan"
        ] == [plan["entries"]]


@pytest.mark.parametrize(
    "editor", [CODECOMPANION, JUPYTER], ids=lambda editor: str(editor.info)
)
async def test_an_editor_that_shows_no_plans_sees_the_entries_in_the_call(
    tmp_path: Path, editor: Editor
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[PLAN]), Reply("Done."), editor=editor
    ) as it:
        await it.prompt()
        [call] = it.calls()
        assert (call["title"], call["status"]) == ("Update plan", "completed")
        assert (
            call["content"][0]["content"]["text"] == "✓ Look  \n▸ Mend *it*  \n○ Test"
        )
        assert call["rawOutput"] == call["content"][0]["content"]["text"]
        assert "rawInput" not in call
        assert it.agent.updates(kind="plan") == []
        begun = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        [again] = it.agent.updates(kind="tool_call", since=begun)
        assert again["content"] == call["content"]


async def test_an_editor_that_advertises_plans_is_believed_whatever_its_name(
    tmp_path: Path,
) -> None:
    editor = replace(CODECOMPANION, more={"plan": {}})
    async with stage(
        tmp_path, Reply(tool_calls=[PLAN]), Reply("Done."), editor=editor
    ) as it:
        await it.prompt()
        assert it.calls() == []
        assert len(it.agent.updates(kind="plan_update")) == 1


async def test_a_plan_that_fails_or_that_a_hook_asks_about_is_shown_as_a_call(
    tmp_path: Path,
) -> None:
    rules = tmp_path / "home" / "state" / "hooks" / "rules.yaml"
    rules.parent.mkdir(parents=True, mode=0o700)
    rules.write_text(
        "- on: before_tool_call\n  when: {tool: plan}\n  then: {ask: Look at it.}\n"
    )
    wrong = ToolCall("plan", {"entries": [{"status": "pending"}]})
    async with stage(tmp_path, Reply(tool_calls=[wrong, PLAN]), Reply("Done.")) as it:
        it.agent.permission_answer = "allow_once"
        await it.prompt()
        assert [(call["name"], call["status"]) for call in it.calls()] == [
            ("plan", "failed"),
            ("plan", "completed"),
        ]
        assert len(it.agent.desk.permissions) == 1
        assert len(it.agent.updates(kind="plan")) == 1


# --- output ---


@pytest.mark.parametrize(
    "editor", [AGENTIC, OLD_AGENTIC], ids=["named", "named in the capabilities"]
)
async def test_an_editor_that_repeats_growing_output_gets_it_once_at_the_end(
    tmp_path: Path, editor: Editor
) -> None:
    command = "echo one; sleep 0.4; echo two; sleep 0.4; echo three"
    run = ToolCall("shell", {"command": command})
    async with stage(
        tmp_path,
        Reply(tool_calls=[run]),
        Reply("Done."),
        editor=editor,
        mode="full-access",
    ) as it:
        await it.prompt()
        shown = [
            update
            for update in it.agent.updates(kind="tool_call_update")
            if "one" in json.dumps(update.get("content"))
        ]
        assert [update["status"] for update in shown] == ["completed"]
        assert "one\ntwo\nthree" in shown[0]["content"][0]["content"]["text"]


async def test_such_an_editor_gets_a_summary_once_as_well(tmp_path: Path) -> None:
    summary = [
        "# Goal\n",
        *(
            f"Line {number} of what was said about the cart. " * 10
            for number in range(20)
        ),
    ]
    for editor, times in ((AGENTIC, 1), (CODECOMPANION, 4)):
        replies = [Reply("The cart adds prices. " * 2_000), Reply(summary)]
        async with stage(tmp_path / str(times), *replies, editor=editor) as it:
            await it.prompt()
            begun = len(it.agent.lines)
            await it.prompt("/compact")
            updates = it.agent.updates(kind="tool_call_update", since=begun)
            shown = [
                update
                for update in updates
                if "Line 0" in json.dumps(update.get("content"))
            ]
            assert (len(shown) == 1) if times == 1 else (len(shown) >= 2)


# --- errors ---


async def test_an_error_does_not_repeat_its_message_in_its_data(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(http_status=401), dialect="anthropic") as it:
        with pytest.raises(AgentError) as error:
            await it.prompt()
        assert (error.value.code, error.value.data) == (-32000, None)
        with pytest.raises(AgentError) as error:
            await it.agent.request(
                "session/prompt", {"sessionId": "sess_none", "prompt": []}
            )
        assert error.value.data == {"sessionId": "sess_none"}


async def test_a_failed_prompt_is_a_message_in_toad_and_the_turn_ends(
    tmp_path: Path,
) -> None:
    replies = [
        Reply(["Half ", "of it"], drop_after=1),
        Reply(http_status=401),
        Reply("Well."),
    ]
    async with stage(tmp_path, *replies, editor=TOAD, dialect="anthropic") as it:
        begun = len(it.agent.lines)
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert joined(it, since=begun).startswith("Half \n\nThe answer broke off")
        begun = len(it.agent.lines)
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "refused the key" in joined(it, since=begun)
        begun = len(it.agent.lines)
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert joined(it, since=begun) == "Well."
        assert "refused the key" not in json.dumps(it.server.calls[-1].body)
        # Of other errors it shows the details alone.
        with pytest.raises(AgentError) as error:
            await it.agent.request(
                "session/load",
                {"sessionId": "sess_none", "cwd": str(it.folder), "mcpServers": []},
            )
        assert error.value.data == {
            "details": error.value.message,
            "sessionId": "sess_none",
        }


async def test_a_cancel_stays_a_cancel_in_toad(tmp_path: Path) -> None:
    async with stage(
        tmp_path, Reply(["Be", "gun"], hold=anyio.Event(), hold_after=1), editor=TOAD
    ) as it:
        prompt = await it.agent.start_prompt(it.session, "Go")
        await it.held()
        await it.agent.cancel(it.session)
        assert await prompt.result() == {"stopReason": "cancelled"}


# --- Jupyter AI ---


@pytest.mark.parametrize(
    "before",
    [NOTE, f"{HISTORY}\n\nCurrent user message:\n{NOTE}", f"{NOTE}"],
    ids=["note", "history", "again"],
)
async def test_a_command_is_understood_behind_what_jupyter_ai_puts_in_front_and_the_next_prompt_has_that(
    tmp_path: Path, before: str
) -> None:
    async with stage(tmp_path, Reply("Sure."), editor=JUPYTER) as it:
        await it.prompt(f"{before}\n\n/context")
        assert "System prompt" in it.agent.text()
        assert it.server.calls == []
        await it.prompt("Mend the cart")
        for said in before.split("\n"):
            assert said in read_by_model(it)
        assert read_by_model(it).rstrip().endswith("Mend the cart")
        [row] = (await it.agent.request("session/list", {}))["sessions"]
        assert row["title"] == "Mend the cart"


async def test_the_title_of_a_chat_in_jupyter_ai_is_what_the_user_typed(
    tmp_path: Path,
) -> None:
    link: Mapping[str, Any] = {
        "type": "resource_link",
        "uri": "file:///work/a.ipynb",
        "name": "a.ipynb",
    }
    async with stage(tmp_path, Reply("Sure."), Reply("Yes."), editor=JUPYTER) as it:
        await it.prompt([{"type": "text", "text": f"{NOTE}\n\nExplain\n\nthis"}, link])
        assert NOTE in read_by_model(it)
        assert "a.ipynb" in read_by_model(it)
        [row] = (await it.agent.request("session/list", {}))["sessions"]
        assert row["title"].startswith("Explain this")
        await it.prompt("And on")
        assert NOTE not in read_by_model(it)


async def test_in_another_editor_such_a_text_is_the_users_own(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Sure.")) as it:
        await it.prompt(f"{NOTE}\n\n/context")
        assert f"{NOTE}\n\n/context" in read_by_model(it)


# --- menus, commands, sessions ---


async def test_the_values_of_menus_say_what_they_are_about(tmp_path: Path) -> None:
    models = ["anthropic/claude-haiku-4-5", "openai/gpt-6-luna", "openai/own-model"]
    config = {"models": {model: {} for model in models}}
    async with stage(tmp_path, config=config, editor=CODECOMPANION) as it:
        options = {
            option["id"]: option
            for option in it.agent.opened[it.session]["configOptions"]
        }
        names = {
            id: {each["value"]: each["name"] for each in option["options"]}
            for id, option in options.items()
        }
        assert names["auto_compaction"] == {
            "on": "Auto-compact on",
            "off": "Auto-compact off",
        }
        assert names["thought_level"]["default"] == "Thinking: provider default"
        assert names["thought_level"]["low"] == "Thinking: low"
        assert (
            names["model"]["anthropic/claude-haiku-4-5"] == "Claude Haiku 4.5 · $1 / $5"
        )
        assert names["model"]["openai/gpt-6-luna"].startswith("GPT-6 Luna · $")
        assert names["model"]["openai/own-model"] == "openai/own-model"


async def test_hints_of_commands_have_in_brackets_what_may_be_left_out(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as it:
        offers = (await it.update("available_commands_update"))["availableCommands"]
        hints = {
            offer["name"]: offer["input"]["hint"]
            for offer in offers
            if offer.get("input")
        }
        assert hints["compact"] == "[what to keep] | preview | status | undo"
        assert hints["model"] == "[provider/model]"
        assert hints["export"] == "[path]"
        assert hints["unpin"] == "<number>"


async def test_a_session_is_in_the_list_from_its_first_prompt_on(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Yes.")) as it:

        async def listed() -> list[str]:
            rows = (await it.agent.request("session/list", {}))["sessions"]
            return [row["sessionId"] for row in rows]

        assert await listed() == []
        async with it.restarted() as other:  # it is stored nevertheless
            await other.agent.resume(it.session, it.folder)
            assert await listed() == []
        await it.prompt("/context")
        assert await listed() == []
        await it.prompt("Hello")
        assert await listed() == [it.session]
