"""A model that fails: what the editor is answered, what is kept, and what the next request says."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from support.client import AgentError, connected_agent
from support.http_server import Exchange, http_server
from support.models import DialectName, model_server
from support.replies import Reply, ToolCall
from support.stage import Stage, conversation, results, stage

NOW = {"retry-after": "0"}


async def failure(it: Stage, prompt: str = "Go on") -> AgentError:
    """The error of a prompt, whose sentence stands in both places that editors look at."""
    with pytest.raises(AgentError) as error:
        await it.prompt(prompt)
    assert error.value.message
    assert error.value.data["details"] == error.value.message
    assert "Traceback" not in error.value.message
    assert it.agent.stderr == ""
    return error.value


async def replayed(it: Stage) -> list[tuple[str, str]]:
    """Kind and text of each message that another process replays."""
    async with it.restarted() as later:
        await later.agent.load(it.session, it.folder)
        return [
            (update["sessionUpdate"].removesuffix("_message_chunk"), update["content"]["text"])
            for update in later.agent.updates()
            if update["sessionUpdate"].endswith("_message_chunk")
        ]


async def test_a_key_that_gemini_refuses_as_a_wrong_request_is_auth_required_and_the_prompt_stays(
    tmp_path: Path,
) -> None:
    said = {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }
    replies = [Reply(http_status=400, body=[{"error": said}]), Reply("Hello.")]
    async with model_server(replies, "google") as server:
        server.write_config(tmp_path)
        async with connected_agent(home=tmp_path, env=server.env()) as agent:
            session = await agent.new_session(tmp_path)
            with pytest.raises(AgentError, match="check GEMINI_API_KEY") as error:
                await agent.prompt(session, "First", timeout=30)
            assert error.value.code == -32000
            assert len(server.calls) == 1
            assert await agent.prompt(session, "Second") == {"stopReason": "end_turn"}
            assert server.calls[1].mentions("First")


BROKEN = Reply(["Half ", "of ", "it"], drop_after=2)


async def test_a_stream_that_is_damaged_breaks_off_and_what_was_shown_is_kept(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half of "}},
    ]
    shown = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)

    async def app(exchange: Exchange) -> None:
        if exchange.request.path != "/v1/messages":
            await exchange.respond(404, {})
            return
        await exchange.start(headers={"content-encoding": "gzip"})
        await exchange.send(packer.compress(shown) + packer.flush(zlib.Z_SYNC_FLUSH))
        await exchange.send(b"\xff" * 50)
        await exchange.end()

    async with http_server(app) as url, stage(tmp_path, env={"ANTHROPIC_BASE_URL": url}, dialect="anthropic") as it:
        error = await failure(it, "Tell me")
        assert error.code == -32603
        assert "broke off" in error.message
        assert await replayed(it) == [("user", "Tell me"), ("agent", "Half of ")]


async def test_an_answer_that_stops_without_a_reason_is_an_error_and_what_was_shown_is_kept(tmp_path: Path) -> None:
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half of "}},
        {"type": "message_stop"},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    stream = Reply(body=body, headers={"content-type": "text/event-stream"})
    async with stage(tmp_path, stream, Reply("Whole."), dialect="anthropic") as it:
        assert "broke off" in (await failure(it, "Tell me")).message
        assert await it.prompt("Again") == {"stopReason": "end_turn"}
        assert await replayed(it) == [
            ("user", "Tell me"),
            ("agent", "Half of "),
            ("user", "Again"),
            ("agent", "Whole."),
        ]


async def test_a_response_that_failed_for_its_prompt_is_not_asked_for_again(tmp_path: Path) -> None:
    failed = {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "too odd"}}}
    stream = Reply(body=f"data: {json.dumps(failed)}\n\n", headers={"content-type": "text/event-stream"})
    async with model_server([stream], "openai") as server, connected_agent(home=tmp_path, env=server.env()) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentError, match="too odd"):
            await agent.prompt(session, "Hi", timeout=30)
        assert len(server.calls) == 1


async def test_an_error_after_a_tool_ran_keeps_the_tool_s_result(tmp_path: Path) -> None:
    replies = [Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]), Reply(http_status=400), Reply("Yes.")]
    async with stage(tmp_path, *replies, dialect="anthropic") as it:
        assert (await failure(it)).code == -32603
        assert await it.prompt("Again") == {"stopReason": "end_turn"}
        request = it.server.calls[2].body
        blocks = [block for message in request["messages"] for block in message["content"] if isinstance(block, dict)]
        assert [block["type"] for block in blocks if block["type"].startswith("tool")] == ["tool_use", "tool_result"]
        assert [call["status"] for call in it.calls()] == ["completed"]


async def test_a_refused_request_is_not_sent_again_and_says_what_the_provider_said(tmp_path: Path) -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "messages.0: too odd"}}
    async with stage(tmp_path, Reply(http_status=400, body=body)) as it:
        error = await failure(it)
        assert error.code == -32603
        assert "messages.0: too odd" in error.message
        assert len(it.server.calls) == 1


async def test_a_refusal_leaves_the_context_with_its_prompt_but_not_the_log(tmp_path: Path) -> None:
    refused = Reply("I will not.", stop="refusal")
    async with stage(tmp_path, Reply("Hello."), refused, Reply("Gladly."), dialect="anthropic") as it:
        await it.prompt("First")
        assert await it.prompt("Something bad") == {"stopReason": "refusal"}
        assert await it.prompt("Something good") == {"stopReason": "end_turn"}
        sent = str(conversation(it.server.calls[2].body))
        assert "First" in sent
        assert "Something good" in sent
        assert "Something bad" not in sent
        assert "I will not" not in sent
        assert await replayed(it) == [
            ("user", "First"),
            ("agent", "Hello."),
            ("user", "Something bad"),
            ("agent", "I will not."),
            ("user", "Something good"),
            ("agent", "Gladly."),
        ]


async def test_an_answer_that_is_cut_off_by_its_limit_says_so_and_its_calls_do_not_run(tmp_path: Path) -> None:
    call = ToolCall("write", {"path": "b.txt", "content": "b"})
    cut = Reply("As I was", tool_calls=[call], stop="max_tokens")
    async with stage(tmp_path, cut, Reply("saying."), mode="full-access", dialect="anthropic") as it:
        assert await it.prompt("Talk") == {"stopReason": "max_tokens"}
        assert it.calls() == []
        assert not (it.folder / "b.txt").exists()
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        said = conversation(it.server.calls[1].body)
        assert [role for role, _ in said] == ["user", "assistant", "user"]
        assert "As I was" in said[1][1]
        assert results(it.server.calls[1].body) == []


async def test_a_provider_that_cannot_be_reached_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with stage(tmp_path, env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, dialect="anthropic") as it:
        with anyio.fail_after(15):
            error = await failure(it)
        assert error.code == -32603
        assert "127.0.0.1:9" in error.message
        assert "cannot be reached" in error.message
        # Cancelling works while it is tried again.
        handle = await it.agent.start_prompt(it.session, "Again")
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}


async def test_a_cancel_while_it_waits_to_try_again_ends_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(http_status=429, headers={"retry-after": "60"}), Reply("Yes.")) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.server.wait_finished(timeout=30)
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        assert await it.prompt("Again") == {"stopReason": "end_turn"}


@pytest.mark.parametrize("dialect", ["openai", "chat"])
async def test_the_other_kinds_of_provider_fail_in_the_same_words(tmp_path: Path, dialect: DialectName) -> None:
    replies = [Reply(http_status=429, headers=NOW), Reply("Hello."), Reply(["a", "b"], drop_after=1)]
    async with model_server(replies, dialect) as server:
        server.write_config(tmp_path)
        async with connected_agent(home=tmp_path, env=server.env()) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hi", timeout=30) == {"stopReason": "end_turn"}
            with pytest.raises(AgentError, match="broke off"):
                await agent.prompt(session, "Hi")
            assert list(agent.texts().values()) == ["Hello.", "a"]


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("ANTHROPIC_API_KEY", "secretpart1\nsecretpart2", -32000),
        ("ALL_PROXY", "socks5://me:secretpart1@127.0.0.1:9", -32603),
        ("SSL_CERT_FILE", "/nosuch-secretpart1.pem", -32603),
    ],
)
async def test_a_variable_that_no_connection_can_be_made_with_is_an_error_that_names_it(
    tmp_path: Path, variable: str, value: str, code: int
) -> None:
    async with stage(tmp_path, env={variable: value, "NO_PROXY": ""}, dialect="anthropic") as it:
        error = await failure(it)
        assert error.code == code
        assert variable in error.message
        assert "secretpart" not in error.message
        assert it.server.calls == []


def logged(it: Stage) -> list[str]:
    """The lines of the log file."""
    return (it.home / "state" / "logs" / "acp-agent.log").read_text().splitlines()


async def test_failures_and_tries_leave_a_line_each_in_the_log_without_secrets_or_prompts(tmp_path: Path) -> None:
    key, prompt = "a-key-that-is-a-secret", "Speak of marmalade"
    said = {"type": "error", "error": {"type": "rate_limit_error", "message": f"{key}: slowly with\n{prompt}"}}
    limited = Reply(http_status=429, headers={**NOW, "request-id": "req_first"}, body=said)
    async with stage(tmp_path, limited, Reply("Yes."), env={"ANTHROPIC_API_KEY": key}, dialect="anthropic") as it:
        it.server.key = key
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        it.server.key = "another-key"
        assert (await failure(it, prompt)).code == -32000
        lines = logged(it)
        host = it.server.base_url.removeprefix("http://")
    [again] = [line for line in lines if "trying again" in line]
    assert " INFO acp_agent.llm.retry: " in again
    assert f"anthropic ({host}): attempt 1 failed after " in again
    assert "status 429, code rate_limit_error, request req_first; trying again in " in again
    assert [line for line in lines if f"anthropic ({host}) answered attempt 2" in line]
    [refused] = [line for line in lines if "given up" in line]
    assert " WARNING acp_agent.llm.retry: " in refused
    assert "status 401, code authentication_error; given up: ModelAuthError" in refused
    assert [line for line in lines if "the provider anthropic speaks anthropic; key: ANTHROPIC_API_KEY" in line]
    assert not [line for line in lines if key in line or "marmalade" in line]


async def test_an_answer_that_breaks_off_and_a_provider_that_is_not_there_leave_their_lines_in_the_log(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, replace(BROKEN, headers={"request-id": "req_cut"}), dialect="anthropic") as it:
        await failure(it)
        assert [line for line in logged(it) if "request req_cut" in line and "in mid-answer: ModelStreamError" in line]
    async with stage(tmp_path, env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, dialect="anthropic") as it:
        await failure(it)
        assert [line for line in logged(it) if "a question to 127.0.0.1:9 was not answered: connect, " in line]
        lines = [line for line in logged(it) if "127.0.0.1:9): " in line and ": connect, " in line]
        assert [line.rpartition("; ")[2].split(" in ")[0] for line in lines] == [
            "trying again",
            "trying again",
            "given up: ModelUnavailableError",
        ]


async def test_what_a_provider_calls_its_error_is_logged_as_a_word_only(tmp_path: Path) -> None:
    said = {"error": {"type": "marmalade is\nmy secret", "message": "marmalade"}}
    async with stage(
        tmp_path, Reply(http_status=400, body=said, headers={"request-id": "my marmalade"}), dialect="anthropic"
    ) as it:
        await failure(it, "Speak of marmalade")
        assert [line for line in logged(it) if "status 400; given up: ModelRequestError" in line]
        assert "marmalade" not in "".join(logged(it))
