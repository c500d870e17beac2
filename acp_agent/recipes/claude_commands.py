"""Commands written for Claude Code, parsed and rendered as recipes.

Keys that this agent does not support are ignored and logged. The front matter is read
line by line, since many such files are not valid YAML. The text is not a template.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from acp_agent.config.forms import is_model_name
from acp_agent.config.hook_events import OUR_TOOLS
from acp_agent.config.load import unknown_provider
from acp_agent.errors import RecipeError
from acp_agent.recipes.arguments import fill
from acp_agent.recipes.model import (
    MCP_TOOL,
    CommandError,
    Known,
    Origin,
    Recipe,
    RefusedCommandError,
)
from acp_agent.recipes.parser import digest, first_line, split

ALWAYS_ALLOWED = ("ask_user", "glob", "grep", "list", "plan", "read", "recall")
"""Tools that a command may use without naming them."""
LOOKING = (
    *(
        "git status",
        "git status *",
        "git diff",
        "git diff *",
        "git log",
        "git log *",
        "git show",
        "git show *",
    ),
    *(
        "git branch --show-current",
        "git rev-parse *",
        "!git --output",
        "!git --ext-diff",
        "!git --textconv",
    ),
    *(
        "!git diff --no-ind*",
        "!git diff /*",
        "!git diff ~*",
        "!git diff *../*",
        "!git diff ..",
        "!git diff */..",
    ),
)
"""Commands that the text may run in addition to its `allowed-tools`. Claude Code runs
them without asking, and published files rely on that.
"""

_KEY = re.compile(r"(?P<key>[A-Za-z][A-Za-z_-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?\Z")
_TOOL = re.compile(
    r"(?P<name>[A-Za-z][\w-]*)\s*(?P<behind>\((?P<pattern>[^)]{0,500}+)\)|[^\s\w,\]\"'#])?"
)
_COMMAND = re.compile(r"(?<!\S)!`(?P<command>[^`\n]+)`")
_SHELL_SYNTAX = frozenset("|&;<>$(){}[]*?~#!\\")
_log = logging.getLogger(__name__)


def command_name(name: str) -> str:
    """Return a file's name in lower case, with hyphens instead of spaces and dots."""
    return "-".join(name.lower().replace(".", " ").split())


def parse_command(
    text: str, *, name: str, source: Path, origin: Origin, known: Known
) -> Recipe:
    """Parse a command's file into a recipe.

    :raises DocumentError: if the file has no text.
    :raises RecipeError: if its `allowed-tools` limit commands in a way that cannot be
        understood.
    """
    front_matter, body, body_line = split(text)
    keys = _keys(front_matter or "")
    for key in keys.keys() - {"description", "argument-hint", "allowed-tools", "model"}:
        _log.info("%s: the key `%s` is not understood, and left out", source, key)
    tools, commands = (
        _allowed(keys["allowed-tools"], source, known)
        if "allowed-tools" in keys
        else (None, None)
    )
    return Recipe(
        name=name,
        description=_text(keys.get("description", "")) or first_line(body),
        body=body,
        body_line=body_line,
        source=source,
        origin=origin,
        digest=digest(text),
        allowed_tools=tools,
        allowed_commands=commands,
        model=_model(_text(keys.get("model", "")), source, known),
        hint=_text(keys.get("argument-hint", "")),
        is_template=False,
    )


def render_command(
    recipe: Recipe, typed: str, shell: Callable[..., str] | None
) -> Iterator[str]:
    """Yield the text of a command piece by piece.

    !`command` is replaced by the command's output if the recipe may run the command,
    and it needs no shell and has no placeholder. Otherwise it stays in the text, and
    the model can run it.

    :param typed: the text after the command's name.
    :param shell: see `RecipeSurroundings.shell`; None runs nothing.
    :raises RecipeError: if a command failed, with file and line.
    """
    done = 0
    for found in _COMMAND.finditer(recipe.body):
        yield fill(recipe.body[done : found.start()], typed)
        done = found.end()
        printed = None
        try:
            if shell is not None and (words := _command_words(found["command"])):
                printed = shell(*words)
        except RefusedCommandError:
            pass
        except CommandError as error:
            line = recipe.body_line + recipe.body.count("\n", 0, found.start())
            raise RecipeError(
                str(error), source=str(recipe.source), line=line
            ) from error
        yield fill(found[0], typed) if printed is None else printed
    yield fill(recipe.body[done:], typed)


def _command_words(command: str) -> list[str]:
    """Return the words of a command line, or nothing if it needs a shell or contains a
    placeholder.
    """
    if not _SHELL_SYNTAX.isdisjoint(command):
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return [] if words and "=" in words[0] else words  # may be a variable assignment


def _keys(front_matter: str) -> dict[str, list[str]]:
    """Return the lines of each key."""
    keys: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in front_matter.split("\n"):
        found = _KEY.match(line.rstrip())
        if found:
            lines = keys.setdefault(found["key"].lower().replace("_", "-"), [])
        if line.strip():
            lines.append((found["value"] or "").strip() if found else line.strip())
    return keys


def _text(lines: Collection[str]) -> str:
    words = " ".join(
        line for line in lines if line not in ("", ">", "|", ">-", "|-")
    ).strip()
    quoted = len(words) > 1 and words[0] == words[-1] and words[0] in "\"'"
    return words[1:-1] if quoted else words


def _allowed(
    lines: Collection[str], source: Path, known: Known
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the tools that may run, and the patterns of the commands that the shell
    tool may run.
    """
    tools = {
        name for name in ALWAYS_ALLOWED if known.tools is None or name in known.tools
    }
    patterns: list[str] = []
    for found in _TOOL.finditer(", ".join(line.removeprefix("- ") for line in lines)):
        name = found["name"]
        limit = found["pattern"]
        tool = name if name.startswith(MCP_TOOL) else OUR_TOOLS.get(name)
        if tool is None or (
            known.tools is not None and tool != name and tool not in known.tools
        ):
            _log.info("%s: there is no tool like %s here", source, name)
            continue
        tools.add(tool)
        if tool != "shell":
            continue
        command = (limit or "").strip().removesuffix(":*")
        if found["behind"] and not command.strip():
            raise RecipeError(
                f"allowed-tools: it is unclear which commands `{name}{found['behind']}` allows; write `{name}` for "
                f"all, or as in `{name}(git log:*)`",
                source=str(source),
            )
        # `git add:*` means `git add` with or without arguments.
        patterns += (
            [command or "*", f"{command} *"]
            if (limit or "").strip().endswith(":*")
            else [command or "*"]
        )
    return tuple(sorted(tools)), tuple(
        dict.fromkeys(patterns)
    ) if "shell" in tools else None


def _model(name: str, source: Path, known: Known) -> str | None:
    if is_model_name(name) and not unknown_provider(
        name, known.providers or (name.partition("/")[0],)
    ):
        return name
    if name:
        _log.info("%s: the model %r is not one of ours, and left out", source, name)
    return None
