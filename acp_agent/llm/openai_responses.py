"""The adapter for OpenAI's Responses API. Knows nothing of sessions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from acp_agent.llm.failures import CallFailed
from acp_agent.llm.openai import OpenAIAccess, OpenAIClient
from acp_agent.llm.openai_responses_wire import ResponsesFold, request_body
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelEvent, ModelRequest
from acp_agent.llm.retry import DEFAULT_POLICY, RetryPolicy, with_retries
from acp_agent.llm.transport import read

_SUMMARIES_REFUSED = re.compile(r"reasoning[ ._]summar", re.IGNORECASE)
_REASONING_REFUSED = re.compile(r"invalid_encrypted_content|encrypted[ _]content|'?reasoning'? item", re.IGNORECASE)


class OpenAIResponsesProvider:
    """OpenAI, or a gateway that speaks its Responses API.

    :param access: where and as whom.
    :param profile_of: what is known of a model, by its id.
    :param policy: how failures are retried.
    """

    def __init__(
        self,
        access: OpenAIAccess,
        profile_of: Callable[[str], ModelProfile],
        policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._client = OpenAIClient(access, "responses")
        self._profile_of = profile_of
        self._policy = policy
        self._summaries = True
        self._without_thinking: set[str] = set()

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

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return self._attempt(request, profile)

        async with aclosing(with_retries(attempt, endpoint, self._policy)) as events:
            async for event in events:
                yield event

    async def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`; OpenAI does not say."""
        return None

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        return await self._client.models()

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def _attempt(self, request: ModelRequest, profile: ModelProfile) -> AsyncGenerator[ModelEvent, None]:
        """One call; sent again at once without what this organisation may not have or no longer accepts."""
        while True:
            keep = request.conversation_id not in self._without_thinking
            summaries = self._summaries
            body = request_body(request, profile, self.name, keep_thinking=keep, summaries=summaries)
            try:
                fold = ResponsesFold(self.name)
                async with aclosing(read(self._client.open(body), fold, profile)) as events:
                    async for event in events:
                        yield event
                return
            except CallFailed as failure:
                if failure.status != 400:
                    raise
                said = f"{failure.code} {failure.message}"
                if summaries and "reasoning" in body and _SUMMARIES_REFUSED.search(said):
                    self._summaries = False
                elif keep and request.conversation_id and _REASONING_REFUSED.search(said):
                    self._without_thinking.add(request.conversation_id)
                else:
                    raise
