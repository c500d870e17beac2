"""The commands that are no recipes, and the words behind `/compact` that compact nothing.

`/pin`, `/unpin` and `/model` are done here; `filling`, `exporting`, `helping` and `reverting` have the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from acp_agent.compaction.excerpts.quotes import add_pin, remove_pin, render_pins
from acp_agent.compaction.layers import preview
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextRestored,
    ContextSwapped,
    PinRemoved,
    TextPinned,
)
from acp_agent.conversation.messages import new_id
from acp_agent.errors import CompactionError, InvalidParamsError, ToolError
from acp_agent.session.commands import PREVIEW, RecipeRun
from acp_agent.session.host import SessionHost
from acp_agent.session.options import MODEL
from acp_agent.session.reports import preview_text, status_text
from acp_agent.tools.text import counted
from acp_agent.turn.updates import Option

SetOption: TypeAlias = Callable[[str, str], Awaitable[tuple[Option, ...]]]
"""Changes an option of the session, as an editor's menu does (see `Session.set_option`)."""

PIN_SHARE = 0.05
"""Of the window, for all pinned texts: they are in every request from the first compaction on."""


def only_tells(name: str, rest: str) -> bool:
    """Whether a command changes nothing, so that it is not logged: who asks what is there must not find that something
    is another."""
    return (
        name in ("context", "help") or (name == "model" and not rest.strip()) or (name == "undo" and bool(rest.strip()))
    )


async def run_builtin(host: SessionHost, name: str, rest: str, set_option: SetOption) -> str:
    """Do it, and say what was done."""
    try:
        match name:
            case "pin":
                return await _pin(host, rest)
            case "unpin":
                return await _unpin(host, rest)
            case "model":
                return await _model(host, rest.strip(), set_option)
            case "context":
                return await _context(host)
            case "export":
                from acp_agent.session.exporting import export

                return await export(host, rest)
            case "undo" if rest.strip():
                return (
                    "Nothing may follow `/undo`, and nothing was undone. Alone it takes back what the last turn that "
                    "changed files has changed in them, in all of these files or in none."
                )
            case "undo":
                from acp_agent.session.reverting import undo_edits

                return await undo_edits(host)
            case _:
                from acp_agent.session.helping import help_text

                return help_text((await host.recipes.library()).known.values(), host.mcp.commands())
    except (InvalidParamsError, ToolError) as error:
        return str(error)


async def _context(host: SessionHost) -> str:
    from acp_agent.session.filling import filling_text

    active = await host.models.active(host.context.model)
    return filling_text(
        active.name, host.context, host.requests.prefix_tokens(), host.requests.used(active), active.budget
    )


async def _model(host: SessionHost, name: str, set_option: SetOption) -> str:
    if name:
        options = await set_option(MODEL, name)
    else:
        options = await host.options()
    option = next(option for option in options if option.id == MODEL)
    if name:
        return f"The model of this session is `{option.current}` now."
    others = "".join(f"\n- `{choice.value}`" for choice in option.choices if choice.value != option.current)
    more = f" `/model NAME` changes it, to one of these or to any other `provider/model`:\n{others}" if others else ""
    current = next(choice.name for choice in option.choices if choice.value == option.current)
    return f"The model of this session is `{current}`.{more}"


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
    order = await host.compaction.orders.make("manual", await host.models.active(host.model), run)
    assert order is not None  # since its recipe is given
    if order.policy.strategy == "mask":  # nothing leaves
        result = await host.compaction.compactor.service(order.state, order.policy, order.call)
        return (
            "There is nothing to compact yet. Nothing was changed."
            if result is None
            else (
                f"**Preview of a compaction.** Nothing was changed.\n\n{result.summary}\n\n"
                f"{result.tokens_before:,} → {result.tokens_after:,} tokens"
            )
        )
    return preview_text(preview(order.state, order.policy), order.state.budget)


async def _status(host: SessionHost) -> str:
    active = await host.models.active(host.context.model)
    about = (ContextSwapped, CompactionFailed, ContextRestored)
    events = [logged async for logged in host.events() if isinstance(logged.event, about)]
    return status_text(
        await host.requests.filled(active),
        host.compaction_settings(active.name),
        events,
        pins=len(host.context.memory.pins),
        in_force=host.context.swaps,
        prepared=host.compaction.background.state,
    )


async def undo_compaction(host: SessionHost) -> str:
    """Undo the newest compaction, and say so.

    :raises CompactionError: there is none.
    """
    restored = await host.undo_compaction()
    return (
        f"The compaction #{restored.undone} was undone: the context is again what it was before, with what has been "
        f"said since ({counted(len(restored.entries), 'message')}, about {restored.tokens:,} tokens). By itself it is "
        "not compacted again before it is really full; `/compact` does it at any time."
    )
