"""`acp-agent wire`: what an editor and the agent said to each other, after it and while they do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from support.client import connected_agent, start_agent
from support.models import Reply, model_server
from support.terminal import at_a_terminal, run_command

SECRET = "very-secret-value"
ON = {"ACP_AGENT_WIRE": "1"}


async def test_a_conversation_that_was_recorded_can_be_read_without_its_secrets(tmp_path: Path) -> None:
    async with model_server([Reply("Fine."), Reply("Good.")], "openai") as server:
        env = {**server.env(), **ON, "SHOP_SECRET": SECRET}
        async with connected_agent(home=tmp_path, env=env) as agent:
            first = await agent.new_session(tmp_path)
            second = await agent.new_session(tmp_path)
            await agent.prompt(first, f"It is {SECRET}.")
            await agent.prompt(second, "Hello")

    ran = await run_command(tmp_path, "wire")
    assert (ran.code, ran.err) == (0, "")
    assert SECRET not in ran.out
    lines = [line.split(maxsplit=2)[1:] for line in ran.out.splitlines()]
    assert [line[0] for line in lines[:2]] == ["→", "←"]
    assert lines[0][1].startswith("initialize #")
    assert lines[1][1].startswith("initialize #")
    assert any("session/prompt #" in line and "It is ***." in line for _, line in lines)
    assert max(map(len, ran.out.splitlines())) <= 240

    prompts = await run_command(tmp_path, "wire", first, "--method", "session/prompt", "--json")
    request, response = map(json.loads, prompts.out.splitlines())
    assert (request["kind"], request["direction"], request["session"]) == ("request", "in", first)
    assert (response["kind"], response["direction"], response["session"]) == ("response", "out", first)
    assert response["message"]["result"] == {"stopReason": "end_turn"}
    assert response["id"] == request["id"]
    assert response["seconds"] > 0
    assert request["message"]["params"]["prompt"][0]["text"] == "It is ***."

    of_second = await run_command(tmp_path, "wire", second, "--json")
    assert {json.loads(line)["session"] for line in of_second.out.splitlines()} == {second, ""}
    assert "Nothing of the session" in (await run_command(tmp_path, "wire", "sess_no")).err
    kept = [path.read_bytes() for path in (tmp_path / "state" / "wire").iterdir()]
    assert not any(SECRET.encode() in data for data in kept)


async def test_no_secret_of_an_mcp_server_is_shown_wherever_it_stands(tmp_path: Path) -> None:
    def pair(name: str, value: str) -> dict[str, str]:
        return {"name": name, "value": value}

    servers = [
        {
            "name": "local",
            "command": "/bin/false",
            "args": [
                "remote",
                "--header",
                "Authorization: Basic S1-hunter",
                "--apiToken",
                "S2-hunter",
                "X-A-Key: S3-hunter",
            ],
            "env": [
                pair("DATABASE_URL", "postgres://me:S4-hunter@db/x"),
                pair("GITHUB_PAT", "S5-hunter"),
                pair("X", "S6-hunter"),
            ],
        },
        {
            "type": "http",
            "name": "far",
            "url": "http://me:S7-hunter@127.0.0.1:9/mcp?sig=S8-hunter",
            "headers": [pair("X-Session", "S9-hunter")],
        },
    ]
    meta = {
        "auth": "SA-hunter",
        "private_key": "SB-hunter",
        "accessKey": "SC-hunter",
        "pin": 4711,
        "terminal-auth": {"label": "Log in"},
    }
    async with connected_agent(home=tmp_path, env=ON) as agent:
        await agent.new_session(tmp_path, mcpServers=servers, _meta=meta)
        await agent.request("session/list", {})
    ran = await run_command(tmp_path, "wire", "--json")
    [sent] = [
        line["message"]["params"]
        for line in map(json.loads, ran.out.splitlines())
        if (line["kind"], line["method"]) == ("request", "session/new")
    ]
    assert sent["mcpServers"][0]["args"] == [
        "remote",
        "--header",
        "Authorization: ***",
        "--apiToken",
        "***",
        "X-A-Key: ***",
    ]
    assert sent["mcpServers"][0]["env"] == [pair("DATABASE_URL", "***"), pair("GITHUB_PAT", "***"), pair("X", "***")]
    assert sent["mcpServers"][1]["url"] == "http://***@127.0.0.1:9/mcp?sig=***"
    assert sent["mcpServers"][1]["headers"] == [pair("X-Session", "***")]
    assert sent["_meta"] == {
        "auth": "***",
        "private_key": "***",
        "accessKey": "***",
        "pin": "***",
        "terminal-auth": {"label": "Log in"},
    }
    assert sent["cwd"] == str(tmp_path)
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file() and path.parent.name in ("wire", "logs"):
            assert b"-hunter" not in path.read_bytes(), path


async def test_nothing_is_recorded_unless_the_user_wants_it_and_what_to_do_is_said(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path, env={}) as agent:
        await agent.initialize()
        await agent.new_session(tmp_path)
    assert not (tmp_path / "state" / "wire").exists()
    ran = await run_command(tmp_path, "wire")
    assert (ran.code, ran.out) == (1, "")
    assert "ACP_AGENT_WIRE=1" in ran.err
    (tmp_path / "state" / "config.yaml").write_text("wire_log: true\n")
    assert "start the agent again" in (await run_command(tmp_path, "wire")).err
    async with start_agent(home=tmp_path, env={"ACP_AGENT_WIRE": "off"}) as agent:
        await agent.initialize()
    assert not (tmp_path / "state" / "wire").exists()
    async with start_agent(home=tmp_path, env={}) as agent:
        await agent.initialize()
        await agent.new_session(tmp_path)
    assert "session/new #" in (await run_command(tmp_path, "wire", "--last")).out


async def test_what_is_said_is_shown_as_it_is_said(tmp_path: Path) -> None:
    async with (
        start_agent(home=tmp_path, env=ON) as agent,
        at_a_terminal(tmp_path, "wire", "--follow", "--method", "session/*", env=ON) as person,
    ):
        await agent.initialize()
        session = await agent.new_session(tmp_path)
        with anyio.fail_after(30):
            await person.until("session/new #", times=2)
            await person.until(session)
            await agent.set_mode(session, "plan")
            await person.until("session/set_mode #", times=2)
            assert "initialize" not in person.shown
            person.type("\x03")
            assert await person.ended() == 130


async def test_a_line_is_shown_when_it_is_whole_and_never_lost(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "wire"
    folder.mkdir(parents=True, mode=0o700)
    first, second = folder / "20260101T000000-1-0001.jsonl", folder / "20260101T000000-2-0001.jsonl"
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


def recording(folder: Path, name: str, *lines: object) -> Path:
    """A file as the agent records one."""
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def said(method: str, at: float = 1, session: str = "") -> dict[str, object]:
    """A notification of the editor."""
    params = {"params": {"sessionId": session}} if session else {}
    return {"at": at, "dir": "in", "message": {"method": method, **params}}


async def test_what_is_no_recording_and_no_line_of_one_costs_nothing_but_itself(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "wire"
    times = ("1e999", "NaN", "1e18", "-1e18")
    odd = [json.dumps(said("odd")).replace('"at": 1', f'"at": {at}') + "\n" for at in times]
    recording(folder, "20260102T000000-1-1-0001", said("before"), *odd, said("\x1b[31mred\u202e"), said("behind"))
    os.mkfifo(folder / "20260102T000000-1-1-0002.jsonl")
    (folder / "20260102T000000-1-1-0003.jsonl").mkdir()
    (folder / "20260102T000000-1-1-0004.jsonl").symlink_to("gone")
    recording(folder, "20260102T000000-1-1-0005", said("last"))
    with anyio.fail_after(30):
        ran = await run_command(tmp_path, "wire")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[2] for line in ran.out.splitlines()] == ["before", "red[U+202E]", "behind", "last"]


async def test_without_a_session_the_newest_process_is_shown_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "wire"
    recording(folder, "20260101T000000-1-1-0001", said("old", session="sess_old"))
    recording(folder, "20260102T000000-2-1-0001", said("new"))
    recording(folder, "20260102T000000-2-1-0002", said("newer"))
    ran = await run_command(tmp_path, "wire")
    assert [line.split()[2] for line in ran.out.splitlines()] == ["new", "newer"]
    older = await run_command(tmp_path, "wire", "sess_old")
    assert [line.split()[2] for line in older.out.splitlines()] == ["old"]


async def test_a_session_that_is_followed_has_the_lines_that_name_none_and_not_those_of_others(tmp_path: Path) -> None:
    path = recording(tmp_path / "state" / "wire", "20260101T000000-1-1-0001", said("begin", session="sess_1"))
    async with at_a_terminal(tmp_path, "wire", "sess_1", "--follow", env=ON) as person:
        with anyio.fail_after(30):
            await person.until("→ begin")
            with path.open("a") as file:
                for line in (said("theirs", session="sess_2"), said("nobodys"), said("end", session="sess_1")):
                    file.write(json.dumps(line) + "\n")
            await person.until("→ end")
            assert "→ nobodys" in person.shown
            assert "theirs" not in person.shown


async def test_what_other_processes_said_of_no_session_is_shown_once_they_have_it_open(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "wire"
    recording(folder, "20260101T000000-1-1-0001", said("begin", session="sess_1"))
    async with at_a_terminal(tmp_path, "wire", "sess_1", "--follow", env=ON) as person:
        with anyio.fail_after(30):
            await person.until("→ begin")
            recording(folder, "20260102T000000-2-1-0001", said("theirs"), said("open", session="sess_2"))
            recording(folder, "20260103T000000-3-1-0001", said("first"), said("second", session="sess_1"))
            await person.until("→ second")
            assert person.shown.index("→ first") < person.shown.index("→ second")
            assert "theirs" not in person.shown


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
async def test_a_terminal_that_lacks_a_character_gets_another_one(tmp_path: Path, encoding: str) -> None:
    recording(tmp_path / "state" / "wire", "20260101T000000-1-1-0001", said("begin"))
    ran = await run_command(tmp_path, "wire", env={"PYTHONIOENCODING": encoding})
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("? begin  null\n")
