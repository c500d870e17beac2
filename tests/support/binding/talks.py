"""Clients that keep their conversation, and send all of it with each request, over the
providers' own SDKs.

talk = ClaudeTalk(server)
await talk.say("one")
talk.messages[0]["content"] = "One"                            # an edit
with pytest.raises(anthropic.BadRequestError): await talk.say("two")
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from anthropic import AsyncAnthropic
from anthropic import DefaultAsyncHttpxClient as AnthropicHttpClient
from anthropic.types.beta import BetaMessage
from openai import AsyncOpenAI
from openai import DefaultAsyncHttpxClient as OpenAIHttpClient
from openai.types.responses import Response

from support.binding.claude import BINDING_BETA, COMPACTION_BETA
from support.models import KEY, ModelServer

LOOK = {
    "name": "look",
    "description": "Looks.",
    "input_schema": {"type": "object", "properties": {}},
}
ZAP = {
    "name": "zap",
    "description": "Zaps.",
    "input_schema": {"type": "object", "properties": {}},
}


class ClaudeTalk:
    """A conversation over Anthropic Messages.

    :ivar behavior: `prefix_mismatch_behavior`; with one, the beta header goes along.
    """

    def __init__(
        self,
        server: ModelServer,
        *,
        model: str = "claude-sonnet-5-5",
        betas: Sequence[str] = (),
        behavior: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (LOOK,),
        thinking: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server
        self.model = model
        self.betas = list(betas)
        self.behavior = behavior
        self.system: Any = "Be brief."
        self.tools = [dict(tool) for tool in tools]
        self.messages: list[dict[str, Any]] = []
        self.thinking = thinking or {"type": "adaptive"}

    @property
    def params(self) -> dict[str, Any]:
        """What all requests have."""
        return {
            "model": self.model,
            "max_tokens": 2_000,
            "system": self.system,
            "tools": self.tools,
        }

    def branch(self) -> ClaudeTalk:
        """Return a conversation that goes on from here by itself."""
        other = copy.copy(self)
        for name in ("system", "tools", "messages", "betas"):
            setattr(other, name, copy.deepcopy(getattr(self, name)))
        return other

    async def send(self, **extra: Any) -> BetaMessage:
        """Send the conversation as it is, and return the answer, which stays out of it."""
        thinking: Any = dict(self.thinking)
        betas = list(self.betas)
        if self.behavior:
            thinking["block_binding"] = {"prefix_mismatch_behavior": self.behavior}
            betas.append(BINDING_BETA)
        params = (
            self.params
            | {"messages": self.messages, "thinking": thinking, "betas": betas}
            | extra
        )
        async with (
            _anthropic(self.server) as client,
            client.beta.messages.stream(**params) as stream,
        ):
            return await stream.get_final_message()

    async def go_on(self, **extra: Any) -> BetaMessage:
        """Send the conversation, and add the answer to it."""
        answer = await self.send(**extra)
        self.messages.append({"role": "assistant", "content": blocks(answer)})
        return answer

    async def say(self, text: str, **extra: Any) -> BetaMessage:
        self.messages.append({"role": "user", "content": text})
        return await self.go_on(**extra)

    async def give(self, result: str = "Seen.") -> BetaMessage:
        """Answer all calls of the last turn with one text."""
        calls = [
            block["id"]
            for block in self.messages[-1]["content"]
            if block["type"] == "tool_use"
        ]
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": result}
            for id in calls
        ]
        self.messages.append({"role": "user", "content": results})
        return await self.go_on()

    async def summary(self, count: int | None = None, **extra: Any) -> BetaMessage:
        """Ask for a summary of so many messages, or of all."""
        betas = [*self.betas, COMPACTION_BETA]
        params = self.params | {
            "messages": self.messages[:count],
            "compaction": {"type": "summarize"},
            "betas": betas,
        }
        async with (
            _anthropic(self.server) as client,
            client.beta.messages.stream(**(params | extra)) as stream,
        ):
            return await stream.get_final_message()

    async def compact(self, count: int | None = None, **extra: Any) -> None:
        """Put a summary in the place of so many messages, or of all."""
        answer = await self.summary(count, **extra)
        kept = self.messages[count:] if count is not None else []
        self.messages = [{"role": "assistant", "content": blocks(answer)}, *kept]

    async def count(self) -> int:
        async with _anthropic(self.server) as client:
            params: dict[str, Any] = self.params | {"messages": self.messages}
            del params["max_tokens"]
            counted = await client.beta.messages.count_tokens(**params)
            return counted.input_tokens

    def without_thinking(self, *indices: int) -> ClaudeTalk:
        """Return a branch in which these messages have no thinking."""
        other = self.branch()
        for index in indices:
            content = other.messages[index]["content"]
            other.messages[index]["content"] = [
                block for block in content if block["type"] != "thinking"
            ]
        return other


class GptTalk:
    """A conversation over OpenAI Responses."""

    def __init__(
        self, server: ModelServer, *, model: str = "gpt-6.2-sol", **params: Any
    ) -> None:
        tool = {
            "type": "function",
            "name": "look",
            "description": "Looks.",
            "parameters": LOOK["input_schema"],
        }
        self.server = server
        self.params: dict[str, Any] = {
            "model": model,
            "store": False,
            "tools": [{**tool, "strict": False}],
        } | params
        self.items: list[dict[str, Any]] = [
            {"role": "developer", "content": "Be brief."}
        ]

    async def send(self, **extra: Any) -> Response:
        """Send the conversation as it is, and return the answer, which stays out of it."""
        params: dict[str, Any] = self.params | {"input": self.items} | extra
        async with (
            _openai(self.server) as client,
            client.responses.stream(**params) as stream,
        ):
            return await stream.get_final_response()

    async def go_on(self, **extra: Any) -> Response:
        answer = await self.send(**extra)
        self.items += [item.to_dict() for item in answer.output]
        return answer

    async def say(self, text: str, **extra: Any) -> Response:
        self.items.append({"role": "user", "content": text})
        return await self.go_on(**extra)

    async def give(self, result: str = "Seen.") -> Response:
        self.items.append(
            {
                "type": "function_call_output",
                "call_id": self.items[-1]["call_id"],
                "output": result,
            }
        )
        return await self.go_on()

    async def window(self, count: int) -> list[dict[str, Any]]:
        """Compact so many items, and return the window as the API sent it."""
        async with _openai(self.server) as client:
            given: Any = self.items[:count]
            raw = await client.responses.with_raw_response.compact(
                model=self.params["model"], input=given
            )
            return json.loads(raw.text)["output"]

    async def compact(self, count: int) -> None:
        """Put the window in the place of so many items."""
        self.items = [*await self.window(count), *self.items[count:]]

    async def trigger(self, count: int) -> Response:
        """Have the first `count` items compacted by a trigger; what the user said and
        the new item replace them.
        """
        made = await self.send(
            input=[*self.items[:count], {"type": "compaction_trigger"}]
        )
        said = [item for item in self.items[:count] if item.get("role") == "user"]
        self.items[:count] = [*said, *(item.to_dict() for item in made.output)]
        return made

    def find(self, kind: str) -> dict[str, Any]:
        return next(item for item in self.items if item.get("type") == kind)


def blocks(answer: BetaMessage) -> list[dict[str, Any]]:
    return [block.to_dict() for block in answer.content]


def entries(answer: BetaMessage) -> list[tuple[str, str, str]]:
    """Return type, path and reason of what an answer says was dropped or let through."""
    assert answer.input_transformations is not None
    return [
        (each.type, each.path, each.reason) for each in answer.input_transformations
    ]


def removed(answer: Response) -> list[str]:
    """Return the reason for each reasoning item that was removed."""
    assert answer.input_transformations is not None
    return [each.reason for each in answer.input_transformations]


def _anthropic(server: ModelServer) -> AsyncAnthropic:
    # Certificates would take most of a test's time.
    plain = AnthropicHttpClient(verify=False)
    return AsyncAnthropic(
        api_key=KEY, base_url=server.base_url, max_retries=0, http_client=plain
    )


def _openai(server: ModelServer) -> AsyncOpenAI:
    plain = OpenAIHttpClient(verify=False)
    return AsyncOpenAI(
        api_key=KEY, base_url=f"{server.base_url}/v1", max_retries=0, http_client=plain
    )
