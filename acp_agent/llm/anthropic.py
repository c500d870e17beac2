"""The adapter for Anthropic's Messages API; the only importer of the anthropic SDK, which it loads on first use.

The SDK does HTTP, credentials, proxies and errors; the bytes of the stream are read in `transport`. Knows nothing of
sessions.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio import to_thread

from acp_agent.conversation.messages import CompactedBlock, JsonObject
from acp_agent.errors import ConfigError, ContextOverflowError, ModelAuthError, ModelRequestError
from acp_agent.frozen import frozen
from acp_agent.llm.access import check_key, check_network, no_key
from acp_agent.llm.anthropic_fold import MessagesFold
from acp_agent.llm.anthropic_wire import (
    COMPACTION_BETA,
    compacted_of,
    compaction_option,
    count_body,
    request_body,
    window_betas,
)
from acp_agent.llm.failures import CallFailed, Endpoint
from acp_agent.llm.json_access import get_text
from acp_agent.llm.loading import loading, prepare
from acp_agent.llm.profiles import ModelProfile, is_extended
from acp_agent.llm.provider import (
    Answered,
    Compacted,
    CompactedNothing,
    ModelEvent,
    ModelRequest,
    Resent,
    Retrying,
)
from acp_agent.llm.retry import DEFAULT_POLICY, READ_TIMEOUT, RetryPolicy, with_retries
from acp_agent.llm.transport import ask, ask_count, host_of, read
from acp_agent.llm.windows import WINDOW_SECONDS, StatedWindows

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

_LIST_SECONDS = 3.0
_COUNT_SECONDS = 10.0
_BETAS = "anthropic-beta"
_NO_KEY = "no-key-needed"
_THINKING_REFUSED = re.compile(
    r"`?(?:redacted_)?thinking`? block|`signature`|thinking.{0,40}cannot be modified", re.IGNORECASE
)
_COMPACTED_REFUSED = re.compile(r"compaction", re.IGNORECASE)


@frozen
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

    keeps_user_messages = False

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
        self._windows = StatedWindows()
        self._without_thinking: set[str] = set()
        self._refused_blocks: set[tuple[str, str]] = set()

    @property
    def name(self) -> str:
        """The word before the slash in `provider/model`."""
        return self._access.name

    async def prewarm(self) -> None:
        """Load what the SDK stands on, in a worker thread, but not yet the SDK: see `loading`.

        :raises ModelAuthError: there is no key, or it cannot be sent.
        :raises ConfigError: a variable of the network is wrong.
        """
        await to_thread.run_sync(self._check, abandon_on_cancel=True)
        await to_thread.run_sync(prepare, "anthropic", abandon_on_cancel=True)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`."""
        client = await self._ready()

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return self._attempt(client, request, lambda: MessagesFold(self.name))

        async with aclosing(with_retries(attempt, self._endpoint(client), self._policy)) as events:
            async for event in events:
                yield event

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        """See `NativeCompaction.compact`; the block has its summary as text.

        Source: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand
        """
        client = await self._ready()
        fold = MessagesFold(self.name)

        def fresh() -> MessagesFold:
            nonlocal fold
            fold = MessagesFold(self.name)
            return fold

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return self._attempt(client, request, fresh, compaction_option(instructions))

        usage = None
        async with aclosing(with_retries(attempt, self._endpoint(client), self._policy)) as events:
            async for event in events:
                if isinstance(event, Retrying | Resent):
                    again()
                usage = event.usage if isinstance(event, Answered) else usage
        assert usage is not None  # the last event of every stream that does not raise
        block = fold.compaction
        if block is None:
            raise self._nothing_compacted(fold.stopped) from CompactedNothing(usage)
        return Compacted(CompactedBlock(self.name, block, get_text(block, "content")), usage)

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return self._windows.get(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`. What it says of a model is not the window that a header opens."""
        if is_extended(model):
            return
        try:
            client = await self._ready()
        except (ConfigError, ModelAuthError):
            return
        await self._windows.learn(model, lambda: _stated_window(client, model))

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`."""
        try:
            client = await self._ready()
        except (ConfigError, ModelAuthError):
            return None
        block = self._block(request)
        body = request_body(request, self._profile_of(request.model), self.name, compacted=block)
        part, more = self._part(client, request.model, compacting=block is not None)
        count = cast(Callable[..., Any], part.count_tokens)
        return await ask_count(lambda: count(timeout=_COUNT_SECONDS, **count_body(body), **more), _COUNT_SECONDS)

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        try:
            client = await self._ready()
        except (ConfigError, ModelAuthError):
            return ()
        page = await ask(lambda: client.models.list(limit=100, timeout=_LIST_SECONDS), _LIST_SECONDS)
        return tuple(info.id for info in page.data) if page is not None else ()

    async def aclose(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _attempt(
        self,
        client: AsyncAnthropic,
        request: ModelRequest,
        fresh: Callable[[], MessagesFold],
        option: JsonObject | None = None,
    ) -> AsyncGenerator[ModelEvent, None]:
        """One call; sent again at once without what the API no longer accepts.

        A thinking block is bound to all that stood before it when it was made, so that a compaction voids what it kept.
        A compacted block is bound to models that know such blocks; what it says is sent as text in its place.

        :param fresh: makes the fold.
        :param option: what makes the request one for compaction.
        """
        profile = self._profile_of(request.model)
        keep = request.conversation_id not in self._without_thinking
        block = self._block(request)
        while True:
            body = request_body(request, profile, self.name, keep_thinking=keep, compacted=block)
            part, more = self._part(client, request.model, compacting=block is not None or option is not None)
            # The SDK's overloads want each field by name and type; what we send is built and tested as plain JSON.
            create = cast(Callable[..., Any], part.with_streaming_response.create)
            call = create(stream=True, **body, **more, **(option or {}))
            try:
                async with aclosing(read(call, fresh(), request, profile)) as events:
                    async for event in events:
                        yield event
                return
            except CallFailed as failure:
                if failure.status != 400:
                    raise
                if block is not None and option is None and _COMPACTED_REFUSED.search(failure.message):
                    self._refused_blocks.add((request.model, block.text))
                    block = None
                elif keep and _THINKING_REFUSED.search(failure.message):
                    if request.conversation_id:
                        self._without_thinking.add(request.conversation_id)
                    keep = False
                else:
                    raise
            yield Resent()

    def _block(self, request: ModelRequest) -> CompactedBlock | None:
        """The compacted block that the API takes in its own form."""
        block = compacted_of(request.messages, self.name)
        return None if block is None or (request.model, block.text) in self._refused_blocks else block

    def _part(self, client: AsyncAnthropic, model: str, *, compacting: bool) -> tuple[Any, JsonObject]:
        """The SDK's half to call, and further arguments, for which the configured betas have to be repeated."""
        needed = [*window_betas(model), *([COMPACTION_BETA] if compacting else ())]
        if not needed:
            return client.messages, {}
        given = ",".join(value for name, value in self._access.headers.items() if name.lower() == _BETAS)
        betas = [word for part in given.split(",") if (word := part.strip())]
        return client.beta.messages, {"betas": list(dict.fromkeys([*betas, *needed]))}

    def _endpoint(self, client: AsyncAnthropic) -> Endpoint:
        access = self._access
        secrets = (access.api_key, access.auth_token, client.api_key, client.auth_token, *access.headers.values())
        known = tuple({text for text in secrets if text})
        return Endpoint(self.name, host_of(str(client.base_url)), access.key_hint, known)

    def _nothing_compacted(self, stopped: str) -> ModelRequestError:
        if stopped == "model_context_window_exceeded":
            return ContextOverflowError(
                f"{self.name} cannot compact the conversation: it leaves no room for the prompt for the summary."
                " Have it summarised in pieces, or start a new session."
            )
        return ModelRequestError(
            f"{self.name} made no summary of the conversation (it stopped with {stopped or 'nothing'!r})."
            " Compact with another strategy, or with another model."
        )

    async def _ready(self) -> AsyncAnthropic:
        async with self._making:
            if self._client is None:
                self._client = await to_thread.run_sync(self._make, abandon_on_cancel=True)
        return self._client

    def _check(self) -> None:
        access = self._access
        given = access.api_key or access.auth_token
        if access.required and not given and not access.ambient:
            raise self._no_key()
        check_key(access.name, given, access.key_hint)
        check_network()

    @loading("anthropic")
    def _make(self) -> AsyncAnthropic:
        self._check()
        import anthropic

        from acp_agent.llm.connecting import certificates, send_within

        access = self._access
        given = access.api_key or access.auth_token
        limit = self._policy.connection

        class Client(anthropic.DefaultAsyncHttpxClient):
            async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
                return await send_within(limit, request, lambda: super(Client, self).send(request, **more))

        try:
            client = anthropic.AsyncAnthropic(
                api_key=access.api_key or (None if given or access.ambient else _NO_KEY),
                auth_token=access.auth_token,
                base_url=access.base_url,
                default_headers=access.headers,
                max_retries=0,
                timeout=anthropic.Timeout(READ_TIMEOUT, connect=limit / 2),
                http_client=Client(verify=certificates()),
            )
        except anthropic.AnthropicError as error:
            raise ModelAuthError(f"{access.name}: {error} Check {access.key_hint}.") from error
        if not given and any(name.lower() == "x-api-key" for name in access.headers):
            client.api_key = None  # beside that, what stands in for a key would be one too many
        if access.required and not (client.api_key or client.auth_token or client.credentials):
            raise self._no_key()
        for found in (client.api_key, client.auth_token):  # the SDK may have looked for them itself
            check_key(access.name, found, access.key_hint)
        # Loads what the SDK imports when it is first used, here in the thread.
        _ = client.messages.with_streaming_response
        with suppress(Exception):  # as the SDK does without it: the environment may name what there is not
            import_module("opentelemetry.propagate")
        return client

    def _no_key(self) -> ModelAuthError:
        return no_key(self._access.name, self._access.key_hint)


async def _stated_window(client: AsyncAnthropic, model: str) -> int | None:
    info: object = await client.models.retrieve(model, timeout=WINDOW_SECONDS)
    if getattr(info, "id", None) is None:
        raise CallFailed("no-stream", "the answer describes no model")
    tokens: object = getattr(info, "max_input_tokens", None)
    return tokens if isinstance(tokens, int) and tokens > 0 else None
