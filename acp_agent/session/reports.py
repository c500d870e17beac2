"""What `/compact preview` and `/compact status` tell the user."""

from __future__ import annotations

from collections.abc import Iterable

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.preview import Preview
from acp_agent.config.settings import CompactionSettings
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import CompactionFailed, ContextRestored, ContextSwapped, LoggedEvent
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import Text
from acp_agent.session.receipts import receipt_text
from acp_agent.tools.text import counted

_WORDS = 60


def preview_text(preview: Preview | None, budget: TokenBudget) -> str:
    """What a compaction would keep, drop and save."""
    if preview is None:
        return "There is nothing to compact yet. Nothing was changed."
    cut, memory = preview.cut, preview.memory
    lines = [
        "**Preview of a compaction.** Nothing was changed.",
        "",
        f"- Now: {preview.before:,} tokens, {preview.before / budget.window:.0%} of the window of {budget.window:,}",
    ]
    if cut is not None:
        gone = len(cut.summarised) - len(cut.pinned)
        replaced = "Replaced by a summary" if preview.summary else "Left out without a summary"
        lines += [
            f"- {replaced}: {counted(gone, 'message')}, about {preview.replaced:,} tokens: {_range(cut.summarised)}",
            f"- Kept word for word: {_kept((*cut.kept,), len(cut.pinned))}",
            f"- Carried over word for word, with the facts: about {preview.carried:,} tokens: {_carried(memory)}",
        ]
    if preview.shortened:
        lines.append(f"- Shortened: {counted(preview.shortened, 'message')}, such as old results of tools")
    summary = f", with a summary of about {preview.summary:,}" if preview.summary else ""
    saved = max(0, preview.before - preview.after)
    lines.append(f"- Afterwards: about {preview.after:,} tokens{summary}; {saved:,} saved")
    if preview.text:
        lines += ["", "What the model would read beside the summary:", "", _quoted(preview.text)]
    return "\n".join(lines)


def status_text(
    budget: TokenBudget,
    settings: CompactionSettings,
    memory: Memory,
    events: Iterable[LoggedEvent],
    *,
    in_force: tuple[int, ...],
    prepared: str,
) -> str:
    """The budget, and the compactions so far with their receipts.

    :param events: those of the log that are about compactions, in order.
    :param in_force: seqs of the compactions that were not undone.
    :param prepared: a word on what is being prepared in the background; empty where nothing is.
    """
    automatic = f"at {settings.threshold:.0%} of the usable window" if settings.auto else "off"
    if settings.auto and settings.prepare is not None:
        automatic += f", prepared from {settings.prepare:.0%} on"
    lines = [
        f"- Window: {budget.window:,} tokens, {budget.usable:,} of them usable (the rest is kept for the answer)",
        (
            f"- In use: {budget.used:,} ({budget.utilisation:.0%} of the usable ones): {budget.system:,} for the "
            f"system prompt and the tools, {budget.messages:,} for the messages; {budget.free:,} free"
        ),
        f"- Automatic compaction: {automatic}{f'; {prepared}' if prepared else ''}",
        f"- Carried over at each compaction: {_carried(memory)}",
    ]
    logged_events = tuple(events)
    undone = {logged.event.undone for logged in logged_events if isinstance(logged.event, ContextRestored)}
    history = [_history(logged, in_force, undone) for logged in logged_events]
    lines.append("- Compactions so far: none" if not history else "- Compactions so far:")
    return "\n".join([*lines, *history])


def _history(logged: LoggedEvent, in_force: tuple[int, ...], undone: set[int]) -> str:
    event = logged.event
    match event:
        case ContextSwapped():
            state = ""
            if logged.seq not in in_force:
                state = " (undone)" if logged.seq in undone else " (taken back with a prompt that the provider refused)"
            receipt = receipt_text(event).replace("\n", "\n    ")
            return f"  - #{logged.seq} {event.trigger}, {event.strategy}{state}: {receipt}"
        case CompactionFailed():
            return f"  - #{logged.seq} {event.trigger}, {event.status}: {event.error or 'nothing was changed'}"
        case ContextRestored():
            return f"  - #{logged.seq} undo of #{event.undone}"
        case _:
            return f"  - #{logged.seq}"


def _range(entries: tuple[Entry, ...]) -> str:
    return f"#{entries[0].seq} to #{entries[-1].seq}"


def _kept(kept: tuple[Entry, ...], pinned: int) -> str:
    if not kept and not pinned:
        return "nothing (all of it is short enough to be summarised)"
    what: list[str] = []
    if pinned:
        what.append("the prompt of the running turn")
    if kept:
        first = kept[0].message
        said = next((part.text for part in first.parts if isinstance(part, Text) and part.text.strip()), "")
        words = " ".join(said[: _WORDS * 4].split())[:_WORDS]
        what.append(f"{counted(len(kept), 'message')} from #{kept[0].seq} on{f' (“{words}”)' if words else ''}")
    return " and ".join(what)


def _carried(memory: Memory) -> str:
    ledger = memory.ledger
    counts = (
        (len(memory.pins), "pinned text"),
        (len(memory.rules), "rule"),
        (len(memory.requests), "request"),
        (len(ledger.files), "file"),
        (len(ledger.commands), "command"),
        (len(ledger.errors), "open error"),
    )
    said = ", ".join(counted(count, what) for count, what in counts if count)
    return said or "nothing yet"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
