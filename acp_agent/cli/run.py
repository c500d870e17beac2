"""`acp-agent run` and `acp-agent compact`: one turn of a session from the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent.cli.terminal.commands import check_command, command_name
from acp_agent.cli.terminal.mentions import missing_files, prompt_parts
from acp_agent.cli.terminal.output import (
    EXIT_STATUSES,
    OUTPUTS,
    ScriptClient,
    TurnResult,
)
from acp_agent.cli.terminal.piped import piped_text
from acp_agent.cli.terminal.process import aside, complain, failure_sentence
from acp_agent.cli.terminal.sessions import (
    OpenedSession,
    add_options,
    add_session_choice,
    opened_session,
)
from acp_agent.compaction.estimate import used_tokens
from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import Text, UserPart
from acp_agent.errors import AgentError
from acp_agent.recipes.arguments import join_arguments, named_values
from acp_agent.session.actor import Session

_TITLE_SECONDS = 10.0
"""How long to wait, after the answer, for the title that a small model writes for a new
session.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "text",
        nargs="*",
        help="what to do; with a recipe, its instructions. `@path` attaches an image, or names another file. What is "
        'piped in follows, as in `git diff | acp-agent run "Review this"`; `-` at the end waits until it comes',
    )
    parser.add_argument(
        "-r",
        "--recipe",
        metavar="NAME",
        help="recipe to run, like `/NAME` in an editor (`github/pr` for one in a folder)",
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="arguments",
        metavar="NAME=VALUE",
        help="argument of the recipe; each can be given once",
    )
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default="text",
        help="what goes to stdout: the final answer alone, one JSON object with it, or every update as a line of JSON "
        "with that object as the last one",
    )
    add_options(parser)
    parser.set_defaults(is_piped=True)


def add_compact_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `compact`, which runs the recipe of that name."""
    parser.add_argument(
        "text",
        nargs="*",
        metavar="INSTRUCTIONS",
        help="what the summary should keep",
    )
    add_session_choice(parser, required=True)
    parser.set_defaults(recipe="compact", arguments=[], output="text", is_piped=False)
    parser.set_defaults(model=None, mode=None, directories=[])


async def run(arguments: argparse.Namespace) -> int:
    """Prompt a new session, or one that is named or followed.

    :returns: one of `EXIT_STATUSES`.
    """
    client = ScriptClient(arguments.output)
    result = TurnResult()
    try:
        await _take_turn(arguments, client, result)
    except anyio.get_cancelled_exc_class():
        result.end("cancelled", "", done=False)
        raise
    except Exception as error:
        result.status = "failed"
        result.error = failure_sentence(error)
    finally:
        try:
            client.finish(result)
        finally:  # the session exists even if the pipe is closed or the disk is full
            if result.change:
                with suppress(OSError):
                    aside(f"{result.change} ({result.stop or 'error'})")
            complain(result.error)
    return EXIT_STATUSES[result.status]


async def _take_turn(
    arguments: argparse.Namespace, client: ScriptClient, result: TurnResult
) -> None:
    """Prompt the session, and record the result.

    :raises AgentError: if the turn failed, or if there is nothing to do.
    """
    words = _typed_words(arguments.text)
    name = arguments.recipe
    if name is None and arguments.arguments:
        raise AgentError("--arg needs a recipe: name it with -r.")
    piped = await piped_text(
        waits=arguments.text[-1:] == ["-"], expected=arguments.is_piped
    )
    if name is None and not (words + piped).strip():
        raise AgentError(
            'Nothing to do. Give a prompt, as in `acp-agent run "explain this repository"`.'
        )
    opened: OpenedSession | None = None
    before: Context | None = None
    try:
        async with opened_session(arguments, client) as opened:
            state = opened.session.state
            result.session_id = opened.session.session_id
            text = words
            if name is not None:
                text = await _recipe_call(
                    opened.session, name, arguments.arguments, words
                )
            else:
                await check_command(opened.session, words)
            parts = (
                await anyio.to_thread.run_sync(prompt_parts, text, Path.cwd())
                if text
                else ()
            )
            parts = _with_piped(parts, piped)
            for name in missing_files(text, Path.cwd()):
                client.view.line(
                    "warning", f"There is no file {name}: `@{name}` is sent as text."
                )
            client.view.cwd = state.cwd
            client.exports = command_name(text) == "export"
            before = state.context
            ticket = opened.session.submit(parts)
            try:
                await ticket.done.wait()
                done = not (client.compaction_failed or client.failed)
                result.end(ticket.result(), client.veto, done=done)
            finally:
                with anyio.CancelScope(shield=True):
                    await result.read(state.log.events(before.head), ticket.message_id)
            # The answer is empty, so it does not explain the failure.
            if result.status == "failed" and client.failure and result.answer == "":
                result.error = client.failure
            if result.status == "completed" and result.usage is not None:
                _take_change(result, before, state.context)
                # Write the answer before waiting for the title.
                client.finish(result)
                with anyio.move_on_after(_TITLE_SECONDS):
                    await opened.session.titled()
    finally:
        if opened is not None and not opened.is_kept:
            result.session_id = None
        elif opened is not None and before is not None:
            _take_change(result, before, opened.session.state.context)


def _take_change(result: TurnResult, before: Context, after: Context) -> None:
    """Record the session's cost, and how its context has changed."""
    result.cost = after.cost or None
    result.change = f"{result.session_id}: {_change(before, after)}"


async def _recipe_call(
    session: Session, name: str, arguments: Sequence[str], words: str
) -> str:
    """Return the prompt that calls the recipe, as the user would type it in an editor.

    :raises AgentError: if there is no such recipe, or if it does not take these
        arguments.
    """
    library = await session.offer.recipes.library()
    recipe = library.known.get(name.replace(":", "/"))
    if recipe is None:
        raise AgentError(
            f"There is no recipe {name!r}. The recipes are: {', '.join(library.known)}."
        )
    return f"/{name} {join_arguments(named_values(recipe, arguments), words)}".rstrip()


def _typed_words(given: Sequence[str]) -> str:
    """Return the words after the options, without the `-` that stands for stdin.

    :raises AgentError: if the words are not valid text.
    """
    words = " ".join(given[:-1] if given[-1:] == ["-"] else given)
    try:
        words.encode()  # fails for the surrogates with which Python replaces invalid UTF-8
    except UnicodeError as error:
        raise AgentError("The prompt is not UTF-8 text.") from error
    return words


def _with_piped(parts: tuple[UserPart, ...], piped: str) -> tuple[UserPart, ...]:
    """Return a prompt followed by the piped text. Mentions in the piped text are not
    resolved.
    """
    if not piped:
        return parts
    if parts and isinstance(parts[-1], Text):
        return (*parts[:-1], Text(f"{parts[-1].text}\n\n{piped}"))
    return (*parts, Text(piped))


def _change(before: Context, after: Context) -> str:
    """Return the sizes of a context before and after a turn, as text for people."""
    (messages, tokens), (messages_now, tokens_now) = (
        (len(context.messages), context.baseline or used_tokens(context, 0))
        for context in (before, after)
    )
    return f"{messages} → {messages_now} messages, {tokens:,} → {tokens_now:,} tokens"
