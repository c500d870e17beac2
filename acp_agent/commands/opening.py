"""The session that a command goes on with, or makes: opened, judged at its end, measured.

What is prompted in it, and how that is shown, the commands know.
"""

from __future__ import annotations

from acp_agent.commands.choosing import current_directory
from acp_agent.compaction.estimate import used_tokens
from acp_agent.conversation.events import UserPrompted
from acp_agent.errors import AgentError
from acp_agent.session.client import SessionClient
from acp_agent.session.manager import SessionManager
from acp_agent.session.options import MODE, MODEL
from acp_agent.session.session import Session
from acp_agent.storage.store import SessionStore

REFUSED = (
    "The model refused to answer. The prompt and what followed it were left out of the conversation, and stay in the "
    "session's history."
)


async def open_session(
    manager: SessionManager, store: SessionStore, client: SessionClient, *, session_id: str | None, follow: bool
) -> Session:
    """A new session in the current directory, or one that there is.

    :param session_id: of the one that is meant; None for a new one.
    :param follow: the newest one of the current directory, in place of a new one.
    :raises AgentError: there is no such session, or no such directory any more.
    """
    if follow:
        cwd = current_directory()
        page = await store.list(cwd=cwd, limit=1, not_begun=())
        if not page.sessions:
            raise AgentError(f"There is no session of {cwd} to follow. `acp-agent sessions` lists all of them.")
        session_id = page.sessions[0].session_id
    if session_id is None:
        return await manager.new(current_directory(), (), lambda _: client)
    record = await store.record(session_id)
    return await manager.open(session_id, record.cwd, record.additional_directories, lambda _: client)


async def set_options(session: Session, *, model: str | None, mode: str | None) -> None:
    """Set what was given of a session's options.

    :raises InvalidParamsError: an option has no such value.
    """
    for option, value in ((MODEL, model), (MODE, mode)):
        if value:
            await session.set_option(option, value)


async def is_worth_keeping(session: Session, *, done: bool) -> bool:
    """Whether a model was asked in a new session, or what it was told without one was done.

    By the log: of the context, a refusal takes out what was done before it.

    :param done: its last turn neither failed nor was cancelled.
    """
    prompts = [logged.event async for logged in session.host.events() if isinstance(logged.event, UserPrompted)]
    return any(prompt.sent != () for prompt in prompts) or bool(prompts and done)


def size(session: Session) -> tuple[int, int]:
    """Messages and tokens of the context."""
    context = session.host.context
    return len(context.messages), context.baseline or used_tokens(context, 0)
