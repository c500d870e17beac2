"""Alternative forms of Chat Completions messages for servers that reject the usual
ones.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.provider import ToolDefinition
from support.adapters import PROFILE, api, request

TOOLS = (ToolDefinition("read", "Reads.", {"type": "object"}),)
BROKEN = m.ToolCall("call_2", "read", invalid='{"path": "a')
PNG = m.Image("aWk=", "image/png")


def said(text: str, number: int) -> m.UserMessage:
    return m.UserMessage(f"u{number}", (m.Text(text),))


def answered(*parts: m.AssistantPart, number: int = 1) -> m.AssistantMessage:
    return m.AssistantMessage(f"a{number}", parts, "other/model")


HISTORY: tuple[m.Message, ...] = (
    said("One", 1),
    answered(m.ToolCall("call_1", "read", {"path": "a.txt"}), BROKEN),
    m.ToolResult("call_1", (m.Text("text"), PNG)),
    m.ToolResult("call_2", (m.Text("No."),), is_error=True),
    answered(m.Text("Yes."), number=2),
    said("Two", 2),
    answered(m.ToolCall("call_3", "read", {"path": "b.txt"}), number=3),
    m.ToolResult("call_3", (m.Text("more"),)),
    said("Three", 3),
)


def sent(*refused: Feature, history: tuple[m.Message, ...] = HISTORY) -> Any:
    asked = request(
        *history, model="chat-test", tools=TOOLS, refused=frozenset(refused)
    )
    return json.loads(
        api("chat").call(asked, PROFILE, frozenset(refused), None).content
    )


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"]]


def test_nothing_is_changed_for_a_server_that_has_refused_nothing() -> None:
    first = ["system", "user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert roles(sent()) == [*first, "assistant", "tool", "user"]
    assert all(
        isinstance(each["content"], str)
        for each in sent()["messages"]
        if each["role"] == "tool"
    )


def test_an_answer_stands_between_a_result_and_the_user() -> None:
    body = sent("user_after_tool")
    before = ""
    for role in roles(body):
        assert (before, role) != ("tool", "user")
        before = role
    between = [
        each["content"]
        for each in body["messages"]
        if each["role"] == "assistant" and "tool_calls" not in each
    ]
    assert between == ["I look at the image.", "Yes.", "(interrupted)"]


def test_without_a_system_role_the_system_prompt_opens_the_first_message_of_the_user() -> (
    None
):
    body = sent("system")
    assert "system" not in roles(body)
    assert body["messages"][0] == {"role": "user", "content": "Be brief.\n\nOne"}
    assert str(body).count("Be brief.") == 1


def test_without_tools_calls_and_results_are_told_as_text() -> None:
    body = sent("functions")
    assert "tools" not in body
    assert set(roles(body)) == {"system", "user", "assistant"}
    assert "tool_calls" not in str(body)
    for words in (
        '[call of read with {"path":"a.txt"}]',
        "[result of the call]\ntext",
        "more",
    ):
        assert words in "\n".join(
            str(each["content"]).replace("\\n", "\n") for each in body["messages"]
        )


def test_arguments_that_are_no_json_are_sent_as_an_empty_object_to_a_server_that_reads_them() -> (
    None
):
    def arguments(body: Any) -> list[str]:
        return [
            call["function"]["arguments"]
            for each in body["messages"]
            for call in each.get("tool_calls", ())
        ]

    assert arguments(sent())[1] == BROKEN.invalid
    assert arguments(sent("raw_arguments"))[1] == "{}"


@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_ids_become_nine_letters_and_digits_always_the_same_and_never_one_for_two(
    ids: list[str],
) -> None:
    calls = tuple(
        m.ToolCall(f"call_{at}", "read", provider_id=id) for at, id in enumerate(ids)
    )
    answer = m.AssistantMessage("a1", calls, "local/model")
    results = tuple(m.ToolResult(call.id, (m.Text("Yes."),)) for call in calls)
    messages = sent("call_ids", history=(said("One", 1), answer, *results))["messages"]
    again = sent(
        "call_ids", history=(said("One", 1), answer, *results, said("Two", 2))
    )["messages"]
    assert again[: len(messages)] == messages
    wire = [call["id"] for call in messages[2]["tool_calls"]]
    assert wire == [message["tool_call_id"] for message in messages[3:]]
    assert len(set(wire)) == len(ids)
    assert all(len(id) == 9 and id.isascii() and id.isalnum() for id in wire)


@pytest.mark.parametrize(
    "refused", ["user_after_tool", "system", "functions", "raw_arguments", "call_ids"]
)
def test_a_request_that_continues_another_begins_as_it(refused: Feature) -> None:
    used = api("chat")
    longer = (*HISTORY, answered(m.Text("So."), number=4), said("Four", 4))
    bodies: list[Any] = []
    for history in (HISTORY, longer):
        asked = request(
            *history, model="chat-test", tools=TOOLS, refused=frozenset((refused,))
        )
        bodies.append(
            json.loads(used.call(asked, PROFILE, frozenset((refused,)), None).content)[
                "messages"
            ]
        )
    alone = sent(refused, history=longer)["messages"]
    assert bodies[1] == alone
    assert bodies[1][: len(bodies[0])] == bodies[0]
