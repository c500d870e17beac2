"""How many of a user's rules are still there, byte for byte, after ten compactions in a
row.

`python -m benchmarks.rules_survive --strategy excerpts` builds a session of 200
messages with 24 rules in its first messages, compacts it, adds 20 messages and compacts
again. No model is asked.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import re
from collections.abc import AsyncGenerator, Iterator

import anyio

from acp_agent.compaction import (
    CompactionPolicy,
    CompactionService,
    ConversationState,
    estimate_messages,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.llm.provider import ModelEvent, ModelRequest

CUED = (
    "Never push to main without asking me first.",
    "All amounts must be rounded half to even.",
    "Only change files under src/billing.",
    "Don't add any new dependencies.",
    "From now on write commit messages in the imperative mood.",
    "Use pnpm instead of npm here.",
    "Fass den Ordner legacy nicht an!",
    "Die öffentliche API muss abwärtskompatibel bleiben.",
    "Bitte immer erst die Tests laufen lassen,\nbevor du committest.",
    "Keine neuen Tabellen ohne Rückfrage.",
    "Ne touche jamais aux migrations existantes.",
    "Il faut que tout marche aussi sous Windows.",
    "Réponds toujours en français dans les issues.",
    "No toques la carpeta vendor.",
    "Siempre usa el formateador antes de terminar.",
    "Los precios nunca se guardan como float.",
)
PLAIN = (
    "The API stays as it is.",
    "Tabs, 4 wide.",
    "Das Schema ist bis März eingefroren.",
    "Einrückung mit vier Leerzeichen.",
    "Les montants sont en centimes, en entiers.",
    "La cliente s'appelle Lefèvre avec un accent grave.",
    "Los importes están en céntimos, como enteros.",
    "La versión la publico yo.",
)
MESSAGES = 200
ADDED = 20
COMPACTIONS = 10
WINDOW = 60_000
_FILLER = """cart order
price voucher parser queue worker cache table column index page button footer invoice customer total
currency session token endpoint handler retry timeout fixture branch module query result value report"""
_WORDS = re.findall(r"\w+", _FILLER)


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words)).capitalize() + "."


def _turns(chance: random.Random, rules: list[str]) -> Iterator[Message]:
    """Yield prompts, calls, results and answers without end; each of the first eight
    prompts states three rules.
    """
    number = 0
    while True:
        number += 1
        prompt = f"Look at the {_sentence(chance, 12)}"
        if rules:
            stated = " ".join(rules.pop(0) for _ in range(3))
            prompt += f"\n\n{stated}\n\nThen go on with the {_sentence(chance, 6)}"
        yield UserMessage(f"u{number}", (Text(prompt),))
        path = f"src/{chance.choice(_WORDS)}/{chance.choice(_WORDS)}.py"
        call = ToolCall(f"c{number}", "read", {"path": path})
        yield AssistantMessage(
            f"t{number}", (Text(_sentence(chance, 10)), call), stop_reason="tool_use"
        )
        lines = (
            f"{line}: {_sentence(chance, 9)}" for line in range(chance.randint(20, 70))
        )
        yield ToolResult(call.id, (Text("\n".join(lines)),))
        yield AssistantMessage(
            f"a{number}", (Text(" ".join(_sentence(chance, 12) for _ in range(4))),)
        )


async def _no_model(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    raise AssertionError(f"a model was asked: {request.model}")
    yield  # makes it a generator


def _text(messages: tuple[Message, ...]) -> str:
    parts = (part for message in messages for part in message.parts)
    return "\n".join(
        part.text
        for part in parts
        if isinstance(part, Text | CompactedBlock) and part.text
    )


async def survive(policy: CompactionPolicy) -> None:
    """Print a row for each compaction."""
    chance = random.Random(7)
    rules = [*CUED, *PLAIN]
    chance.shuffle(rules)
    turns = _turns(chance, rules)
    messages = [next(turns) for _ in range(MESSAGES)]
    state = ConversationState.of(messages, window=WINDOW)
    print(
        f"{len(messages)} messages, {estimate_messages(messages):,} tokens, strategy {policy.strategy}"
    )
    print("compaction | with a cue | without | tokens")
    for number in range(1, COMPACTIONS + 1):
        compacted = await CompactionService()(state, policy, _no_model)
        if compacted is None:
            print(f"{number:10} | nothing to compact")
            return
        text = _text(compacted.messages)
        cued, plain = (sum(rule in text for rule in group) for group in (CUED, PLAIN))
        tokens = estimate_messages(compacted.messages)
        print(
            f"{number:10} | {cued:4} of {len(CUED)} | {plain:2} of {len(PLAIN)} | {tokens:6,}"
        )
        state = compacted.next_state(state, [next(turns) for _ in range(ADDED)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategy", default="excerpts")
    parser.add_argument(
        "--size", type=int, help="tokens, where the policy has a field `size`"
    )
    options = parser.parse_args()
    settings = {} if options.size is None else {"size": options.size}
    if unknown := settings.keys() - {
        field.name for field in dataclasses.fields(CompactionPolicy)
    }:
        parser.error(f"this version's CompactionPolicy has no {', '.join(unknown)}")
    anyio.run(survive, CompactionPolicy("", strategy=options.strategy, **settings))


if __name__ == "__main__":
    main()
