"""How people are told what a project brings: each file, and what it is bound to. Loaded with the question."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from acp_agent.config.brought import HOOKS, Brought, BroughtFile, digest
from acp_agent.config.home import CLAUDE_FOLDER, CONFIG_FILE
from acp_agent.recipes.claude_commands import command_name
from acp_agent.recipes.discovery import SUFFIX, is_recipe_name
from acp_agent.session.commands import BUILT_IN, REQUIRED_HOOKS
from acp_agent.tools.text import one_line

MAX_LINES = 40
MAX_LENGTH = 200
"""Characters of a path or a command."""

_KINDS = {".py": "a hook in Python", ".yaml": "rules", ".yml": "rules", ".disable": "switched off"}


def listing(brought: Iterable[Brought], before: Mapping[Path, Mapping[str, str]]) -> str:
    """What is there, as Markdown; first what is new or has changed since it was allowed.

    :param before: the parts (see `Brought.parts`) of each folder as it was allowed, where it was.
    """
    found = sorted((pair for each in brought for pair in _marked(each, before.get(each.place, {}))), key=_is_same)
    lines = [line for _, line in found]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more"]
    told = "\n".join(f"- {line}" for line in lines)
    return (
        "They run programs and speak to the model in your name. Allow them only if you trust whoever wrote them.\n\n"
        f"{told}"
    )


def lines_of(brought: Brought, before: Mapping[str, str]) -> Iterator[str]:
    """A line for each thing that could run, in the order of `listing`."""
    return (line for _, line in sorted(_marked(brought, before), key=_is_same))


def _is_same(marked: tuple[str, str]) -> bool:
    return not marked[0]


def _marked(brought: Brought, before: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What has happened to each thing since it was allowed, if anything; and its line."""
    folder, now = brought.place.name, brought.parts
    marks = (
        {part: "Changed" if part in before else "New" for part in now if before.get(part) != now[part]}
        if before
        else {}
    )

    def marked(part: str, line: str) -> tuple[str, str]:
        mark = marks.get(part, "")
        return mark, f"{mark}: {line}" if mark else line

    for command in brought.commands:
        words = command.command if isinstance(command.command, str) else shlex.join(command.command)
        yield marked(
            digest((), (command,)), f"{_code(f'{folder}/{CONFIG_FILE}')} runs {_code(words)} at {command.event}"
        )
    for file in brought.files:
        yield marked(file.name, f"{_code(f'{folder}/{file.name}')}: {_kind(folder, file)}")
    for part in before.keys() - now.keys():
        name = part if before[part] else CONFIG_FILE
        line = f"{_code(f'{folder}/{name}')}" + ("" if before[part] else " had another command")
        yield "Gone", f"Gone: {line}"


def _kind(folder: str, file: BroughtFile) -> str:
    part, _, name = file.name.partition("/")
    suffix = next((known for known in _KINDS if name.endswith(known)), "")
    if part == HOOKS and folder != CLAUDE_FOLDER:
        if "/" in name or name.startswith(".") or (name.startswith("_") and name.endswith(".py")):
            return "a file beside the hooks"
        return _KINDS.get(suffix) or ("a program, which says itself when it is run" if file.executable else "a file")
    command = _command(folder, name)
    return f"the command {_code(f'/{command}')}" if command else "a file beside the recipes"


def _command(folder: str, name: str) -> str:
    """What a file of the recipes is called as a command; empty where it is left out of them by its name."""
    parts = name.split("/")
    if not name.endswith(SUFFIX) or parts[-1].lower() == "readme.md" or any(part.startswith(".") for part in parts):
        return ""
    command, taken = name.removesuffix(SUFFIX), {own.name for own in BUILT_IN}
    if folder == CLAUDE_FOLDER:
        command, taken = command_name(command), {*taken, *REQUIRED_HOOKS}
    return command.replace("/", ":") if is_recipe_name(command) and command not in taken else ""


def _code(text: str) -> str:
    """Text of a stranger's in Markdown, in which it is to mean nothing."""
    plain = one_line(text, MAX_LENGTH).replace("`", "'")
    return f"`{plain}`"
