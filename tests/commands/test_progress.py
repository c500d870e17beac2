"""Long work in the terminal shows that it goes on: on stderr alone, and moving only where somebody watches."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from support.checkout import REPOSITORY
from support.compactions import is_summary_request
from support.models import Reply, ToolCall, Usage, model_server
from support.terminal import at_a_terminal, run_command

LONG = "The cart adds prices. " * 200
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
TERM = {"TERM": "xterm", "COLUMNS": "100"}


async def watched(home: Path, *words: str, env: dict[str, str]) -> tuple[bytes, str]:
    """What a command prints into a pipe on stdout, and shows on the terminal that is its stderr."""
    terminal, inside = pty.openpty()
    base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}

    def run() -> tuple[bytes, str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "acp_agent", *words],
            cwd=home,
            env={**base, "ACP_AGENT_HOME": str(home / "state"), **TERM, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=inside,
        )
        os.close(inside)
        shown = b""
        try:
            while read := os.read(terminal, 65_536):
                shown += read
        except OSError:  # Linux, at the end
            pass
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0, shown
        return out, shown.decode()

    try:
        return await anyio.to_thread.run_sync(run)
    finally:
        os.close(terminal)


async def test_a_person_sees_what_is_waited_for_and_the_answer_alone_is_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cart.\n")
    read = ToolCall("read", {"path": "a.txt"})
    script = [Reply(tool_calls=[read]), Reply(LONG, usage=Usage(9_000, 400)), Reply("# Goal\nCount.")]
    async with model_server(script, "openai") as server:
        out, shown = await watched(tmp_path, "run", "What is here?", env=server.env())
        assert out.decode() == f"{LONG}\n"
        assert "Waiting for the model" in shown
        before, named, _ = shown.partition("→ Read a.txt")
        assert named
        # What moves is gone before anything else is printed.
        assert before.count(HIDE) == before.count(SHOW) > 0
        assert shown.count(HIDE) == shown.count(SHOW)

        out, shown = await watched(tmp_path, "compact", "--follow", env=server.env())
        assert out.decode() == "# Goal\nCount.\n"
        assert "Compacting" in shown
        assert "0:00:0" in shown


async def test_after_an_interrupt_the_terminal_is_as_it_was(tmp_path: Path) -> None:
    script = [Reply(tool_calls=[ToolCall("shell", {"command": "sleep 60"})])]
    async with (
        model_server(script, "openai") as server,
        at_a_terminal(tmp_path, "run", "--mode", "full-access", "Wait", env={**server.env(), **TERM}) as person,
    ):
        with anyio.fail_after(30):
            await person.until("→ ")
            await person.until(HIDE, times=2)
            person.type("\x03")
            assert await person.ended() == 130
        assert person.shown.count(HIDE) == person.shown.count(SHOW)
        assert person.shown.endswith("interrupted.\r\n")


async def test_where_nobody_watches_the_lines_are_plain(tmp_path: Path) -> None:
    def answer(body: dict[str, object]) -> Reply:
        return Reply("# Goal\nCount." if is_summary_request(body) else LONG)

    async with model_server(answer, "openai") as server:
        asked = await run_command(tmp_path, "run", "What?", env={**server.env(), **TERM})
        compacted = await run_command(tmp_path, "compact", "--follow", env={**server.env(), **TERM})
        _, dumb = await watched(tmp_path, "run", "What?", env={**server.env(), "TERM": "dumb"})
    assert "\x1b" not in asked.err + asked.out + compacted.err + compacted.out + dumb
    assert compacted.err.startswith("Compacting …\n")


async def test_measuring_shows_how_much_is_done(tmp_path: Path) -> None:
    async with model_server(lambda _: Reply(LONG), "openai") as server:
        for _ in range(4):
            ran = await run_command(tmp_path, "run", *(["--follow"] if _ else []), "What?", env=server.env())
            assert ran.code == 0
    plain = await run_command(tmp_path, "compact-eval", "sess_")
    assert plain.code == 0, plain.err
    out, shown = await watched(tmp_path, "compact-eval", "sess_", env={})
    assert out.decode() == plain.out
    assert "compactions" in shown
    assert "\x1b" not in plain.err


def test_nothing_of_it_is_loaded_before_it_is_needed() -> None:
    names = "acp_agent.app, acp_agent.commands.run, acp_agent.commands.compact_eval"
    code = f"import sys, {names}; print('rich' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert ran.stdout == "False\n"


async def test_a_person_sees_that_the_checks_wait_for_the_model(tmp_path: Path) -> None:
    async with model_server([Reply("OK")], "openai") as server:
        out, shown = await watched(tmp_path, "doctor", "--json", env=server.env())
    assert "asking the model" in shown
    assert (shown.count(HIDE), shown.count(SHOW)) == (1, 1)
    assert json.loads(out)
