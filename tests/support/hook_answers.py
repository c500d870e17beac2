"""Events as hooks are told them, and what they answer."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import strategies as st

from acp_agent.conversation.messages import JsonObject, JsonValue, Message
from acp_agent.hooks.answers import read_outcome
from acp_agent.hooks.events import AgentStop, HookEvent, Moment, TokenUsage
from acp_agent.hooks.outcomes import Outcome


async def transcript() -> str:
    return "/transcripts/s.jsonl"


def moment(cwd: Path, messages: tuple[Message, ...] = ()) -> Moment:
    return Moment(
        "s", str(cwd), transcript, usage=TokenUsage(10, 2, 700, 1000), messages=messages
    )


AT = moment(Path("/shop"))
STOP = AgentStop(AT, "Done.")


def read(answer: object, event: HookEvent = STOP) -> Outcome:
    """What an answer wants."""
    return read_text(event, json.dumps(answer))


def read_text(event: HookEvent, text: str) -> Outcome:
    """What a program wants that prints this and ends well."""
    return read_outcome(event, 0, text.encode("utf-8", "replace"), b"")


def specific(**keys: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **keys}}


JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)
OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.sampled_from(["command", "path", "file_path", "query", "x"]), JSON, max_size=3
)
