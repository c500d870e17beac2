"""The commands that are no recipes: `/pin`, `/unpin`, and the words behind `/compact` that compact nothing."""

from __future__ import annotations

from acp_agent.compaction.pinned import add_pin, remove_pin, render_pins
from acp_agent.compaction.preview import preview
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextRestored,
    ContextSwapped,
    PinRemoved,
    TextPinned,
)
from acp_agent.conversation.messages import new_id
from acp_agent.errors import CompactionError, InvalidParamsError
from acp_agent.session.commands import PREVIEW, RecipeRun
from acp_agent.session.host import SessionHost
from acp_agent.session.reports import preview_text, status_text
from acp_agent.tools.text import counted

PIN_SHARE = 0.05
"""Of the window, for all pinned texts: they are in every request from the first compaction on."""

NO_MODEL = ("mask", "ledger", "truncate")
"""Strategies that ask nobody: a preview can do what they would do."""


async def run_builtin(host: SessionHost, name: str, rest: str) -> str:
    """Do it, and say what was done."""
    try:
        return await (_pin(host, rest) if name == "pin" else _unpin(host, rest))
    except InvalidParamsError as error:
        return str(error)


async def _pin(host: SessionHost, text: str) -> str:
    if not text.strip():
        return render_pins(host.context.memory)
    window = (await host.models.active(host.context.model)).budget.window
    memory = add_pin(host.context.memory, text, int(window * PIN_SHARE))
    pin = memory.pins[-1]
    sent = f"The user pinned this text. It holds from here on, until they take it back:\n\n{pin.text}"
    await host.append(TextPinned(new_id("msg"), pin.number, pin.text, sent))
    return (
        f"Pinned as {pin.number}. It stays word for word through every compaction; `/unpin {pin.number}` takes it back."
    )


async def _unpin(host: SessionHost, rest: str) -> str:
    word = rest.strip().removeprefix("#")
    if not word.isdecimal():
        return f"Say which: `/unpin NUMBER`.\n\n{render_pins(host.context.memory)}"
    number = int(word)
    memory = host.context.memory
    remove_pin(memory, number)
    text = next(pin.text for pin in memory.pins if pin.number == number)
    sent = f"The user took a pinned text back; it does not hold any more:\n\n{text}"
    await host.append(PinRemoved(new_id("msg"), number, sent))
    return f"Pin {number} was taken back."


async def report(host: SessionHost, word: str, run: RecipeRun) -> str:
    """What one of `REPORTS` tells, or what is wrong with words that say more than that.

    :param run: with the instructions that follow the word.
    """
    if run.instructions and word != PREVIEW:
        return (
            f"Nothing may follow `/compact {word}`, and nothing was changed. To compact with instructions that begin "
            f"with this word, put another one before it: `/compact keep the {word} …`."
        )
    try:
        return await (_preview(host, run) if word == "preview" else _status(host))
    except CompactionError as error:
        return str(error)


async def _preview(host: SessionHost, run: RecipeRun) -> str:
    order = await host.compaction.orders.by_hand(run)
    exact = None
    if order.policy.strategy in NO_MODEL:
        exact = await host.compaction.compactor.service(order.state, order.policy, order.call, without_model=True)
        if exact is None:
            return preview_text(None, order.state.budget)
    return preview_text(preview(order.state, order.policy, exact), order.state.budget)


async def _status(host: SessionHost) -> str:
    active = await host.models.active(host.context.model)
    about = (ContextSwapped, CompactionFailed, ContextRestored)
    events = [logged async for logged in host.events() if isinstance(logged.event, about)]
    return status_text(
        await host.filled(active),
        host.settings.compaction_for(active.name),
        host.context.memory,
        events,
        in_force=host.context.swaps,
        prepared=host.compaction.preparation.state,
    )


async def undo_compaction(host: SessionHost) -> str:
    """Undo the newest compaction, and say so.

    :raises CompactionError: there is none.
    """
    restored = await host.compaction.undo()
    return (
        f"The compaction #{restored.undone} was undone: the context is again what it was before, with what has been "
        f"said since ({counted(len(restored.entries), 'message')}, about {restored.tokens:,} tokens). By itself it is "
        "not compacted again before it is really full; `/compact` does it at any time."
    )
