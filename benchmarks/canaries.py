"""What five compactions leave of canaries that were typed into recorded coding
sessions.

    python -m benchmarks.canaries SESSION... [--seeds 5] [--size TOKENS]

The canaries are those of `compaction-conformance-kit` (a development dependency):
rules, constraints, facts, task state and preferences, each a message of the user with a
value that nobody can guess. They are typed between the messages of a recorded session,
which is compacted five times, by excerpts and without a model. A canary survives if all
its required tokens are in the last context. A stale value is the value that a later
message replaced, in a context without the later value. A near-duplicate is a pair of
statements of the same form about two things, of which both have to be there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from acp_agent.compaction import CompactionPolicy, CompactionService, ConversationState
from acp_agent.compaction.evaluation.facts import text_of
from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolResult,
    UserMessage,
)
from benchmarks.compactions_in_a_row import no_model

SIZES = (3_000, 6_000, 12_000)
COMPACTIONS = 5
KINDS = {
    "random": ("compaction_kit.corpus", "build_random_session"),
    "generated": ("compaction_kit.generated", "build_generated_session"),
    "semantic": ("compaction_kit.semantic_corpus", "build_semantic_session"),
}


def planted(recorded: Sequence[Message], turns: Sequence[Any]) -> list[Message]:
    """Return a recorded session with the user's turns of the kit between its messages,
    at equal distances.
    """
    places = [
        at
        for at, message in enumerate(recorded)
        if at and _may_type(recorded[at - 1], message)
    ]
    typed = [turn.text for turn in turns if turn.role == "user"]
    at_place: dict[int, list[str]] = {}
    for number, text in enumerate(typed):
        place = places[number * len(places) // len(typed)]
        at_place.setdefault(place, []).append(text)
    messages: list[Message] = []
    for at, message in enumerate(recorded):
        for text in at_place.get(at, ()):
            number = len(messages)
            messages.append(UserMessage(f"k{number}", (Text(text),)))
            messages.append(AssistantMessage(f"k{number}a", (Text("Noted."),)))
        messages.append(message)
    return messages


def _may_type(before: Message, after: Message) -> bool:
    """Return whether the user may type between these messages: no call waits for its
    result.
    """
    waits = isinstance(before, AssistantMessage) and bool(before.tool_calls)
    return not waits and not isinstance(after, ToolResult)


async def last_context(messages: Sequence[Message], size: int) -> str:
    """Return the context after the last of the compactions, each after a further fifth
    of the messages.
    """
    service = CompactionService()
    policy = CompactionPolicy("", strategy="excerpts", size=size)
    share = -(-len(messages) // COMPACTIONS)
    state: ConversationState | None = None
    result = None
    for begin in range(0, len(messages), share):
        added = list(messages[begin : begin + share])
        if state is not None and result is not None:
            state = result.next_state(state, added)
        elif state is not None:
            state = ConversationState.of(messages[: begin + share], window=1_000_000)
        else:
            state = ConversationState.of(added, window=1_000_000)
        result = await service(replace(state, turn_from=None), policy, no_model)
    assert state is not None
    left = (
        result.messages
        if result is not None
        else [entry.message for entry in state.entries]
    )
    return "\n".join(map(text_of, left)).lower()


def holds(text: str, tokens: Sequence[str]) -> bool:
    """Return whether a text has all of these tokens."""
    return all(token.lower() in text for token in tokens)


async def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sessions", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, action="append", default=[])
    parser.add_argument(
        "--lost", action="store_true", help="print the canaries that were lost"
    )
    arguments = parser.parse_args()
    recordings = [read_recording(path).messages for path in arguments.sessions]
    print(
        "size | canaries that survived | stale values without the new one | near-duplicates both held"
    )
    for size in arguments.size or SIZES:
        survived: list[bool] = []
        stale: list[bool] = []
        pairs: list[bool] = []
        for number in range(arguments.seeds):
            for kind in KINDS:
                turns, canaries, distinct = _session(kind, number + 1)
                messages = recordings[number % len(recordings)]
                recorded = "\n".join(map(text_of, messages)).lower()
                text = await last_context(planted(messages, turns), size)
                held = {
                    canary.id: holds(text, canary.required_tokens)
                    for canary in canaries
                }
                survived += held.values()
                if arguments.lost:
                    print(
                        kind,
                        number,
                        [canary.content for canary in canaries if not held[canary.id]],
                    )
                changed = [canary for canary in canaries if canary.superseded_tokens]
                changed = [
                    canary
                    for canary in changed
                    if not holds(recorded, canary.superseded_tokens)
                ]
                stale += [
                    holds(text, canary.superseded_tokens) and not held[canary.id]
                    for canary in changed
                ]
                pairs += [held[first] and held[second] for first, second in distinct]
        share = sum(survived) / len(survived)
        print(
            f"{size:6,} | {share:.1%} | {sum(stale)} of {len(stale)} | {sum(pairs)} of {len(pairs)}",
            flush=True,
        )


def _session(
    kind: str, seed: int
) -> tuple[list[Any], list[Any], list[tuple[str, str]]]:
    """Return the turns, the canaries and the pairs of near-duplicates of a session of
    the kit.
    """
    module, function = KINDS[kind]
    # By name, since the kit has no types.
    build: Any = getattr(import_module(module), function)
    session, canaries, *meta = build(seed)
    pairs: list[tuple[str, str]] = meta[0]["distinct_pairs"] if meta else []
    return list(session.turns), list(canaries), pairs


if __name__ == "__main__":
    anyio.run(main)
