"""The real SDKs as clients of the model server."""

from __future__ import annotations

from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.models import ModelServer

ASK: dict[str, Any] = {"model": "claude-test", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
CHAT: dict[str, Any] = {"model": "chat-test", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES: dict[str, Any] = {"model": "gpt-test", "input": "Hi"}


def anthropic(server: ModelServer, key: str = "test-key") -> AsyncAnthropic:
    return AsyncAnthropic(api_key=key, base_url=server.base_url, max_retries=0)


def openai(server: ModelServer, key: str = "test-key") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=f"{server.base_url}/v1", max_retries=0)


async def claude(client: AsyncAnthropic, **over: Any) -> Any:
    """Stream to the end and return the message that the SDK put together."""
    async with client.messages.stream(**{**ASK, **over}) as stream:
        return await stream.get_final_message()
