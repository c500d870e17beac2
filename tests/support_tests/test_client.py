"""The test client itself, tried on a tiny agent that does what the prompt says."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from support.client import AgentError, AgentGoneError, start_agent
from support.editors import ACPX, AVANTE, BARE, CODECOMPANION, TOAD, ZED, ZED_BETA, Editor
from support.fake import ASK, CALL, FAKE, chunk, do, fake, problems_of
from support.processes import processes
from support.schema import validate_params, validate_result
from support.serving import never_answer


async def test_an_agent_inherits_no_keys_and_no_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    async with fake(tmp_path, validate=False, env={"LANG": None, "MORE": "1"}) as agent:
        env = await agent.request("env")
    names = {name for name in env if not name.startswith("COVERAGE_")}
    assert names - {"LC_CTYPE"} == {"PATH", "HOME", "ACP_AGENT_HOME", "ACP_AGENT_TEST_MARK", "MORE"}
    assert env["HOME"] == str(tmp_path)


async def test_messages_are_told_apart_by_their_ids_and_merged_by_them(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        assert await do(agent, chunk("a"), chunk("b"), chunk("c", messageId="m9")) == {"stopReason": "end_turn"}
        assert agent.texts() == {"m0": "ab", "m9": "c"}
        assert agent.text() == "ab\nc"
        assert agent.methods_between()[-3:] == ["agent_message_chunk", "agent_message_chunk", "response session/prompt"]


async def test_an_error_is_raised_with_code_message_and_data(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        with pytest.raises(AgentError) as caught:
            await agent.request("nonsense", {})
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32601, "Method not found", "nonsense")


async def test_errors_with_a_null_id_are_read_one_by_one(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        await agent.send_line(b"{")
        await agent.send_line(b"[")
        assert (await agent.read_error_with_null_id()).code == -32700
        assert (await agent.read_error_with_null_id()).code == -32700
        with pytest.raises(TimeoutError):
            await agent.read_error_with_null_id(timeout=0.01)


async def test_a_batch_is_answered_message_by_message(tmp_path: Path) -> None:
    async with fake(tmp_path, validate=False) as agent:
        await agent.send_line(b'[{"jsonrpc":"2.0","id":"a","method":"x"},{"jsonrpc":"2.0","id":"b","method":"y"}]')
        assert await agent.pending("a").result() == {}
        assert await agent.pending("b").result() == {}


@pytest.mark.parametrize(("answer", "outcome"), [("allow_once", "yes"), ("reject_once", "no"), ("no", "no")])
async def test_a_permission_is_answered_with_the_option_that_the_test_names(
    tmp_path: Path, answer: str, outcome: str
) -> None:
    async with fake(tmp_path) as agent:
        agent.permission_answer = answer
        await do(agent, {"update": CALL}, ASK)
        assert json.loads(agent.text()) == {"outcome": {"outcome": "selected", "optionId": outcome}}
        assert len(agent.desk.permissions) == 1


async def test_a_held_permission_waits_and_a_cancel_answers_it(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        agent.permission_hold = anyio.Event()
        session = await agent.new_session("/")
        turn = await agent.start_prompt(session, json.dumps([{"update": CALL}, ASK]))
        await agent.until(lambda: agent.desk.permissions)
        assert not turn.done
        await agent.cancel(session)
        assert await turn.result() == {"stopReason": "cancelled"}
        assert json.loads(agent.text()) == {"outcome": {"outcome": "cancelled"}}


async def test_a_request_that_the_agent_takes_back_is_answered_with_32800(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        agent.handlers["session/request_permission"] = never_answer
        await do(agent, {"update": CALL}, ASK | {"take_back": True})
        assert json.loads(agent.text())["code"] == -32800


async def test_an_unsaved_buffer_is_read_before_the_disk_and_a_write_reaches_both(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("disk")
    read = {"ask": "fs/read_text_file", "params": {"path": str(file)}}
    write = {"ask": "fs/write_text_file", "params": {"path": str(file), "content": "one\ntwo\nthree\n"}}
    some = {"ask": "fs/read_text_file", "params": {"path": str(file), "line": 2, "limit": 1}}
    async with fake(tmp_path) as agent:
        agent.desk.unsaved[str(file)] = "buffer"
        await do(agent, read, write, some)
        assert agent.text() == '{"content": "buffer"}{}{"content": "two\\n"}'
    assert file.read_text() == "one\ntwo\nthree\n"


async def test_editors_differ_in_missing_files_and_in_what_a_write_returns(tmp_path: Path) -> None:
    read = {"ask": "fs/read_text_file", "params": {"path": str(tmp_path / "no")}}
    write = {"ask": "fs/write_text_file", "params": {"path": str(tmp_path / "yes"), "content": ""}}
    async with fake(tmp_path) as agent:
        await do(agent, read, write)
        assert agent.text().startswith('{"code": -32002')
    async with fake(tmp_path, capabilities=TOAD) as agent:
        await do(agent, read, write)
        assert agent.text() == '{"content": ""}null'


async def test_a_terminal_runs_a_real_command_and_cuts_its_output_from_the_front(tmp_path: Path) -> None:
    create = {
        "ask": "terminal/create",
        "params": {
            "command": "sh",
            "args": ["-c", "printf '%s' \"ä$WORD\"; pwd >&2; exit 3"],
            "env": [{"name": "WORD", "value": "x"}],
            "cwd": str(tmp_path),
            "outputByteLimit": len(f"\xa4x{tmp_path}\n"),
        },
    }
    terminal = {"terminalId": "term-1"}
    async with fake(tmp_path) as agent:
        session = await agent.new_session("/")
        actions = [create, {"ask": "terminal/wait_for_exit", "params": terminal}]
        await agent.prompt(session, json.dumps([*actions, {"ask": "terminal/output", "params": terminal}]))
        status = {"exitCode": 3, "signal": None}
        output = {"output": f"x{tmp_path}\n", "truncated": True, "exitStatus": status}
        assert agent.text() == json.dumps({"terminalId": "term-1"}) + json.dumps(status) + json.dumps(output)


async def test_a_killed_terminal_keeps_its_output_until_it_is_released(tmp_path: Path) -> None:
    create = {"ask": "terminal/create", "params": {"command": "sh", "args": ["-c", "echo up; sleep 60"]}}
    wait, kill, output, release = (
        {"ask": f"terminal/{name}", "params": {"terminalId": "term-1"}}
        for name in ("wait_for_exit", "kill", "output", "release")
    )
    async with fake(tmp_path) as agent:
        session = await agent.new_session("/")
        await agent.prompt(session, json.dumps([create]))
        await agent.until(lambda: agent.desk.terminals["term-1"].output == "up\n")
        since = len(agent.lines)
        await agent.prompt(session, json.dumps([kill, wait, output, release, output]))
        status = '{"exitCode": null, "signal": "SIGKILL"}'
        said = agent.text(since=since)
        expected = f'{{}}{status}{{"output": "up\\n", "truncated": false, "exitStatus": {status}}}{{}}'
        assert said.startswith(expected + '{"code": -32002')


async def test_what_an_editor_does_not_advertise_it_does_not_answer(tmp_path: Path) -> None:
    ask = {"ask": "terminal/create", "params": {"command": "true"}}
    problems = await problems_of(tmp_path, ask, editor=AVANTE)
    assert len(problems) == 1
    assert "did not advertise" in problems[0]


async def test_toad_answers_an_update_that_it_does_not_know_with_an_error_whose_id_is_null(tmp_path: Path) -> None:
    info = {"update": {"sessionUpdate": "session_info_update", "title": "T"}}
    async with fake(tmp_path, capabilities=TOAD) as agent:
        await do(agent, info)
        await agent.until(lambda: agent.sent[-1].message.get("id", 0) is None)


async def test_an_agent_that_dies_fails_the_request_at_once(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        with pytest.raises(AgentGoneError, match="no answer to session/prompt"):
            await do(agent, {"stderr": "ouch"}, {"exit": 5})
        assert await agent.wait_exit() == 5
        assert agent.stderr == "ouch"


async def test_a_killed_agent_can_be_started_again_in_the_same_home(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        agent.kill()
        assert await agent.wait_exit() == -9
    async with fake(tmp_path) as agent:
        agent.terminate()
        assert await agent.wait_exit() == -15


async def test_output_stays_in_the_pipe_while_nobody_reads(tmp_path: Path) -> None:
    async with fake(tmp_path, validate=False) as agent:
        session = await agent.new_session("/")
        agent.stop_reading()
        turn = await agent.start_prompt(session, json.dumps([{"bytes": 3 << 20}]))
        with pytest.raises(TimeoutError):
            await turn.result(timeout=0.2)
        agent.go_on_reading()
        await turn.result()
        assert len(agent.text()) == 3 << 20


async def test_a_large_line_is_written_while_the_agent_reads(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        session = await agent.new_session("/")
        blocks = [{"type": "text", "text": "[]"}, {"type": "text", "text": "y" * (4 << 20)}]
        assert await agent.prompt(session, blocks) == {"stopReason": "end_turn"}


async def test_a_wait_that_fails_shows_the_last_lines(tmp_path: Path) -> None:
    async with fake(tmp_path) as agent:
        with pytest.raises(TimeoutError, match="protocolVersion"):
            await agent.wait_update("plan", timeout=0.01)


@pytest.mark.parametrize("editor", [ZED, ZED_BETA, ACPX, CODECOMPANION, TOAD, AVANTE, BARE])
async def test_every_editor_sends_a_legal_initialize(tmp_path: Path, editor: Editor) -> None:
    async with start_agent(home=tmp_path, argv=FAKE, capabilities=editor) as agent:
        await agent.initialize()
        params = agent.sent[0].params
    validate_params("initialize", dict(params))
    compaction = ((params.get("clientCapabilities") or {}).get("session") or {}).get("compaction")
    assert (compaction == {}) is (editor is ZED_BETA)


async def test_the_default_answers_are_what_the_schema_says(tmp_path: Path) -> None:
    create = {"ask": "terminal/create", "params": {"command": "true"}}
    rest = [
        {"ask": f"terminal/{name}", "params": {"terminalId": "term-1"}}
        for name in ("wait_for_exit", "output", "kill", "release")
    ]
    file = str(tmp_path / "f")
    files = [
        {"ask": "fs/write_text_file", "params": {"path": file, "content": ""}},
        {"ask": "fs/read_text_file", "params": {"path": file}},
    ]
    async with fake(tmp_path) as agent:
        await do(agent, {"update": CALL}, ASK, create, *rest, *files)
        asked = {line.message["id"]: line.method for line in agent.lines if line.kind == "request"}
        answers = [line.message for line in agent.sent if line.kind == "response"]
    assert len(answers) == len(asked) == 8
    for answer in answers:
        validate_result(asked[answer["id"]], answer["result"])


async def test_a_test_that_runs_out_of_time_leaves_no_agent(tmp_path: Path) -> None:
    pids: list[int] = []

    async def hang() -> None:
        with anyio.fail_after(30) as limit:
            async with fake(tmp_path) as agent:
                pids.append(agent.pid)
                limit.deadline = anyio.current_time()
                await anyio.sleep_forever()

    with pytest.raises(TimeoutError):
        await hang()
    assert pids[0] not in {process.pid for process in processes()}
