"""The adapter for servers that speak OpenAI's Chat Completions: local ones, Gemini's, routers. Knows no sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.llm.openai import OFFICIAL_HOST, OpenAIAccess, OpenAIClient
from acp_agent.llm.openai_chat_wire import ChatFold, ReasoningStyle, request_body
from acp_agent.llm.probe import LocalQuestion
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest
from acp_agent.llm.retry import DEFAULT_POLICY, RetryPolicy, with_retries
from acp_agent.llm.transport import read
from acp_agent.llm.windows import WINDOW_SECONDS, LocalWindows, StatedWindows

_SILENT_HOSTS = frozenset({OFFICIAL_HOST, "generativelanguage.googleapis.com"})
"""Whose lists of models are known to have no windows: nobody waits for them."""


class OpenAIChatProvider:
    """Any server with `POST {base_url}/chat/completions`.

    :param access: where and as whom.
    :param profile_of: what is known of a model, by its id.
    :param policy: how failures are retried.
    :param reasoning: how the server is told how much to think.
    :param local: how a local server is asked for windows in its own way; None reads them from the list of models.
    """

    def __init__(
        self,
        access: OpenAIAccess,
        profile_of: Callable[[str], ModelProfile],
        policy: RetryPolicy = DEFAULT_POLICY,
        *,
        reasoning: ReasoningStyle = "reasoning_effort",
        local: LocalQuestion | None = None,
    ) -> None:
        self._client = OpenAIClient(access, "chat", policy.connection)
        self._profile_of = profile_of
        self._policy = policy
        self._reasoning: ReasoningStyle = reasoning
        self._local = LocalWindows(local, access.base_url) if local is not None and access.base_url else None
        self._windows = StatedWindows()

    @property
    def name(self) -> str:
        """The word before the slash in `provider/model`."""
        return self._client.access.name

    async def prewarm(self) -> None:
        """See `OpenAIClient.prewarm`."""
        await self._client.prewarm()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`."""
        endpoint = await self._client.ready()
        profile = self._profile_of(request.model)
        limit_field = "max_completion_tokens" if endpoint.host == OFFICIAL_HOST else "max_tokens"
        body = request_body(request, profile, self.name, reasoning=self._reasoning, limit_field=limit_field)

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return read(self._client.open(body), ChatFold(self.name), request, profile, ends_with_done=True)

        async with aclosing(with_retries(attempt, endpoint, self._policy)) as events:
            async for event in events:
                if isinstance(event, Answered) and self._local is not None:
                    await self._local.answered(request.model)
                yield event

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`."""
        return (self._windows if self._local is None else self._local).get(model)

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`; a local server is asked each time, since it may have loaded the model anew."""
        if self._local is not None:
            await self._local.learn(model)
            return
        try:
            endpoint = await self._client.ready()
        except (ConfigError, ModelAuthError):
            return
        if endpoint.host not in _SILENT_HOSTS:
            await self._windows.learn(model, lambda: self._client.listed_window(model, WINDOW_SECONDS))

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`; there is no common way to ask."""
        return None

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        return await self._client.models()

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()
