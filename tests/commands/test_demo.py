"""`acp-agent demo` as a person runs it: the process, what it prints, and what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.abc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.commands.demo.editor import Editor
from acp_agent.commands.demo.scratch import TestRun as Outcome  # pytest would take the name for a test's
from acp_agent.commands.demo.screen import Screen
from acp_agent.commands.demo.story import Facts
from acp_agent.commands.demo.verdict import checks, report
from acp_agent.commands.demo.view import View
from support.checkout import REPOSITORY
from support.models import model_server
from support.processes import marked
from support.replies import Reply, ToolCall

SECONDS = 50
READY = "No model is configured, so a script plays the model"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a demo runs.

    :ivar scratch: its folder for temporary files.
    :ivar mark: in the environment of each of its processes.
    """

    env: dict[str, str]
    home: Path
    scratch: Path
    mark: str

    def nothing_left(self) -> None:
        assert list(self.scratch.iterdir()) == []
        assert marked(self.mark) == set()


def place(tmp_path: Path, env: Mapping[str, str] | None = None) -> Place:
    """An environment without a model, which knows this checkout."""
    home, scratch, mark = tmp_path / "home", tmp_path / "scratch", uuid4().hex
    home.mkdir()
    scratch.mkdir()
    base = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TMPDIR": str(scratch),
        "PYTHONPATH": str(REPOSITORY),
        "DEMO_TEST_MARK": mark,
        # A server of the machine must not be found to be a model.
        "no_proxy": "*",
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
    }
    return Place({**base, **(env or {})}, home, scratch, mark)


def run_demo(where: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "acp_agent", "demo", *arguments],
        env=where.env,
        cwd=where.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


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


def in_order(text: str, *pieces: str) -> None:
    """Assert that a text holds these, each behind the one before."""
    position = 0
    for piece in pieces:
        found = text.find(piece, position)
        assert found >= 0, f"{piece!r} does not come after character {position} of:\n{text}"
        position = found + len(piece)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints where no model is configured."""
    where = place(tmp_path_factory.mktemp("demo"))
    done = run_demo(where)
    assert (done.returncode, done.stderr) == (0, "")
    where.nothing_left()
    assert list(where.home.iterdir()) == []
    return done.stdout


def test_without_a_model_the_demo_says_in_one_line_that_a_script_plays_it(shown: str) -> None:
    assert [line for line in shown.splitlines() if "script" in line] == [
        "No model is configured, so a script plays the model; files, tools, tests and token counts are real."
    ]


def test_the_tests_of_the_scratch_program_fail_are_mended_and_pass(shown: str) -> None:
    in_order(
        shown,
        "1 of 4 tests fails",
        "✗ python3 -m unittest",
        "exit 1 · failed",
        "AssertionError: -960 != 480",
        "FAILED (failures=1)",
        "✓ Edit timesheet.py",
        "✓ python3 -m unittest",
        "exit 0 · completed",
        "Ran 4 tests",
        "1 of 4 tests fails → all 4 tests pass",
    )


def test_a_change_is_shown_as_a_diff_with_the_question_whether_it_is_allowed_and_the_answer(shown: str) -> None:
    in_order(
        shown,
        "? Allow this? Edit timesheet.py",
        "edit · pending",
        "-        return self.end - self.start - self.pause\n",
        "+        return (self.end - self.start) % DAY - self.pause\n",
        "[Allow]  [Always allow edit]  [Reject]",
        "→ Allow\n",
        "✓ Edit timesheet.py",
        "timesheet.py:30 · edit · completed",
    )
    assert "Permission  3 asked for, 3 given" in shown


def test_a_program_that_was_allowed_for_good_is_asked_for_once_even_over_a_restart(shown: str) -> None:
    assert shown.count("? Allow this? python3 -m unittest") == 1
    assert len(re.findall(r"[✓✗] python3 -m unittest", shown)) == 3


def test_the_plan_moves_step_by_step(shown: str) -> None:
    steps = re.findall(r"^ {6}([○▸✓]) (?:Find out|Mend the|Run the)", shown, re.MULTILINE)

    assert [steps[at : at + 3] for at in range(0, len(steps), 3)] == [
        ["▸", "○", "○"],
        ["✓", "▸", "○"],
        ["✓", "✓", "▸"],
        ["✓", "✓", "✓"],
    ]


def test_the_summary_streams_and_the_meter_is_clearly_lower_after_it(shown: str) -> None:
    in_order(
        shown,
        "Before   [",
        "› /compact",
        "Compaction in progress",
        "│ ## Goal and requirements",
        "│ ## Open work",
        "✓ Compaction completed",
        "After    [",
    )
    before, after, resumed = (int(used.replace(",", "")) for used in re.findall(r"\] ([\d,]+) / 20,000 tokens", shown))
    assert after < 0.65 * before
    assert after < resumed < 0.8 * before
    pieces = re.search(r"the summary streamed in (\d+) pieces", shown)
    assert pieces is not None
    assert int(pieces[1]) > 10


def test_after_a_kill_another_process_lists_the_session_resumes_it_and_goes_on_from_the_summary(shown: str) -> None:
    agents = re.findall(r"process (\d+)", shown)
    assert len(set(agents)) == 2
    session = re.search(r"Session +(\S+)", shown)
    assert session is not None

    in_order(
        shown,
        f"Killed the agent, process {agents[0]}",
        f"Started another one, process {agents[-1]}",
        session[1],
        "Resumed it",
        "› Now the test that I asked for.",
        "+    def test_a_night_shift_may_have_a_break(self) -> None:",
        "Ran 5 tests",
        "it knew the test that was meant: all 5 tests pass",
    )


def test_output_that_is_not_a_terminal_has_no_colours(shown: str) -> None:
    assert "\x1b" not in shown


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
        "? Allow this? rm march.txt",
        "→ Reject",
        "✗ rm march.txt",
        "elsewhere.txt",
        "→ Reject",
        "Now I know what was meant.",
        "The model did not do all of it: Tests, Plan, Restart.",
    )
    assert READY not in done.stdout
    assert {call.body["model"] for call in server.calls} == {"claude-test"}
    # The second process sends the summary and the user's own words, and nothing of the steps that they stand for.
    last = json.dumps(server.calls[-1].body["messages"])
    assert "a test for a night shift with a break" in last
    assert "The tests of this project fail" in last
    assert '"tool_use"' not in last
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
    assert "The model did not do all of it: Tests, Permission, Plan" in done.stdout
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


def test_a_name_that_is_no_model_s_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    where = place(tmp_path)

    done = run_demo(where, "--model", "claude")

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("acp-agent: --model: should be provider/model")
    where.nothing_left()


def test_without_git_it_says_so(tmp_path: Path) -> None:
    where = place(tmp_path, {"PATH": str(tmp_path)})

    done = run_demo(where)

    assert done.returncode == 1
    assert done.stderr == "acp-agent: The demo makes a git repository, but there is no git on the PATH. Install it.\n"
    where.nothing_left()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "SIGTERM"])
async def test_an_interrupted_demo_ends_the_agent_and_removes_its_folder(tmp_path: Path, sent: signal.Signals) -> None:
    where = place(tmp_path)

    async with demo_process(where) as process:
        await read_until(process, "? Allow this?")
        assert len(marked(where.mark)) >= 2
        process.send_signal(sent)
        rest = await read_until(process, "Interrupted.")
        with anyio.fail_after(10):
            assert await process.wait() == 128 + sent

    assert "What happened" not in rest
    where.nothing_left()


def test_a_demo_whose_reader_goes_away_ends_quietly(tmp_path: Path) -> None:
    where = place(tmp_path)
    command = [sys.executable, "-m", "acp_agent", "demo"]

    with subprocess.Popen(
        command, env=where.env, cwd=where.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(SECONDS) == 1

    assert said == b""
    where.nothing_left()


async def test_an_agent_that_dies_is_named_in_a_sentence(tmp_path: Path) -> None:
    where = place(tmp_path)

    async with demo_process(where) as process:
        seen = await read_until(process, "? Allow this?")
        agent = re.search(r"process (\d+)", seen)
        assert agent is not None
        os.kill(int(agent[1]), signal.SIGKILL)
        with anyio.fail_after(SECONDS):
            assert await process.wait() == 1
        assert process.stderr is not None
        said = b"".join([piece async for piece in process.stderr]).decode()

    assert said == "acp-agent: The agent ended before it answered session/prompt.\n"
    where.nothing_left()


def all_kept() -> tuple[Facts, Editor]:
    """What a demo measures in which everything happened as promised."""
    facts = Facts(
        Outcome(4, 1),
        Outcome(4, 0),
        Outcome(5, 0),
        full=4000,
        short=2000,
        resumed=2500,
        stops=["end_turn"],
        listed=True,
    )
    editor = Editor(Path("/project"), View(Screen(io.StringIO()), Path("/project")))
    editor.allowed = 3
    editor.plans = [("in_progress", "pending"), ("completed", "completed")]
    editor.compactions = ["in_progress", "completed"]
    editor.summary_chunks = 9
    return facts, editor


def broken(facts: Facts, editor: Editor) -> list[str]:
    """The names of the promises that were not kept, after asserting that the exit status says so."""
    found = checks(facts, editor)
    names = [check.name for check in found if not check.kept]
    out = io.StringIO()
    assert report(Screen(out), found, strict=True) == bool(names)
    assert report(Screen(out), found, strict=False) == 0
    assert all(name in out.getvalue().splitlines()[-1] for name in names)
    return names


def test_a_demo_that_kept_its_promises_succeeds() -> None:
    assert broken(*all_kept()) == []


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ("before", Outcome(4, 0), ["Tests"]),
        ("mended", Outcome(4, 1), ["Tests"]),
        ("after", Outcome(4, 0), ["Restart"]),
        ("after", Outcome(5, 1), ["Restart"]),
        ("listed", False, ["Restart"]),
        ("resumed", 4000, ["Restart"]),
        ("short", 4000, ["Compaction"]),
        ("stops", ["end_turn", "max_tokens"], ["Prompts"]),
    ],
)
def test_a_demo_in_which_something_did_not_happen_fails_by_name(
    changed: str, value: object, expected: list[str]
) -> None:
    facts, editor = all_kept()
    setattr(facts, changed, value)

    assert broken(facts, editor) == expected


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ("allowed", 0, ["Permission"]),
        ("plans", [], ["Plan"]),
        ("plans", [("completed", "completed")], ["Plan"]),
        ("plans", [("pending", "pending"), ("completed", "pending")], ["Plan"]),
        ("compactions", ["in_progress", "failed"], ["Compaction"]),
        ("summary_chunks", 0, ["Compaction"]),
    ],
)
def test_a_demo_in_which_the_editor_was_not_shown_something_fails_by_name(
    changed: str, value: object, expected: list[str]
) -> None:
    facts, editor = all_kept()
    setattr(editor, changed, value)

    assert broken(facts, editor) == expected


@given(st.lists(st.text("ab -\n", max_size=40), max_size=12))
def test_streamed_text_is_wrapped_in_the_same_way_however_it_is_cut_into_pieces(pieces: list[str]) -> None:
    def written(parts: list[str]) -> str:
        out = io.StringIO()
        screen = Screen(out)
        for part in parts:
            screen.stream("message", part)
        screen.end()
        return out.getvalue()

    text = "".join(pieces)

    assert written(pieces or [""]) == written([text])
    assert written([text]).split() == text.split()


def test_streamed_text_keeps_within_the_width() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.stream("message", "- " + "word " * 60)
    screen.end()

    first, *others = out.getvalue().splitlines()
    assert all(len(line) <= screen.width for line in (first, *others))
    assert first.startswith("  - word")
    assert others
    assert all(line.startswith("    word") for line in others)
