"""A new session from another one's log: where the copy ends, and what is copied beside the log.

Knows stored sessions alone; who opens the new one is the manager's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from acp_agent.conversation.events import (
    AssistantAnswered,
    Event,
    NoteAdded,
    PartialAnswer,
    SessionForked,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import new_id
from acp_agent.errors import InvalidParamsError
from acp_agent.session.originals import copy_originals
from acp_agent.storage.store import SessionStore

_OTHER_MESSAGES = (UserPrompted, AssistantAnswered, PartialAnswer, NoteAdded)


async def fork_session(
    store: SessionStore,
    home: Path,
    session_id: str,
    at: int | str | None,
    cwd: str,
    additional_directories: Sequence[str],
    made: str | None = None,
) -> str:
    """Make a session that goes on from a point of another one, with its history, compactions, pins, plan, mode and
    model. What was allowed in the other one has to be allowed anew.

    :param home: the folder of all state.
    :param at: entry of the log that is the last one copied; or the id of the last message; None for all there is.
    :param cwd: absolute path of the new session's working directory.
    :param additional_directories: absolute paths.
    :param made: the new session's id; a new one where None.
    :returns: the new session's id; it is durable.
    :raises SessionNotFoundError: no such session.
    :raises InvalidParamsError: it has no such entry or message.
    """
    last = await _last_entry(store, session_id, at)
    forked = SessionForked(session_id, last, cwd, tuple(additional_directories))
    made = made or new_id("sess")
    await store.fork(session_id, made, last, cwd, additional_directories, [forked])
    await to_thread.run_sync(copy_originals, home, session_id, made)
    return made


async def _last_entry(store: SessionStore, session_id: str, at: int | str | None) -> int:
    if at is None:
        return (await store.record(session_id)).head
    if isinstance(at, int):
        return at
    found, calls = 0, frozenset[str]()
    async for logged in store.events(session_id):
        event = logged.event
        if _message_id(event) == at:
            found = logged.seq
            calls = _calls(event)
        elif found and isinstance(event, TurnEnded):
            return logged.seq
        elif found and isinstance(event, ToolReturned) and event.result.call_id in calls:
            found = logged.seq  # an answer without its results would be one that was interrupted
        elif found and isinstance(event, _OTHER_MESSAGES):
            return found
    if not found:
        raise InvalidParamsError(f"Session {session_id!r} has no message {at!r} to fork it at.")
    return found


def _message_id(event: Event) -> str | None:
    match event:
        case UserPrompted() | NoteAdded():
            return event.message_id
        case AssistantAnswered():
            return event.message.id
        case _:
            return None


def _calls(event: Event) -> frozenset[str]:
    return (
        frozenset(call.id for call in event.message.tool_calls) if isinstance(event, AssistantAnswered) else frozenset()
    )
