"""`CompactionService`: a callable that compacts a conversation.

It tries a ladder of strategies until one returns a usable result. It does not change
anything itself: the caller owns the history, swaps in the result, and provides the
function that calls the model.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from anyio import to_thread

from acp_agent.compaction.assembly import accepted
from acp_agent.compaction.calls import ModelCall, ModelCalls, Show
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.layers import size_of
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.compaction.strategies import installed_strategies
from acp_agent.compaction.strategies.summary import is_worth_asking
from acp_agent.compaction.strategy import Draft, Strategy, Task, Writer
from acp_agent.errors import (
    AgentError,
    CompactionError,
    ModelAuthError,
    ModelError,
    ModelUnavailableError,
    reason_of,
)
from acp_agent.llm.provider import NativeCompaction
from acp_agent.logfile import log_failure

ASKS_A_MODEL = frozenset({"summary", "native"})
MODELLESS = frozenset({"mask", "excerpts"})
LAST_STEP = "excerpts"

_log = logging.getLogger(__name__)


class CompactionService:
    """Compacts any conversation with any model. It has no state of its own.

    :param strategies: strategies by name; None for the installed ones.
    """

    def __init__(self, strategies: Mapping[str, Strategy] | None = None) -> None:
        self.strategies = installed_strategies() if strategies is None else strategies

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the names of the strategies that a recipe or the configuration may
        choose.
        """
        return tuple(self.strategies)

    async def __call__(
        self,
        state: ConversationState,
        policy: CompactionPolicy,
        call: ModelCall,
        *,
        show: Show | None = None,
        calls: ModelCalls | None = None,
        native: NativeCompaction | None = None,
        writer: Writer | None = None,
        index: ExcerptIndex | None = None,
    ) -> CompactedState | None:
        """Compact a conversation.

        :param call: calls the model that writes summaries: `Provider.stream` or a
            similar function.
        :param show: called with the summary's text as it streams.
        :param calls: an object to send and count the requests with; pass one to read
            the usage even after a failure. None makes a new one from `call` and `show`.
        :param native: the provider's own compaction, if it has one.
        :param writer: the model that `call` uses; None for the conversation's own
            model.
        :param index: an index of the state's original entries; None to build one.
        :returns: None if there is nothing to compact, or if every result would free
            too little.
        :raises NoRoomError: if no result could fit the model's window.
        :raises CompactionError: if no strategy of the ladder returned a usable result;
            the message is that of the last strategy that failed.
        :raises ModelError: if that strategy failed because the model could not be
            called.
        """
        calls = calls or ModelCalls(call, show)
        failures: list[AgentError] = []
        unreachable: set[str | None] = set()  # models; None is the conversation's own
        size = await to_thread.run_sync(size_of, state, policy, abandon_on_cancel=True)
        task = Task(state, policy, size, calls, native, writer, index)
        for name in self.ladder(policy):
            # `native` always asks the conversation's own provider, even if another
            # model writes the summaries.
            model = writer.model if writer and name != "native" else None
            if name in ASKS_A_MODEL and model in unreachable:
                continue
            try:
                draft = await self._draft(name, task)
                if draft is None:
                    continue
                # In a thread: it reads the whole conversation, and must not block a
                # running turn.
                result = await to_thread.run_sync(
                    accepted,
                    state,
                    policy,
                    draft,
                    name,
                    size,
                    index,
                    abandon_on_cancel=True,
                )
            except (CompactionError, ModelError) as error:
                _log.info("compaction by %s failed: %s", name, error)
                failures.append(error)
                if isinstance(error, ModelUnavailableError | ModelAuthError):
                    unreachable.add(model)
                continue
            if result is not None:
                return _with_receipt(result, task, failures)
        if not failures:
            return None
        # The last error says why nothing worked. The earlier errors only say why the
        # last strategy was tried.
        failure = failures[-1]
        if isinstance(failure, ModelError):
            raise type(failure)(
                f"The conversation was not compacted, and the history is unchanged. {failure}"
            ) from failure
        raise failure

    async def has_work(
        self,
        state: ConversationState,
        policy: CompactionPolicy,
        call: ModelCall,
        index: ExcerptIndex | None = None,
    ) -> bool:
        """Return whether a step of the ladder has something to compact, without calling
        a model.

        :param call: see `__call__`.
        :param index: see `__call__`.
        """
        try:
            size = await to_thread.run_sync(
                size_of, state, policy, abandon_on_cancel=True
            )
        except CompactionError:
            return False
        task = Task(state, policy, size, ModelCalls(call), index=index)
        for name in self.ladder(policy):
            with suppress(CompactionError):
                if name in ASKS_A_MODEL:
                    has_work = await to_thread.run_sync(
                        is_worth_asking, task, name, abandon_on_cancel=True
                    )
                elif name in MODELLESS:
                    draft = await self._draft(name, task)
                    made = (
                        partial(accepted, state, policy, draft, name, size, index)
                        if draft
                        else None
                    )
                    has_work = bool(
                        made and await to_thread.run_sync(made, abandon_on_cancel=True)
                    )
                else:
                    has_work = True  # unknown without running the package's strategy
                if has_work:
                    return True
        return False

    @staticmethod
    def ladder(policy: CompactionPolicy) -> tuple[str, ...]:
        """Return the strategies to try, in order."""
        if policy.steps is not None:
            return policy.steps
        if policy.manual:
            return (policy.strategy,)
        also = ("summary",) if policy.strategy == "native" else ()
        # Where reasoning is bound to the messages before it, shortening a message in place
        # invalidates the reasoning of all later answers, and frees little room.
        first = () if policy.native_first else ("mask",)
        return tuple(dict.fromkeys((*first, policy.strategy, *also, LAST_STEP)))

    async def _draft(self, name: str, task: Task) -> Draft | None:
        strategy = self.strategies.get(name)
        if strategy is None:
            known = ", ".join(sorted(self.strategies))
            raise CompactionError(
                f"Unknown compaction strategy {name!r}. Available strategies: {known}.",
                "The history is unchanged.",
            )
        try:
            return await strategy.draft(task)
        except AgentError:
            raise
        except Exception as error:
            # A package's strategy may raise anything. Continue with the remaining
            # steps.
            raise CompactionError(
                log_failure(
                    _log, f"The compaction strategy {name!r} failed inside", error
                ),
                "The history is unchanged.",
            ) from error


def _with_receipt(
    result: CompactedState, task: Task, failures: list[AgentError]
) -> CompactedState:
    calls = task.calls
    notes = [reason_of(error) for error in failures]
    if task.writer is not None and result.strategy == "summary":
        notes.append(f"written by {task.writer.model}")
    receipt = replace(
        result.receipt,
        requests=calls.requests,
        cached=calls.cached,
        notes=(*notes, *result.receipt.notes),
    )
    return replace(result, receipt=receipt, usage=calls.usage)
