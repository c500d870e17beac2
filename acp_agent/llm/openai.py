"""The client that both OpenAI adapters share; the only importer of the openai SDK, which it loads on first use.

Knows neither of the two APIs' words, and nothing of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.frozen import frozen
from acp_agent.llm.access import check_key, check_network, no_key
from acp_agent.llm.failures import CallFailed, Endpoint
from acp_agent.llm.json_access import entry_of, get_int, parse_object
from acp_agent.llm.loading import loading, prepare
from acp_agent.llm.retry import READ_TIMEOUT
from acp_agent.llm.transport import Response, ask, ask_count, host_of

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

Api: TypeAlias = Literal["responses", "chat"]
OFFICIAL_HOST = "api.openai.com"
_LIST_SECONDS = 3.0
_COUNT_SECONDS = 10.0
_NO_KEY = "no-key-needed"
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""vLLM's, OpenRouter's and Together's, Groq's, and Mistral's."""


@frozen
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
    """A lazily made `AsyncOpenAI`.

    :param connection: seconds within which a connection has to stand.
    """

    def __init__(self, access: OpenAIAccess, api: Api, connection: float) -> None:
        self.access = access
        self._api: Api = api
        self._connection = connection
        self._client: AsyncOpenAI | None = None
        self._making = anyio.Lock()

    async def prewarm(self) -> None:
        """Load what the SDK stands on, in a worker thread, but not yet the SDK: see `loading`.

        :raises ModelAuthError: a key is needed and not set, or cannot be sent.
        :raises ConfigError: a variable of the network is wrong.
        """
        await to_thread.run_sync(self._check, abandon_on_cancel=True)
        await to_thread.run_sync(prepare, "openai", abandon_on_cancel=True)

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

    def compact(self, body: JsonObject) -> AbstractAsyncContextManager[Response]:
        """Ask for a compaction, with the Responses API alone; as with `open`, but no stream comes."""
        client = self._client
        assert client is not None
        compact = cast(Callable[..., Any], client.responses.with_streaming_response.compact)
        return compact(**body)

    async def count_tokens(self, body: JsonObject) -> int | None:
        """Tokens of an input, with the Responses API alone; None when it cannot be asked.

        :raises ModelAuthError: see `ready`, and so `ConfigError`.
        """
        client = await self._ready()
        count = cast(Callable[..., Any], client.responses.input_tokens.count)
        return await ask_count(lambda: count(timeout=_COUNT_SECONDS, **body), _COUNT_SECONDS)

    async def models(self) -> tuple[str, ...]:
        """Ids of the models on offer; empty when it cannot be asked."""
        try:
            client = await self._ready()
        except (ConfigError, ModelAuthError):
            return ()
        page = await ask(lambda: _first_page(client), _LIST_SECONDS)
        return page or ()

    async def listed_window(self, model: str, limit: float) -> int | None:
        """Tokens of a model's window where the list of models has it, as those of OpenRouter, vLLM and Groq do.

        :param limit: seconds.
        :raises CallFailed: the answer is no list; the SDK's exceptions come as they are.
        :raises ModelAuthError: see `ready`, and so `ConfigError`.
        """
        client = await self._ready()
        # The SDK's objects have OpenAI's fields; making hundreds of them for one number takes long.
        answer = await client.models.with_raw_response.list(timeout=limit)
        listing = parse_object(answer.content)
        if listing is None or "data" not in listing:
            raise CallFailed("no-stream", "the answer is no list of models")
        entry = entry_of(listing, "data", model)
        return next((tokens for field in _WINDOW_FIELDS if (tokens := get_int(entry, field)) > 0), None)

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

    def _check(self) -> None:
        access = self.access
        if access.required and not access.api_key:
            raise no_key(access.name, access.key_hint)
        check_key(access.name, access.api_key, access.key_hint)
        check_network()

    @loading("openai")
    def _make(self) -> AsyncOpenAI:
        self._check()
        import openai

        from acp_agent.llm.connecting import certificates, send_within

        access = self.access
        limit = self._connection

        class Client(openai.DefaultAsyncHttpxClient):
            async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
                return await send_within(limit, request, lambda: super(Client, self).send(request, **more))

        client = openai.AsyncOpenAI(
            api_key=access.api_key or _NO_KEY,
            base_url=access.base_url,
            default_headers=access.headers,
            max_retries=0,
            timeout=openai.Timeout(READ_TIMEOUT, connect=limit / 2),
            http_client=Client(verify=certificates()),
        )
        if access.name != "openai" or not access.required:
            # The SDK took these from OpenAI's variables; they are nobody else's business, nor a gateway's.
            client.organization = None
            client.project = None
        part = client.responses if self._api == "responses" else client.chat.completions
        _ = part.with_streaming_response, client.models  # loads the SDK's lazily imported half, here in the thread
        return client


async def _first_page(client: AsyncOpenAI) -> tuple[str, ...]:
    page = await client.models.list(timeout=_LIST_SECONDS)
    return tuple(model.id for model in page.data)
