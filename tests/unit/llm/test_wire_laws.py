"""What holds for the wire form of every legal history, whatever is in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.llm.adapters.encoding import wire_name
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest, ToolDefinition
from support.adapters import api, wire_body

TEXT = st.sampled_from(["", " \n", "Hello", "Grüße, Welt", '{"a": 1}'])
JSON: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from("abc"),
    st.none() | st.booleans() | st.integers(-5, 5) | TEXT,
    max_size=2,
)
NAME = st.sampled_from(["read", "mcp__git__log"]) | st.text(max_size=70)
LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGE = st.sampled_from(
    [
        m.Image("aWk=", "image/png"),
        m.Image("aWk=", "image/tiff"),
        m.Image("", "image/png"),
    ]
)
USER_PART = st.one_of(
    TEXT.map(m.Text),
    IMAGE,
    st.builds(
        m.ResourceLink, st.just("file:///a"), st.just("a"), size=st.none() | st.just(3)
    ),
    st.builds(
        m.Resource,
        st.just("file:///a"),
        text=st.none() | TEXT,
        blob=st.none() | st.just("aWk="),
    ),
)
THINKING = st.sampled_from(
    [
        m.Thinking("Hm.", "anthropic", {"type": "thinking", "signature": "s"}),
        m.Thinking("", "anthropic", {"type": "redacted_thinking", "data": "d"}),
        m.Thinking(
            "Hm.", "openai", {"type": "reasoning", "id": "rs", "encrypted_content": "e"}
        ),
        m.Thinking("", "local", {"extra_content": {"0": {"google": {}}}}),
        m.Thinking("Of another kind.", "anthropic", {"extra_content": {"0": {}}}),
        m.Thinking("Cut off.", "anthropic"),
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[m.Message, ...]:
    """User messages, answers whose calls have their results right after, in any order
    that can come about.
    """
    messages: list[m.Message] = [
        m.UserMessage("u0", tuple(draw(st.lists(USER_PART, max_size=3))))
    ]
    for number in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            messages.append(
                m.UserMessage(
                    f"u{number}", tuple(draw(st.lists(USER_PART, max_size=3)))
                )
            )
            continue
        said: list[m.AssistantPart] = list(
            draw(st.lists(THINKING | TEXT.map(m.Text), max_size=3))
        )
        calls = [
            m.ToolCall(
                f"call_{number}_{index}",
                draw(NAME),
                draw(JSON),
                invalid=draw(st.none() | st.just("{")),
            )
            for index in range(draw(st.integers(0, 3)))
        ]
        messages.append(m.AssistantMessage(f"a{number}", (*said, *calls)))
        messages += [
            m.ToolResult(
                call.id,
                tuple(draw(st.lists(TEXT.map(m.Text) | IMAGE, max_size=2))),
                draw(st.booleans()),
            )
            for call in calls
        ]
    if isinstance(messages[-1], m.AssistantMessage):
        messages.append(m.UserMessage("last", (m.Text("Go on."),)))
    return tuple(messages)


@st.composite
def continued(draw: st.DrawFn) -> tuple[tuple[m.Message, ...], int]:
    """A history, and a length at which it was a request before: after a user's message
    or all results of an answer.
    """
    history = draw(histories())
    places = [
        index + 1
        for index, message in enumerate(history)
        if isinstance(message, m.UserMessage)
        or (
            isinstance(message, m.ToolResult)
            and not isinstance(next(iter(history[index + 1 :]), None), m.ToolResult)
        )
    ]
    return history, draw(st.sampled_from(places))


def only_thinking(provider: str, **data: m.JsonValue) -> tuple[m.Message, ...]:
    """An answer that was cut off before its first word."""
    hello = m.UserMessage("u", (m.Text("Hello"),))
    return hello, m.AssistantMessage("a", (m.Thinking("Hm.", provider, data),)), hello


def thinking_last(provider: str, **data: m.JsonValue) -> tuple[m.Message, ...]:
    """An answer whose calls were dropped, since it was cut off behind them."""
    hello = m.UserMessage("u", (m.Text("Hello"),))
    return (
        hello,
        m.AssistantMessage("a", (m.Text("So."), m.Thinking("Hm.", provider, data))),
        hello,
    )


TOOLS = (
    ToolDefinition("read", "Reads.", {"type": "object"}),
    ToolDefinition("list", "Lists.", {"type": "object"}),
)


def request(
    messages: tuple[m.Message, ...], *, tools: bool = True, system: str = "Be brief."
) -> ModelRequest:
    return ModelRequest(
        "m",
        system,
        messages,
        TOOLS if tools else (),
        thought_level="high",
        conversation_id="c",
    )


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: unmarked(inner)
            for key, inner in value.items()
            if key != "cache_control"
        }
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


@given(st.from_regex(LEGAL_NAME, fullmatch=True) | st.text(max_size=70))
@example("functions.read")
@example("")
@example("n" * 65)
def test_a_name_that_a_model_made_up_becomes_legal_and_a_legal_one_stays(
    name: str,
) -> None:
    sent = wire_name(name)
    assert LEGAL_NAME.fullmatch(sent)
    assert wire_name(sent) == sent
    assert sent == name or not LEGAL_NAME.fullmatch(name)


@given(
    st.lists(histories(), min_size=1, max_size=4),
    st.sampled_from(["anthropic", "openai", "chat"]),
    st.data(),
)
def test_a_request_that_continues_another_is_what_it_is_alone(
    parts: list[tuple[m.Message, ...]], dialect: str, data: st.DataObject
) -> None:
    history = tuple(message for part in parts for message in part)
    places = [
        at
        for at in range(1, len(history) + 1)
        if at == len(history) or isinstance(history[at], m.UserMessage)
    ]
    used = api(dialect)
    for at in data.draw(st.lists(st.sampled_from(places), min_size=2, max_size=5)):
        asked = request(history[:at])
        profile = ModelProfile(images=data.draw(st.booleans()))
        again, alone = (
            each.call(asked, profile, frozenset(), None)
            for each in (used, api(dialect))
        )
        assert json.loads(again.content) == {
            **alone.body,
            alone.conversation: json.loads(alone.content)[alone.conversation],
        }
        fresh = api(dialect).call(
            replace(asked, conversation_id=""), profile, frozenset(), None
        )
        assert not fresh.opening
        assert (
            json.loads(again.content)[again.conversation]
            == fresh.body[fresh.conversation]
        )


def flat(body: Any) -> list[tuple[str, str]]:
    """Blocks with their roles: that is all the API sees of where one message ends and
    the next begins.
    """
    return [
        (message["role"], json.dumps(unmarked(block), sort_keys=True))
        for message in body["messages"]
        for block in message["content"]
    ]


@given(histories(), st.booleans(), st.sampled_from(["", "Be brief."]))
@example(only_thinking("anthropic", type="thinking", signature="s"), True, "")
def test_anthropic_history_is_legal(
    history: tuple[m.Message, ...], tools: bool, system: str
) -> None:
    asked = request(history, tools=tools, system=system)
    body: Any = wire_body("anthropic", asked, ModelProfile(thinking="adaptive"))
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == roles[-1] == "user"
    assert all(one != two for one, two in pairwise(roles))
    assert json.dumps(body).count('"cache_control"') <= 4
    for index, message in enumerate(body["messages"]):
        assert message["content"]
        assert any(
            block["type"] not in ("thinking", "redacted_thinking")
            for block in message["content"]
        )
        uses = [
            block["id"] for block in message["content"] if block["type"] == "tool_use"
        ]
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
            assert block["type"] != "tool_result" or block["content"]
            assert block["type"] != "tool_use" or LEGAL_NAME.fullmatch(block["name"])
            if block["type"] in ("thinking", "redacted_thinking"):
                assert "cache_control" not in block
        if uses:
            following = body["messages"][index + 1]["content"]
            assert [
                block.get("tool_use_id") for block in following[: len(uses)]
            ] == uses
            assert all(
                block["type"] != "tool_result" for block in following[len(uses) :]
            )


@given(continued())
def test_anthropic_prefix_stays_the_same(
    continuation: tuple[tuple[m.Message, ...], int],
) -> None:
    history, length = continuation
    earlier: Any = wire_body("anthropic", request(history[:length]), ModelProfile())
    later: Any = wire_body("anthropic", request(history), ModelProfile())
    assert earlier["tools"] == later["tools"]
    assert earlier["system"] == later["system"]
    assert flat(later)[: len(flat(earlier))] == flat(earlier)


@given(continued())
@example((only_thinking("openai", type="reasoning", id="rs"), 1))
@example((thinking_last("openai", type="reasoning", id="rs"), 1))
def test_responses_history_is_legal_and_its_prefix_stays_the_same(
    continuation: tuple[tuple[m.Message, ...], int],
) -> None:
    history, length = continuation
    items: list[Any] = wire_body("openai", request(history), ModelProfile())["input"]
    earlier: list[Any] = wire_body("openai", request(history[:length]), ModelProfile())[
        "input"
    ]
    assert items[: len(earlier)] == earlier
    open_calls: list[str] = []
    for item, following in pairwise([*items, {"role": "end"}]):
        assert (
            item.get("type") != "reasoning"
            or "assistant" in following.values()
            or "type" in following
        )
        if item.get("type") == "function_call":
            open_calls.append(item["call_id"])
            assert LEGAL_NAME.fullmatch(item["name"])
            assert item["arguments"] == "{" or json.loads(item["arguments"]) is not None
        elif item.get("type") == "function_call_output":
            open_calls.remove(item["call_id"])
            assert item["output"]
        else:
            assert not open_calls
            assert item.get("content") or item.get("type") == "reasoning"
    assert not open_calls


@given(continued(), st.booleans())
def test_chat_history_is_legal_and_its_prefix_stays_the_same_up_to_the_last_users_message(
    continuation: tuple[tuple[m.Message, ...], int], images: bool
) -> None:
    history, length = continuation
    sent: list[Any] = wire_body("chat", request(history), ModelProfile(images=images))[
        "messages"
    ]
    earlier: list[Any] = wire_body(
        "chat", request(history[:length]), ModelProfile(images=images)
    )["messages"]
    closed = earlier[:-1] if earlier[-1]["role"] == "user" else earlier
    assert sent[: len(closed)] == closed
    first, *rest = sent
    assert first["role"] == "system"
    open_calls: list[str] = []
    before = ""
    for message in rest:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            assert message["content"]
        else:
            assert not open_calls
            assert message["role"] == "assistant" or message["role"] != before
            assert message.get("content") or message.get("tool_calls")
        for call in message.get("tool_calls", []):
            open_calls.append(call["id"])
            assert LEGAL_NAME.fullmatch(call["function"]["name"])
            assert (
                call["function"]["arguments"] == "{"
                or json.loads(call["function"]["arguments"]) is not None
            )
        before = message["role"]
    assert not open_calls
    assert before in ("user", "tool")
    assert images or "image_url" not in json.dumps(rest)
