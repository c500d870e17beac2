"""The model server asks for the reasoning of earlier calls back as providers with Chat
Completions do.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from support.dialects import GOOGLE_PATH
from support.models import KEY, Binding, ModelServer, Reply, ToolCall, model_server

TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
REPLIES = [
    Reply("I look.", tool_calls=[ToolCall("look"), ToolCall("look")]),
    Reply("Once more.", tool_calls=[ToolCall("look")]),
    Reply("Fine."),
]


def answer(body: dict[str, Any]) -> Reply:
    """Call tools twice after each prompt, then say that all is fine."""
    steps = 0
    for message in body["messages"]:
        steps = (
            0 if message["role"] == "user" else steps + (message["role"] == "assistant")
        )
    return REPLIES[min(steps, 2)]


class Chat:
    """A conversation that is sent whole with each request."""

    def __init__(self, server: ModelServer, path: str = "/v1") -> None:
        self.url = server.base_url + path
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": "Be brief."}
        ]

    async def send(self, **extra: Any) -> None:
        """Stream an answer, and add it as it came, with the members that the SDK does
        not know.
        """
        plain = DefaultAsyncHttpxClient(verify=False)
        whole: dict[str, Any] = {"role": "assistant", "content": ""}
        async with AsyncOpenAI(
            api_key=KEY, base_url=self.url, max_retries=0, http_client=plain
        ) as client:
            messages: Any = self.messages
            tools: Any = [TOOL]
            stream = await client.chat.completions.create(
                model="some-model", messages=messages, tools=tools, stream=True, **extra
            )
            async for chunk in stream:
                add(whole, chunk.choices[0].delta.to_dict())
        self.messages.append(whole)

    async def say(self, text: str, **extra: Any) -> None:
        self.messages.append({"role": "user", "content": text})
        await self.send(**extra)

    async def give(self, **extra: Any) -> None:
        calls = self.messages[-1]["tool_calls"]
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": "Seen."}
            for call in calls
        ]
        await self.send(**extra)

    async def turn(self) -> None:
        await self.say("Look.")
        await self.give()
        await self.give()

    def branch(self) -> Chat:
        return copy.deepcopy(self)


def add(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    whole["content"] += delta.get("content") or ""
    if "reasoning_content" in delta:
        whole["reasoning_content"] = (
            whole.get("reasoning_content", "") + delta["reasoning_content"]
        )
    for call in delta.get("tool_calls") or []:
        calls = whole.setdefault("tool_calls", [])
        if call["index"] == len(calls):
            calls.append(
                {name: value for name, value in call.items() if name != "index"}
            )
        else:
            calls[call["index"]]["function"]["arguments"] += call["function"][
                "arguments"
            ]


@asynccontextmanager
async def serving(**settings: Any) -> AsyncGenerator[ModelServer, None]:
    async with model_server(answer, "chat", binding=Binding(**settings)) as server:
        yield server


async def refused(asked: Any, words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        await asked


async def test_deepseek_requires_reasoning_content_with_calls_even_if_empty() -> None:
    async with serving(chat="deepseek") as server:
        chat = Chat(server)
        await chat.turn()
        assert [
            message.get("reasoning_content")
            for message in chat.messages
            if message["role"] == "assistant"
        ] == ["Let me think."] * 3
        await chat.turn()
        assert server.violations == []
        emptied = chat.branch()
        for message in emptied.messages:
            if "tool_calls" in message:
                message["reasoning_content"] = ""
            else:
                message.pop("reasoning_content", None)
        await emptied.say("Once more.")
        del chat.messages[2]["reasoning_content"]
        await refused(chat.branch().say("Once more."), "must be passed back to the API")
        assert [(each.path, each.outcome) for each in server.violations] == [
            ("messages.2", "refused")
        ]
        await chat.say("Once more.", extra_body={"thinking": {"type": "disabled"}})
        assert "reasoning_content" not in chat.messages[-1]


async def test_kimi_requires_unchanged_messages_with_calls() -> None:
    async with serving(chat="kimi") as server:
        chat = Chat(server)
        await chat.turn()
        await chat.turn()
        for edit, words in (
            ({"reasoning_content": "Other."}, "was changed"),
            ({"content": "Other."}, "was changed"),
            ({"reasoning_content": None}, "reasoning_content is missing"),
        ):
            other = chat.branch()
            other.messages[2] |= edit
            await refused(other.say("Once more."), words)
        renamed = chat.branch()
        renamed.messages[2]["tool_calls"][0]["id"] = "own"
        renamed.messages[3]["tool_call_id"] = "own"
        await refused(renamed.say("Once more."), "was changed")


async def test_gemini_requires_the_signature_of_the_first_call_of_each_step_in_the_current_turn() -> (
    None
):
    async with model_server(answer, "google", binding=Binding(chat="gemini")) as server:
        chat = Chat(server, GOOGLE_PATH)
        await chat.say("Look.")
        signed = ["extra_content" in call for call in chat.messages[-1]["tool_calls"]]
        assert signed == [True, False]
        await chat.give()
        bare = chat.branch()
        del bare.messages[2]["tool_calls"][0]["extra_content"]
        await refused(bare.branch().give(), "400")
        assert "missing a thought_signature" in server.refusals[-1].message
        bare.messages[2]["tool_calls"][0]["extra_content"] = {
            "google": {"thought_signature": "skip_thought_signature_validator"}
        }
        await bare.give()
        bare.messages[2]["tool_calls"][0]["extra_content"]["google"][
            "thought_signature"
        ] = "AAAA"
        await bare.say("Again.")  # an earlier turn is not checked
        await chat.give()
        forged = Chat(server, GOOGLE_PATH)
        await forged.say("Look.")
        forged.messages[-1]["tool_calls"][0]["extra_content"]["google"][
            "thought_signature"
        ] = "AAAA"
        await refused(forged.give(), "400")
        assert server.refusals[-1].message == "Corrupted thought signature."


async def test_other_providers_require_nothing() -> None:
    async with serving() as server:
        chat = Chat(server)
        await chat.turn()
        assert "reasoning_content" not in chat.messages[-1]
        assert (server.violations, server.refusals) == ([], [])
        assert server.cached[-1].share > 0.5
