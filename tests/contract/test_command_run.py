"""`acp-agent run` and `acp-agent compact`, as a person types them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from support.checkout import REPOSITORY
from support.client import connected_agent
from support.compactions import asked_last, is_summary_request, messages, said, shown_compactions
from support.editors import ZED_BETA
from support.models import ModelServer, Reply, ToolCall, Usage, model_server
from support.processes import marked, outlive
from support.terminal import Ran, run_command
from support.waiting import read_pipe

pytestmark = pytest.mark.process

LONG = "The cart adds prices. " * 60
SIZES = re.compile(r"^(sess_\w+): (\d+) → (\d+) messages, ([\d,]+) → ([\d,]+) tokens \(\w+\)$", re.MULTILINE)


def session_of(ran: Ran) -> str:
    """The session that the command's last line names."""
    return _last_line(ran)[1]


def sizes(ran: Ran) -> list[int]:
    """From that line: messages before and after, tokens before and after."""
    return [int(number.replace(",", "")) for number in _last_line(ran).groups()[1:]]


def _last_line(ran: Ran) -> re.Match[str]:
    found = SIZES.search(ran.err)
    assert found is not None, ran
    return found


def one_sentence(ran: Ran) -> str:
    """What a command that could not begin says: nothing on stdout, one line on stderr, exit status 1."""
    assert (ran.code, ran.out) == (1, "")
    [line] = ran.err.splitlines()
    assert line.startswith("acp-agent: ")
    return line


async def asked(server: ModelServer, home: Path, *words: str, stdin: str = "") -> Ran:
    return await run_command(home, *words, env=server.env(), stdin=stdin)


async def test_run_prints_the_answer_and_what_became_of_the_context(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cart.\n")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    script = [Reply("Looking. ", tool_calls=[read], usage=Usage(1_000, 5)), Reply("A cart.", usage=Usage(1_200, 7))]
    async with model_server([*script, Reply("Two.", usage=Usage(1_300, 5)), Reply("Three.")], "openai") as server:
        one = await asked(server, tmp_path, "run", "What", "is here?")
        assert (one.code, one.out) == (0, "A cart.\n")
        assert "Looking." in one.err
        assert "→ Read a.txt" in one.err
        assert sizes(one) == [0, 4, 0, 1_207]
        assert asked_last(server.calls[0].body) == "What is here?"

        two = await asked(server, tmp_path, "run", "--follow", "-", stdin="And\nnow?\n")
        assert (two.code, two.out, session_of(two)) == (0, "Two.\n", session_of(one))
        assert sizes(two) == [4, 6, 1_207, 1_305]
        assert asked_last(server.calls[2].body) == "And\nnow?\n"

        for_that = ("--conversation-id", session_of(one))
        three = await asked(server, tmp_path, "run", *for_that, "Third?")
        assert (three.code, session_of(three)) == (0, session_of(one))
        assert [said(message) for message in messages(server.calls[3].body)][-3:] == ["And\nnow?\n", "Two.", "Third?"]


async def test_a_conversation_is_compacted_from_the_terminal_by_both_commands(tmp_path: Path) -> None:
    script = [
        Reply(LONG, usage=Usage(9_000, 400)),
        Reply(["# Goal\n", "Count."], usage=Usage(9_500, 40)),
        Reply(LONG, usage=Usage(9_000, 400)),
        Reply("# Goal\nCount on.", usage=Usage(9_500, 40)),
    ]
    async with model_server(script, "openai") as server:
        session = session_of(await asked(server, tmp_path, "run", "One?"))
        first = await asked(server, tmp_path, "compact", "--follow", "keep", "the files")
        assert (first.code, first.out, session_of(first)) == (0, "# Goal\nCount.\n", session)
        before, _, tokens_before, tokens_after = sizes(first)
        assert (before, tokens_before) == (2, 9_400)
        assert 0 < tokens_after < tokens_before
        assert is_summary_request(server.calls[1].body)
        assert "keep the files" in asked_last(server.calls[1].body)

        await asked(server, tmp_path, "run", "-c", session, "Two?")
        second = await asked(server, tmp_path, "run", "-r", "compact", "--follow")
        assert (second.code, second.out, session_of(second)) == (0, "# Goal\nCount on.\n", session)
        assert "# Goal\nCount." in said(messages(server.calls[3].body)[0])


async def test_a_compaction_that_fails_says_why_and_is_no_success(tmp_path: Path) -> None:
    async with model_server([Reply(LONG), Reply(""), Reply(http_status=400)], "openai") as server:
        session = session_of(await asked(server, tmp_path, "run", "One?"))
        empty = await asked(server, tmp_path, "compact", "-c", session)
        assert empty.code == 1
        assert "unchanged" in empty.out
        refused = await asked(server, tmp_path, "compact", "-c", session)
        assert refused.code == 1
        assert "unchanged" in refused.err


async def test_an_editor_that_has_the_session_open_goes_on_from_a_compaction_in_the_terminal(tmp_path: Path) -> None:
    script = [Reply(LONG), Reply("# Goal\nCount."), Reply("Two.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        assert session_of(await asked(server, tmp_path, "compact", "--follow")) == session
        assert await agent.prompt(session, "Two?") == {"stopReason": "end_turn"}
        assert "# Goal\nCount." in said(messages(server.calls[2].body)[0])
        assert asked_last(server.calls[2].body) == "Two?"
        begun = len(agent.lines)
        await agent.load(session, tmp_path)
        [compaction] = shown_compactions(agent, since=begun)
        assert (compaction.statuses, compaction.text) == (["completed"], "# Goal\nCount.")


async def test_what_cannot_begin_is_said_in_one_sentence(tmp_path: Path) -> None:
    assert "no session of" in one_sentence(await run_command(tmp_path, "compact", "--follow"))
    assert "'sess_unknown'" in one_sentence(await run_command(tmp_path, "compact", "-c", "sess_unknown"))
    assert "Nothing to do" in one_sentence(await run_command(tmp_path, "run"))
    assert "recipe 'nope'" in one_sentence(await run_command(tmp_path, "run", "-r", "nope", "Hi."))
    no_key = await run_command(tmp_path, "run", "Hi.", env={"OLLAMA_HOST": "http://127.0.0.1:9"})
    assert "ANTHROPIC_API_KEY" in one_sentence(no_key)
    # Nothing of all that has left a session behind.
    assert (await run_command(tmp_path, "sessions")).out == ""


NOTE = "---\narguments:\n  depth: {required: true}\n---\nExplain, {{ depth }} deep: {{ instructions }}\n"


async def test_a_recipe_s_arguments_are_given_with_arg(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "recipes"
    folder.mkdir(parents=True)
    (folder / "note.md").write_text(NOTE)
    async with model_server([Reply("So."), Reply("So.")], "openai") as server:
        note = ("run", "-r", "note")
        assert (await asked(server, tmp_path, *note, "--arg", 'depth=two "big" levels', "the log")).code == 0
        assert asked_last(server.calls[0].body) == 'Explain, two "big" levels deep: the log'
        assert (await asked(server, tmp_path, *note, "depth=3 the log")).code == 0
        assert asked_last(server.calls[1].body) == "Explain, 3 deep: the log"
        assert "needs the argument `depth`" in one_sentence(await asked(server, tmp_path, *note, "the log"))
        assert "no argument `dept`" in one_sentence(await asked(server, tmp_path, *note, "--arg", "dept=3"))
        assert "NAME=VALUE" in one_sentence(await asked(server, tmp_path, *note, "--arg", "depth"))
        twice = await asked(server, tmp_path, *note, "--arg", "depth=3", "--arg", "depth=4")
        assert "is given twice" in one_sentence(twice)
        assert "-r" in one_sentence(await asked(server, tmp_path, "run", "--arg", "depth=3", "the log"))
        assert len(server.calls) == 2


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda sent: sent.name)
async def test_a_signal_ends_the_commands_that_a_turn_runs(tmp_path: Path, sent: signal.Signals) -> None:
    call = ToolCall("shell", {"command": "sleep 1000 & echo > began; sleep 1000"})
    line = [sys.executable, "-m", "acp_agent", "run", "--mode", "full-access", "Go"]
    os.mkfifo(tmp_path / "began")
    mark = f"RUN_{tmp_path.name}_{sent.name}=1"
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    async with model_server([Reply("I run.", tool_calls=[call])], "openai") as server:
        env = {**base, **server.env(), "ACP_AGENT_HOME": str(tmp_path / "state"), mark[:-2]: "1"}
        async with await anyio.open_process(line, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL) as process:
            with anyio.fail_after(40):
                await read_pipe(tmp_path / "began", 40)
                running = marked(mark)
                process.send_signal(sent)
                code = await process.wait()
        assert len(running) >= 3
        left = await outlive(running, 5)
        for one in left:
            os.kill(one.pid, signal.SIGKILL)
        assert (code, left) == (128 + sent, set())
