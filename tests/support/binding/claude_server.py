"""A model server that checks thinking as Anthropic does, and a sample conversation, to
test these checks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest

from support.binding.talks import ZAP, ClaudeTalk
from support.models import Binding, ModelServer, Reply, ToolCall, model_server

PREFIX = "prefix_binding_mismatch"


def answer(body: dict[str, Any]) -> Reply:
    """Answer a request. Call tools or think if the last user message asks for it."""
    if body.get("compaction"):
        return Reply("A summary.")
    said = [
        message["content"] for message in body["messages"] if message["role"] == "user"
    ][-1]
    if said == "use the tool":
        return Reply("I look.", tool_calls=[ToolCall("look")])
    if said == "use two tools":
        calls = [ToolCall("look"), ToolCall("look")]
        return Reply(
            "I look.", thinking="Look.", tool_calls=calls, between=["", "Again."]
        )
    if said == "think twice":
        return Reply("Done.", thinking="First.", thoughts=["Second."])
    return Reply("Fine.")


@asynccontextmanager
async def serving(**settings: Any) -> AsyncGenerator[ModelServer, None]:
    async with model_server(answer, binding=Binding(**settings)) as server:
        yield server


async def three_turns(server: ModelServer, **settings: Any) -> ClaudeTalk:
    """Return a conversation with thinking in messages 1, 3, 5 and 7, and a tool call in
    message 3.
    """
    talk = ClaudeTalk(server, **settings)
    await talk.say("one")
    await talk.say("use the tool")
    await talk.give()
    await talk.say("three")
    return talk


async def refused(
    asked: Any, words: str = "bound to a different conversation"
) -> anthropic.BadRequestError:
    with pytest.raises(anthropic.BadRequestError, match=words) as error:
        await asked
    return error.value


def code_of(error: anthropic.BadRequestError) -> str | None:
    body: Any = error.body
    return body["error"].get("details", {}).get("error_code")


def edit_system(talk: ClaudeTalk) -> None:
    talk.system = "Be  brief."


def add_tool(talk: ClaudeTalk) -> None:
    talk.tools.append(dict(ZAP))
