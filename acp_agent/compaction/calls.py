"""The model calls of one compaction: their limit, their total usage, and their errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias, TypeVar

import anyio
from anyio import to_thread

from acp_agent.compaction.estimate import estimate_messages, estimate_prefix
from acp_agent.conversation.messages import CompactedBlock, Usage
from acp_agent.errors import (
    CompactionError,
    CompactionRefusedError,
    ContextOverflowError,
    ModelStreamError,
    SummaryOverflowError,
)
from acp_agent.frozen import frozen
from acp_agent.llm.provider import (
    Answered,
    AskedAgain,
    ModelEvent,
    ModelRequest,
    NativeCompaction,
    Refusal,
    Refused,
    Retrying,
    TextDelta,
)

ModelCall: TypeAlias = Callable[[ModelRequest], AsyncGenerator[ModelEvent, None]]
Show: TypeAlias = Callable[[str], Awaitable[None]]
S = TypeVar("S")
T = TypeVar("T")

_LARGER = "The history is unchanged; choose a model with a larger window for summaries."
MAX_REQUESTS = 12
"""Maximum number of model requests of one compaction, including retries."""


@frozen
class Overflow:
    """A request that the provider refused because it does not fit the window.

    :ivar estimate: estimated tokens of the request.
    :ivar before: total usage of the answers before the request; None if there was no
        answer yet.
    """

    refusal: ContextOverflowError
    estimate: int
    before: Usage | None


class Courtesy:
    """Delays summary requests while a turn needs the model's server, for servers that
    answer only one request at a time.

    :param begin_again: called before a request is sent again after its cancellation.
    """

    def __init__(self, begin_again: Callable[[], None] = lambda: None) -> None:
        self._begin_again = begin_again
        self._is_free = anyio.Event()
        self._asking: anyio.CancelScope | None = None

    def give_way(self) -> None:
        """Cancel the running request, and delay further requests until `go_on`."""
        if self._is_free.is_set():
            self._is_free = anyio.Event()
        if self._asking is not None:
            self._asking.cancel()

    def go_on(self) -> None:
        """Allow requests again, since the server is free."""
        self._is_free.set()

    async def ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Send a request, resending it after each cancellation, and return its result."""
        while True:
            await self._is_free.wait()
            with anyio.CancelScope() as scope:
                self._asking = scope
                try:
                    return await ask()
                finally:
                    self._asking = None
            self._begin_again()


class ModelCalls:
    """Sends requests to one model and counts them.

    :param call: asks the model.
    :param show: called with the summary's text as it streams.
    :param begin: called before each request.
    :param courtesy: delays requests until the model's server is free; None to send them
        at once.
    :ivar usage: total usage of all answers so far; None before the first answer.
    :ivar refusals: the parts of requests that the provider refused.
    :ivar overflows: the requests that did not fit the window.
    """

    def __init__(
        self,
        call: ModelCall,
        show: Show | None = None,
        begin: Callable[[], Awaitable[None]] | None = None,
        courtesy: Courtesy | None = None,
    ) -> None:
        self._call = call
        self._show = show
        self._begin = begin
        self._courtesy = courtesy
        self.requests = 0
        self.usage: Usage | None = None
        self.refusals: list[Refusal] = []
        self.overflows: list[Overflow] = []

    @property
    def cached(self) -> float | None:
        """Return the share of all prompt tokens so far that the provider read from its
        cache.
        """
        if self.usage is None or not self.usage.prompt_tokens:
            return None
        return self.usage.cache_read_tokens / self.usage.prompt_tokens

    def has_answer_since(self, overflow: Overflow) -> bool:
        """Return whether the model has answered a request after this one was refused."""
        return self.usage is not overflow.before

    async def ask(self, request: ModelRequest, *, shown: bool = True) -> Answered:
        """Send one request.

        :param shown: whether the answer is streamed to the user.
        :raises SummaryOverflowError: if the request does not fit the model's window.
        :raises CompactionError: if the answer was cut off, or too many requests were
            made.
        :raises ModelError: if the model could not be asked.
        """
        await self._before_request()
        answer: Answered | None = None
        try:
            if self._courtesy is None:
                answer = await self._streamed(request, shown=shown)
            else:
                answer = await self._courtesy.ask(
                    lambda: self._streamed(request, shown=shown)
                )
        except ContextOverflowError as error:
            raise self._overflow(request, error) from error
        except ModelStreamError as error:
            raise CompactionError(
                "The summary broke off, because the connection was lost or the model failed, so it was not used.",
                "The history is unchanged; try /compact again.",
            ) from error
        if answer is None:
            raise CompactionError(
                "The provider closed the stream before the answer was complete.",
                "The history is unchanged; try /compact again.",
            )
        return answer

    async def _streamed(self, request: ModelRequest, *, shown: bool) -> Answered | None:
        """Return the answer, or None if the stream ended without one."""
        async with aclosing(self._call(request)) as stream:
            async for event in stream:
                if isinstance(event, Answered):
                    self.spent(event.usage)
                    return event
                if isinstance(event, Retrying | AskedAgain | Refusal):
                    self._note_retry(event)
                elif isinstance(event, TextDelta) and shown and self._show is not None:
                    await self._show(event.text)
        return None

    async def ask_native(
        self, native: NativeCompaction, request: ModelRequest, instructions: str
    ) -> CompactedBlock:
        """Ask the provider to compact, without a retry. Raises the same errors as
        `ask`.
        """
        await self._before_request()
        try:
            block, usage = await native.compact(request, instructions, self._note_retry)
        except ContextOverflowError as error:
            raise self._overflow(request, error) from error
        except CompactionRefusedError:
            self.refusals.append(Refused("compaction"))
            raise
        self.spent(usage)
        return block

    def spent(self, usage: Usage) -> None:
        """Add the usage of an answer."""
        total = self.usage or Usage()
        costs = [each.cost for each in (total, usage) if each.cost is not None]
        self.usage = Usage(
            total.input_tokens + usage.input_tokens,
            total.output_tokens + usage.output_tokens,
            total.cache_read_tokens + usage.cache_read_tokens,
            total.cache_write_tokens + usage.cache_write_tokens,
            sum(costs) if costs else None,
        )

    async def _before_request(self) -> None:
        self._count()
        if self._begin is not None:
            await self._begin()

    def _overflow(
        self, request: ModelRequest, refusal: ContextOverflowError
    ) -> SummaryOverflowError:
        estimate = estimate_prefix(request.system, request.tools) + estimate_messages(
            request.messages
        )
        self.overflows.append(Overflow(refusal, estimate, self.usage))
        # Quote the refusal: the full window may be another model's, or the limit may be
        # one on images.
        why = f"{request.model or 'The model'} refused the request for a summary. {refusal}"
        return SummaryOverflowError(why, _LARGER, refusal)

    def _note_retry(self, event: Retrying | AskedAgain | Refusal) -> None:
        """Count a request that was sent again, or record which part of it was refused."""
        if isinstance(event, AskedAgain) and event.usage is not None:
            self.spent(event.usage)
        if isinstance(event, Retrying | AskedAgain):
            self._count()
        else:
            self.refusals.append(event)

    def _count(self) -> None:
        if self.requests >= MAX_REQUESTS:
            raise CompactionError(
                f"The model wrote no usable summary in {MAX_REQUESTS} requests.",
                "The history is unchanged; try again later, or choose another model.",
            )
        self.requests += 1


async def run_with_thread(
    ask: Callable[[], Awaitable[S]], work: Callable[[], T]
) -> tuple[S, T]:
    """Await `ask`, such as a request to a model, while `work` runs in a thread. Return
    both results.

    If `ask` raises an exception, raise it without waiting for the thread.
    """
    made: list[T] = []
    answers: list[S] = []
    failures: list[Exception] = []

    async def run() -> None:
        made.append(await to_thread.run_sync(work, abandon_on_cancel=True))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            answers.append(await ask())
        except Exception as error:  # raised below, outside the task group
            failures.append(error)
            tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return answers[0], made[0]
