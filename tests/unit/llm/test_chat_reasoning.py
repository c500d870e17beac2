"""Reasoning in Chat Completions goes back in the form in which it came, and as each
provider needs it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.client import ModelClient
from acp_agent.llm.errors import CallFailed, read_error
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    Answered,
    ModelEvent,
    ModelRequest,
    Refused,
    ThinkingDelta,
)
from support.adapters import PROFILE, adapter, collect, encoded
from support.http_server import Exchange, http_server
from support.models import Reply, ToolCall, model_server

DEEPSEEK_MISSING = (
    "The `reasoning_content` in the thinking mode must be passed back to the API."
)
KIMI_MISSING = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
GROQ_REFUSES = (
    "'messages.2' : for 'role:assistant' the following must be satisfied"
    "[('messages.2' : property 'reasoning_content' is unsupported)]"
)


def said(text: str) -> m.UserMessage:
    return m.UserMessage("u", (m.Text(text),))


def answer(*parts: m.AssistantPart, model: str = "") -> m.AssistantMessage:
    return m.AssistantMessage("a", parts, model)


def thought(text: str, **data: m.JsonValue) -> m.Thinking:
    return m.Thinking(text, "local", data)


def api(name: str = "local", base_url: str = "http://localhost/v1") -> ChatAdapter:
    return ChatAdapter(Endpoint(name, "openai-chat", base_url))


def asked(model: str, *messages: m.Message, **more: Any) -> ModelRequest:
    return ModelRequest(model, "Be brief.", (*messages, said("Go on.")), **more)


def sent(
    model: str,
    *messages: m.Message,
    used: ChatAdapter | None = None,
    refused: Iterable[Any] = (),
) -> list[Any]:
    """The answers among the messages as they are sent."""
    call = (used or api()).call(
        asked(model, *messages), PROFILE, frozenset(refused), None
    )
    return [
        message
        for message in json.loads(call.content)["messages"]
        if message["role"] == "assistant"
    ]


@asynccontextmanager
async def streaming(
    *answers: list[dict[str, Any]],
) -> AsyncIterator[tuple[ModelClient, list[Any]]]:
    """A client of a server that streams these answers by their deltas, and the requests
    that it gets.
    """
    requests: list[Any] = []

    async def app(exchange: Exchange) -> None:
        deltas = answers[len(requests)]
        requests.append(exchange.request.body)
        finish = (
            "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop"
        )
        events = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        await exchange.start()
        await exchange.send(encoded(events) + b"data: [DONE]\n\n")
        await exchange.end()

    async with http_server(app) as url:
        client = adapter("chat", url)
        try:
            yield client, requests
        finally:
            await client.aclose()


def answered(events: list[ModelEvent], model: str) -> m.AssistantMessage:
    """The answer as the log keeps it, with ids of our own."""
    last = events[-1]
    assert isinstance(last, Answered)
    parts: list[m.AssistantPart] = []
    for part in last.parts:
        if isinstance(part, m.ToolCall):
            parts.append(
                m.ToolCall(
                    f"ours_{part.id}",
                    part.name,
                    part.arguments,
                    provider_id=part.id,
                    raw=part.raw,
                )
            )
        else:
            parts.append(part)
    return m.AssistantMessage("a", tuple(parts), f"local/{model}")


async def converse(
    client: ModelClient, model: str, history: list[m.Message], prompts: int
) -> None:
    """Continue a conversation for so many prompts, and answer the calls."""
    for number in range(prompts):
        history.append(said(f"Prompt {number}"))
        while True:
            events = await collect(
                client,
                ModelRequest(model, "Be brief.", tuple(history), conversation_id="c"),
            )
            history.append(answered(events, model))
            calls = (
                history[-1].tool_calls
                if isinstance(history[-1], m.AssistantMessage)
                else ()
            )
            history += [m.ToolResult(call.id, (m.Text("Done."),)) for call in calls]
            if not calls:
                break


def from_elsewhere() -> list[m.Message]:
    """A conversation with another provider, and an answer from a log of an earlier
    version.
    """
    signed = m.Thinking(
        "Elsewhere.", "anthropic", {"type": "thinking", "signature": "s"}
    )
    call = m.ToolCall("old", "read", {})
    old = answer(
        m.Thinking("Earlier.", "local"), m.Text("Yes."), model="local/some-model"
    )
    return [
        said("Hello"),
        answer(signed, call, model="anthropic/claude-sonnet-5-5"),
        m.ToolResult("old", (m.Text("Text."),)),
        old,
    ]


async def test_deepseek_gets_reasoning_in_every_answer_of_a_long_conversation() -> None:
    replies = [
        Reply(thinking="One.", tool_calls=[ToolCall("read", {}, "call_1")]),
        Reply(tool_calls=[ToolCall("read", {}, "call_2")]),
        Reply("Done.", thinking="Two."),
        Reply("Without a thought."),
        Reply("The end.", thinking="Three."),
    ]

    def reply(body: dict[str, Any]) -> Reply:
        answers = [
            message for message in body["messages"] if message["role"] == "assistant"
        ]
        if not all(
            isinstance(message.get("reasoning_content"), str) for message in answers
        ):
            return Reply(http_status=400, body={"error": {"message": DEEPSEEK_MISSING}})
        return replies.pop(0)

    async with model_server(reply, "chat") as server:
        client = adapter("chat", server.base_url)
        await converse(client, "deepseek-v4-pro", from_elsewhere(), prompts=3)
        await client.aclose()
        last = server.calls[-1].body["messages"]
    texts = [
        message["reasoning_content"]
        for message in last
        if message["role"] == "assistant"
    ]
    assert texts == ["", "Earlier.", "One.", "", "Two.", ""]
    assert not replies


async def test_kimi_gets_its_reasoning_and_a_space_for_calls_without_any() -> None:
    replies = [
        Reply(thinking="One.", tool_calls=[ToolCall("read", {}, "call_1")]),
        Reply(tool_calls=[ToolCall("read", {}, "call_2")]),
        Reply("Without a thought."),
        Reply("The end.", thinking="Three."),
    ]

    def reply(body: dict[str, Any]) -> Reply:
        if any(
            "tool_calls" in each and not each.get("reasoning_content")
            for each in body["messages"]
        ):
            return Reply(http_status=400, body={"error": {"message": KIMI_MISSING}})
        return replies.pop(0)

    async with model_server(reply, "chat") as server:
        client = adapter("chat", server.base_url)
        await converse(client, "kimi-k2.6", from_elsewhere(), prompts=2)
        await client.aclose()
        last = server.calls[-1].body["messages"]
    texts = [
        message.get("reasoning_content")
        for message in last
        if message["role"] == "assistant"
    ]
    assert texts == [" ", None, "One.", " ", None]
    assert not replies


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_under_the_key_it_came_in(key: str) -> None:
    call = {
        "index": 0,
        "id": "call_1",
        "function": {"name": "read", "arguments": '{"a": 1}'},
    }
    async with streaming(
        [{key: "So "}, {key: "then."}, {"tool_calls": [call]}], [{"content": "Done."}]
    ) as (
        client,
        requests,
    ):
        await converse(client, "qwen3.5", [], prompts=1)
    function = {"name": "read", "arguments": '{"a": 1}'}
    tool_call = {"id": "call_1", "type": "function", "function": function}
    assert requests[1]["messages"][2:] == [
        {"role": "assistant", "tool_calls": [tool_call], key: "So then."},
        {"role": "tool", "tool_call_id": "call_1", "content": "Done."},
    ]


async def test_mistrals_thinking_chunks_are_shown_and_go_back_as_chunks() -> None:
    def chunk(text: str) -> dict[str, Any]:
        return {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            ]
        }

    said_text = {"content": [{"type": "text", "text": "Hel"}]}
    first = [
        {"content": ""},
        chunk("So "),
        chunk("then."),
        said_text,
        {"content": "lo"},
    ]
    async with streaming(first, [{"content": "Bye"}]) as (client, requests):
        history: list[m.Message] = [said("Hi")]
        events = await collect(
            client, ModelRequest("magistral-medium", "", tuple(history))
        )
        assert [event.text for event in events if isinstance(event, ThinkingDelta)] == [
            "So ",
            "then.",
        ]
        reply = answered(events, "magistral-medium")
        assert (reply.text, [type(part) for part in reply.parts]) == (
            "Hello",
            [m.Thinking, m.Text],
        )
        await converse(client, "magistral-medium", [*history, reply], prompts=1)
    thinking = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "So then."}],
        "closed": True,
    }
    assert requests[1]["messages"][2]["content"] == [
        thinking,
        {"type": "text", "text": "Hello"},
    ]


def test_mistrals_thinking_goes_back_before_a_call_without_text() -> None:
    call = m.ToolCall("c", "read")
    [wire] = sent(
        "magistral-medium",
        said("Hi"),
        answer(thought("So.", key="content"), call),
        result("c"),
    )
    assert [chunk["type"] for chunk in wire["content"]] == ["thinking"]


def result(call_id: str) -> m.ToolResult:
    return m.ToolResult(call_id, (m.Text("Done."),))


@pytest.mark.parametrize("model", ["qwen3.5", "a-model-nobody-knows"])
@pytest.mark.parametrize(
    "part",
    [
        m.Thinking("Elsewhere.", "other", {"key": "reasoning_content"}),
        m.Thinking("Earlier.", "local"),
    ],
    ids=["of another provider", "of a log that does not know the key"],
)
def test_other_reasoning_goes_nowhere(model: str, part: m.Thinking) -> None:
    assert sent(model, said("Hi"), answer(part, m.Text("Yes."))) == [
        {"role": "assistant", "content": "Yes."}
    ]


def test_a_router_does_not_give_one_makers_reasoning_to_anothers_model() -> None:
    made = answer(
        thought("So.", key="reasoning"), m.Text("Yes."), model="local/z-ai/glm-5"
    )
    assert sent("z-ai/glm-5.2", said("Hi"), made)[0]["reasoning"] == "So."
    assert "reasoning" not in sent("qwen/qwen3.5", said("Hi"), made)[0]


def test_models_without_reasoning_in_their_history_get_none() -> None:
    made = answer(thought("So.", key="reasoning_content"), m.Text("Yes."))
    assert sent("gemini-2.5-pro", said("Hi"), made) == [
        {"role": "assistant", "content": "Yes."}
    ]


def test_gpt_oss_gets_no_reasoning_beside_the_text_of_a_call() -> None:
    reasoning = thought("So.", key="reasoning")
    call = m.ToolCall("c", "read")
    with_text, without = sent(
        "gpt-oss-20b",
        said("Hi"),
        answer(reasoning, m.Text("Look."), call),
        result("c"),
        answer(reasoning, call),
        result("c"),
    )
    assert "reasoning" not in with_text
    assert without["reasoning"] == "So."


async def test_a_server_that_does_not_take_reasoning_is_asked_again_without() -> None:
    refusal = Reply(
        http_status=400,
        body={"error": {"message": GROQ_REFUSES, "type": "invalid_request_error"}},
    )
    made = answer(thought("So.", key="reasoning_content"), m.Text("Yes."))
    async with model_server([refusal, Reply("Fine.")], "chat") as server:
        client = adapter("chat", server.base_url)
        events = await collect(client, asked("qwen3.5", said("Hi"), made))
        await client.aclose()
    assert events[0] == Refused("echo")
    assert isinstance(events[-1], Answered)
    first, second = (call.body["messages"] for call in server.calls)
    assert first[2] == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "So.",
    }
    assert second[2] == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize("model", ["qwen3.5", "deepseek-v4-pro", "kimi-k2.6"])
def test_nothing_is_echoed_once_it_was_refused(model: str) -> None:
    made = answer(
        thought(
            "So.",
            key="reasoning_content",
            reasoning_details=[{"type": "reasoning.text"}],
        ),
        m.ToolCall("c", "read"),
    )
    [wire] = sent(model, said("Hi"), made, result("c"), refused=["echo"])
    assert set(wire) == {"role", "tool_calls"}


@pytest.mark.parametrize(
    ("status", "body", "is_refusal"),
    [
        (400, {"error": {"message": GROQ_REFUSES}}, True),
        (
            400,
            {"error": {"message": "reasoning is not supported with this model"}},
            True,
        ),
        (
            400,
            {
                "message": "messages.2.assistant.reasoning_content: property"
                " 'messages.2.assistant.reasoning_content' is unsupported",
                "code": "wrong_api_format",
            },
            True,
        ),
        (
            422,
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": [
                            "body",
                            "messages",
                            2,
                            "assistant",
                            "reasoning_content",
                        ],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
            True,
        ),
        (
            400,
            {
                "error": {
                    "message": 'Invalid JSON payload. Unknown name "reasoning": Cannot find field.'
                }
            },
            True,
        ),
        (
            400,
            {
                "error": {
                    "message": "Unknown parameter: 'messages[2].reasoning_content'."
                }
            },
            True,
        ),
        (400, {"error": {"message": DEEPSEEK_MISSING}}, False),
        (
            400,
            {
                "error": {
                    "message": "Missing `reasoning_content` field in the assistant message at index 2"
                }
            },
            False,
        ),
        (400, {"error": {"message": KIMI_MISSING}}, False),
        (
            400,
            {"error": {"message": "reasoning_effort is not supported with this model"}},
            False,
        ),
    ],
)
def test_refused_reasoning_is_told_from_missing_reasoning(
    status: int, body: dict[str, Any], is_refusal: bool
) -> None:
    message, code = read_error(json.dumps(body))
    failure = CallFailed("status", message, status=status, code=code)
    none = frozenset[Feature]()
    assert api().refused_feature(failure, frozenset({"echo"}), none) == (
        "echo" if is_refusal else None
    )
    assert api().refused_feature(failure, none, none) is None


def test_a_request_knows_that_it_echoes_also_where_its_beginning_is_known() -> None:
    made = answer(thought("So.", key="reasoning_content"), m.Text("Yes."))
    history = [
        said("Hi"),
        made,
        said("And?"),
        answer(m.Text("No.")),
        said("Oh?"),
        answer(m.Text("Yes.")),
    ]
    used = api()
    for _ in range(2):
        call = used.call(
            asked("qwen3.5", *history, conversation_id="c"), PROFILE, frozenset(), None
        )
        assert call.opening
        assert "echo" in call.features
        alone = api().call(asked("qwen3.5", *history), PROFILE, frozenset(), None)
        assert json.loads(call.content) == json.loads(alone.content)
    other = used.call(
        asked("qwen3.5", *history[2:], conversation_id="c"), PROFILE, frozenset(), None
    )
    assert "echo" not in other.features


@pytest.mark.parametrize(
    ("model", "refused"), [("x/qwen3.5", {"echo"}), ("y/qwen3.5", set[str]())]
)
def test_a_known_beginning_is_not_used_where_its_reasoning_does_not_belong(
    model: str, refused: set[Any]
) -> None:
    made = answer(
        thought("So.", key="reasoning_content"), m.Text("Yes."), model="local/x/qwen3.5"
    )
    history = [
        said("Hi"),
        made,
        said("And?"),
        answer(m.Text("No.")),
        said("Oh?"),
        answer(m.Text("Yes.")),
    ]
    used = api()
    with_reasoning = used.call(
        asked("x/qwen3.5", *history, conversation_id="c"), PROFILE, frozenset(), None
    )
    assert b"So." in with_reasoning.content
    without = used.call(
        asked(model, *history, conversation_id="c"), PROFILE, frozenset(refused), None
    )
    assert b"So." not in without.content


def test_calls_go_back_with_the_providers_ids_and_arguments_as_the_model_wrote_them() -> (
    None
):
    call = m.ToolCall("ours", "read", {"a": 1}, provider_id="theirs", raw='{ "a": 1 }')
    for model, call_id in (("local/m", "theirs"), ("other/m", "Cjfiv1ypc")):
        request = asked("m", said("Hi"), answer(call, model=model), result("ours"))
        body = json.loads(api().call(request, PROFILE, frozenset(), None).content)
        [wire] = body["messages"][2]["tool_calls"]
        assert (wire["id"], wire["function"]["arguments"]) == (call_id, '{ "a": 1 }')
        assert body["messages"][3]["tool_call_id"] == call_id


def test_an_amendment_is_sent_as_its_text_and_adds_nothing_without_one() -> None:
    told = m.Amendment("n", (m.Text("New rules."),))
    silent = m.Amendment("n", (), removed=("read",), thought_level="low")
    body = json.loads(
        api()
        .call(asked("m", said("Hi"), told, silent), PROFILE, frozenset(), None)
        .content
    )
    assert body["messages"][1:] == [
        {"role": "user", "content": "Hi\n\nNew rules.\n\nGo on."}
    ]
    alone = ModelRequest(
        "m", "", (said("Hi"), answer(m.Text("Yes.")), silent, said("Go on."))
    )
    roles = [
        each["role"]
        for each in json.loads(api().call(alone, PROFILE, frozenset(), None).content)[
            "messages"
        ]
    ]
    assert roles == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("base_url", "model", "level", "expected"),
    [
        (
            "https://api.moonshot.ai/v1",
            "kimi-k2.6",
            "",
            {"type": "enabled", "keep": "all"},
        ),
        ("https://api.moonshot.ai/v1", "kimi-k3", "", None),
        (
            "https://api.z.ai/api/paas/v4",
            "glm-5.2",
            "high",
            {"type": "enabled", "clear_thinking": False},
        ),
        ("https://api.z.ai/api/paas/v4", "glm-5.2", "off", None),
        ("http://localhost/v1", "kimi-k2.6", "", None),
    ],
)
def test_their_makers_servers_are_told_to_use_the_reasoning_of_earlier_turns(
    base_url: str, model: str, level: str, expected: dict[str, Any] | None
) -> None:
    used = api(base_url=base_url)
    body = used.call(
        asked(model, said("Hi"), thought_level=level), ModelProfile(), frozenset(), None
    ).body
    assert body.get("thinking") == expected
