"""`check_command`: a slash command that is misspelt is not sent to the model as a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from acp_agent.cli.chat.commands import COMMANDS
from acp_agent.errors import InvalidParamsError
from acp_agent.session.actor import Session

_ALIKE = 0.75
"""Of `difflib`'s ratio: `/comapct` is taken for `/compact`, and `/bin` not for `/pin`."""
_SHORTEST_BEGINNING = 3
"""Characters with which the beginning of a command's name is taken for it."""


def command_name(text: str) -> str:
    """Return what stands behind the slash that a text begins with; "" where that is none, or more than one as in a
    path."""
    word = next(iter(text.split(maxsplit=1)), "")
    return word[1:] if word.startswith("/") and "/" not in word[1:] else ""


async def check_command(session: Session, text: str, others: Iterable[str] = ()) -> None:
    """Refuse a text that begins with what is no command, and looks like one.

    :param others: names of commands besides those of the session.
    :raises InvalidParamsError: names the commands that may be meant.
    """
    if not (name := command_name(text)):
        return
    known = [*others, *(command.name for command in await session.offer.commands())]
    if name in known:
        return
    if name in {command.name for command in COMMANDS}:
        raise InvalidParamsError(f"`/{name}` is a command of `acp-agent chat`. Nothing was sent.")
    begun = [each for each in known if len(name) >= _SHORTEST_BEGINNING and each.startswith(name.lower())]
    meant = dict.fromkeys([*begun, *get_close_matches(name.lower(), known, cutoff=_ALIKE)])
    if meant:
        raise InvalidParamsError(
            f"There is no command `/{name}`. Did you mean {' or '.join(f'`/{each}`' for each in meant)}? Nothing was "
            "sent; to send it as a prompt, put a word in front."
        )
