"""`acp-agent compact`: `/compact` in a session, from the terminal."""

from __future__ import annotations

import argparse

from acp_agent.cli.run import run_turn, typed_words
from acp_agent.cli.terminal.sessions import add_session_choice
from acp_agent.session.actor import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("text", nargs="*", metavar="INSTRUCTIONS", help="what the summary should keep in mind")
    add_session_choice(parser, required=True)


async def run(arguments: argparse.Namespace) -> int:
    """Compact a session.

    :returns: 0; 1 where it was not compacted.
    """
    words = typed_words(arguments.text)

    async def prompt(session: Session) -> str:
        return f"/compact {words}".rstrip()

    return await run_turn(arguments, prompt)
