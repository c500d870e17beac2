"""`acp-agent chat`: opens a session, has the person converse in it, and closes it however that ends."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import anyio
from prompt_toolkit.utils import is_dumb_terminal

from acp_agent.app import build_services, open_database, start_logging_at_home
from acp_agent.commands.chat.conversation import Conversation
from acp_agent.commands.choosing import chosen_session, current_directory
from acp_agent.commands.opening import is_worth_keeping, open_session, set_options
from acp_agent.config import home_dir
from acp_agent.errors import AgentError
from acp_agent.session.manager import SessionManager
from acp_agent.session.session import Session
from acp_agent.storage.store import SessionStore

_NO_TERMINAL = (
    "A conversation needs a terminal for both its input and its output, and one that can move its cursor. Without it, "
    'ask with `acp-agent run "…"`, and `acp-agent run --follow "…"` goes on.'
)


async def run(arguments: argparse.Namespace) -> int:
    """Converse in a new session, or in one that is named or followed.

    :returns: 0; 1 where the terminal has gone.
    :raises AgentError: there is no terminal, or no such session.
    """
    env = os.environ
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or is_dumb_terminal(env.get("TERM") or "dumb"):
        raise AgentError(_NO_TERMINAL)
    start_logging_at_home(env)
    store = await open_database(env)
    stayed = False
    try:
        async with anyio.create_task_group() as tasks:
            session_id, cwd = await _chosen(arguments, store)
            conversation = Conversation(cwd, home_dir(env), env)
            manager = SessionManager(build_services(store, env), tasks)
            session = await open_session(manager, store, conversation.client, session_id=session_id, follow=False)
            try:
                await set_options(session, model=arguments.model, mode=arguments.mode)
                stayed = await conversation.run(manager, session, again=session_id is not None)
            finally:
                with anyio.CancelScope(shield=True):
                    await _close(manager, session, conversation, is_new=session_id is None)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()
    return 0 if stayed else 1


async def _chosen(arguments: argparse.Namespace, store: SessionStore) -> tuple[str | None, Path]:
    """Return the session to go on with, None for a new one, and its directory."""
    if not arguments.follow and arguments.session_id is None:
        return None, Path(current_directory())
    record = await chosen_session(store, arguments.session_id)
    return record.session_id, Path(record.cwd)


async def _close(manager: SessionManager, session: Session, conversation: Conversation, *, is_new: bool) -> None:
    await manager.close(session.session_id)
    if is_new and not await is_worth_keeping(session, done=conversation.client.done):
        await manager.delete(session.session_id)
    else:
        conversation.view.line("dim", f"`acp-agent chat -c {session.session_id}` goes on with this conversation.")
