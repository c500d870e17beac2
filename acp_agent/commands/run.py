"""`acp-agent run` and `acp-agent compact`: one turn of a session from the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

import anyio

from acp_agent.app import build_services, open_database, start_logging_at_home
from acp_agent.commands.client import TerminalClient
from acp_agent.commands.opening import REFUSED, is_worth_keeping, open_session, set_options, size
from acp_agent.commands.terminal import aside
from acp_agent.conversation.messages import Text
from acp_agent.errors import AgentError
from acp_agent.recipes.arguments import join_arguments, named_values
from acp_agent.session.manager import SessionManager
from acp_agent.session.session import Session


async def run(arguments: argparse.Namespace) -> int:
    """Prompt a new session, or one that is named or followed.

    :returns: 0; 1 where the turn ended for another reason than that it was finished, or did not compact as asked.
    :raises AgentError: the turn failed.
    """
    env = os.environ
    start_logging_at_home(env)
    store = await open_database(env)
    client = TerminalClient()
    stop = ""
    try:
        async with anyio.create_task_group() as tasks:
            manager = SessionManager(build_services(store, env), tasks)
            session = await open_session(
                manager, store, client, session_id=arguments.session_id, follow=arguments.follow
            )
            stop = await _prompt(arguments, manager, session, client)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()
        client.end()
    return 0 if stop == "end_turn" and not client.compaction_failed else 1


async def _prompt(
    arguments: argparse.Namespace, manager: SessionManager, session: Session, client: TerminalClient
) -> str:
    """Run the turn, close the session, and say what became of it."""
    before: tuple[int, int] | None = None
    stop = "error"
    try:
        text = await _prepare(arguments, session, _words(arguments))
        before = size(session)
        stop = await session.submit((Text(text),)).wait()
    except anyio.get_cancelled_exc_class():
        stop = "cancelled"
        raise
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await manager.close(session.session_id)  # shows what is left of an answer
            finally:
                with suppress(OSError):  # nobody reads on, or the disk is full; the session is there all the same
                    client.end()
                was_there = arguments.follow or arguments.session_id
                if not was_there and not await is_worth_keeping(session, done=stop not in ("error", "cancelled")):
                    await manager.delete(session.session_id)
                elif before is not None:
                    _say_what_became(session, before, stop)
    return stop


def _say_what_became(session: Session, before: tuple[int, int], stop: str) -> None:
    if stop == "refusal":
        aside(REFUSED)
    after = size(session)
    change = f"{before[0]} → {after[0]} messages, {before[1]:,} → {after[1]:,} tokens"
    aside(f"{session.session_id}: {change} ({stop})")


def _words(arguments: argparse.Namespace) -> str:
    words = " ".join(arguments.text)
    try:
        if words == "-":
            words = sys.stdin.read() if sys.stdin is not None else ""
        words.encode()  # Python hands on bytes that are no UTF-8 as halves of surrogate pairs
    except UnicodeError as error:
        raise AgentError("The prompt is not UTF-8 text.") from error
    if _recipe(arguments) is None and not words.strip():
        raise AgentError('Nothing to do: say what, as in `acp-agent run "explain this repository"`.')
    return words


async def _prepare(arguments: argparse.Namespace, session: Session, words: str) -> str:
    """Put the prompt together, and set the options that were given.

    :param words: what was typed, or came on standard input.
    :returns: the prompt as it would be typed in an editor.
    :raises AgentError: there is no such recipe, or it has no such argument.
    :raises InvalidParamsError: an option has no such value.
    """
    text = words
    if name := _recipe(arguments):
        library = await session.host.recipes.library()
        recipe = library.known.get(name.replace(":", "/"))
        if recipe is None:
            raise AgentError(f"There is no recipe {name!r}. The recipes are: {', '.join(library.known)}.")
        given = named_values(recipe, arguments.arguments) if arguments.command == "run" else {}
        text = f"/{name} {join_arguments(given, words)}".rstrip()
    elif arguments.arguments:
        raise AgentError("--arg is for a recipe: name that with -r.")
    if arguments.command == "run":
        await set_options(session, model=arguments.model, mode=arguments.mode)
    return text


def _recipe(arguments: argparse.Namespace) -> str | None:
    return "compact" if arguments.command == "compact" else arguments.recipe
