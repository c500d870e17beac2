"""Expands environment variables in the entry of an MCP server: `${NAME}` and
`${NAME:-default}`.

Variables are allowed in every text of an entry. As in a shell, the default is used if
the variable is unset or empty. `$${` stands for a literal `${`.

POSIX, "Shell Command Language", section 2.6.2, which defines these two forms among
others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from acp_agent.errors import ToolError
from acp_agent.tools.text import one_line

_START = re.compile(r"\$?\$\{")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def expanded(text: str, env: Mapping[str, str], key: str) -> str:
    """Return a text with its variables replaced by their values.

    :param env: the agent's environment.
    :param key: the key in the entry, for the error.
    :raises ToolError: if a variable is not set, or `${` does not begin a valid
        variable.
    """
    done: list[str] = []
    at = 0
    while (start := _START.search(text, at)) is not None:
        done.append(text[at : start.start()])
        at = start.end()
        if start[0] == "$${":
            done.append("${")
            continue
        end = _end(text, at)
        found = None if end is None else _NAME.fullmatch(text[at:end])
        if end is None or found is None:
            shown = one_line(text[start.start() : None if end is None else end + 1], 60)
            raise ToolError(
                f"`{key}` of its entry has `{shown}`, which is neither `${{NAME}}` nor `${{NAME:-default}}`; write "
                "`$${` for a literal `${`"
            )
        name, default = found.groups()
        value = env.get(name)
        if default is not None and not value:
            value = expanded(default, env, key)
        if value is None:
            raise ToolError(
                f"`{key}` of its entry uses the environment variable {name}, which is not set"
            )
        done.append(value)
        at = end + 1
    return "".join((*done, text[at:]))


def named_in(text: str) -> frozenset[str]:
    """Return the names of the variables that a text refers to."""
    return frozenset(re.findall(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)", text))


def _end(text: str, at: int) -> int | None:
    """Return the index of the closing brace of the variable that begins before `at`, or
    None if it is not closed.

    A default may contain variables itself.
    """
    depth = 1
    while at < len(text):
        if text.startswith("${", at):
            depth += 1
            at += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None
