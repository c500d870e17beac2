"""Adds the entries of a prompt to a context, and removes entries after refusals."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.conversation.events import TurnRefused, UserPrompted
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    Entry,
    Image,
    RecipePrompt,
    Resource,
    ResourceLink,
    Thinking,
    UserMessage,
    name_of,
)


def not_removed(entries: tuple[Entry, ...], event: TurnRefused) -> tuple[Entry, ...]:
    """Return the entries that a refusal does not remove. Summaries stay."""
    return tuple(
        entry for entry in entries if entry.summary or not event.removes(entry.seq)
    )


def without_thinking(
    entries: tuple[Entry, ...], void: frozenset[str]
) -> tuple[Entry, ...]:
    """Return the entries without the provider's form of some reasoning, so that the
    reasoning is not sent.

    :param void: the names of the pieces of reasoning; see `messages.name_of`.
    """
    if not void:
        return entries
    kept: list[Entry] = []
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            parts = tuple(_voided(part, void) for part in message.parts)
            if parts != message.parts:
                entry = replace(entry, message=replace(message, parts=parts))  # noqa: PLW2901
        kept.append(entry)
    return tuple(kept)


def _voided(part: AssistantPart, void: frozenset[str]) -> AssistantPart:
    is_void = isinstance(part, Thinking) and part.data and name_of(part) in void
    return replace(part, data={}) if is_void else part


def prompt_entries(seq: int, event: UserPrompted) -> tuple[Entry, ...]:
    """Return the entry that a prompt adds to the context, or nothing for a command that
    the model never sees.
    """
    if event.sent is None:
        return (
            (Entry(seq, UserMessage(event.message_id, event.shown)),)
            if event.shown
            else ()
        )
    # Files are kept as links, since their contents are in the sent text.
    typed = tuple(
        ResourceLink(part.uri, part.uri, part.mime_type)
        if isinstance(part, Resource)
        else part
        for part in event.shown
        if not isinstance(part, Image | Audio)
    )
    return (
        (Entry(seq, RecipePrompt(event.message_id, event.sent, typed=typed)),)
        if event.sent
        else ()
    )
