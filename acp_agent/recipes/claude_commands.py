"""Commands that were written for Claude Code, read as recipes: people bring what they have.

Such a file is somebody else's format: what this agent does not know of it is left out with a line in the log, and is no
error. Its front matter is read line by line, since much of what stands there is no YAML.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from acp_agent.config.checks import unknown_provider
from acp_agent.config.document import DocumentError
from acp_agent.config.settings import is_model_name
from acp_agent.errors import RecipeError
from acp_agent.recipes.front_matter import first_line, split
from acp_agent.recipes.model import MCP_TOOL, Known, Origin, Recipe

TOOLS = {
    "AskUserQuestion": "ask_user",
    "Bash": "shell",
    "Edit": "edit",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "list",
    "MultiEdit": "edit",
    "Read": "read",
    "TodoWrite": "plan",
    "Write": "write",
}
"""Names of its tools, and those of ours that do the same."""
FREE = ("ask_user", "glob", "grep", "list", "plan", "read", "recall")
"""Tools that such a command need not name."""
LOOKING = (
    *("git status", "git status *", "git diff", "git diff *", "git log", "git log *", "git show", "git show *"),
    *("git branch --show-current", "git rev-parse *"),
    *("!git diff --no-ind*", "!git diff /*", "!git diff ~*", "!git diff *../*", "!git diff ..", "!git diff */.."),
)
"""What such a command's own text may run beside its `allowed-tools`: git telling of the repository. Claude Code runs
that unasked, and the files in circulation count on it."""

_KEY = re.compile(r"(?P<key>[A-Za-z][A-Za-z_-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?\Z")
_TOOL = re.compile(r"(?P<name>[A-Za-z][\w-]*)\s*(?P<behind>\((?P<pattern>[^)]*)\)|[^\s\w,\]\"'#])?")

_log = logging.getLogger(__name__)


def command_name(name: str) -> str:
    """How a file is called here: in lower-case letters, without spaces."""
    return re.sub(r"[ .]+", "-", name.lower())


def parse_command(text: str, *, name: str, source: Path, origin: Origin, known: Known) -> Recipe:
    """Make a recipe of a command's file.

    :raises DocumentError: there is nothing in it that could be sent.
    :raises RecipeError: it limits the commands that may run, but not so that anybody could tell which may.
    """
    parts = split(text)
    if not parts.body.strip():
        raise DocumentError("has no text")
    if name in known.required_hooks:
        raise DocumentError(f"cannot take the place of /{name}")
    keys = _keys(parts.front_matter or "")
    for key in keys.keys() - {"description", "argument-hint", "allowed-tools", "model"}:
        _log.info("%s: the key `%s` is not understood, and left out", source, key)
    tools, commands = (None, None) if "allowed-tools" not in keys else _allowed(keys["allowed-tools"], source, known)
    return Recipe(
        name=name,
        description=_text(keys.get("description", "")) or first_line(parts.body),
        body=parts.body,
        body_line=parts.body_line,
        source=source,
        origin=origin,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        allowed_tools=tools,
        allowed_commands=commands,
        model=_model(_text(keys.get("model", "")), source, known),
        hint=_text(keys.get("argument-hint", "")),
        is_template=False,
    )


def _keys(front_matter: str) -> dict[str, list[str]]:
    """The lines of each key."""
    keys: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in front_matter.split("\n"):
        found = _KEY.match(line.rstrip())
        if found:
            lines = keys.setdefault(found["key"].lower().replace("_", "-"), [])
            lines.append((found["value"] or "").strip())
        elif line.strip():
            lines.append(line.strip())
    return keys


def _text(lines: Collection[str]) -> str:
    words = " ".join(line for line in lines if line not in ("", ">", "|", ">-", "|-")).strip()
    quoted = len(words) > 1 and words[0] == words[-1] and words[0] in "\"'"
    return words[1:-1] if quoted else words


def _allowed(lines: Collection[str], source: Path, known: Known) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The tools that may run, and the commands that the shell may."""
    tools = {name for name in FREE if known.tools is None or name in known.tools}
    patterns: list[str] = []
    for found in _TOOL.finditer(", ".join(line.removeprefix("- ") for line in lines)):
        if found["name"].startswith(MCP_TOOL):
            tools.add(found["name"])
            continue
        tool = TOOLS.get(found["name"])
        if tool is None or (known.tools is not None and tool not in known.tools):
            _log.info("%s: there is no tool like %s here", source, found["name"])
            continue
        tools.add(tool)
        if tool == "shell":
            limit = found["pattern"]
            if found["behind"] and not (limit or "").removesuffix(":*").strip():
                raise RecipeError(
                    f"allowed-tools: nobody can tell which commands `{found['name']}{found['behind']}` allows; write "
                    f"`{found['name']}` for all, or as in `{found['name']}(git log:*)`",
                    source=str(source),
                )
            patterns += _patterns(limit)
    return tuple(sorted(tools)), tuple(dict.fromkeys(patterns)) if "shell" in tools else None


def _patterns(pattern: str | None) -> Iterator[str]:
    """Our patterns for one of Claude Code's: `git add:*` is `git add`, with or without anything behind it."""
    words = "*" if pattern is None else pattern.strip()
    if words.endswith(":*"):
        yield words.removesuffix(":*")
        yield f"{words.removesuffix(':*')} *"
    else:
        yield words


def _model(name: str, source: Path, known: Known) -> str | None:
    if is_model_name(name) and not unknown_provider(name, known.providers or (name.partition("/")[0],)):
        return name
    if name:
        _log.info("%s: the model %r is not one of ours, and left out", source, name)
    return None
