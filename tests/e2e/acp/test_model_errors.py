"""A model that fails: what is kept, what the next request says, and what stands in the
log.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.lines import AgentError
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import conversation, results


async def test_a_refusal_leaves_the_context_with_its_prompt_but_not_the_log(
    tmp_path: Path,
) -> None:
    refused = Reply("I will not.", stop="refusal")
    async with stage(
        tmp_path, Reply("Hello."), refused, Reply("Gladly."), dialect="anthropic"
    ) as it:
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
            shown = [
                update["content"]["text"]
                for update in later.agent.updates()
                if "messageId" in update
            ]
            assert shown == [
                "First",
                "Hello.",
                "Something bad",
                "I will not.",
                "Something good",
                "Gladly.",
            ]


async def test_an_answer_that_is_cut_off_by_its_limit_says_so_and_its_calls_do_not_run(
    tmp_path: Path,
) -> None:
    call = ToolCall("write", {"path": "b.txt", "content": "b"})
    cut = Reply("As I was", tool_calls=[call], stop="max_tokens")
    async with stage(
        tmp_path, cut, Reply("saying."), mode="full-access", dialect="anthropic"
    ) as it:
        assert await it.prompt("Talk") == {"stopReason": "max_tokens"}
        assert it.calls() == []
        assert not (it.folder / "b.txt").exists()
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        said = conversation(it.server.calls[1].body)
        assert [role for role, _ in said] == ["user", "assistant", "user"]
        assert "As I was" in said[1][1]
        assert results(it.server.calls[1].body) == []


async def test_a_cancel_while_it_waits_to_try_again_ends_the_turn(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply(http_status=429, headers={"retry-after": "60"}), Reply("Yes.")
    ) as it:
        handle = await it.agent.start_prompt(it.session, "Work")
        await it.server.wait_finished(timeout=30)
        await it.agent.cancel(it.session)
        assert await handle.result() == {"stopReason": "cancelled"}
        assert await it.prompt("Again") == {"stopReason": "end_turn"}


async def test_failures_and_tries_leave_a_line_each_in_the_log_without_secrets_or_prompts(
    tmp_path: Path,
) -> None:
    key = "a-key-that-is-a-secret"
    prompt = "Speak of marmalade"
    said = {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": f"{key}: slowly with\n{prompt}",
        },
    }
    limited = Reply(
        http_status=429,
        headers={"retry-after": "0", "request-id": "req_first"},
        body=said,
    )
    async with stage(
        tmp_path,
        limited,
        Reply("Yes."),
        env={"ANTHROPIC_API_KEY": key},
        dialect="anthropic",
    ) as it:
        it.server.key = key
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        it.server.key = "another-key"
        with pytest.raises(AgentError) as error:
            await it.prompt(prompt)
        assert error.value.code == -32000
        lines = (it.home / "state" / "logs" / "acp-agent.log").read_text().splitlines()
        host = it.server.base_url.removeprefix("http://")
    [again] = [line for line in lines if "trying again" in line]
    assert " INFO acp_agent.llm.tries: " in again
    assert f"anthropic ({host}): attempt 1 failed after " in again
    assert (
        "status 429, code rate_limit_error, request req_first; trying again in "
        in again
    )
    [refused] = [line for line in lines if "given up" in line]
    assert " WARNING acp_agent.llm.tries: " in refused
    assert "status 401, code authentication_error; given up: ModelAuthError" in refused
    assert [
        line
        for line in lines
        if "the provider anthropic speaks anthropic; key: ANTHROPIC_API_KEY" in line
    ]
    assert not [line for line in lines if key in line or "marmalade" in line]


DETAILS = {
    "type": "refusal",
    "category": "cyber",
    "explanation": "It asks for malware.",
}


async def test_a_refusal_is_explained_and_a_second_one_names_ways_out(
    tmp_path: Path,
) -> None:
    refused = Reply("", stop="refusal", stop_details=DETAILS)
    async with stage(
        tmp_path,
        Reply("Hello."),
        refused,
        refused,
        Reply("Yes."),
        refused,
        dialect="anthropic",
    ) as it:
        await it.prompt("First")
        assert await it.prompt("Second") == {"stopReason": "refusal"}
        assert (
            "anthropic/claude-test refused to answer: cyber: It asks for malware."
            in it.agent.text()
        )
        assert "AGENTS.md" not in it.agent.text()
        assert await it.prompt("Third") == {"stopReason": "refusal"}
        said = it.agent.text()
        assert (
            "the cause is something earlier in the conversation, or in an instruction file such as AGENTS.md"
            in said
        )
        assert f"acp-agent sessions fork {it.session} --at" in said
        assert "start a new session" in said
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert "It asks for malware." in later.agent.text()
            assert await later.prompt("Fourth") == {"stopReason": "end_turn"}
            heard = len(later.agent.lines)
            assert await later.prompt("Fifth") == {"stopReason": "refusal"}
            assert "AGENTS.md" not in later.agent.text(since=heard)


async def test_the_fork_that_is_offered_leaves_out_the_newest_prompt_that_was_answered(
    tmp_path: Path,
) -> None:
    refused = Reply("", stop="refusal")
    async with stage(
        tmp_path,
        Reply("One."),
        Reply("Two."),
        refused,
        refused,
        Reply("Yes."),
        dialect="anthropic",
    ) as it:
        for prompt in ("First", "Second", "Third", "Fourth"):
            await it.prompt(prompt)
        [at] = re.findall(r"--at (\d+)", it.agent.text())
        opened = {"sessionId": it.session, "cwd": str(it.folder), "mcpServers": []}
        made = await it.agent.request(
            "session/fork", {**opened, "_meta": {"acp-agent": {"at": int(at)}}}
        )
        assert await it.agent.prompt(made["sessionId"], "Instead") == {
            "stopReason": "end_turn"
        }
        sent = str(conversation(it.server.calls[-1].body))
        assert [word in sent for word in ("First", "Second", "Instead")] == [
            True,
            False,
            True,
        ]
