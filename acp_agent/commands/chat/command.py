"""`acp-agent chat`: the session is opened, talked in, and closed however that ends."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from acp_agent.app import build_services, open_database, start_logging_at_home
from acp_agent.commands.choosing import chosen_session, current_directory
from acp_agent.commands.opening import is_worth_keeping, open_session, set_options
from acp_agent.config import home_dir
from acp_agent.errors import AgentError
from acp_agent.session.manager import SessionManager
from acp_agent.session.session import Session
from acp_agent.storage.store import SessionStore

if TYPE_CHECKING:
    from acp_agent.commands.chat.conversation import Conversation

_NO_TERMINAL = (
    "A conversation needs a terminal for both its input and its output. Without one, ask with "
    '`acp-agent run "…"`, and `acp-agent run --follow "…"` goes on.'
)
_SIGNAL_SECONDS = 1.0
"""How long the signal that tells of a closed terminal may take to come behind that."""


async def run(arguments: argparse.Namespace) -> int:
    """Converse in a new session, or in one that is named or followed.

    :returns: 0; 1 where the terminal has gone.
    :raises AgentError: there is no terminal, or no such session.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise AgentError(_NO_TERMINAL)
    env, stayed = os.environ, False
    start_logging_at_home(env)
    store = await open_database(env)
    try:
        async with anyio.create_task_group() as tasks:
            from acp_agent.commands.chat.conversation import Conversation  # the line editor with it

            session_id, cwd = await _meant(arguments, store)
            conversation = Conversation(cwd, home_dir(env), env, tasks)
            manager = SessionManager(build_services(store, env), tasks)
            session = await open_session(manager, store, conversation.client, session_id=session_id, follow=False)
            try:
                await set_options(session, model=arguments.model, mode=arguments.mode)
                stayed = await conversation.run(manager, session, again=session_id is not None)
                if not stayed:
                    await anyio.sleep(_SIGNAL_SECONDS)
            finally:
                with anyio.CancelScope(shield=True):
                    await _close(manager, session, conversation, was_there=session_id is not None)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()
    return 0 if stayed else 1


async def _meant(arguments: argparse.Namespace, store: SessionStore) -> tuple[str | None, Path]:
    """The session that is gone on with, if any, and its directory."""
    if not arguments.follow and arguments.session_id is None:
        return None, Path(current_directory())
    record = await chosen_session(store, arguments.session_id)
    return record.session_id, Path(record.cwd)


async def _close(manager: SessionManager, session: Session, conversation: Conversation, *, was_there: bool) -> None:
    await manager.close(session.session_id)
    if was_there or await is_worth_keeping(session, done=conversation.client.done):
        conversation.say(f"`acp-agent chat -c {session.session_id}` goes on with this conversation.")
    else:
        await manager.delete(session.session_id)
