"""What a session tells the template of a recipe: its id, its folder, the repository there, and what commands print.

Loaded with the first recipe that is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from acp_agent.recipes.claude_commands import LOOKING
from acp_agent.recipes.model import Recipe
from acp_agent.recipes.surroundings import CommandError, CommandRunner, Surroundings
from acp_agent.session.workspace import git_place
from acp_agent.tools.command_patterns import refusal_of_words
from acp_agent.tools.text import clean, without_escapes

_STATUS = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain")


def surroundings(session_id: str, cwd: str, recipe: Recipe, env: Mapping[str, str] | None = None) -> Surroundings:
    """The surroundings of one rendering.

    :param cwd: absolute path of the session's folder.
    :param env: all environment variables of the recipe's commands, whose output a model reads; the agent's
        own where it is None.
    """
    runner = CommandRunner(cwd, env=env)
    return Surroundings(session_id, cwd, GitNow(cwd, runner), runner, partial(_refuses, recipe), _readable)


class GitNow:
    """See `GitFacts`."""

    def __init__(self, cwd: str, runner: CommandRunner) -> None:
        self._cwd = cwd
        self._runner = runner

    @property
    def branch(self) -> str:
        return self._place[1]

    @property
    def head(self) -> str:
        return self._place[2]

    @property
    def root(self) -> str:
        return self._place[0]

    @property
    def dirty(self) -> bool | str:
        return self._dirty

    @cached_property
    def _dirty(self) -> bool | str:
        if not self.root:
            return ""
        try:
            code, output, _ = self._runner.run(_STATUS)
        except CommandError:
            return ""
        return bool(output) if code == 0 else ""

    @cached_property
    def _place(self) -> tuple[str, str, str]:
        return git_place(Path(self._cwd))


def _refuses(recipe: Recipe, words: Sequence[str]) -> str:
    reason = refusal_of_words(words, recipe.allowed_commands or ())
    return "" if reason and not recipe.is_template and not refusal_of_words(words, LOOKING) else reason


def _readable(printed: str) -> str:
    # As the shell tool does it.
    return clean(without_escapes(printed.replace("\r\n", "\n")))
