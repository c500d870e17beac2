"""Wildcards as in `.gitignore`: git's ignore rules, and the globs of `glob` and `grep`.

They are compiled to RE2 regular expressions, which take linear time in the length of
the path even if a pattern is hostile. The rules come from `.gitignore` files at every
level, `.git/info/exclude` and the user's own ignore file. They also apply outside a
repository.

Source: https://git-scm.com/docs/gitignore and git's wildmatch.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.patterns import (
    Pattern,
    PatternError,
    compile_pattern,
    compile_wildcards,
    wildcard_expression,
)
from acp_agent.programs import find_program, own_environment
from acp_agent.sandbox.roots import is_repository, repository_root
from acp_agent.tools.matching.near import fold
from acp_agent.tools.text import one_line

_MAX_GLOB = 1000
_MAX_ALTERNATIVES = 100
_OPENED = "\0"
_CLOSED = "\n"
"""Characters that stand for braces which must not be expanded again. No glob contains
them.
"""
_BRACKET = re.compile(r"[\[\]]")
_CHOICE = re.compile(r"\{([^{},]*+,[^{}]*+)\}")
_MAX_BYTES = 256 * 1024
_MAX_LINE = 4096
_MAX_EXPRESSION = 16 * 1024
"""Maximum number of characters of lines to compile as one pattern. The automaton of a
longer pattern does not fit into RE2's memory, and matching each path then takes time
proportional to the whole pattern.
"""
_GIT_SECONDS = 2.0

_Rule: TypeAlias = tuple[Pattern, bool]
"""The pattern of some lines, which matches a directory with a trailing slash, and
whether it ignores or re-includes.
"""


@frozen
class Matcher:
    """Tests paths below a directory against a glob.

    :ivar base: the directory.
    :ivar glob: the glob, relative to the directory.
    """

    base: Path
    glob: str
    _pattern: Pattern
    _folded: Pattern

    def matches(self, path: Path) -> bool:
        """Return whether the glob matches this path, either by its wildcards or
        literally.
        """
        return (
            self._pattern.search(_encoded(path.relative_to(self.base).as_posix()))
            is not None
        )

    def nearly(self, path: Path) -> bool:
        """Return whether the glob matches a path that looks like this one."""
        relative = path.relative_to(self.base).as_posix()
        if relative.isascii() and self.glob.isascii():
            return False  # the usual case: no two ASCII texts look alike
        return self._folded.search(_encoded(fold(relative))) is not None

    @property
    def is_name(self) -> bool:
        """Return whether the glob has no wildcards."""
        return not any(character in self.glob for character in "*?[{\\")

    @property
    def exact(self) -> Path:
        """Return the path that the glob names if taken literally."""
        return self.base / self.glob


def matcher(glob: str, base: Path) -> Matcher:
    """Return a test for paths below a directory.

    A glob has the syntax of a `.gitignore` line (`*.py` at any depth, `src/*.py` in
    src, `**/` for any directories), plus `{a,b}`. If it names a directory, it matches
    everything below. It may begin with the path of `base`. Brackets and braces also
    match themselves, since names such as `app/[id]/page.tsx` are common.

    :raises ToolError: if the glob is invalid, or begins with another directory.
    """
    pattern = glob.removeprefix(f"{str(base).rstrip('/')}/")
    if pattern.startswith(("/", "~/", "../")):
        raise ToolError(
            f"The pattern {one_line(glob)!r} is not relative to the searched directory. Pass the directory as `path`, "
            "and the rest as the pattern."
        )
    if (
        not pattern.strip()
        or len(pattern) > _MAX_GLOB
        or "\0" in pattern
        or "\n" in pattern
    ):
        raise ToolError(
            f"{one_line(glob)!r} is not a valid glob. Give one such as `*.py` or `src/**/*.ts`."
        )
    try:
        relative = pattern.removeprefix("./")
        return Matcher(
            base, relative, _compiled_glob(relative), _compiled_glob(fold(relative))
        )
    except PatternError as error:
        raise ToolError(
            f"{one_line(glob)!r} is not a valid glob. Check its brackets, or put \\ before them."
        ) from error


def _compiled_glob(glob: str) -> Pattern:
    """Compile a glob.

    :raises PatternError: if it ends with a backslash.
    :raises ToolError: if it expands to too many patterns.
    """
    alternatives = _expanded(glob)
    with suppress(ToolError):  # with so many braces, not all are meant literally
        alternatives = _expanded(glob, or_literal=True)
    try:
        return compile_wildcards((*alternatives, glob), or_literal=True)
    except PatternError:  # the brackets do not contain a valid class
        return compile_wildcards(
            [_BRACKET.sub(r"\\\g<0>", each) for each in (*alternatives, glob)]
        )


def _encoded(path: str) -> bytes:
    """Encode a path for RE2. Characters that UTF-8 cannot encode become `?`."""
    return path.encode("utf-8", "replace")


def _expanded(glob: str, *, or_literal: bool = False) -> list[str]:
    """Expand `{a,b}`, also if nested. Braces without a comma are literal.

    :param or_literal: whether braces with a comma also match literally.
    :raises ToolError: if the glob expands to too many patterns.
    """
    done: list[str] = []
    todo = [glob]
    while todo:
        current = todo.pop()
        if choice := _CHOICE.search(current):
            before = current[: choice.start()]
            after = current[choice.end() :]
            todo += [f"{before}{option}{after}" for option in choice[1].split(",")]
            if or_literal:
                todo.append(f"{before}{_OPENED}{choice[1]}{_CLOSED}{after}")
        else:
            done.append(current.replace(_OPENED, "{").replace(_CLOSED, "}"))
        if len(done) + len(todo) > _MAX_ALTERNATIVES:
            raise ToolError(
                f"{one_line(glob)!r} expands to more than {_MAX_ALTERNATIVES} patterns. Use fewer braces."
            )
    return done


@frozen
class Ignored:
    """The ignore rules that apply in one directory.

    :ivar levels: the user's own rules, then those from the repository's top to this
        directory. Each level begins with the path that its rules are relative to, with
        a trailing slash.
    :ivar users: the user's own rules, for nested repositories.
    :ivar unread: ignore files of this directory that are too large and are not used.
    """

    levels: tuple[tuple[bytes, tuple[_Rule, ...]], ...] = ()
    users: tuple[_Rule, ...] = ()
    unread: tuple[Path, ...] = ()

    @classmethod
    def at(cls, directory: Path) -> Ignored:
        """Return the rules for a directory, including those of its parents up to the
        repository's top.
        """
        top = repository_root(directory) or directory
        users_file = _users_file(top)
        users = _rules(users_file)
        rules = cls(_level(top, users), users)
        unread = _too_large(users_file)
        for place in reversed([directory, *directory.parents]):
            if place.is_relative_to(top):
                rules = rules.entering(place)
                unread += rules.unread
        return cls(rules.levels, users, unread)

    def entering(self, directory: Path) -> Ignored:
        """Return the rules for a subdirectory. A nested repository has only its own
        rules and the user's.
        """
        git = directory / ".git"
        own = directory / ".gitignore"
        levels = self.levels
        unread = _too_large(own)
        if is_repository(directory):
            exclude = git / "info" / "exclude"
            levels = _level(directory, self.users) + _level(directory, _rules(exclude))
            unread += _too_large(exclude)
        return Ignored(levels + _level(directory, _rules(own)), self.users, unread)

    def covers(self, path: Path, is_directory: bool, check: Callable[[], None]) -> bool:
        """Return whether git ignores this entry of a directory that is not itself
        ignored.

        :param check: called before each pattern; it raises to stop, since thousands of
            patterns in a repository may take seconds for one path.
        """
        if path.name == ".git":
            return True
        name = _encoded(str(path)) + b"/" * is_directory
        for base, rules in reversed(self.levels):
            below = name[len(base) :]
            for pattern, is_ignored in reversed(rules):
                check()
                if pattern.search(below):
                    return is_ignored
        return False


def _users_file(directory: Path) -> Path | None:
    """Return the user's own ignore file for all repositories: the value of
    `core.excludesFile`, or git's default.

    The value comes from git, since its configuration is spread over files that include
    one another. If git is missing or does not answer, use the default.
    """
    answer = b""
    nothing = subprocess.DEVNULL
    if git := find_program("git", projects=(directory,)):
        command = [git, "config", "--null", "--type=path", "--get", "core.excludesFile"]
        with suppress(OSError, subprocess.SubprocessError):
            answer = subprocess.check_output(
                command,
                cwd=directory,
                env=own_environment(),
                stdin=nothing,
                stderr=nothing,
                timeout=_GIT_SECONDS,
            )
    if answer:
        name = os.fsdecode(answer.removesuffix(b"\0"))
        return directory / name if name else None
    home = os.environ.get("HOME")
    config = os.environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    return Path(config, "git", "ignore") if config else None


def _level(
    base: Path, rules: tuple[_Rule, ...]
) -> tuple[tuple[bytes, tuple[_Rule, ...]], ...]:
    return ((_encoded(str(base)).rstrip(b"/") + b"/", rules),) if rules else ()


def _rules(file: Path | None) -> tuple[_Rule, ...]:
    """Read an ignore file. Return nothing if it is missing, unreadable or too large."""
    try:
        if file is None or not file.is_file() or file.stat().st_size > _MAX_BYTES:
            return ()
        text = file.read_text("utf-8-sig", errors="replace")
    except OSError:
        return ()
    lines = [
        found for line in text.split("\n") if (found := _line(line.removesuffix("\r")))
    ]
    rules: list[_Rule] = []
    for is_ignored, group in groupby(lines, key=lambda line: line[1]):
        for expressions in _together(each for each, _ in group):
            rules += _compiled(expressions, is_ignored)
    return tuple(rules)


def _together(expressions: Iterable[str]) -> Iterator[list[str]]:
    """Yield the expressions in groups of at most `_MAX_EXPRESSION` characters."""
    group: list[str] = []
    size = 0
    for each in expressions:
        if group and size + len(each) > _MAX_EXPRESSION:
            yield group
            group = []
            size = 0
        group.append(each)
        size += len(each) + 1
    if group:
        yield group


def _too_large(file: Path | None) -> tuple[Path, ...]:
    """Return an ignore file if it is too large to read, otherwise nothing."""
    try:
        return (
            (file,)
            if file is not None and file.is_file() and file.stat().st_size > _MAX_BYTES
            else ()
        )
    except OSError:
        return ()


def _line(line: str) -> tuple[str, bool] | None:
    """Parse a line into an expression and whether it ignores. Return None for comments
    and lines that git skips.
    """
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    # A trailing space after a backslash counts.
    pattern = line[: len(bare) + backslashes % 2]
    if pattern.startswith("#") or len(pattern) > _MAX_LINE:
        return None
    name = pattern.removeprefix("!")
    found = wildcard_expression(name.removesuffix("/")) if name.strip("/") else None
    return (
        (found + (r"/\z" if name.endswith("/") else r"/?\z"), name == pattern)
        if found
        else None
    )


def _compiled(expressions: list[str], is_ignored: bool) -> list[_Rule]:
    """Compile consecutive lines as one pattern: most entries match none of them, so one
    search is enough.
    """
    try:
        return [(compile_pattern("|".join(expressions), dot_all=True), is_ignored)]
    except PatternError:
        # A line has an unknown character class, or there are too many lines for RE2.
        middle = len(expressions) // 2
        halves = (expressions[:middle], expressions[middle:]) if middle else ()
        return [rule for half in halves for rule in _compiled(half, is_ignored)]
