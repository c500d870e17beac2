"""`acp-agent demo` as a person sees it: with the script, with a model, with something broken, and interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from support.checkout import REPOSITORY
from support.demo import SECONDS, Place, in_order, place, run_demo
from support.models import model_server
from support.processes import marked, outlive
from support.replies import Reply, ToolCall

READY = "No model is configured, so a script plays the model"


def test_without_a_model_a_script_plays_all_of_it_and_nothing_is_left(tmp_path: Path) -> None:
    where = place(tmp_path)
    done = run_demo(where)
    assert (done.returncode, done.stderr) == (0, "")
    where.nothing_left()
    assert list(where.home.iterdir()) == []
    shown = done.stdout
    assert "\x1b" not in shown  # this is no terminal

    session = re.search(r"Session +(\S+)", shown)
    agents = re.findall(r"process (\d+)", shown)
    assert session is not None
    assert len(set(agents)) == 2
    in_order(
        shown,
        READY,
        "1 of 4 tests fails",
        "✗ python3 -m unittest",
        "AssertionError: -960 != 480",
        "FAILED (failures=1)",
        "? Edit timesheet.py",
        "@@ -2",
        "-        return self.end - self.start - self.pause\n",
        "+        return (self.end - self.start) % DAY - self.pause\n",
        "[Allow]  [Always allow edit]  [Reject]",
        "→ Allow\n",
        "✓ Edit timesheet.py",
        "✓ python3 -m unittest",
        "Ran 4 tests",
        "Before   [",
        "> /compact",
        "Compaction in progress",
        "## Goal and requirements",
        "## Open work",
        "Compaction completed",
        "After    [",
        f"Killed the agent, process {agents[0]}",
        f"Started another one, process {agents[-1]}",
        session[1],
        "Resumed it",
        "> Now the test that I asked for.",
        "+    def test_a_night_shift_may_have_a_break(self) -> None:",
        "Ran 5 tests",
        "1 of 4 tests fails → all 4 tests pass",
        "it knew the test that was meant: all 5 tests pass",
    )
    # What was allowed for good is asked for once, even over a restart.
    assert shown.count("? python3 -m unittest") == 1
    assert len(re.findall(r"[✓✗] python3 -m unittest", shown)) == 3
    steps = re.findall(r"^([·▸✓]) (?:Find out|Mend the|Run the)", shown, re.MULTILINE)
    assert "".join(steps) == "▸··" + "✓▸·" + "✓✓▸" + "✓✓✓"
    before, after, resumed = (int(used.replace(",", "")) for used in re.findall(r"\] ([\d,]+) / 20,000 tokens", shown))
    assert after < 0.65 * before
    assert after < resumed < 0.8 * before


@asynccontextmanager
async def demo_process(where: Place) -> AsyncGenerator[anyio.abc.Process]:
    command = [sys.executable, "-m", "acp_agent", "demo"]
    process = await anyio.open_process(command, env=where.env, cwd=where.home, start_new_session=True)
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def read_until(process: anyio.abc.Process, text: str) -> str:
    assert process.stdout is not None
    seen = ""
    with anyio.fail_after(SECONDS):
        while text not in seen:
            seen += (await process.stdout.receive()).decode("utf-8", "replace")
    return seen


async def test_with_a_model_the_demo_plays_with_it_over_its_real_provider(tmp_path: Path) -> None:
    fix = {"old_text": "return self.end - self.start - self.pause", "new_text": "return 480"}
    replies = (
        Reply(tool_calls=[ToolCall("read", {"path": "timesheet.py"})]),
        Reply(tool_calls=[ToolCall("edit", {"path": "timesheet.py", "edits": [fix]})]),
        Reply(tool_calls=[ToolCall("shell", {"command": "rm march.txt"})]),
        Reply(tool_calls=[ToolCall("write", {"path": "../elsewhere.txt", "content": "x"})]),
        Reply("That is all I will do."),
        Reply("Noted."),
        Reply(["The user wants ", "a test for a night shift with a break."]),
        Reply("Now I know what was meant."),
    )
    async with model_server(replies) as server:
        env = {name: value for name, value in server.env().items() if name != "ACP_AGENT_MODEL"}
        where = place(tmp_path, env)
        done = await anyio.to_thread.run_sync(run_demo, where, "--model", "anthropic/claude-test")

    assert (done.returncode, done.stderr) == (0, "")
    in_order(
        done.stdout,
        "The model is anthropic/claude-test.",
        "+        return 480",
        "? rm march.txt",
        "→ Reject",
        "✗ rm march.txt",
        "elsewhere.txt",
        "→ Reject",
        "Now I know what was meant.",
        "The model did not do all of it: Tests, Restart.",
    )
    assert READY not in done.stdout
    assert {call.body["model"] for call in server.calls} == {"claude-test"}
    # The second process sends the summary and the user's own words, and none of the steps that they stand for.
    last = json.dumps(server.calls[-1].body["messages"])
    assert "a test for a night shift with a break" in last
    assert "The tests of this project fail" in last
    assert '"name": "read"' not in last
    where.nothing_left()


async def test_a_provider_s_key_in_the_environment_is_enough_to_play_with_its_model(tmp_path: Path) -> None:
    async with model_server([Reply(http_status=401)] * 9) as server:
        env = {name: value for name, value in server.env().items() if name != "ACP_AGENT_MODEL"}
        where = place(tmp_path, env)
        done = await anyio.to_thread.run_sync(run_demo, where)

    assert "The model is anthropic/" in done.stdout
    assert done.returncode == 1
    assert done.stderr.startswith("acp-agent: The agent answered session/prompt with an error (-32000): ")
    assert len(server.calls) == 1
    where.nothing_left()


def test_a_model_of_the_user_s_own_configuration_is_played_with(tmp_path: Path) -> None:
    where = place(tmp_path)
    script = tmp_path / "own.yaml"
    script.write_text("scenes: [{when: '*', answers: [{text: I do nothing.}]}]")
    config = {"model": "mine/own", "providers": {"mine": {"kind": "scripted", "script": str(script)}}}
    state = tmp_path / "state"
    state.mkdir()
    (state / "config.yaml").write_text(json.dumps(config))
    where.env["ACP_AGENT_HOME"] = str(state)

    done = run_demo(where)

    assert "The model is mine/own." in done.stdout
    assert "I do nothing." in done.stdout
    assert "The model did not do all of it: Tests" in done.stdout
    assert done.returncode == 0
    assert [file.name for file in state.iterdir()] == ["config.yaml"]  # the sessions of the demo are not the user's
    where.nothing_left()


def test_a_scripted_demo_in_which_something_does_not_happen_fails(tmp_path: Path) -> None:
    # Tests that fail whatever is done about them: something here is broken, and no model can be to blame.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[-1] == 'unittest':\n"
        "    print('Ran 4 tests in 0.001s\\n\\nFAILED (failures=1)', file=sys.stderr, flush=True)\n"
        "    os._exit(1)\n"
    )
    where = place(tmp_path, {"PYTHONPATH": os.pathsep.join([str(tmp_path / "broken"), str(REPOSITORY)])})

    done = run_demo(where)

    assert READY in done.stdout
    assert "This is not as it should be: Tests, Restart." in done.stdout
    assert done.returncode == 1
    where.nothing_left()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "SIGTERM"])
async def test_an_interrupted_demo_ends_the_agent_and_removes_its_folder(tmp_path: Path, sent: signal.Signals) -> None:
    where = place(tmp_path)

    async with demo_process(where) as process:
        await read_until(process, "? python3 -m unittest")
        assert len(marked(where.mark)) >= 2
        process.send_signal(sent)
        rest = await read_until(process, "Interrupted.")
        with anyio.fail_after(10):
            assert await process.wait() == 128 + sent

    assert "What happened" not in rest
    where.nothing_left()


async def test_an_agent_that_dies_is_named_in_a_sentence(tmp_path: Path) -> None:
    where = place(tmp_path)

    async with demo_process(where) as process:
        seen = await read_until(process, "? python3 -m unittest")
        agent = re.search(r"process (\d+)", seen)
        assert agent is not None
        os.kill(int(agent[1]), signal.SIGKILL)
        with anyio.fail_after(SECONDS):
            assert await process.wait() == 1
        assert process.stderr is not None
        said = b"".join([piece async for piece in process.stderr]).decode()

    assert said == "acp-agent: The agent ended before it answered session/prompt.\n"
    # What a killed agent leaves is ended by a process that notices its end.
    assert not await outlive(marked(where.mark), 10)
    where.nothing_left()
