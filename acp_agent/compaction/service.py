"""`CompactionService`: one callable that makes a conversation short, whoever asks.

It goes down a ladder of strategies until one's result is good enough, and changes nothing itself: the result is handed
back, and whoever owns the history swaps it. The model calls are handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from anyio import to_thread

from acp_agent.compaction.assembling import assembled, replaced_tokens
from acp_agent.compaction.calls import ModelCall, ModelCalls, Show
from acp_agent.compaction.estimate import estimate_message, estimate_text
from acp_agent.compaction.fitting import (
    EXPECTED_SUMMARY,
    check_room,
    check_worth,
    fitted,
    no_room,
    shortened,
    target_tokens,
)
from acp_agent.compaction.shortening import apply_rewrites
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Draft, Strategy, Task, Writer
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import UserMessage
from acp_agent.errors import (
    AgentError,
    CompactionError,
    ModelAuthError,
    ModelError,
    ModelUnavailableError,
    NoModelError,
    SummaryOverflowError,
)
from acp_agent.llm.provider import NativeCompaction
from acp_agent.logfile import log_failure

ASKS_A_MODEL = frozenset({"summary", "chunked", "native"})
WRITES_NOTHING = frozenset({"ledger", "truncate"})
LAST_STEP = "ledger"
"""What is left where a conversation must fit: it asks nobody, and makes everything as short as it takes."""

_log = logging.getLogger(__name__)


class CompactionService:
    """Compacts any conversation with any model; holds no state of its own.

    :param strategies: by name; those that are installed where not given.
    """

    def __init__(self, strategies: Mapping[str, Strategy] | None = None) -> None:
        self._strategies = strategies

    @property
    def strategies(self) -> Mapping[str, Strategy]:
        """The strategies by name. Looked up with the first compaction: an agent that starts does not wait for it."""
        if self._strategies is None:
            from acp_agent.compaction.strategies import installed_strategies

            self._strategies = installed_strategies()
        return self._strategies

    @property
    def choices(self) -> tuple[str, ...]:
        """Names that a recipe or the configuration may choose from: `chunked` is how a summary is written, not one of
        them."""
        return tuple(name for name in self.strategies if name != "chunked")

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
        own: ModelCall | None = None,
        without_model: bool = False,
    ) -> CompactedState | None:
        """Make a conversation short.

        :param call: asks the model that writes summaries: `Provider.stream`, or anything like it.
        :param show: told the summary's text as it streams.
        :param calls: counts the calls in place of a counter of its own, for whoever wants to know what a failure cost.
        :param native: the provider's own compaction, where it has one.
        :param writer: the model that `call` asks, where it is not the conversation's own.
        :param own: asks the conversation's own model, which tries once in parts where the result has to fit and the
            writer cannot be asked.
        :param without_model: whether strategies that ask a model are passed over; `calls` refuse to ask one.
        :returns: None where there is nothing to compact.
        :raises CompactionError: no step of the ladder came to a result that may be used; says why.
        :raises ModelError: the model could not be asked, and no other step may take its place.
        """
        calls = calls or ModelCalls(call, show)
        calls.may_ask = not without_model
        task = Task(state, policy, calls, native, writer)
        failures: list[AgentError] = []
        steps, asked = list(self.ladder(policy)), failures
        while steps:
            name = steps.pop(0)
            if name in ASKS_A_MODEL and (without_model or _in_vain(name, asked)):
                continue
            try:
                # Adds up the facts of a whole conversation: a turn that goes on meanwhile must not stand still.
                ready = await to_thread.run_sync(_readied, task, name, abandon_on_cancel=True)
                draft = await self._draft(name, ready)
                result = None
                if draft is not None:
                    result = await to_thread.run_sync(
                        _accepted, ready, draft, name, bool(failures), abandon_on_cancel=True
                    )
            except NoModelError:
                continue  # a package's strategy, whose name does not tell that it would ask
            except (CompactionError, ModelError) as error:
                _log.info("compaction by %s came to nothing: %s", name, error)
                failures.append(error)
                if task.writer and own and policy.must_fit and isinstance(error, ModelError) and name != "native":
                    # A model that is left may be out of reach; the one that goes on with the conversation is there.
                    calls.turn_to(own)
                    task, asked = replace(task, writer=None), []
                    steps = ["chunked", *(step for step in steps if step not in ASKS_A_MODEL)]
                continue
            if result is not None:
                return _with_receipt(result, task, failures)
        if not failures:
            return None
        # The last step says why nothing at all could be done; the others, why it had to be taken.
        failure = failures[-1]
        if isinstance(failure, ModelError):
            raise type(failure)(f"No summary was written, and the history is unchanged. {failure}") from failure
        raise failure

    @staticmethod
    def ladder(policy: CompactionPolicy) -> tuple[str, ...]:
        """The strategies to try, in order."""
        if policy.steps is not None:
            return policy.steps
        first = policy.strategy
        if policy.by_hand:
            return (first, "chunked") if first in ASKS_A_MODEL else (first,)
        steps = ["mask", first, "summary", "chunked"] if first == "native" else ["mask", first, "chunked"]
        if first not in ASKS_A_MODEL:
            steps = [first]
        # Masking is worth less than a summary, but it needs nobody: the turn goes on with what it gains.
        steps.append(LAST_STEP if policy.must_fit else "mask")
        return tuple(dict.fromkeys(steps)) if policy.must_fit else tuple(steps)

    async def _draft(self, name: str, task: Task) -> Draft | None:
        strategy = self.strategies.get(name)
        if strategy is None:
            known = ", ".join(sorted(self.choices))
            raise CompactionError(
                f"There is no compaction strategy {name!r}; there are: {known}.", "Nothing was changed."
            )
        try:
            return await strategy.draft(task)
        except AgentError:
            raise
        except Exception as error:
            # A package's strategy may fail in any way; the steps after it have to be taken all the same.
            raise CompactionError(
                log_failure(_log, f"The compaction strategy {name!r} failed inside", error),
                "The history is unchanged.",
            ) from error


def _in_vain(name: str, failures: list[AgentError]) -> bool:
    """Whether a model need not be asked, after what came of asking it before."""
    if not failures:
        return False
    last = failures[-1]
    if isinstance(last, SummaryOverflowError):
        return name == "summary"
    # What the model could not be asked in one piece for another reason, it cannot be asked in many.
    return name == "chunked" or isinstance(last, ModelUnavailableError | ModelAuthError)


def _readied(task: Task, name: str) -> Task:
    """The task for one strategy, with sizes whose result has room.

    :raises CompactionError: the model would be asked in vain.
    """
    if name == "mask":  # which takes nothing away that something could be carried over of
        return task
    policy, _ = fitted(task.state, task.policy, name, asks=name not in WRITES_NOTHING)
    if policy.must_fit:
        check_room(task.state, policy, name)
    carried = check_worth(task.state, policy, name) if name in ASKS_A_MODEL else None
    return replace(task, policy=policy, carried=carried)


def _accepted(task: Task, draft: Draft, name: str, after_failure: bool) -> CompactedState | None:
    """The result, where it may be used; None where another step has to be tried without a word.

    :raises CompactionError: it may not; says why.
    """
    state, policy = task.state, task.policy
    limits = policy.limits
    if draft.cut is not None and limits.exceeded(state.request.messages):
        from acp_agent.compaction.strategies.deterministic import fewer_images

        stays = (*(Entry(pin.seq, pin.message) for pin in draft.cut.pinned), *draft.cut.kept)
        fewer = fewer_images(apply_rewrites(stays, draft.rewritten), policy, recall=state.recall)
        draft = replace(draft, rewritten=(*draft.rewritten, *fewer))
    result = assembled(state, policy, draft, name, task.carried)
    before, after = state.budget.used, result.tokens_after
    target = target_tokens(state, policy, draft.cut)
    if policy.must_fit and name == LAST_STEP:
        if after >= before or after > state.budget.most:
            raise no_room(state, after)
        may_be_sent = before <= state.budget.limit and not limits.exceeded(state.request.messages)
        if may_be_sent and before - after < state.budget.least_answer:
            raise CompactionError(
                f"Too little would be gained: the context would still take {after:,} of {before:,} tokens.",
                "The history is unchanged.",
            )
        return result
    if draft.cut is None:
        relieved = limits.exceeded(state.request.messages) and not limits.exceeded(result.messages)
        good = (
            after <= target
            or (relieved and after <= state.budget.usable)
            or (after_failure and not policy.must_fit)
            or policy.by_hand
        )
        return result if good and (after < before or relieved) else None
    size = estimate_message(UserMessage("", result.sent))
    replaced = replaced_tokens(draft)
    if size >= replaced:
        raise CompactionError(
            f"The summary (about {size:,} tokens with what is carried over) would not be smaller than what it "
            f"replaces (about {replaced:,} tokens), so it was not used.",
            "The history is unchanged; compact when more has been said.",
        )
    if after > target and (less := shortened(state, policy, result, target)):
        # The summary is paid for; what it leaves behind it can be read in full at any time.
        result = assembled(state, policy, replace(draft, rewritten=(*draft.rewritten, *less)), name, task.carried)
    if policy.must_fit and estimate_text(draft.summary) <= EXPECTED_SUMMARY:
        # What is over the target now is the running prompt and what is carried over: it may take all that there is.
        target = max(target, state.budget.limit)
    if result.tokens_after > target:
        raise CompactionError(
            f"After the summary the context would still take {result.tokens_after:,} tokens, more than the "
            f"{target:,} that it may, so it was not used.",
            "The history is unchanged.",
        )
    return result


def _with_receipt(result: CompactedState, task: Task, failures: list[AgentError]) -> CompactedState:
    calls = task.calls
    notes = [error.reason if isinstance(error, CompactionError) else str(error) for error in failures]
    if task.writer is not None and result.strategy in ("summary", "chunked"):
        notes.append(f"written by {task.writer.model}")
    receipt = replace(
        result.receipt, requests=calls.requests, cached=calls.cached, notes=(*notes, *result.receipt.notes)
    )
    return replace(result, receipt=receipt, usage=calls.usage)
