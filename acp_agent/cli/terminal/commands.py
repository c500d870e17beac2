"""`check_command`: refuses a prompt that is a mistyped slash command, or a command of
another agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from acp_agent.cli.chat.commands import ALIASES, COMMANDS, ELSEWHERE
from acp_agent.errors import InvalidParamsError
from acp_agent.session.actor import Session

_ALIKE = 0.75
"""Of `difflib`'s ratio: `/comapct` is taken for `/compact`, and `/bin` not for `/pin`."""
_SHORTEST_BEGINNING = 3
"""Characters with which the beginning of a command's name is taken for it."""
_AS_PROMPT = "Nothing was sent; to send it as a prompt, put a word before it."
_WORDS = {
    "bye": "quit",
    "exit": "quit",
    "help": "help",
    "q": "quit",
    "quit": "quit",
    "?": "help",
    ":q": "quit",
    ":q!": "quit",
    ":qa": "quit",
    ":quit": "quit",
    ":wq": "quit",
    ":x": "quit",
    "exit()": "quit",
    "quit()": "quit",
}
"""What people type to leave a shell, an editor or another agent, or to ask it for help;
and the slash command meant.
"""


def command_name(text: str) -> str:
    """Return what stands behind the slash that a text begins with; "" where that is
    none, or more than one as in a path.
    """
    word = next(iter(text.split(maxsplit=1)), "")
    return word[1:] if word.startswith("/") and "/" not in word[1:] else ""


def bare_command(text: str) -> str:
    """Return the name of the slash command meant by a text that is a single word, as
    `exit`; "" for anything else.
    """
    return _WORDS.get(text.strip().lower(), "")


async def check_command(
    session: Session, text: str, others: Iterable[str] = ()
) -> None:
    """Refuse a text that is meant as a command but is none.

    :param others: names of commands besides those of the session.
    :raises InvalidParamsError: names the command that may be meant.
    """
    if word := bare_command(text):
        command = (
            "`acp-agent help`" if word == "help" else f"`/{word}` in `acp-agent chat`"
        )
        raise InvalidParamsError(
            f"`{text.strip()}` is not sent as a prompt. Did you mean {command}? {_AS_PROMPT}"
        )
    if not (name := command_name(text)):
        return
    known = [*others, *(command.name for command in await session.offer.commands())]
    if name in known:
        return
    if name in {command.name for command in COMMANDS}:
        raise InvalidParamsError(
            f"`/{name}` is a command of `acp-agent chat`. Nothing was sent."
        )
    if (ours := ALIASES.get(name.lower())) is not None:
        place = "" if ours in known else " in `acp-agent chat`"
        raise InvalidParamsError(
            f"There is no command `/{name}`: here it is `/{ours}`{place}. {_AS_PROMPT}"
        )
    if (advice := ELSEWHERE.get(name.lower())) is not None:
        raise InvalidParamsError(
            f"There is no command `/{name}`. {advice} {_AS_PROMPT}"
        )
    begun = [
        each
        for each in known
        if len(name) >= _SHORTEST_BEGINNING and each.startswith(name.lower())
    ]
    meant = dict.fromkeys(
        [*begun, *get_close_matches(name.lower(), known, cutoff=_ALIKE)]
    )
    if meant:
        raise InvalidParamsError(
            f"There is no command `/{name}`. Did you mean {' or '.join(f'`/{each}`' for each in meant)}? {_AS_PROMPT}"
        )
    if _is_lone_command(text, name):
        raise InvalidParamsError(
            f"There is no command `/{name}`. `/help` lists the commands. {_AS_PROMPT}"
        )


def _is_lone_command(text: str, name: str) -> bool:
    """Return whether a text is nothing but a slash and a word.

    A folder such as `/bin` may be meant as a prompt, and a name with a colon belongs to
    an MCP server, which may not have started yet.
    """
    return len(text.split()) == 1 and ":" not in name and not Path("/", name).exists()
