"""Servers that implement only part of an API: what the agent learns from a refusal, and
remembers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.lines import AgentError
from support.memory import stage
from support.pictures import png
from support.replies import Reply, ToolCall

READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])


def refusal(said: str, status: int = 400, **fields: Any) -> Reply:
    error = {"message": said, "type": "invalid_request_error", **fields}
    return Reply(http_status=status, body={"error": error})


def notices(it: Any) -> str:
    return str(it.agent.updates())


UNSUPPORTED = "Unsupported parameter: '{0}' is not supported with this model."


@pytest.mark.parametrize("member", ["max_tokens", "stream_options"])
async def test_a_member_that_a_server_refuses_is_left_out_once_and_then_for_good_also_after_a_restart(
    tmp_path: Path, member: str
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if member in body:
            return refusal(
                UNSUPPORTED.format(member), param=member, code="unsupported_parameter"
            )
        return Reply("Yes.")

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("Three") == {"stopReason": "end_turn"}
    sent = [member in call.body for call in it.server.calls if call.body.get("tools")]
    assert sent == [True, False, False, False]
    if member == "max_tokens":
        assert it.server.calls[-1].body["max_completion_tokens"] > 0


async def test_a_limit_that_is_too_large_is_sent_as_the_server_takes_it(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if body["max_tokens"] > 1_024:
            return refusal(
                "max_tokens is too large: 8192. This model supports at most 1024 completion tokens."
            )
        return Reply("Yes.")

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        sent = [
            call.body["max_tokens"]
            for call in it.server.calls
            if call.body.get("tools")
        ]
        assert sent == [8_192, 1_024, 1_024]


async def test_a_prompt_cache_key_that_a_gateway_refuses_is_not_sent_again(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "prompt_cache_key" in body:
            detail = [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "prompt_cache_key"],
                    "msg": "Extra inputs",
                }
            ]
            return Reply(http_status=422, body={"detail": detail})
        return Reply("Yes.")

    async with stage(tmp_path, script=answer, dialect="openai") as it:
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        keyed = [
            "prompt_cache_key" in call.body
            for call in it.server.calls
            if call.body.get("tools")
        ]
        assert keyed == [True, False, False]


async def test_a_model_without_tools_answers_and_the_user_is_told_in_plain_words(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if body.get("tools"):
            return Reply(
                http_status=400,
                body={
                    "error": "registry.ollama.ai/library/gemma3:4b does not support tools"
                },
            )
        return Reply("I can only talk.")

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert "local/chat-test does not support tools" in notices(it)
        assert "Choose another model" in notices(it)
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        assert sum("tools" in call.body for call in it.server.calls) == 1


async def test_a_refusal_without_end_is_an_error_after_a_few_requests(
    tmp_path: Path,
) -> None:
    said = "Unsupported parameter: 'max_tokens', 'max_completion_tokens', 'stream_options', 'stream'."
    async with stage(
        tmp_path, script=lambda _: refusal(said), dialect="chat", config={}
    ) as it:
        with pytest.raises(AgentError, match="refused the request"):
            await it.prompt("One")
        assert len(it.server.calls) < 9


def ordered(body: dict[str, Any]) -> Reply | None:
    """Refuse what Mistral's API refuses: malformed tool call IDs, and a user message
    right after a tool result.
    """
    before = ""
    for message in body["messages"]:
        role = message["role"]
        if role == "user" and before == "tool":
            return Reply(
                http_status=400,
                body={
                    "message": "Unexpected role 'user' after role 'tool'",
                    "code": "3230",
                },
            )
        before = role
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            if len(call["id"]) != 9 or not call["id"].isalnum():
                said = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
                return Reply(http_status=400, body={"message": said, "code": "3280"})
    return None


async def test_a_server_that_wants_an_answer_between_a_result_and_the_user_gets_one_after_each(
    tmp_path: Path,
) -> None:
    replies = [
        READ,
        Reply(http_status=402, body={"error": {"message": "Pay."}}),
        READ,
        Reply("Done."),
        Reply("And done."),
    ]

    def answer(body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            return Reply("A title")
        return ordered(body) or replies.pop(0)

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        with pytest.raises(AgentError, match="Pay"):
            await it.prompt("One")
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        count = len(it.server.calls)
        assert await it.prompt("Three") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == count + 1
        last = it.server.calls[-1].body["messages"]
        assert [
            each["content"]
            for each in last
            if each["role"] == "assistant" and not each.get("tool_calls")
        ] == [
            "(interrupted)",
            "Done.",
        ]
        assert all(
            len(call["id"]) == 9 for each in last for call in each.get("tool_calls", ())
        )


async def test_ids_of_nine_letters_and_digits_stay_and_others_become_such_where_a_server_wants_it(
    tmp_path: Path,
) -> None:
    own = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"}, id="Ab3dE6gH9")])
    other = Reply(
        tool_calls=[ToolCall("read", {"path": "a.txt"}, id="call_with_a_long_id")]
    )
    replies = [own, other, Reply("Done.")]

    def answer(body: dict[str, Any]) -> Reply:
        return (
            (ordered(body) or replies.pop(0)) if body.get("tools") else Reply("A title")
        )

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        last = it.server.calls[-1].body["messages"]
        calls = [call["id"] for each in last for call in each.get("tool_calls", ())]
        results = [each["tool_call_id"] for each in last if each["role"] == "tool"]
        assert calls == results
        assert calls[0] == "Ab3dE6gH9"


IMAGE_TOO = (
    "3 validation errors for ToolMessage: content.list[TextChunk].1.type "
    "Input should be <ChunkTypes.text: 'text'>"
)


@pytest.mark.parametrize("takes_images", [True, False])
async def test_an_image_that_a_tool_has_read_reaches_a_server_that_wants_an_answer_after_each_result(
    tmp_path: Path, *, takes_images: bool
) -> None:
    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.png"})]),
        Reply("A grey one."),
        Reply("Yes."),
    ]

    def answer(body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            return Reply("A title")
        if "image_url" in str(body) and not takes_images:
            return ordered(body) or refusal(IMAGE_TOO)
        return ordered(body) or replies.pop(0)

    async with stage(tmp_path, script=answer, dialect="chat", config={}) as it:
        (it.folder / "a.png").write_bytes(png())
        assert await it.prompt("Look") == {"stopReason": "end_turn"}
        asked = len(it.server.calls)
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == asked + 1
        last = it.server.calls[-1].body
        assert ("image_url" in str(last)) is takes_images
        if takes_images:
            assert "I look at the image." in str(last)
        else:
            assert "refused the request because of an image" in notices(it)


async def test_a_prompt_that_joins_a_turn_and_one_after_a_cancelled_call_are_taken_as_well(
    tmp_path: Path,
) -> None:
    sleep = Reply(tool_calls=[ToolCall("shell", {"command": "echo begun; sleep 600"})])
    replies = [sleep, Reply("Done.")]

    def answer(body: dict[str, Any]) -> Reply:
        return (
            (ordered(body) or replies.pop(0)) if body.get("tools") else Reply("A title")
        )

    async with stage(
        tmp_path, script=answer, dialect="chat", config={}, mode="full-access"
    ) as it:
        turn = await it.agent.start_prompt(it.session, "Work")
        await it.update("tool_call_update", status="in_progress")
        await it.agent.cancel(it.session)
        assert await turn.result(30) == {"stopReason": "cancelled"}
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        roles = [message["role"] for message in it.server.calls[-1].body["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


EFFORTS = {
    "other values": (
        "Unsupported value: 'high' is not supported. Supported values are: 'low' and 'medium'.",
        "medium",
    ),
    "none": (
        "litellm.UnsupportedParamsError: x does not support parameters: ['reasoning_effort'], for model=x",
        None,
    ),
    "not with tools": (
        "Function tools with reasoning_effort are not supported for this model.",
        None,
    ),
}


@pytest.mark.parametrize("kind", EFFORTS)
async def test_a_thinking_level_that_a_server_refuses_is_the_nearest_one_or_none_and_the_user_is_told(
    tmp_path: Path, kind: str
) -> None:
    said, sent = EFFORTS[kind]

    def answer(body: dict[str, Any]) -> Reply:
        if body.get("reasoning_effort") not in (None, sent):
            return refusal(said, param="reasoning_effort")
        return Reply("Yes.")

    env = {"ACP_AGENT_MODEL": "local/gpt-5.4"}
    async with stage(tmp_path, script=answer, dialect="chat", config={}, env=env) as it:
        await it.agent.set_config_option(it.session, "thought_level", "high")
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert await it.prompt("Two") == {"stopReason": "end_turn"}
        efforts = [
            call.body.get("reasoning_effort")
            for call in it.server.calls
            if call.body.get("tools")
        ]
        assert efforts == ["high", sent, sent]
        told = (
            "accepts other thinking levels (low, medium)"
            if sent
            else "does not accept the chosen thinking level"
        )
        assert told in notices(it)
