"""The content of Chat Completions, which some servers send as a list of chunks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.llm.provider import ModelRequest, TextDelta, ThinkingDelta
from support.adapters import PROFILE, api, fold_of


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def thinking(said: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": said}


CONTENTS: dict[str, tuple[Any, str, str]] = {
    "chunks of text": ([text("Ok"), text("ay")], "Okay", ""),
    "one chunk": (text("Okay"), "Okay", ""),
    "plain strings": (["Ok", "ay"], "Okay", ""),
    "a chunk without a type": ([{"text": "Okay"}], "Okay", ""),
    "thinking in chunks": ([thinking([text("hm")])], "", "hm"),
    "thinking as text": ([thinking("hm")], "", "hm"),
    "thinking, then text": (
        [thinking([text("h"), text("m")]), text("Okay")],
        "Okay",
        "hm",
    ),
    "a reference": (
        [text("Okay"), {"type": "reference", "reference_ids": [1]}],
        "Okay",
        "",
    ),
    "an image": ([text("Okay"), {"type": "image_url", "image_url": "x"}], "Okay", ""),
    "null": (None, "", ""),
    "nonsense": ([None, 3, [text("no")]], "", ""),
}


@pytest.mark.parametrize("member", ["delta", "message"])
@pytest.mark.parametrize("content", CONTENTS)
def test_content_is_read_as_an_answer_and_a_thought_whatever_form_it_has(
    content: str, member: str
) -> None:
    sent, said, thought = CONTENTS[content]
    fold = fold_of("chat")
    deltas = list(
        fold.feed({"choices": [{member: {"content": sent}, "finish_reason": "stop"}]})
    )
    assert (
        "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == said
    )
    assert (
        "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))
        == thought
    )
    parts = fold.answer().parts
    assert "".join(part.text for part in parts if isinstance(part, m.Text)) == said
    assert (
        "".join(part.text for part in parts if isinstance(part, m.Thinking)) == thought
    )


@given(
    st.lists(st.sampled_from(["h", "m", " "]), min_size=1, max_size=4),
    st.sampled_from(["", "Okay"]),
)
def test_thinking_in_chunks_goes_back_in_chunks(thought: list[str], said: str) -> None:
    fold = fold_of("chat")
    for piece in thought:
        list(
            fold.feed({"choices": [{"delta": {"content": [thinking([text(piece)])]}}]})
        )
    call: m.JsonObject = {
        "index": 0,
        "id": "t",
        "function": {"name": "read", "arguments": "{}"},
    }
    list(
        fold.feed(
            {
                "choices": [
                    {
                        "delta": {"content": said, "tool_calls": [call]},
                        "finish_reason": "tool_calls",
                    }
                ]
            }
        )
    )
    answer = m.AssistantMessage("a1", fold.answer().parts, "local/magistral")
    history = (
        m.UserMessage("u1", (m.Text("Hi"),)),
        answer,
        m.ToolResult("t", (m.Text("Yes."),)),
    )
    request = ModelRequest("magistral", "", history)
    sent = json.loads(api("chat").call(request, PROFILE, frozenset(), None).content)[
        "messages"
    ][1]["content"]
    assert sent[0] == {
        "type": "thinking",
        "thinking": [text("".join(thought))],
        "closed": True,
    }
    assert sent[1:] == ([text(said)] if said else [])
