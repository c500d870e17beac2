"""The client that both OpenAI adapters share; the only importer of the openai SDK, which it loads on first use.

Knows neither of the two APIs' words, and nothing of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.llm.access import check_key, check_network
from acp_agent.llm.failures import Endpoint
from acp_agent.llm.retry import CONNECT_TIMEOUT, READ_TIMEOUT
from acp_agent.llm.transport import Response, ask, host_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Api: TypeAlias = Literal["responses", "chat"]
OFFICIAL_HOST = "api.openai.com"
_QUESTION_SECONDS = 3.0
_NO_KEY = "no-key-needed"


@dataclass(frozen=True, slots=True)
class OpenAIAccess:
    """Where and as whom.

    :ivar api_key: None where none is set.
    :ivar base_url: None leaves it to the SDK's environment variable and default.
    :ivar key_hint: the variable to set, in the words of an error message.
    :ivar required: whether a call without a key is refused here, before it is sent.
    """

    name: str = "openai"
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    key_hint: str = "OPENAI_API_KEY"
    required: bool = True


class OpenAIClient:
    """A lazily made `AsyncOpenAI`."""

    def __init__(self, access: OpenAIAccess, api: Api) -> None:
        self.access = access
        self._api: Api = api
        self._client: AsyncOpenAI | None = None
        self._making = anyio.Lock()

    async def ready(self) -> Endpoint:
        """Load the SDK and make the client, in a worker thread.

        :raises ModelAuthError: a key is needed and not set, or cannot be sent.
        :raises ConfigError: a variable of the network is wrong.
        """
        client = await self._ready()
        secrets = (self.access.api_key, *self.access.headers.values())
        known = tuple({text for text in secrets if text})
        return Endpoint(self.access.name, host_of(str(client.base_url)), self.access.key_hint, known)

    def open(self, body: JsonObject) -> AbstractAsyncContextManager[Response]:
        """Ask for a stream; the request goes out when the context is entered. Needs `ready` before.

        :param body: the JSON of the request, without `stream`.
        """
        client = self._client
        assert client is not None
        part = client.responses if self._api == "responses" else client.chat.completions
        # The SDK's overloads want each field by name and type; what we send is built and tested as plain JSON. What
        # OpenAI does not have itself (OpenRouter's `reasoning`) the SDK takes in `extra_body`.
        create = cast(Callable[..., Any], part.with_streaming_response.create)
        if self._api == "chat" and "reasoning" in body:
            body = {**body, "extra_body": {"reasoning": body["reasoning"]}}
            del body["reasoning"]
        return create(stream=True, **body)

    async def models(self) -> tuple[str, ...]:
        """Ids of the models on offer; empty when it cannot be asked."""
        try:
            client = await self._ready()
        except (ConfigError, ModelAuthError):
            return ()
        page = await ask(lambda: _first_page(client), _QUESTION_SECONDS)
        return page or ()

    async def aclose(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _ready(self) -> AsyncOpenAI:
        async with self._making:
            if self._client is None:
                self._client = await to_thread.run_sync(self._make, abandon_on_cancel=True)
        return self._client

    def _make(self) -> AsyncOpenAI:
        access = self.access
        if access.required and not access.api_key:
            raise ModelAuthError(f"No key for {access.name}: set {access.key_hint} and start the agent again.")
        check_key(access.name, access.api_key, access.key_hint)
        check_network()
        import openai

        client = openai.AsyncOpenAI(
            api_key=access.api_key or _NO_KEY,
            base_url=access.base_url,
            default_headers=access.headers,
            max_retries=0,
            timeout=openai.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT),
        )
        if access.name != "openai":
            # The SDK took these from OpenAI's variables; they are nobody else's business.
            client.organization = None
            client.project = None
        part = client.responses if self._api == "responses" else client.chat.completions
        _ = part.with_streaming_response  # loads the SDK's lazily imported half, here in the thread
        return client


async def _first_page(client: AsyncOpenAI) -> tuple[str, ...]:
    page = await client.models.list(timeout=_QUESTION_SECONDS)
    return tuple(model.id for model in page.data)
