"""Shell commands: in the editor's terminal where it offers one, else as local
processes, and their end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentProcess
from support.editors import TOAD, ZED, Editor
from support.memory import stage
from support.processes import outlive
from support.replies import Reply, ToolCall
from support.serving import never_answer
from support.stage import PATIENCE, results

NO_TERMINAL = replace(ZED, terminal=False)
PSEUDO_TERMINALS = replace(ZED, pseudo_terminals=True)
BOTH = "printf out; printf err >&2; exit 3"


def shell(command: str, **more: object) -> ToolCall:
    return ToolCall("shell", {"command": command, **more})


async def begun(agent: AgentProcess) -> None:
    """Wait until the local command has printed that it began."""
    await agent.wait_for(
        lambda line: "begun" in str(line.update.get("content")), PATIENCE
    )


@pytest.mark.parametrize("editor", [ZED, TOAD], ids=["zed", "toad"])
async def test_the_editor_s_terminal_is_used_shown_while_it_runs_and_released(
    tmp_path: Path, editor: Editor
) -> None:
    async with stage(
        tmp_path,
        Reply(tool_calls=[shell(BOTH)]),
        Reply("Done."),
        mode="full-access",
        editor=editor,
    ) as it:
        await it.prompt()
        [terminal] = it.agent.desk.terminals.values()
        assert terminal.released
        assert terminal.params["cwd"] == str(it.folder)
        assert terminal.params["sessionId"] == it.session
        [call] = it.calls()
        assert call["content"] == [{"type": "terminal", "terminalId": terminal.id}]
        assert call["status"] == "failed"
        # A terminal has one stream: nothing claims to know which part was which.
        assert call["rawOutput"] == {
            "output": "outerr",
            "exitCode": 3,
            "sandboxed": False,
        }
        [result] = results(it.server.calls[1].body)
        assert (
            result.text
            == "exit status: 3\noutput (stdout and stderr together):\nouterr"
        )
        # Other editors never see a terminal that is gone: not after a restart, and not
        # in a replay.
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            [again] = later.calls()
            assert again["content"][0]["type"] == "content"
            assert "outerr" in again["content"][0]["content"]["text"]
            assert again["rawOutput"] == call["rawOutput"]


async def test_without_a_terminal_the_streams_and_the_exit_code_are_kept_apart(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        Reply(tool_calls=[shell(BOTH)]),
        Reply("Done."),
        mode="full-access",
        editor=NO_TERMINAL,
    ) as it:
        await it.prompt()
        [call] = it.calls()
        assert call["rawOutput"] == {
            "stdout": "out",
            "stderr": "err",
            "exitCode": 3,
            "sandboxed": False,
        }
        assert (call["kind"], call["status"]) == ("execute", "failed")
        [result] = results(it.server.calls[1].body)
        for words in ("exit status: 3", "stdout:\nout", "stderr:\nerr"):
            assert words in result.text


@pytest.mark.parametrize(
    "editor", [NO_TERMINAL, TOAD], ids=["local", "terminal that cannot be killed"]
)
async def test_a_command_that_takes_too_long_is_stopped_and_the_model_reads_what_it_printed(
    tmp_path: Path, editor: Editor
) -> None:
    call = shell("echo begun; sleep 600", timeout=0.7)
    replies = [Reply(tool_calls=[call]), Reply("Done.")]
    async with stage(
        tmp_path, *replies, mode="full-access", editor=editor, dialect="anthropic"
    ) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.is_error
        assert "time limit" in result.text
        assert "begun" in result.text
        assert await outlive(it.agent.children(), seconds=2) == set()


async def test_a_terminal_that_is_being_made_when_the_turn_is_cancelled_is_released(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        Reply(tool_calls=[shell("sleep 600")]),
        Reply("Later."),
        mode="full-access",
    ) as it:
        create = it.agent.handlers["terminal/create"]
        answer = anyio.Event()

        async def create_late(params: Mapping[str, Any]) -> Any:
            with anyio.CancelScope(shield=True):
                await answer.wait()
                return await create(params)

        it.agent.handlers["terminal/create"] = create_late
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.line("terminal/create")
        await it.agent.cancel(it.session)
        # What comes after the cancel has been taken in as well by the time that this is
        # answered.
        await it.agent.request("session/list", {})
        answer.set()
        assert await handle.result() == {"stopReason": "cancelled"}
        [terminal] = it.agent.desk.terminals.values()
        assert terminal.released
        assert [call["status"] for call in it.calls()] == ["failed"]
        assert await it.prompt("Next") == {"stopReason": "end_turn"}


async def test_a_terminal_without_answers_holds_up_neither_the_cancel_nor_the_end(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        Reply(tool_calls=[shell("sleep 600")]),
        Reply("Done."),
        mode="full-access",
    ) as it:
        for method in ("terminal/wait_for_exit", "terminal/release"):
            it.agent.handlers[method] = never_answer
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.line("terminal/wait_for_exit")
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}


@pytest.mark.parametrize("editor", [ZED, NO_TERMINAL], ids=["terminal", "no terminal"])
async def test_a_command_that_runs_when_the_editor_goes_is_shown_as_ended_before_the_prompt_is_answered(
    tmp_path: Path, editor: Editor
) -> None:
    script = [Reply(tool_calls=[shell("echo begun; exec sleep 60")])]
    async with stage(tmp_path, *script, mode="full-access", editor=editor) as it:
        turn = await it.agent.start_prompt(it.session, "Go on")
        await it.update("tool_call_update", status="in_progress")
        await it.agent.close_stdin()
        assert await turn.result() == {"stopReason": "cancelled"}
        [call] = it.calls()
        assert call["status"] == "failed"


@pytest.mark.parametrize("mode", ["full-access", "accept-edits"])
@pytest.mark.parametrize(
    "editor", [PSEUDO_TERMINALS, NO_TERMINAL], ids=["terminal", "no terminal"]
)
async def test_a_command_that_asks_or_pages_ends_at_once_wherever_it_runs(
    tmp_path: Path, editor: Editor, mode: str
) -> None:
    text = "\n".join(str(number) for number in range(500))
    commands = [
        "read x; echo status $?",
        "less long.txt",
        "read x < /dev/tty; echo status $?",
        "cat; bash; tty",
    ]
    replies = [Reply(tool_calls=[shell(command)]) for command in commands]
    async with stage(
        tmp_path,
        *replies,
        Reply("Done."),
        mode=mode,
        editor=editor,
        files={"long.txt": text},
    ) as it:
        it.agent.permission_answer = "allow_once"
        await it.prompt()
        last = (results(call.body)[-1].text for call in it.server.calls[1:])
        asked, paged, terminal, nothing = last
        assert "status 1" in asked
        assert text in paged
        assert "status 1" in terminal
        assert "not a tty" in nothing


FRAMES = "for each in $(seq 5000); do printf '\\rframe %d' $each; done"


@pytest.mark.parametrize("mode", ["full-access", "accept-edits"])
@pytest.mark.parametrize(
    "editor",
    [ZED, PSEUDO_TERMINALS, NO_TERMINAL],
    ids=["pipe", "terminal", "no terminal"],
)
async def test_an_error_between_thousands_of_frames_of_a_progress_bar_is_read(
    tmp_path: Path, editor: Editor, mode: str
) -> None:
    command = f"echo begin; {FRAMES}; printf '\\nerror: disk full\\n'; {FRAMES}; printf '\\nend\\n'"
    replies = [Reply(tool_calls=[shell(command)]), Reply("Done.")]
    async with stage(tmp_path, *replies, mode=mode, editor=editor) as it:
        it.agent.permission_answer = "allow_once"
        await it.prompt()
        [result] = results(it.server.calls[1].body)
        assert "begin\nframe 5000\nerror: disk full\nframe 5000\nend" in result.text
        assert not [
            line for line in it.agent.updates() if "\\r" in str(line.get("content"))
        ]
