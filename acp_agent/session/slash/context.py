"""The commands about one session's context: `/context`, `/model`, `/pin`, `/unpin`, and
the forms of `/compact` that do not compact: `preview`, `status` and `undo`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import (
    MESSAGE_TOKENS,
    estimate_messages,
    estimate_part,
    estimate_text,
    used_tokens,
)
from acp_agent.compaction.excerpts.quotes import new_pin, pin_of, render_pins
from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextRestored,
    ContextSwapped,
    FileVersion,
    PinRemoved,
    TextPinned,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Entry,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserPart,
    new_id,
)
from acp_agent.conversation.swaps import REPLACE
from acp_agent.conversation.updates import Show
from acp_agent.errors import CompactionError
from acp_agent.llm.parts import is_picture
from acp_agent.session.commands import PREVIEW, STATUS
from acp_agent.session.compact.draft import SummaryDraft
from acp_agent.session.compact.parts import CompactionParts
from acp_agent.session.compact.report import dollars, receipt_text
from acp_agent.session.models.requests import Requests
from acp_agent.session.options import MODEL, NO_MODEL, SessionOptions
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.session.state import SessionState
from acp_agent.tools.text import counted

PIN_SHARE = 0.05
"""Maximum share of the window for all pinned texts. From the first compaction on, every
request contains them.
"""
KINDS = (
    *("System prompt", "Tools", "Summary", "Your prompts", "Answers"),
    *("Thinking", "Tool calls", "Tool results", "Images", "Notes to the model"),
)
"""The rows in the table of `/context`, in order."""


def only_reads(name: str, rest: str) -> bool:
    """Return whether a built-in command changes nothing, so that it is not logged."""
    has_words = bool(rest.strip())
    return (
        name in ("context", "help")
        or (name == "model" and not has_words)
        or (name == "undo" and has_words)
    )


@dataclass(eq=False, slots=True)
class ContextCommands:
    """Runs the commands. Each returns its answer.

    Each method raises `InvalidParamsError` if its arguments are invalid. The message
    says what is wrong.
    """

    _state: SessionState
    _requests: Requests
    _options: SessionOptions

    async def context(self, rest: str) -> str:
        """Show the contents of the window, in tokens."""
        del rest
        active = await self._requests.active()
        sizes = _sizes_of(self._state.context, self._requests.prefix_tokens())
        used = self._requests.used(active)
        estimated = sum(sizes.values())
        budget = active.budget
        used = used or estimated
        rows = [
            (kind, round(size * used / estimated))
            for kind, size in sizes.items()
            if size
        ]
        rows += [
            ("**In use**", used),
            ("Reserved for the answer", budget.window - budget.usable),
        ]
        rows += [("Free", max(0, budget.usable - used))]
        return "\n".join(
            (
                f"`{active.name}` has a window of {budget.window:,} tokens.",
                "",
                "| what | tokens | of the window |",
                "| --- | ---: | ---: |",
                *(
                    f"| {kind} | {tokens:,} | {tokens / budget.window:.1%} |"
                    for kind, tokens in rows
                ),
                "",
                "The total is the provider's last count plus an estimate of what came since. The parts are estimates.",
            )
        )

    async def pin(self, rest: str) -> str:
        """Pin a text, or list the pinned texts."""
        memory = self._state.context.memory
        if not rest.strip():
            return render_pins(memory)
        window = (await self._requests.active()).budget.window
        pin = new_pin(memory, rest, int(window * PIN_SHARE))
        sent = f"The user pinned this text. It holds from here on, until they take it back:\n\n{pin.text}"
        await self._state.log.append(
            TextPinned(new_id("msg"), pin.number, pin.text, sent)
        )
        return (
            f"Pinned as {pin.number}. It stays word for word through every compaction; `/unpin {pin.number}` takes it "
            "back."
        )

    async def unpin(self, rest: str) -> str:
        """Remove a pinned text."""
        word = rest.strip().removeprefix("#")
        memory = self._state.context.memory
        if not word.isdecimal():
            return f"Say which text to unpin: `/unpin NUMBER`.\n\n{render_pins(memory)}"
        pin = pin_of(memory, int(word))
        sent = f"The user took a pinned text back; it does not hold any more:\n\n{pin.text}"
        await self._state.log.append(PinRemoved(new_id("msg"), pin.number, sent))
        return f"Pin {word} was taken back."

    async def model(self, rest: str) -> str:
        """Choose the model, or list the models."""
        name = rest.strip()
        options = await (
            self._options.change(MODEL, name) if name else self._options.all()
        )
        option = next(option for option in options if option.id == MODEL)
        if name:
            return f"The model of this session is now `{option.current}`."
        others = "".join(
            f"\n- `{choice.value}`"
            for choice in option.choices
            if choice.value != option.current
        )
        more = f" `/model NAME` changes it to one of these, or to any other `provider/model`:\n{others}"
        current = next(
            choice for choice in option.choices if choice.value == option.current
        )
        shown = current.name if current.value == NO_MODEL else current.value
        return f"The model of this session is `{shown}`.{more if others else ''}"


def _sizes_of(context: Context, prefix: int) -> dict[str, int]:
    """Return the estimated tokens of each of `KINDS`.

    :param prefix: estimated tokens of the system prompt and the tools together.
    """
    system = min(prefix, estimate_text(context.instructions))
    sizes = dict.fromkeys(KINDS, 0) | {
        "System prompt": system,
        "Tools": prefix - system,
    }
    for entry in context.entries:
        for index, part in enumerate(entry.message.parts):
            sizes[_kind(entry, part)] += estimate_part(part) + (
                0 if index else MESSAGE_TOKENS
            )
    return sizes


def _kind(entry: Entry, part: UserPart | AssistantPart) -> str:
    if is_picture(part):
        return "Images"
    if entry.summary or entry.note:
        return "Summary" if entry.summary else "Notes to the model"
    match part:
        case Thinking():
            return "Thinking"
        case ToolCall():
            return "Tool calls"
        case _ if isinstance(entry.message, ToolResult):
            return "Tool results"
        case _:
            return (
                "Answers"
                if isinstance(entry.message, AssistantMessage)
                else "Your prompts"
            )


_Compaction: TypeAlias = ContextSwapped | CompactionFailed | ContextRestored


def only_reports(run: RecipeRun) -> bool:
    """Return whether a run of `/compact` changes nothing, so that it is not logged."""
    word, rest = run.report
    if run.mistyped_report:
        return True
    return word in (PREVIEW, STATUS) or bool(word and rest)


@dataclass(eq=False, slots=True)
class CompactReports:
    """Runs the forms of `/compact` that do not compact. Each returns its answer."""

    _state: SessionState
    _requests: Requests
    _compaction: CompactionParts
    _show: Show

    async def run(self, run: RecipeRun) -> str:
        """Preview a compaction, report the status, or undo the newest compaction.

        :raises CompactionError: if this failed, or if the word was mistyped. The
            context is unchanged.
        """
        if meant := run.mistyped_report:
            typed = run.instructions.strip()
            raise CompactionError(
                f"Did you mean `/compact {meant}`? Nothing was changed.",
                f"To compact with `{typed}` as an instruction, write a sentence: "
                f"`/compact keep {typed}`.",
            )
        word, rest = run.report
        if word == PREVIEW:
            return await self._preview(replace(run, instructions=rest))
        if rest:
            return (
                f"`/compact {word}` takes no arguments. Nothing was changed. To compact with instructions that "
                f"begin with this word, put another one before it: `/compact keep the {word} …`."
            )
        return await (self._status() if word == STATUS else self._undo())

    async def _preview(self, run: RecipeRun) -> str:
        """Return the result of a manual compaction, with excerpts instead of a summary."""
        active = await self._requests.active()
        try:
            order = await self._compaction.orders.make("manual", active, run)
            step = "mask" if order.policy.strategy == "mask" else "excerpts"
            result = await self._compaction.compactor.run_strategies(
                order.with_steps(step)
            )
        except CompactionError as error:
            return f"Nothing was changed. {error}"
        return _preview_text(result, order.state.budget)

    async def _status(self) -> str:
        """Return the budget and the compactions so far, with their receipts."""
        active = await self._requests.active()
        context = self._state.context
        settings = self._state.compaction(active.name)
        budget = self._requests.filled(active)
        automatic = (
            f"at {settings.threshold:.0%} of the usable window"
            if settings.auto
            else "off"
        )
        if settings.auto and settings.prepare is not None:
            automatic += f", prepared above {settings.prepare:.0%}"
        states = dict.fromkeys(context.swaps, "")
        history = dict[int, _Compaction]()
        async for logged in self._state.log.events():
            if isinstance(
                logged.event, ContextSwapped | CompactionFailed | ContextRestored
            ):
                history[logged.seq] = logged.event
            if isinstance(logged.event, ContextRestored):
                states[logged.event.undone] = " (undone)"
        taken_back = " (removed with a prompt that the provider refused)"
        lines = [
            f"- Window: {budget.window:,} tokens, {budget.usable:,} usable (the rest is reserved for the answer)",
            (
                f"- In use: {budget.used:,} ({budget.utilisation:.0%} of the usable tokens): {budget.system:,} for the "
                f"system prompt and the tools, {budget.messages:,} for the messages; {budget.free:,} free"
            ),
            f"- Automatic compaction: {automatic}{_prepared(self._compaction.background.draft)}",
            f"- Prepared while you pause: {(await self._compaction.idle.plan(active)).why}",
            f"- Pinned: {counted(len(context.memory.pins), 'text')}",
            "- Compactions so far:" if history else "- Compactions so far: none",
        ]
        entries = (
            _history(seq, event, states.get(seq, taken_back))
            for seq, event in history.items()
        )
        return "\n".join([*lines, *entries])

    async def _undo(self) -> str:
        """Undo the newest compaction that is in force.

        :raises CompactionError: if there is none.
        """
        log = self._state.log
        prefix = self._requests.prefix_tokens()
        if not log.context.swaps:
            raise CompactionError(
                "There is no compaction to undo. Nothing was changed."
            )
        [newest] = await log.read(log.context.swaps[-1:])
        seq = newest.seq
        swap = newest.event
        assert isinstance(swap, ContextSwapped)
        # The messages that a hook supplied come directly before their swap.
        before = await log.context_at(
            (swap.keep_from if swap.strategy == REPLACE else seq) - 1
        )
        [restored] = await log.append_built(
            lambda context: (_restoration(context, before, seq, swap, prefix),)
        )
        self._compaction.background.drop()  # only now, since a prepared summary stays valid if nothing was undone
        await self._show(await self._requests.usage())
        return (
            f"The compaction #{seq} was undone: the context is again what it was before, with what has been said since "
            f"({counted(len(restored.entries), 'message')}, about {restored.tokens:,} tokens). By itself it is not "
            "compacted again before it is really full; `/compact` does it at any time."
        )


def _prepared(draft: SummaryDraft | None) -> str:
    """Return a note about the summary prepared in the background, and why it is
    prepared.
    """
    if draft is None:
        return ""
    if draft.result is None:
        return "; a summary is being prepared in the background"
    if not draft.is_idle:
        return "; a summary is ready, prepared because the context had grown large"
    usage = draft.result.usage
    cost = (
        f" for {dollars(usage.cost)}"
        if usage is not None and usage.cost is not None
        else ""
    )
    return (
        f"; a summary is ready, prepared{cost} while you paused. Your next prompt uses it if the "
        "provider's prompt cache has expired by then"
    )


def _preview_text(result: CompactedState | None, budget: TokenBudget) -> str:
    """Return what a compaction would replace, and what the model would read instead."""
    if result is None:
        return "There is nothing to compact yet. Nothing was changed."
    receipt = result.receipt
    after = result.tokens_after
    lines = [
        "**Preview of a compaction.** Nothing was changed.",
        "",
        f"- Now: {budget.used:,} tokens, {budget.used / budget.window:.0%} of the window of {budget.window:,}",
        f"- Replaced: {counted(receipt.summarised, 'message')}",
        f"- Kept unchanged: {counted(receipt.kept, 'message')}, shortened: {receipt.rewritten}",
        f"- Afterwards: about {after:,} tokens; {max(0, budget.used - after):,} saved",
        "",
        "What the model would read without a summary:"
        if result.sent
        else result.summary,
        "",
    ]
    text = "\n\n".join(part.text for part in result.sent if isinstance(part, Text))
    return "\n".join([*lines, *(f"> {line}".rstrip() for line in text.splitlines())])


def _history(seq: int, event: _Compaction, state: str) -> str:
    match event:
        case ContextSwapped():
            receipt = receipt_text(event).replace("\n", "\n    ")
            return f"  - #{seq} {event.trigger}, {event.strategy}{state}: {receipt}"
        case CompactionFailed():
            return f"  - #{seq} {event.trigger}, {event.status}: {event.error or 'nothing was changed'}"
        case ContextRestored():
            return f"  - #{seq} undo of #{event.undone}"


def _restoration(
    context: Context,
    before: Context,
    seq: int,
    swap: ContextSwapped,
    prefix_tokens: int,
) -> ContextRestored:
    """Return the event that undoes a swap.

    :param context: the current context.
    :param before: the context directly before the swap.
    :param prefix_tokens: estimated tokens of the system prompt and the tools.
    :raises CompactionError: if the swap is no longer the newest one.
    """
    if context.swaps[-1:] != (seq,):
        raise CompactionError(
            "The session changed meanwhile. Nothing was undone; try again."
        )
    since = tuple(
        entry for entry in context.entries if entry.seq > seq and not entry.summary
    )
    return ContextRestored(
        compaction_id=swap.compaction_id,
        undone=seq,
        entries=(*before.entries, *since),
        carried=replace(
            context.carried(),
            instructions=before.instructions,
            declared=before.declared,
            withheld=tuple(sorted(before.withheld)),
        ),
        tokens=used_tokens(before, prefix_tokens)
        + estimate_messages(entry.message for entry in since),
        files=tuple(
            FileVersion(path, digest)
            for path, digest in {**before.files, **context.files}.items()
        ),
        earlier=before.swaps,
    )
