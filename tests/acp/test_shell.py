"""Shell commands: in the editor's terminal where it offers one, else as local processes, and their end."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import ROOT, AgentError, AgentProcess
from support.editors import BARE, TOAD, VSCODE, ZED, Editor
from support.processes import outlive
from support.replies import Reply, ToolCall
from support.serving import never_answer
from support.stage import PATIENCE, results, stage

NO_TERMINAL = replace(ZED, terminal=False)
BOTH = "printf out; printf err >&2; exit 3"
# A child and a grandchild in the background, and one that ignores the polite signal.
FAMILY = "trap '' TERM; (sleep 600; :) & sh -c 'sleep 600; :' & echo begun; sleep 600; :"


def shell(command: str, **more: object) -> ToolCall:
    return ToolCall("shell", {"command": command, **more})


async def begun(agent: AgentProcess) -> None:
    """Wait until the local command has printed that it began."""
    await agent.wait_for(lambda line: "begun" in str(line.update.get("content")), PATIENCE)


@pytest.mark.parametrize("editor", [ZED, TOAD], ids=["zed", "toad"])
async def test_the_editor_s_terminal_is_used_shown_while_it_runs_and_released(tmp_path: Path, editor: Editor) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[shell(BOTH)]), Reply("Done."), mode="full-access", editor=editor
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
        assert call["rawOutput"] == {"output": "outerr", "exitCode": 3}
        [result] = results(it.server.calls[1].body)
        assert result.text == "exit status: 3\noutput (stdout and stderr together):\nouterr"
        # Other editors never see a terminal that is gone: not after a restart, and not in a replay.
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            [again] = later.calls()
            assert again["content"][0]["type"] == "content"
            assert "outerr" in again["content"][0]["content"]["text"]
            assert again["rawOutput"] == call["rawOutput"]


async def test_without_a_terminal_the_streams_and_the_exit_code_are_kept_apart(tmp_path: Path) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[shell(BOTH)]), Reply("Done."), mode="full-access", editor=NO_TERMINAL
    ) as it:
        await it.prompt()
        [call] = it.calls()
        assert call["rawOutput"] == {"stdout": "out", "stderr": "err", "exitCode": 3}
        assert (call["kind"], call["status"]) == ("execute", "failed")
        [result] = results(it.server.calls[1].body)
        for words in ("exit status: 3", "stdout:\nout", "stderr:\nerr"):
            assert words in result.text


async def test_a_terminal_that_splits_commands_anew_is_not_used_though_it_is_offered(tmp_path: Path) -> None:
    command = "printf '%s|' 'one  two' three"
    async with stage(
        tmp_path, Reply(tool_calls=[shell(command)]), Reply("Done."), mode="full-access", editor=VSCODE
    ) as it:
        await it.prompt()
        assert it.agent.desk.terminals == {}
        [call] = it.calls()
        assert call["rawOutput"] == {"stdout": "one  two|three|", "stderr": "", "exitCode": 0}


async def test_what_a_command_prints_never_reaches_our_own_stdout_or_stderr(tmp_path: Path) -> None:
    command = 'echo noise; echo more >&2; cat; exec 1>&2; echo late; echo \'{"jsonrpc": "2.0"}\' > /dev/stderr'
    async with stage(
        tmp_path, Reply(tool_calls=[shell(command)]), Reply("Done."), mode="full-access", editor=BARE
    ) as it:
        await it.prompt()
        [call] = it.calls()
        assert call["status"] == "completed"
        assert call["rawOutput"]["stdout"] == "noise\n"
        assert it.agent.stderr == ""
        # A line on stdout that is no message would be one of the client's problems.
        assert it.agent.problems == []


MALFORMED: list[tuple[str, Any, str]] = [
    ("terminal/create", {}, "terminalId is missing"),
    ("terminal/create", None, "terminalId is missing"),
    ("terminal/create", {"terminalId": 7}, "terminalId must be a string"),
    ("terminal/wait_for_exit", [], "the result must be an object"),
    ("terminal/output", {"truncated": False}, "output is missing"),
]


@pytest.mark.parametrize(("method", "answer", "wrong"), MALFORMED)
async def test_an_answer_about_a_terminal_that_cannot_be_used_is_told_to_the_model_as_the_editor_s(
    tmp_path: Path, method: str, answer: Any, wrong: str
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[shell("echo 1")]), Reply("Done."), mode="full-access", dialect="anthropic"
    ) as it:

        async def malformed(params: Mapping[str, Any]) -> Any:
            return answer

        it.agent.handlers[method] = malformed
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.is_error
        assert result.text.startswith(f"The editor's answer to {method} cannot be used: {wrong}.")
        [call] = it.calls()
        assert call["status"] == "failed"


async def test_an_end_of_which_the_editor_says_nothing_that_can_be_used_is_no_signal(tmp_path: Path) -> None:
    answers: list[Any] = [{}, None, {"exitCode": "3"}, {"signal": 9}, {"signal": "SIGKILL"}]
    replies = [*(Reply(tool_calls=[shell("echo 1")]) for _ in answers), Reply("Done.")]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        left = iter(answers)

        async def odd(params: Mapping[str, Any]) -> Any:
            return next(left)

        it.agent.handlers["terminal/wait_for_exit"] = odd
        assert await it.prompt() == {"stopReason": "end_turn"}
        first_lines = [results(call.body)[-1].text.splitlines()[0] for call in it.server.calls[1:]]
        assert first_lines == ["exit status: the editor did not say"] * 4 + ["exit status: none, ended by SIGKILL"]


@pytest.mark.parametrize("editor", [NO_TERMINAL, ZED], ids=["local", "terminal"])
@pytest.mark.parametrize(
    ("mode", "asked", "ran"),
    [("ask", 2, True), ("accept-edits", 2, True), ("plan", 0, False), ("full-access", 0, True)],
)
async def test_a_command_in_a_directory_outside_the_session_s_is_asked_for(
    tmp_path: Path, mode: str, asked: int, ran: bool, editor: Editor
) -> None:
    (tmp_path / "other").mkdir()
    calls = [shell("pwd -P >> made", cwd="../other"), shell("pwd -P >> made", cwd=str(tmp_path / "other"))]
    replies = [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]
    async with stage(tmp_path, *replies, mode=mode, editor=editor) as it:
        await it.prompt()
        questions = it.agent.desk.permissions
        assert len(questions) == asked
        for question in questions:
            assert str(tmp_path / "other") in question["toolCall"]["title"]
        made = tmp_path / "other" / "made"
        assert (made.read_text().split() if made.exists() else []) == [os.path.realpath(made.parent)] * (2 * ran)
        assert {call["status"] for call in it.calls()} == {"completed" if ran else "failed"}


async def test_always_outside_the_session_s_directories_covers_that_directory_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    places = ["../one", "../one", "../two", "."]
    replies = [*(Reply(tool_calls=[shell("ls", cwd=place)]) for place in places), Reply("Done.")]
    async with stage(tmp_path, *replies, editor=NO_TERMINAL) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        asked = {params["toolCall"]["toolCallId"] for params in it.agent.desk.permissions}
        assert [call["toolCallId"] in asked for call in it.calls()] == [True, False, True, True]


async def test_a_command_in_a_directory_outside_that_the_user_refuses_does_not_run(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(tool_calls=[shell("touch made", cwd="..")]), Reply("Done.")) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert [call["status"] for call in it.calls()] == ["failed"]
        assert not (tmp_path / "made").exists()


NOISY_IMPORT = """
import os, sys
def noise(event, args):
    if event == "import" and args[0] == "anthropic":
        print("noise of a library", flush=True)
        os.system("echo noise of a child")
sys.addaudithook(noise)
"""


async def test_what_a_library_or_its_child_prints_never_reaches_the_wire(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NOISY_IMPORT)
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    async with stage(tmp_path, Reply("Yes."), env=env, dialect="anthropic") as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert "noise of a library" in it.agent.stderr
        assert "noise of a child" in it.agent.stderr


async def test_output_streams_into_the_call_while_the_command_runs(tmp_path: Path) -> None:
    call = shell("echo begun; until [ -e go ]; do sleep 0.02; done; echo ended")
    async with stage(tmp_path, Reply(tool_calls=[call]), Reply("Done."), mode="full-access", editor=NO_TERMINAL) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await begun(it.agent)
        (it.folder / "go").touch()
        await handle.result()
        assert it.calls()[0]["rawOutput"]["stdout"] == "begun\nended\n"


@pytest.mark.parametrize("editor", [NO_TERMINAL, TOAD], ids=["local", "terminal that cannot be killed"])
async def test_a_command_that_takes_too_long_is_stopped_and_the_model_reads_what_it_printed(
    tmp_path: Path, editor: Editor
) -> None:
    call = shell("echo begun; sleep 600", timeout=0.7)
    replies = [Reply(tool_calls=[call]), Reply("Done.")]
    async with stage(tmp_path, *replies, mode="full-access", editor=editor, dialect="anthropic") as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.is_error
        assert "time limit" in result.text
        assert "begun" in result.text
        assert await outlive(it.agent.children(), seconds=2) == set()


async def test_a_terminal_that_the_editor_refuses_is_the_model_s_business(tmp_path: Path) -> None:
    async def refuse(params: Mapping[str, Any]) -> Any:
        raise AgentError(-32603, "Internal error", {"details": "no pty"})

    async def null(params: Mapping[str, Any]) -> Any:
        return None

    calls = [shell("echo 1"), shell("echo 2"), shell("echo 3")]
    replies = [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        handlers = iter([refuse, null])
        create = it.agent.handlers["terminal/create"]

        async def next_one(params: Mapping[str, Any]) -> Any:
            return await next(handlers, create)(params)

        it.agent.handlers["terminal/create"] = next_one
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [call["status"] for call in it.calls()] == ["failed", "failed", "completed"]


async def test_a_terminal_without_answers_holds_up_neither_the_cancel_nor_the_end(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(tool_calls=[shell("sleep 600")]), Reply("Done."), mode="full-access") as it:
        for method in ("terminal/wait_for_exit", "terminal/release"):
            it.agent.handlers[method] = never_answer
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.line("terminal/wait_for_exit")
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}


async def test_a_terminal_that_is_being_made_when_the_turn_is_cancelled_is_released(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(tool_calls=[shell("sleep 600")]), Reply("Later."), mode="full-access") as it:
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
        # What comes after the cancel has been taken in as well by the time that this is answered.
        await it.agent.request("session/list", {})
        answer.set()
        assert await handle.result() == {"stopReason": "cancelled"}
        [terminal] = it.agent.desk.terminals.values()
        assert terminal.released
        assert [call["status"] for call in it.calls()] == ["failed"]
        assert await it.prompt("Next") == {"stopReason": "end_turn"}


async def test_a_terminal_that_is_never_made_holds_up_neither_the_cancel_nor_the_end(tmp_path: Path) -> None:
    calls = [Reply(tool_calls=[shell("sleep 600")])] * 2
    async with stage(tmp_path, *calls, mode="full-access") as it:
        it.agent.handlers["terminal/create"] = never_answer
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.line("terminal/create")
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        seen = len(it.agent.lines)
        await it.agent.start_prompt(it.session, "Work")
        await it.agent.wait_for(lambda line: line.message.get("method") == "terminal/create", PATIENCE, since=seen)
        await it.agent.close_stdin()
        assert await it.agent.wait_exit() == 0


async def cancel(agent: AgentProcess, session: str) -> None:
    await agent.cancel(session)


async def close(agent: AgentProcess, session: str) -> None:
    await agent.request("session/close", {"sessionId": session})


async def eof(agent: AgentProcess, session: str) -> None:
    await agent.close_stdin()


async def terminate(agent: AgentProcess, session: str) -> None:
    agent.terminate()


@pytest.mark.parametrize("end", [cancel, close, eof, terminate])
async def test_the_whole_process_group_of_a_command_ends_with_the_turn(
    tmp_path: Path, end: Callable[[AgentProcess, str], Awaitable[None]]
) -> None:
    replies = [Reply(tool_calls=[shell(FAMILY)])]
    async with stage(tmp_path, *replies, mode="full-access", editor=NO_TERMINAL) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await begun(it.agent)
        family = it.agent.children()
        assert len(family) >= 3
        await end(it.agent, it.session)
        if end in (cancel, close):
            assert await handle.result() == {"stopReason": "cancelled"}
            assert it.agent.children() == set()
        else:
            assert await it.agent.wait_exit() == 0
        assert await outlive(family, seconds=2) == set()


async def test_what_waits_beside_a_command_is_gone_when_it_has_ended(tmp_path: Path) -> None:
    replies = [Reply(tool_calls=[shell("exit 0"), shell("exit 1")]), Reply("Done.")]
    async with stage(tmp_path, *replies, mode="full-access", editor=NO_TERMINAL) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert it.agent.children() == set()


@pytest.mark.parametrize("end", [eof, terminate])
async def test_an_end_in_mid_answer_exits_in_peace_and_keeps_what_was_said(
    tmp_path: Path, end: Callable[[AgentProcess, str], Awaitable[None]]
) -> None:
    async with stage(tmp_path, Reply(["Half ", "of it"], hold=anyio.Event(), hold_after=1)) as it:
        await it.agent.start_prompt(it.session, "Work")
        await it.update("agent_message_chunk")
        await end(it.agent, it.session)
        assert await it.agent.wait_exit() == 0
        assert it.agent.stderr == ""
        await it.server.wait_aborted()
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert (later.agent.text("user_message_chunk"), later.agent.text()) == ("Work", "Half ")


async def test_a_command_sees_no_input_and_runs_in_the_project(tmp_path: Path) -> None:
    call = shell("cat; pwd; test -t 0 || echo no terminal")
    async with stage(tmp_path, Reply(tool_calls=[call]), Reply("Done."), mode="full-access", editor=NO_TERMINAL) as it:
        await it.prompt()
        out = it.calls()[0]["rawOutput"]["stdout"].splitlines()
        assert [os.path.realpath(out[0]), out[1]] == [os.path.realpath(it.folder), "no terminal"]
