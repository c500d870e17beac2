"""The ways to compact, and the measurement of each at each point against what the rest of the recording needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.calls import ModelCall
from acp_agent.compaction.cuts import plan_cut
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.evaluation.facts import CLASSES
from acp_agent.compaction.evaluation.needs import Need, Script
from acp_agent.compaction.evaluation.recording import Recording, points, state_at
from acp_agent.compaction.evaluation.texts import Remains
from acp_agent.compaction.service import ASKS_A_MODEL, CompactionService
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.messages import JsonObject, Message
from acp_agent.errors import AgentError, CompactionError
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelEvent, ModelRequest, NativeCompaction

KINDS = ("need", "ctx", "words", *CLASSES)
NOTHING_TO_DO = "found nothing to compact"
WITHOUT_SUMMARY = "*"  # behind the name of a method that has excerpts in place of its summary

SizeOf: TypeAlias = Callable[[TokenBudget], int]  # returns the tokens of the new context


@frozen
class Outcome:
    """All that the model sees after a compaction; `unverified` is None where no model wrote a summary."""

    messages: tuple[Message, ...]
    tokens_before: int
    tokens_after: int
    unverified: tuple[str, ...] | None = None


@frozen
class Method:
    """A way to compact; `compact` returns None where there is nothing to do, and raises an `AgentError`."""

    name: str
    compact: Callable[[ConversationState], Awaitable[Outcome | None]]


@frozen
class Model:
    """The model that writes summaries."""

    call: ModelCall
    writer: Writer | None = None
    native: NativeCompaction | None = None


async def _no_model(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    raise CompactionError("This strategy asks a model: name one with --model.")
    yield  # the type of a stream


def policy_method(
    name: str,
    policy: CompactionPolicy,
    service: CompactionService,
    size: SizeOf | None = None,
    model: Model | None = None,
) -> Method:
    """Return the method that compacts by a policy, as if a person had asked for it.

    :param model: None where no model may be asked; excerpts then stand in the place of a summary.
    """
    missing = model is None and policy.strategy in ASKS_A_MODEL
    chosen = replace(policy, strategy="excerpts") if missing else policy
    asked = model or Model(_no_model)

    async def compact(state: ConversationState) -> Outcome | None:
        sized = replace(chosen, size=size(state.budget)) if size else chosen
        if asked.writer:
            state = replace(state, request=replace(state.request, model=asked.writer.model))
        result = await service(state, sized, asked.call, native=asked.native, writer=asked.writer)
        if result is None:
            return None
        unverified = result.receipt.unverified if result.strategy in ASKS_A_MODEL else None
        return Outcome(result.messages, result.tokens_before, result.tokens_after, unverified)

    return Method(name + WITHOUT_SUMMARY * missing, compact)


def newest(share: float = 0.4) -> Method:
    """Return the yardstick: the newest messages word for word, of this share of the tokens, and nothing else."""

    async def compact(state: ConversationState) -> Outcome | None:
        cut = plan_cut(state.entries, None, int(state.budget.messages * share))
        kept = tuple(entry.message for entry in cut.kept) if cut else ()
        return Outcome(kept, state.budget.used, state.budget.system + estimate_messages(kept)) if cut else None

    return Method(f"newest {share:.0%}", compact)


@frozen
class Tally:
    """How many of so many."""

    kept: int = 0
    needed: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.kept + other.kept, self.needed + other.needed)


@frozen
class Measurement:
    """One method at one point.

    :ivar at: share of the session's tokens that was asked to stand before the point.
    :ivar failure: why it came to nothing; nothing else is known then.
    :ivar tallies: of each of `KINDS`.
    :ivar missed: the needed facts that are gone, without those of the control class.
    """

    session: str
    at: float
    messages_before: int
    method: str
    failure: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    missed: tuple[JsonObject, ...] = ()
    unverified: tuple[str, ...] | None = None


async def measure(
    recordings: Sequence[Recording], methods: Sequence[Method], shares: Sequence[float], window: int | None = None
) -> AsyncIterator[Measurement]:
    """Measure, recording by recording and point by point; see `points` and `state_at`."""
    for recording in recordings:
        script = Script(recording)
        for point in points(recording, shares):
            needs = script.needs(point.cut)
            for method in methods:
                place = (recording.name, point.share, point.cut, method.name)
                try:
                    done, failure = await method.compact(state_at(recording, point.cut, window)), NOTHING_TO_DO
                except AgentError as error:
                    done, failure = None, str(error)
                if done is None:
                    yield Measurement(*place, failure)
                else:
                    sizes = (done.tokens_before, done.tokens_after)
                    yield Measurement(*place, "", *sizes, *tally(needs, done.messages), done.unverified)


def tally(needs: Iterable[Need], messages: Iterable[Message]) -> tuple[dict[str, Tally], tuple[JsonObject, ...]]:
    """Count what these messages keep of what is needed; returns `Measurement.tallies` and `Measurement.missed`."""
    remains = Remains(messages)
    tallies = {kind: Tally() for kind in KINDS}
    missed: list[JsonObject] = []
    for need in needs:
        kept = need.kept(remains)
        tallies[need.kind] += Tally(kept, 1)
        if need.kind not in ("rules", "words"):
            tallies["need"] += Tally(kept, 1)
        if need.kind != "words":
            tallies["ctx"] += Tally(kept and need.kept_with_words(remains), 1) if need.around else Tally()
            lost: JsonObject = {"class": need.kind, "fact": need.key, "stood_in": need.seq, "asked_for_in": need.asked}
            missed += [] if kept else [lost]
    return tallies, tuple(missed)
