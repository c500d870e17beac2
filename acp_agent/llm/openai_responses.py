"""The adapter for OpenAI's Responses API. Knows nothing of sessions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from acp_agent.conversation.messages import CompactedBlock
from acp_agent.errors import ConfigError, ModelAuthError, ModelRequestError
from acp_agent.llm.failures import CallFailed
from acp_agent.llm.openai import OpenAIAccess, OpenAIClient
from acp_agent.llm.openai_responses_wire import (
    ResponsesFold,
    compact_body,
    compacted_block,
    compacted_of,
    count_body,
    request_body,
    usage_of,
)
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    Answered,
    Compacted,
    CompactedNothing,
    ModelEvent,
    ModelRequest,
    Resent,
    Retrying,
)
from acp_agent.llm.retry import DEFAULT_POLICY, RetryPolicy, with_retries
from acp_agent.llm.transport import read, read_object

_SUMMARIES_REFUSED = re.compile(r"reasoning[ ._]summar", re.IGNORECASE)
_REASONING_REFUSED = re.compile(r"invalid_encrypted_content|encrypted[ _]content|'?reasoning'? item", re.IGNORECASE)
_COMPACTED_REFUSED = re.compile(r"compaction|\bcmp_", re.IGNORECASE)


class OpenAIResponsesProvider:
    """OpenAI, or a gateway that speaks its Responses API.

    :param access: where and as whom.
    :param profile_of: what is known of a model, by its id.
    :param policy: how failures are retried.
    """

    keeps_user_messages = True

    def __init__(
        self,
        access: OpenAIAccess,
        profile_of: Callable[[str], ModelProfile],
        policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._client = OpenAIClient(access, "responses", policy.connection)
        self._profile_of = profile_of
        self._policy = policy
        self._summaries = True
        self._without_thinking: set[str] = set()
        self._refused_blocks: set[tuple[str, str]] = set()

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

        def attempt() -> AsyncGenerator[ModelEvent, None]:
            return self._attempt(request, profile)

        async with aclosing(with_retries(attempt, endpoint, self._policy)) as events:
            async for event in events:
                yield event

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        """See `NativeCompaction.compact`; the block has no text, since the summary is encrypted.

        Among its items are all the user's messages, word for word.
        Source: https://developers.openai.com/api/docs/guides/compaction
        """
        endpoint = await self._client.ready()
        profile = self._profile_of(request.model)
        blocks: list[CompactedBlock | None] = []

        async def attempt() -> AsyncGenerator[ModelEvent, None]:
            keep = request.conversation_id not in self._without_thinking
            block = self._block(request)
            body = request_body(request, profile, self.name, keep_thinking=keep, compacted=block)
            answer = await read_object(self._client.compact(compact_body(body)))
            blocks.append(compacted_block(answer, self.name))
            yield Answered((), "end_turn", profile.priced(usage_of(answer)))

        usage = None
        async with aclosing(with_retries(attempt, endpoint, self._policy)) as events:
            async for event in events:
                if isinstance(event, Retrying):
                    again()
                usage = event.usage if isinstance(event, Answered) else usage
        if not blocks or usage is None or (block := blocks[-1]) is None:
            raise ModelRequestError(
                f"{self.name} ({endpoint.host}) compacted nothing: there is no compaction in its answer."
                " Compact with another strategy, or with another model."
            ) from (CompactedNothing(usage) if usage is not None else None)
        return Compacted(block, usage)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `Provider.count_tokens`."""
        body = request_body(request, self._profile_of(request.model), self.name, compacted=self._block(request))
        try:
            return await self._client.count_tokens(count_body(body))
        except (ConfigError, ModelAuthError):
            return None

    def context_window(self, model: str) -> int | None:
        """See `Provider.context_window`; OpenAI does not say."""
        return None

    async def learn_window(self, model: str) -> None:
        """See `Provider.learn_window`; OpenAI cannot be asked."""

    async def models(self) -> tuple[str, ...]:
        """See `Provider.models`."""
        return await self._client.models()

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def _attempt(self, request: ModelRequest, profile: ModelProfile) -> AsyncGenerator[ModelEvent, None]:
        """One call; sent again at once without what this organisation may not have or no longer accepts."""
        while True:
            block = self._block(request)
            keep = request.conversation_id not in self._without_thinking
            summaries = self._summaries
            body = request_body(request, profile, self.name, keep_thinking=keep, summaries=summaries, compacted=block)
            try:
                fold = ResponsesFold(self.name)
                async with aclosing(read(self._client.open(body), fold, request, profile)) as events:
                    async for event in events:
                        yield event
                return
            except CallFailed as failure:
                if failure.status != 400:
                    raise
                said = f"{failure.code} {failure.message}"
                if summaries and "reasoning" in body and _SUMMARIES_REFUSED.search(said):
                    self._summaries = False
                elif block is not None and (
                    _COMPACTED_REFUSED.search(said) or (not keep and _REASONING_REFUSED.search(said))
                ):
                    self._refused_blocks.add((request.model, block.text))
                elif keep and request.conversation_id and _REASONING_REFUSED.search(said):
                    self._without_thinking.add(request.conversation_id)
                else:
                    raise
            yield Resent()

    def _block(self, request: ModelRequest) -> CompactedBlock | None:
        """What the API itself compacted, unless this model refused it."""
        block = compacted_of(request.messages, self.name)
        return None if block is None or (request.model, block.text) in self._refused_blocks else block
