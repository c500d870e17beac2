"""The adapter for Anthropic's Messages API; the only importer of the anthropic SDK, which it loads on first use.

The SDK does HTTP, credentials, proxies and errors; the bytes of the stream are read in `transport`. Knows nothing of
sessions.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio import to_thread

from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.llm.access import check_key, check_network
from acp_agent.llm.anthropic_wire import MessagesFold, request_body
from acp_agent.llm.failures import CallFailed, Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelEvent, ModelRequest
from acp_agent.llm.retry import CONNECT_TIMEOUT, DEFAULT_POLICY, READ_TIMEOUT, RetryPolicy, with_retries
from acp_agent.llm.transport import ask, host_of, read

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_QUESTION_SECONDS = 3.0
_NO_KEY = "no-key-needed"
_THINKING_REFUSED = re.compile(
    r"`?(?:redacted_)?thinking`? block|`signature`|thinking.{0,40}cannot be modified", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class AnthropicAccess:
    """Where and as whom.

    :ivar base_url: None leaves it to the SDK.
    :ivar key_hint: the variable to set, in the words of an error message.
    :ivar required: whether a call without any credential is refused here, before it is sent.
    :ivar ambient: whether the SDK may look for credentials itself (its variables, its profiles on disk) where neither
        key nor token is given; not for a gateway, which they are not meant for.
    """

    name: str = "anthropic"
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    key_hint: str = "ANTHROPIC_API_KEY"
    required: bool = True
    ambient: bool = True


class AnthropicProvider:
    """Anthropic, or a gateway that speaks its API.

    :param access: where and as whom.
    :param profile_of: what is known of a model, by its id.
    :param policy: how failures are retried.
    """

    def __init__(
        self,
        access: AnthropicAccess,
        profile_of: Callable[[str], ModelProfile],
        policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._access = access
        self._profile_of = profile_of
        self._policy = policy
        self._client: AsyncAnthropic | None = None
        self._making = anyio.Lock()
        self._windows: dict[str, int] = {}
        self._without_thinking: set[str] = set()

    @property
    def name(self) -> str:
        """The word before the slash in `provider/model`."""
        return self._access.name

    async def prewarm(self) -> None:
        """Load the SDK and make the client, in a worker thread."""
        await self._ready()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`."""
        client = await self._ready()
        access = self._access
        secrets = (access.api_key, access.auth_token, client.api_key, client.auth_token, *access.headers.values())
        endpoint = Endpoint(
            self.name, host_of(str(client.base_url)), access.key_hint, tuple({text for text in secrets if text})
        )
        profile = self._profile_of(request.model)

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return self._attempt(client, request, profile)

        async with aclosing(with_retries(attempt, endpoint, self._policy)) as events:
            async for event in events:
                yield event

    async def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        if model not in self._windows:
            try:
                client = await self._ready()
            except (ConfigError, ModelAuthError):
                return None
            info = await ask(lambda: client.models.retrieve(model, timeout=_QUESTION_SECONDS), _QUESTION_SECONDS)
            if info is None or not info.max_input_tokens:
                return None
            self._windows[model] = info.max_input_tokens
        return self._windows[model]

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        try:
            client = await self._ready()
        except (ConfigError, ModelAuthError):
            return ()
        page = await ask(lambda: client.models.list(limit=100, timeout=_QUESTION_SECONDS), _QUESTION_SECONDS)
        return tuple(info.id for info in page.data) if page is not None else ()

    async def aclose(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _attempt(
        self, client: AsyncAnthropic, request: ModelRequest, profile: ModelProfile
    ) -> AsyncGenerator[ModelEvent, None]:
        """One call; sent once more without earlier thinking where the API no longer accepts that.

        A thinking block is bound to all that stood before it when it was made, so that a compaction voids what it kept.
        """
        keep = request.conversation_id not in self._without_thinking
        try:
            async with aclosing(self._call(client, request, profile, keep_thinking=keep)) as events:
                async for event in events:
                    yield event
            return
        except CallFailed as failure:
            if not keep or failure.status != 400 or not _THINKING_REFUSED.search(failure.message):
                raise
        if request.conversation_id:
            self._without_thinking.add(request.conversation_id)
        async with aclosing(self._call(client, request, profile, keep_thinking=False)) as events:
            async for event in events:
                yield event

    async def _call(
        self, client: AsyncAnthropic, request: ModelRequest, profile: ModelProfile, *, keep_thinking: bool
    ) -> AsyncGenerator[ModelEvent, None]:
        body = request_body(request, profile, self.name, keep_thinking=keep_thinking)
        # The SDK's overloads want each field by name and type; what we send is built and tested as plain JSON.
        create = cast(Callable[..., Any], client.messages.with_streaming_response.create)
        async with aclosing(read(create(stream=True, **body), MessagesFold(self.name), profile)) as events:
            async for event in events:
                yield event

    async def _ready(self) -> AsyncAnthropic:
        async with self._making:
            if self._client is None:
                self._client = await to_thread.run_sync(self._make, abandon_on_cancel=True)
        return self._client

    def _make(self) -> AsyncAnthropic:
        access = self._access
        given = access.api_key or access.auth_token
        if access.required and not given and not access.ambient:
            raise self._no_key()
        check_key(access.name, given, access.key_hint)
        check_network()
        import anthropic

        try:
            client = anthropic.AsyncAnthropic(
                api_key=access.api_key or (None if given or access.ambient else _NO_KEY),
                auth_token=access.auth_token,
                base_url=access.base_url,
                default_headers=access.headers,
                max_retries=0,
                timeout=anthropic.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT),
            )
        except anthropic.AnthropicError as error:
            raise ModelAuthError(f"{access.name}: {error} Check {access.key_hint}.") from error
        if access.required and not (client.api_key or client.auth_token or client.credentials):
            raise self._no_key()
        for found in (client.api_key, client.auth_token):  # the SDK may have looked for them itself
            check_key(access.name, found, access.key_hint)
        _ = client.messages.with_streaming_response  # loads the SDK's lazily imported half, here in the thread
        return client

    def _no_key(self) -> ModelAuthError:
        access = self._access
        return ModelAuthError(f"No key for {access.name}: set {access.key_hint} and start the agent again.")
