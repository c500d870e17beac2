"""How people are told what a project brings: each file, and what it is bound to. Loaded with the question."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from acp_agent.config.brought import HOOKS, Brought, BroughtFile
from acp_agent.config.home import CLAUDE_FOLDER, CONFIG_FILE
from acp_agent.tools.text import one_line

MAX_LINES = 40
MAX_LENGTH = 200
"""Characters of a path or a command."""

_KINDS = {".py": "a hook in Python", ".yaml": "rules", ".yml": "rules", ".disable": "switched off"}


def listing(brought: Iterable[Brought]) -> str:
    """What is there, as Markdown."""
    lines = [line for each in brought for line in lines_of(each)]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more"]
    told = "\n".join(f"- {line}" for line in lines)
    return (
        "They run programs and speak to the model in your name. Allow them only if you trust whoever wrote them.\n\n"
        f"{told}"
    )


def lines_of(brought: Brought) -> Iterator[str]:
    """A line for each thing that could run."""
    folder = brought.place.name
    for command in brought.commands:
        words = command.command if isinstance(command.command, str) else shlex.join(command.command)
        yield f"{_code(f'{folder}/{CONFIG_FILE}')} runs {_code(words)} at {command.event}"
    for file in brought.files:
        yield f"{_code(f'{folder}/{file.name}')}: {_kind(folder, file)}"


def _kind(folder: str, file: BroughtFile) -> str:
    part, _, name = file.name.partition("/")
    suffix = next((known for known in _KINDS if name.endswith(known)), "")
    if part == HOOKS and folder != CLAUDE_FOLDER:
        if "/" in name or name.startswith(".") or (name.startswith("_") and name.endswith(".py")):
            return "a file beside the hooks"
        return _KINDS.get(suffix) or ("a program, which says itself when it is run" if file.executable else "a file")
    if not name.endswith(".md"):
        return "a file beside the recipes"
    command = name.removesuffix(".md").replace("/", ":")
    return f"the command {_code(f'/{command}')}"


def _code(text: str) -> str:
    """Text of a stranger's in Markdown, in which it is to mean nothing."""
    plain = one_line(text, MAX_LENGTH).replace("`", "'")
    return f"`{plain}`"
