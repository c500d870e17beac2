"""`acp-agent wire`: what an editor and the agent said to each other, after it and while
they do.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest

from support.called import call_command
from support.memory import agent_in_memory
from support.models import Reply, model_server
from support.terminal import at_a_terminal

SECRET = "very-secret-value"
ON = {"ACP_AGENT_WIRE": "1"}


async def test_a_conversation_that_was_recorded_can_be_read_without_its_secrets(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Fine."), Reply("Good.")], "openai") as server:
        env = {**server.env(), **ON, "SHOP_SECRET": SECRET}
        async with agent_in_memory(home=tmp_path, env=env) as agent:
            first = await agent.new_session(tmp_path)
            second = await agent.new_session(tmp_path)
            await agent.prompt(first, f"It is {SECRET}.")
            await agent.prompt(second, "Hello")

    ran = await call_command(tmp_path, "wire")
    assert (ran.code, ran.err) == (0, "")
    assert SECRET not in ran.out
    lines = [line.split(maxsplit=2)[1:] for line in ran.out.splitlines()]
    assert [line[0] for line in lines[:2]] == ["→", "←"]
    assert lines[0][1].startswith("initialize #")
    assert lines[1][1].startswith("initialize #")
    assert any("session/prompt #" in line and "It is ***." in line for _, line in lines)
    assert max(map(len, ran.out.splitlines())) <= 240

    prompts = await call_command(tmp_path, "wire", first, "--method", "session/prompt")
    request, response = prompts.out.splitlines()
    assert "→ session/prompt #" in request
    assert re.search(
        r"← session/prompt #\S+ = [\d.]+ s  \{\"stopReason\": \"end_turn\"\}$", response
    )
    of_second = await call_command(tmp_path, "wire", second)
    assert "Good." in of_second.out
    assert "Fine." not in of_second.out
    assert (
        "No messages of session"
        in (await call_command(tmp_path, "wire", "sess_no")).err
    )
    kept = [path.read_bytes() for path in (tmp_path / "state" / "wire").iterdir()]
    assert not any(SECRET.encode() in data for data in kept)


async def test_nothing_is_recorded_unless_the_user_wants_it_and_what_to_do_is_said(
    tmp_path: Path,
) -> None:
    async with agent_in_memory(home=tmp_path) as agent:
        await agent.new_session(tmp_path)
    assert not (tmp_path / "state" / "wire").exists()
    ran = await call_command(tmp_path, "wire")
    assert (ran.code, ran.out) == (1, "")
    assert "ACP_AGENT_WIRE=1" in ran.err
    (tmp_path / "state" / "config.yaml").write_text("wire_log: true\n")
    assert "start the agent again" in (await call_command(tmp_path, "wire")).err
    async with agent_in_memory(home=tmp_path, env={"ACP_AGENT_WIRE": "off"}):
        pass
    assert not (tmp_path / "state" / "wire").exists()
    async with agent_in_memory(home=tmp_path) as agent:
        await agent.new_session(tmp_path)
    assert "session/new #" in (await call_command(tmp_path, "wire")).out


@pytest.mark.process
async def test_a_line_is_shown_when_it_is_whole_and_never_lost(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "wire"
    folder.mkdir(parents=True, mode=0o700)
    first = folder / "20260101T000000-1-0001.jsonl"
    second = folder / "20260101T000000-2-0001.jsonl"
    line = json.dumps({"at": 1, "dir": "in", "message": {"method": "whole"}}) + "\n"
    other = json.dumps({"at": 2, "dir": "in", "message": {"method": "other"}}) + "\n"
    first.write_text(line.replace("whole", "begin") + line[:20])
    async with at_a_terminal(tmp_path, "wire", "--follow", env=ON) as person:
        with anyio.fail_after(30):
            await person.until("→ begin")
            second.write_text(other)
            await person.until("→ other")
            with second.open("a") as file:
                file.write(other)
            await person.until("→ other", times=2)
            assert "whole" not in person.shown
            with first.open("a") as file:
                file.write(line[20:])
            await person.until("→ whole")
            person.type("\x03")
            await person.ended()
