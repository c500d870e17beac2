"""Measures methods of compaction: compacts recorded sessions at several points, counts
how many of the facts that the rest of the session needs are kept, and formats the
results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.cuts import plan_cut
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.evaluation.facts import CLASSES
from acp_agent.compaction.evaluation.needs import Need, Remains, needs_at, read_messages
from acp_agent.compaction.evaluation.recordings import (
    SHARES,
    Recording,
    points,
    state_at,
)
from acp_agent.compaction.service import ASKS_A_MODEL
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.conversation.messages import Message
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

KINDS = ("need", "ctx", "words", *CLASSES)
NOTHING_TO_DO = "found nothing to compact"
_NEWEST = 0.4
# After the name of a method that used excerpts instead of a summary.
WITHOUT_SUMMARY = "*"

_LEGEND = """
All columns but the last are percentages of what the rest of each session needs. left: tokens left · score: mean of the
six classes · need: facts of all classes but rules · ctx: facts with the words around them ·
words: rare plain words (control) · per 1k: needed facts for each 1,000 tokens left"""
_NO_SUMMARY = (
    "* measured with excerpts in place of the summary, since no --model was given"
)

# Returns the tokens of the new context.
SizeOf: TypeAlias = Callable[[TokenBudget], int]
Compact: TypeAlias = Callable[
    [ConversationState, CompactionPolicy], Awaitable[CompactedState | None]
]
Method: TypeAlias = tuple[
    str, Callable[[ConversationState], Awaitable[tuple[Sequence[Message], int] | None]]
]
"""The name of a method, and a function that returns the compacted messages and their
tokens, or None if there is nothing to do.
"""


def policy_method(
    name: str,
    policy: CompactionPolicy,
    service: Compact,
    size: SizeOf | None = None,
    *,
    has_model: bool = True,
) -> Method:
    """Return the method that compacts with a policy.

    :param service: compacts a state.
    :param size: overrides the policy's size.
    :param has_model: whether a model can be called. If not, excerpts replace the
        summary.
    """
    unable = policy.strategy in ASKS_A_MODEL and not has_model
    policy = replace(policy, strategy="excerpts") if unable else policy

    async def compact(state: ConversationState) -> tuple[Sequence[Message], int] | None:
        result = await service(
            state, replace(policy, size=size(state.budget)) if size else policy
        )
        return (result.messages, result.tokens_after) if result else None

    return name + WITHOUT_SUMMARY * unable, compact


def newest() -> Method:
    """Return the baseline, which keeps only the newest messages word for word, up to
    `_NEWEST` of the tokens.
    """

    async def compact(state: ConversationState) -> tuple[Sequence[Message], int] | None:
        cut = plan_cut(state.entries, None, int(state.budget.messages * _NEWEST))
        kept = tuple(entry.message for entry in cut.kept) if cut else ()
        return (kept, state.budget.system + estimate_messages(kept)) if cut else None

    return f"newest {_NEWEST:.0%}", compact


@frozen
class Measurement:
    """The result of one method at one point.

    :ivar point: name of the recording, and the number of messages before the point.
    :ivar failure: why the method failed; the other fields are then empty.
    :ivar kept: how many of the needed facts are kept, for each of `KINDS`.
    :ivar needed: how many facts are needed, for each of `KINDS`.
    """

    method: str
    point: tuple[str, int]
    failure: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    kept: Counter[str] = field(default_factory=Counter[str])
    needed: Counter[str] = field(default_factory=Counter[str])


async def measure(
    recordings: Iterable[Recording],
    methods: Sequence[Method],
    shares: Sequence[float] = SHARES,
    model: str = "",
) -> AsyncIterator[Measurement]:
    """Measure all methods at each point of each recording; see `points` and `state_at`.

    :param model: the provider's own ID of the conversation's model.
    """
    for recording in recordings:
        messages = read_messages(recording)
        for cut in points(recording, shares):
            needs = needs_at(messages, cut)
            state = state_at(recording, cut, model=model)
            for name, compact in methods:
                result = None
                failure = NOTHING_TO_DO
                try:
                    result = await compact(state)
                except AgentError as error:
                    failure = str(error)
                if result is None:
                    yield Measurement(name, (recording.name, cut), failure)
                else:
                    sizes = state.budget.used, result[1]
                    yield Measurement(
                        name,
                        (recording.name, cut),
                        "",
                        *sizes,
                        *_counted(needs, result[0]),
                    )


def _counted(
    needs: Iterable[Need], messages: Iterable[Message]
) -> tuple[Counter[str], Counter[str]]:
    """Count the needed facts that these messages keep, and all needed facts, for each
    of `KINDS`.
    """
    remains = Remains(messages)
    kept = Counter[str]()
    needed = Counter[str]()
    for need in needs:
        found = {need.kind: need.kept(remains)}
        if need.kind not in ("rules", "words"):
            found["need"] = found[need.kind]
        if need.kind != "words" and need.around:
            found["ctx"] = need.kept_with_words(remains)
        kept.update(found)
        needed.update(found.keys())
    return kept, needed


def _figures(measurements: Iterable[Measurement]) -> dict[str, float | None]:
    """Return the columns of the table by heading, totalled over these measurements. A
    value is None if nothing was needed or all measurements failed.
    """
    done = [each for each in measurements if not each.failure]
    before = sum(each.tokens_before for each in done)
    after = sum(each.tokens_after for each in done)
    kept = sum((each.kept for each in done), Counter[str]())
    needed = sum((each.needed for each in done), Counter[str]())
    shares = {kind: _quotient(100 * kept[kind], needed[kind]) for kind in KINDS}
    counted = [share for kind in CLASSES if (share := shares[kind]) is not None]
    return {
        "left": _quotient(100 * after, before),
        "score": _quotient(sum(counted), len(counted)),
        **shares,
        "per 1k": _quotient(1000 * kept["need"], after),
    }


def _quotient(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def table(measurements: Sequence[Measurement]) -> str:
    """Return the report, with a row for each method. Equal measurements give the same
    report.
    """
    methods = dict.fromkeys(each.method for each in measurements)
    points = {each.point: each for each in measurements if not each.failure}.values()
    needed = {kind: str(sum(each.needed[kind] for each in points)) for kind in KINDS}
    columns = list(_figures(()))
    rows = [
        ["method", *columns],
        ["(needed)", *(needed.get(name, "") for name in columns)],
    ]
    for method in methods:
        figures = _figures(
            each for each in measurements if each.method == method
        ).values()
        rows.append(
            [
                method,
                *("–" if figure is None else f"{figure:.1f}" for figure in figures),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    ]
    lines += [
        _LEGEND,
        *[_NO_SUMMARY] * any(method.endswith(WITHOUT_SUMMARY) for method in methods),
    ]
    failures = Counter(
        (each.method, each.failure) for each in measurements if each.failure
    )
    lines += [
        f"{name}: no result at {number} of the points: {why}"
        for (name, why), number in failures.items()
    ]
    return "\n".join(lines) + "\n"
