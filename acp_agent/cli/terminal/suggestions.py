"""What may be meant by a command line that makes no sense: a mistyped word, a prompt,
or another agent's command.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from acp_agent.config.document import did_you_mean

_PROMPT = 'acp-agent run "…"'
_ELSEWHERE: Mapping[str, str] = {
    "--continue": "acp-agent chat --follow",
    "--model": "acp-agent chat --model PROVIDER/MODEL",
    "--print": _PROMPT,
    "--prompt": _PROMPT,
    "--resume": "acp-agent chat --follow",
    "-c": "acp-agent chat --follow",
    "-m": "acp-agent chat --model PROVIDER/MODEL",
    "-p": _PROMPT,
    "-r": "acp-agent chat --follow",
    "-V": "acp-agent --version",
    "-v": "acp-agent --version",
    "ask": _PROMPT,
    "auth": "acp-agent login",
    "continue": "acp-agent chat --follow",
    "exec": _PROMPT,
    "export": "acp-agent run --follow /export",
    "init": "acp-agent run /init",
    "list": "acp-agent sessions",
    "ls": "acp-agent sessions",
    "mcp": "acp-agent help mcp",
    "p": _PROMPT,
    "prompt": _PROMPT,
    "resume": "acp-agent chat --follow",
    "review": "acp-agent run /review",
    "start": "acp-agent chat",
    "update": "acp-agent help upgrading",
    "upgrade": "acp-agent help upgrading",
    "version": "acp-agent --version",
}
"""The first words after the names of other agents' programs, and our command for each."""


def meant_command(argv: Sequence[str], commands: Collection[str]) -> str:
    """Return an error message with a suggestion if a command line does not begin with a
    command of this program; "" if it does.

    :param argv: the arguments after the program's name.
    """
    first = argv[0] if argv else ""
    if not first or first in commands or first in ("-h", "--help", "--version"):
        return ""
    if meant := _ELSEWHERE.get(first.partition("=")[0]):
        return f"there is no {first!r} here; did you mean `{meant}`?"
    if first.startswith("-"):
        return ""  # argparse knows the beginnings of options
    suggestion = did_you_mean(first, commands)
    if suggestion.startswith("did you mean"):
        return f"there is no command {first!r}; {suggestion}"
    return f'there is no command {first!r}; to send a prompt, type `acp-agent run "{_quoted(" ".join(argv))}"`'


def _quoted(text: str) -> str:
    return "".join(
        f"\\{character}" if character in '\\"$`' else character for character in text
    )
