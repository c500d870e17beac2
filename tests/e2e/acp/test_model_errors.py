"""A model that fails: what is kept, what the next request says, and what stands in the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lines import AgentError
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import conversation, results


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
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            shown = [update["content"]["text"] for update in later.agent.updates() if "messageId" in update]
            assert shown == ["First", "Hello.", "Something bad", "I will not.", "Something good", "Gladly."]


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


async def test_a_cancel_while_it_waits_to_try_again_ends_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(http_status=429, headers={"retry-after": "60"}), Reply("Yes.")) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.server.wait_finished(timeout=30)
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        assert await it.prompt("Again") == {"stopReason": "end_turn"}


async def test_failures_and_tries_leave_a_line_each_in_the_log_without_secrets_or_prompts(tmp_path: Path) -> None:
    key, prompt = "a-key-that-is-a-secret", "Speak of marmalade"
    said = {"type": "error", "error": {"type": "rate_limit_error", "message": f"{key}: slowly with\n{prompt}"}}
    limited = Reply(http_status=429, headers={"retry-after": "0", "request-id": "req_first"}, body=said)
    async with stage(tmp_path, limited, Reply("Yes."), env={"ANTHROPIC_API_KEY": key}, dialect="anthropic") as it:
        it.server.key = key
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        it.server.key = "another-key"
        with pytest.raises(AgentError) as error:
            await it.prompt(prompt)
        assert error.value.code == -32000
        lines = (it.home / "state" / "logs" / "acp-agent.log").read_text().splitlines()
        host = it.server.base_url.removeprefix("http://")
    [again] = [line for line in lines if "trying again" in line]
    assert " INFO acp_agent.llm.client: " in again
    assert f"anthropic ({host}): attempt 1 failed after " in again
    assert "status 429, code rate_limit_error, request req_first; trying again in " in again
    [refused] = [line for line in lines if "given up" in line]
    assert " WARNING acp_agent.llm.client: " in refused
    assert "status 401, code authentication_error; given up: ModelAuthError" in refused
    assert [line for line in lines if "the provider anthropic speaks anthropic; key: ANTHROPIC_API_KEY" in line]
    assert not [line for line in lines if key in line or "marmalade" in line]
