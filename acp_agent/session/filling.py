"""What fills the window, for `/context`: a row for each kind of thing that the next request holds.

The rows are estimates, scaled so that together they are what is known to be in use. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import MESSAGE_TOKENS, estimate_part, estimate_text
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserPart,
)
from acp_agent.llm.attached import is_picture

SYSTEM, TOOLS = "System prompt", "Tools"
PINNED, CARRIED, SUMMARY, FACTS = "Pinned texts", "Carried over word for word", "Summary", "Excerpts"
PROMPTS, ANSWERS, THOUGHTS = "Your prompts", "Answers", "Thinking"
CALLS, RESULTS, IMAGES, NOTES = "Calls of tools", "Results of tools", "Images", "Notes to the model"
KINDS = (
    *(SYSTEM, TOOLS, PINNED, CARRIED, SUMMARY, FACTS, PROMPTS),
    *(ANSWERS, THOUGHTS, CALLS, RESULTS, IMAGES, NOTES),
)
"""In the order of the table."""

_LAYERS = {"<carried_over>": CARRIED, "<recorded_facts>": FACTS, "<recorded_excerpts>": FACTS}


def filling_text(model: str, context: Context, prefix: int, used: int, budget: TokenBudget) -> str:
    """The table, with a line above and one below it.

    :param model: `provider/model`.
    :param prefix: estimate of the tokens of the system prompt and the tools together.
    :param used: tokens of the next request; 0 where nothing was said yet.
    :param budget: the model's.
    """
    sizes = sizes_of(context, prefix)
    used = used or sum(sizes.values())
    rows = [(kind, tokens) for kind, tokens in scaled(sizes, used).items() if tokens]
    reserve = budget.window - budget.usable
    rows += [("**In use**", used), ("Kept for the answer", reserve), ("Free", max(0, budget.usable - used))]
    table = [f"| {kind} | {tokens:,} | {tokens / budget.window:.1%} |" for kind, tokens in rows]
    source = "the provider's last count, and an estimate of what came since" if context.usage else "an estimate"
    return "\n".join(
        (
            f"`{model}` has a window of {budget.window:,} tokens.",
            "",
            "| what | tokens | of the window |",
            "| --- | ---: | ---: |",
            *table,
            "",
            f"What is in use is {source}; how it is divided is always an estimate.",
        )
    )


def sizes_of(context: Context, prefix: int) -> dict[str, int]:
    """Estimated tokens of each of `KINDS`.

    :param prefix: of the system prompt and the tools together.
    """
    sizes = dict.fromkeys(KINDS, 0)
    sizes[SYSTEM] = min(prefix, estimate_text(context.instructions))
    sizes[TOOLS] = prefix - sizes[SYSTEM]
    for entry in context.entries:
        for index, part in enumerate(entry.message.parts):
            sizes[_kind(entry, part)] += estimate_part(part) + (0 if index else MESSAGE_TOKENS)
    for pin in context.memory.pins:
        _count_apart(sizes, estimate_text(pin.text), CARRIED if _is_carried(context, pin.text) else NOTES)
    return sizes


def scaled(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """The same shares of another total, in whole numbers that add up to it."""
    estimated = sum(sizes.values())
    if not estimated:
        return dict(sizes)
    exact = {kind: size * total / estimated for kind, size in sizes.items()}
    whole = {kind: floor(size) for kind, size in exact.items()}
    by_rest = sorted(exact, key=lambda kind: whole[kind] - exact[kind])
    for kind in by_rest[: total - sum(whole.values())]:
        whole[kind] += 1
    return whole


def _kind(entry: Entry, part: UserPart | AssistantPart) -> str:
    if is_picture(part):
        return IMAGES
    if entry.summary:
        text = part.text if isinstance(part, Text | CompactedBlock) else ""
        return next((kind for mark, kind in _LAYERS.items() if text.startswith(mark)), SUMMARY)
    if entry.note:
        return NOTES
    match part:
        case Thinking():
            return THOUGHTS
        case ToolCall():
            return CALLS
        case _ if isinstance(entry.message, ToolResult):
            return RESULTS
        case _:
            return ANSWERS if isinstance(entry.message, AssistantMessage) else PROMPTS


def _count_apart(sizes: dict[str, int], tokens: int, of: str) -> None:
    """Count a pinned text as one, and no more as a part of what holds it."""
    tokens = min(tokens, sizes[of])
    sizes[of] -= tokens
    sizes[PINNED] += tokens


def _is_carried(context: Context, text: str) -> bool:
    layers: Sequence[UserPart | AssistantPart] = [
        part for entry in context.entries if entry.summary for part in entry.message.parts
    ]
    return any(
        isinstance(part, Text) and part.text.startswith("<carried_over>") and text in part.text for part in layers
    )
