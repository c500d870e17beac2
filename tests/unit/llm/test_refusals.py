"""Which part of the API a refusal without a name is blamed on, and what is left out of
a request by mistake.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from acp_agent.conversation import messages as m
from acp_agent.conversation.surroundings import Feature, Surroundings
from acp_agent.llm.errors import CallFailed
from acp_agent.llm.provider import Refused, ToolDefinition
from support.adapters import PROFILE, adapter, api, collect, fold_of, request, texts
from support.models import Reply, model_server

VAGUE = {"message": "invalid beta flag"}
USED = frozenset[Feature](("controls", "effort", "tools"))
EFFORT = m.Amendment("u2", (), thought_level="high")
SAID = (
    m.UserMessage("u1", (m.Text("Hello"),)),
    m.AssistantMessage("a1", (m.Text("Hi"),)),
)
MORE = m.UserMessage("u3", (m.Text("More"),))


@pytest.mark.parametrize(
    ("accepted", "blamed"),
    [((), "controls"), (("controls",), "effort"), (("controls", "effort"), "tools")],
)
def test_a_refused_beta_without_a_name_is_the_one_that_no_earlier_request_has_used(
    accepted: tuple[Feature, ...], blamed: Feature
) -> None:
    failure = CallFailed("status", VAGUE["message"], status=400)
    assert (
        api("anthropic").refused_feature(failure, USED, frozenset(accepted)) == blamed
    )


async def test_what_has_worked_before_is_kept_if_a_new_beta_is_refused_without_a_name() -> (
    None
):
    refused = Reply(http_status=400, body=VAGUE)
    answered = replace(SAID[1], model="anthropic/claude-opus-5-5")
    asked = request(
        SAID[0],
        answered,
        EFFORT,
        MORE,
        model="claude-opus-5-5",
        declared=Surroundings(tools=()),
    )
    async with model_server([refused, Reply("two")]) as server:
        provider = adapter("anthropic", server.base_url)
        events = await collect(provider, asked)
        await provider.aclose()
    assert texts(events) == ["two"]
    assert events[0] == Refused("effort")
    assert "thinking-binding-controls" in server.calls[-1].headers["anthropic-beta"]


def test_a_tool_that_changed_is_defined_anew_where_tools_are_named_by_reference() -> (
    None
):
    old, new = (
        ToolDefinition("look", text, {"type": "object"})
        for text in ("Looks.", "Looks twice.")
    )
    changed = m.Amendment(
        "u2", (), added=(new, ToolDefinition("zap", "Zaps.", {"type": "object"}))
    )
    asked = request(
        *SAID,
        MORE,
        changed,
        model="claude-opus-5-5",
        declared=Surroundings(tools=(old,)),
        tools=(old,),
    )
    vertex = api("anthropic", host="https://europe-aiplatform.googleapis.com")
    body = vertex.call(asked, PROFILE, frozenset(), None).body
    tools = body["tools"]
    assert isinstance(tools, list)
    assert [
        (tool["description"], tool.get("defer_loading", False))
        for tool in tools
        if isinstance(tool, dict)
    ] == [
        ("Looks twice.", False),
        ("Zaps.", True),
    ]


@pytest.mark.parametrize("reason", ["turn_boundary", "model_mismatch"])
def test_reasoning_that_openai_leaves_out_as_a_matter_of_course_is_no_fault(
    reason: str,
) -> None:
    fold = fold_of("openai")
    entry: m.JsonObject = {
        "id": "rs_1",
        "type": "reasoning",
        "action": "removed",
        "reason": reason,
    }
    response: m.JsonObject = {"output": [], "input_transformations": [entry]}
    fold.feed({"type": "response.completed", "response": response})
    fold.answer()
    assert fold.dropped == ()


def test_reasoning_that_another_model_made_and_anthropic_leaves_out_is_no_fault() -> (
    None
):
    fold = fold_of("anthropic")
    dropped: m.JsonObject = {"type": "thinking_dropped", "path": "messages.1.content.0"}
    entries: list[m.JsonValue] = [
        {**dropped, "reason": "model_binding_mismatch"},
        {
            **dropped,
            "path": "messages.3.content.0",
            "reason": "prefix_binding_mismatch",
        },
    ]
    fold.feed({"type": "message_start", "message": {"input_transformations": entries}})
    assert [each.place for each in fold.dropped] == ["messages.3.content.0"]
