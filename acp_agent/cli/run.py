"""`acp-agent run` and `acp-agent compact`: one turn of a session from the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress

import anyio

from acp_agent.cli.terminal.client import TerminalClient
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.sessions import (
    REFUSED,
    OpenedSession,
    add_options,
    add_session_choice,
    opened_session,
)
from acp_agent.compaction.estimate import used_tokens
from acp_agent.conversation.messages import Text
from acp_agent.errors import AgentError
from acp_agent.recipes.arguments import join_arguments, named_values
from acp_agent.session.actor import Session
from acp_agent.session.project.recipe_run import RecipeRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "text",
        nargs="*",
        help="what to do; with a recipe, its instructions. Read from stdin where it is `-`, as in "
        "`git diff | acp-agent run -`",
    )
    parser.add_argument(
        "-r",
        "--recipe",
        metavar="NAME",
        help="run this recipe, as `/NAME` does in an editor (`github/pr` for one in a folder)",
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="arguments",
        metavar="NAME=VALUE",
        help="an argument of the recipe; each may be given once",
    )
    add_options(parser)


def add_compact_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `compact`, which runs the recipe of that name."""
    parser.add_argument("text", nargs="*", metavar="INSTRUCTIONS", help="what the summary should keep in mind")
    add_session_choice(parser, required=True)
    parser.set_defaults(recipe="compact", arguments=[], model=None, mode=None)


async def run(arguments: argparse.Namespace) -> int:
    """Prompt a new session, or one that is named or followed.

    :returns: 0; 1 where the turn was not finished, or did not compact as asked.
    :raises AgentError: the turn failed, or there is nothing to do.
    """
    words, name = _typed_words(arguments.text), arguments.recipe
    if name is None and arguments.arguments:
        raise AgentError("--arg is for a recipe: name that with -r.")
    if name is None and not words.strip():
        raise AgentError('Nothing to do: say what, as in `acp-agent run "explain this repository"`.')
    client = TerminalClient()
    opened: OpenedSession | None = None
    before: tuple[int, int] | None = None
    stop, compacted = "error", True
    try:
        async with opened_session(arguments, client) as opened:
            try:
                text, compacts = words, False
                if name is not None:
                    text, compacts = await _recipe_call(opened.session, name, arguments.arguments, words)
                before, swaps = _context_size(opened.session), opened.session.state.context.swaps
                ticket = opened.session.submit((Text(text),))
                await ticket.done.wait()
                stop = ticket.result()
                compacted = not compacts or opened.session.state.context.swaps != swaps
            except anyio.get_cancelled_exc_class():
                stop = "cancelled"
                raise
    finally:
        with suppress(OSError):  # the pipe is closed, or the disk full; the session is there all the same
            client.view.end_stream()
        if opened is not None and opened.is_kept and before is not None:
            _say_what_became(opened.session, before, stop)
    return 0 if stop == "end_turn" and compacted and not client.compaction_failed else 1


async def _recipe_call(session: Session, name: str, arguments: Sequence[str], words: str) -> tuple[str, bool]:
    """Return what would be typed in an editor, and whether it is to compact.

    :raises AgentError: there is no such recipe, or it does not take these arguments.
    """
    library = await session.offer.recipes.library()
    recipe = library.known.get(name.replace(":", "/"))
    if recipe is None:
        raise AgentError(f"There is no recipe {name!r}. The recipes are: {', '.join(library.known)}.")
    run = RecipeRun(recipe, words)
    text = f"/{name} {join_arguments(named_values(recipe, arguments), words)}".rstrip()
    return text, run.compacts and not run.report[0]


def _typed_words(given: Sequence[str]) -> str:
    """Return what was typed behind the options, or what stdin has in place of `-`.

    :raises AgentError: it is no text.
    """
    words = " ".join(given)
    try:
        if words == "-":
            words = sys.stdin.read()
        words.encode()  # Python hands on bytes that are no UTF-8 as halves of surrogate pairs
    except UnicodeError as error:
        raise AgentError("The prompt is not UTF-8 text.") from error
    return words


def _context_size(session: Session) -> tuple[int, int]:
    """Return how many messages and tokens the context has."""
    context = session.state.context
    return len(context.messages), context.baseline or used_tokens(context, 0)


def _say_what_became(session: Session, before: tuple[int, int], stop: str) -> None:
    if stop == "refusal":
        aside(REFUSED)
    after = _context_size(session)
    change = f"{before[0]} → {after[0]} messages, {before[1]:,} → {after[1]:,} tokens"
    aside(f"{session.session_id}: {change} ({stop})")
