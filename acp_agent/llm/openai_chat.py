"""The adapter for servers that speak OpenAI's Chat Completions: local ones, Gemini's, routers. Knows no sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from acp_agent.conversation.messages import Usage
from acp_agent.llm.openai import OFFICIAL_HOST, OpenAIAccess, OpenAIClient
from acp_agent.llm.openai_chat_wire import ChatFold, ReasoningStyle, request_body
from acp_agent.llm.parts import estimated_tokens, request_length
from acp_agent.llm.probe import ollama_window
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from acp_agent.llm.retry import DEFAULT_POLICY, RetryPolicy, with_retries
from acp_agent.llm.transport import read


class OpenAIChatProvider:
    """Any server with `POST {base_url}/chat/completions`.

    :param access: where and as whom.
    :param profile_of: what is known of a model, by its id.
    :param policy: how failures are retried.
    :param reasoning: how the server is told how much to think.
    :param is_ollama: whether it can be asked for windows in Ollama's own way.
    """

    def __init__(
        self,
        access: OpenAIAccess,
        profile_of: Callable[[str], ModelProfile],
        policy: RetryPolicy = DEFAULT_POLICY,
        *,
        reasoning: ReasoningStyle = "reasoning_effort",
        is_ollama: bool = False,
    ) -> None:
        self._client = OpenAIClient(access, "chat")
        self._profile_of = profile_of
        self._policy = policy
        self._reasoning: ReasoningStyle = reasoning
        self._is_ollama = is_ollama
        self._windows: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The word before the slash in `provider/model`."""
        return self._client.access.name

    async def prewarm(self) -> None:
        """Load the SDK and make the client, in a worker thread."""
        await self._client.ready()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider.stream`."""
        endpoint = await self._client.ready()
        profile = self._profile_of(request.model)
        limit_field = "max_completion_tokens" if endpoint.host == OFFICIAL_HOST else "max_tokens"
        body = request_body(request, profile, self.name, reasoning=self._reasoning, limit_field=limit_field)

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return read(self._client.open(body), ChatFold(self.name), profile, ends_with_done=True)

        said = 0
        async with aclosing(with_retries(attempt, endpoint, self._policy)) as events:
            async for event in events:
                if isinstance(event, TextDelta | ThinkingDelta):
                    said += len(event.text)
                if isinstance(event, Answered) and not event.usage.total_tokens:
                    yield replace(event, usage=_estimated(request, said))
                else:
                    yield event

    async def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`; only Ollama says."""
        if not self._is_ollama or self._client.access.base_url is None:
            return None
        if model not in self._windows:
            window = await ollama_window(self._client.access.base_url, model)
            if window is None:
                return None
            self._windows[model] = window
        return self._windows[model]

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        return await self._client.models()

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()


def _estimated(request: ModelRequest, said: int) -> Usage:
    """For servers that count nothing: else no context would ever seem full."""
    return Usage(input_tokens=estimated_tokens(request_length(request)), output_tokens=estimated_tokens(said))
