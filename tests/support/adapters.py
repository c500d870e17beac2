"""The three adapters on a model server of the loopback interface, and a call of one to
its end.

The shortest answers of the three dialects are here too, for servers that break them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from acp_agent.conversation import messages as m
from acp_agent.errors import ModelError
from acp_agent.llm.adapters.adapter import Adapter
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.adapters.encoding import ModelCall
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.adapters.responses import ResponsesAdapter
from acp_agent.llm.client import ModelClient, make_client
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile, Prices
from acp_agent.llm.provider import AskedAgain, ModelEvent, ModelRequest, TextDelta
from support.models import ModelServer, Reply, model_server

KEY = "test-key"
PROFILE = ModelProfile(200_000, 8_192, thinking="none", prices=Prices(10, 1, 20, 100))
DIALECTS = ["anthropic", "openai", "chat"]
BEGINNING: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {
            "type": "message_start",
            "message": {"usage": {"input_tokens": 9, "output_tokens": 1}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Hi"},
        },
    ],
    "openai": [{"type": "response.output_text.delta", "delta": "Hi"}],
    "chat": [
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
    ],
}
"""An answer as far as its text, and no further."""
ENDING: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ],
    "openai": [
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                "type": "message",
                "content": [{"type": "output_text", "text": "Hi"}],
            },
        },
        {
            "type": "response.completed",
            "response": {"usage": {"input_tokens": 9, "output_tokens": 5}},
        },
    ],
    "chat": [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
}
"""The rest of it."""


def adapter(
    dialect: str,
    base_url: str,
    *,
    headers: dict[str, str] | None = None,
    profile: ModelProfile = PROFILE,
) -> ModelClient:
    return make_client(
        endpoint(dialect, base_url, headers), lambda _: profile, first_delay=0.001
    )


def endpoint(
    dialect: str, base_url: str, headers: dict[str, str] | None = None
) -> Endpoint:
    """One of the built-in providers, or a server of somebody's own."""
    more: dict[str, Any] = {"key": KEY, "headers": headers or {}, "required": True}
    if dialect == "anthropic":
        return Endpoint(
            "anthropic", "anthropic", base_url, key_hint="ANTHROPIC_API_KEY", **more
        )
    if dialect == "openai":
        return Endpoint(
            "openai",
            "openai-responses",
            f"{base_url}/v1",
            key_hint="OPENAI_API_KEY",
            **more,
        )
    path = "/v1beta/openai/" if dialect == "google" else "/v1"
    return Endpoint(
        "local", "openai-chat", base_url + path, key_hint="LOCAL_API_KEY", **more
    )


def api(dialect: str, name: str = "", host: str | None = None) -> Adapter:
    """What encodes requests for an API.

    :param name: the provider's, where it is another one.
    :param host: where Anthropic's API is asked.
    """
    if dialect == "anthropic":
        return AnthropicAdapter(Endpoint(name or "anthropic", "anthropic", host))
    if dialect == "openai":
        return ResponsesAdapter(Endpoint(name or "openai", "openai-responses"))
    return ChatAdapter(Endpoint(name or "local", "openai-chat", "http://localhost/v1"))


def wire_body(
    dialect: str, asked: ModelRequest, profile: ModelProfile, name: str = ""
) -> Any:
    """A request in the words of an API, without the wish for a stream."""
    body = json.loads(
        api(dialect, name).call(asked, profile, frozenset(), None).content
    )
    return {key: body[key] for key in body if key != "stream"}


def fold_of(dialect: str) -> Fold:
    return api(dialect).fold(ModelCall("", {}))


def request(
    *messages: m.Message, model: str = "claude-test", **more: object
) -> ModelRequest:
    said = messages or (m.UserMessage("u1", (m.Text("Hello"),)),)
    return ModelRequest(model, "Be brief.", said, conversation_id="sess_1", **more)  # pyright: ignore[reportArgumentType]


async def collect(provider: ModelClient, asked: ModelRequest) -> list[ModelEvent]:
    """Return the events of a call, except for `AskedAgain`."""
    with anyio.fail_after(20):
        async with aclosing(provider.stream(asked)) as events:
            return [
                event async for event in events if not isinstance(event, AskedAgain)
            ]


async def outcome(
    provider: ModelClient, asked: ModelRequest
) -> tuple[list[ModelEvent], ModelError | None]:
    """What came of a call, and the error that it ended with, if it did. Closes the
    adapter.
    """
    seen: list[ModelEvent] = []
    try:
        with anyio.fail_after(20):
            async with aclosing(provider.stream(asked)) as events:
                async for event in events:
                    if not isinstance(event, AskedAgain):
                        seen.append(event)  # noqa: PERF401 - keeps the events before an error
    except ModelError as error:
        return seen, error
    finally:
        await provider.aclose()
    return seen, None


def encoded(events: list[dict[str, Any]]) -> bytes:
    """Events as the body of an answer, without the word that some servers end it with."""
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


@asynccontextmanager
async def playing(
    dialect: str, *replies: Reply, profile: ModelProfile = PROFILE
) -> AsyncIterator[tuple[ModelClient, ModelServer]]:
    async with model_server(replies) as server:
        provider = adapter(dialect, server.base_url, profile=profile)
        try:
            yield provider, server
        finally:
            await provider.aclose()


def texts(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]
