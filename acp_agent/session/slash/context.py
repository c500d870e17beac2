"""The commands about one session's context: `/context`, `/model`, `/pin` and `/unpin`."""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.compaction.estimate import MESSAGE_TOKENS, estimate_part, estimate_text
from acp_agent.compaction.excerpts.quotes import add_pin, remove_pin, render_pins
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import PinRemoved, TextPinned
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserPart,
    new_id,
)
from acp_agent.llm.parts import is_picture
from acp_agent.session.log import SessionLog
from acp_agent.session.project.requests import Requests
from acp_agent.session.project.settings import MODEL, SessionOptions

PIN_SHARE = 0.05
"""Share of the window for all pinned texts: they are in every request from the first compaction on."""
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


def only_reads(name: str, rest: str) -> bool:
    """Return whether a built-in command changes nothing, so that it is not logged."""
    has_words = bool(rest.strip())
    return name in ("context", "help") or (name == "model" and not has_words) or (name == "undo" and has_words)


@dataclass(eq=False, slots=True)
class ContextCommands:
    """Runs the commands. Each returns its answer.

    :raises InvalidParamsError: what is wrong with the words behind a command; from each of them.
    """

    _log: SessionLog
    _requests: Requests
    _options: SessionOptions

    async def context(self, rest: str) -> str:
        """Show what fills the window."""
        del rest
        active = await self._requests.active()
        sizes, used = sizes_of(self._log.context, self._requests.prefix_tokens()), self._requests.used(active)
        estimated, budget = sum(sizes.values()), active.budget
        used = used or estimated
        rows = [(kind, round(size * used / estimated)) for kind, size in sizes.items() if size]
        rows += [("**In use**", used), ("Kept for the answer", budget.window - budget.usable)]
        rows += [("Free", max(0, budget.usable - used))]
        return "\n".join(
            (
                f"`{active.name}` has a window of {budget.window:,} tokens.",
                "",
                "| what | tokens | of the window |",
                "| --- | ---: | ---: |",
                *(f"| {kind} | {tokens:,} | {tokens / budget.window:.1%} |" for kind, tokens in rows),
                "",
                "The total is the provider's last count with an estimate of what came since; the parts are estimates.",
            )
        )

    async def pin(self, rest: str) -> str:
        """Pin a text, or list the pinned ones."""
        memory = self._log.context.memory
        if not rest.strip():
            return render_pins(memory)
        window = (await self._requests.active()).budget.window
        pin = add_pin(memory, rest, int(window * PIN_SHARE)).pins[-1]
        sent = f"The user pinned this text. It holds from here on, until they take it back:\n\n{pin.text}"
        await self._log.append(TextPinned(new_id("msg"), pin.number, pin.text, sent))
        return (
            f"Pinned as {pin.number}. It stays word for word through every compaction; `/unpin {pin.number}` takes it "
            "back."
        )

    async def unpin(self, rest: str) -> str:
        """Take a pinned text back."""
        word, memory = rest.strip().removeprefix("#"), self._log.context.memory
        if not word.isdecimal():
            return f"Say which: `/unpin NUMBER`.\n\n{render_pins(memory)}"
        remove_pin(memory, int(word))
        text = next(pin.text for pin in memory.pins if pin.number == int(word))
        sent = f"The user took a pinned text back; it does not hold any more:\n\n{text}"
        await self._log.append(PinRemoved(new_id("msg"), int(word), sent))
        return f"Pin {word} was taken back."

    async def model(self, rest: str) -> str:
        """Choose the model, or list the models."""
        name = rest.strip()
        options = await (self._options.change(MODEL, name) if name else self._options.all())
        option = next(option for option in options if option.id == MODEL)
        if name:
            return f"The model of this session is `{option.current}` now."
        others = "".join(f"\n- `{choice.value}`" for choice in option.choices if choice.value != option.current)
        more = f" `/model NAME` changes it, to one of these or to any other `provider/model`:\n{others}"
        current = next(choice.name for choice in option.choices if choice.value == option.current)
        return f"The model of this session is `{current}`.{more if others else ''}"


def sizes_of(context: Context, prefix: int) -> dict[str, int]:
    """Return the estimated tokens of each of `KINDS`.

    :param prefix: of the system prompt and the tools together.
    """
    sizes = dict.fromkeys(KINDS, 0)
    sizes[SYSTEM] = min(prefix, estimate_text(context.instructions))
    sizes[TOOLS] = prefix - sizes[SYSTEM]
    for entry in context.entries:
        for index, part in enumerate(entry.message.parts):
            sizes[_kind(entry, part)] += estimate_part(part) + (0 if index else MESSAGE_TOKENS)
    pinned = sum(estimate_text(pin.text) for pin in context.memory.pins)
    for kind in (CARRIED, NOTES):  # which they are a part of
        counted = min(pinned - sizes[PINNED], sizes[kind])
        sizes[kind] -= counted
        sizes[PINNED] += counted
    return sizes


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
