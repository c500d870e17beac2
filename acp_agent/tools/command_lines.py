"""Command lines as a shell reads them, as far as they are simple: one program and its arguments.

Errs on the side of not understanding. Pure; knows nothing of what is done with the words.
"""

from __future__ import annotations

import re
import shlex

# Quoting is only understood where none of these stand in the command: inside double quotes they still mean something.
_BEYOND_QUOTING = re.compile(r"[\\`$\x00-\x08\x0a-\x1f]")
_OPERATOR = re.compile(r"[();<>|&{}]")
# Such a backslash is a pair of quotes, as in `find . -exec cat {} \;`. Another one is left, and not understood.
_ESCAPED = re.compile(r"('[^']*'|\"[^\"]*\")|\\([();<>|&{}!])")
_BRACES = re.compile(r"(?<!\S)\{\}(?!\S)")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")
# What runs something else, so that its name says nothing about what happens.
_WRAPPER_NAMES = """
    ! . [[ ash bash builtin busybox chroot command coproc csh dash doas entr env eval exec expect fakeroot fish flock
    gchroot genv gnice gnohup gstdbuf gtime gtimeout gxargs ionice ksh ksh93 mksh nice nohup nsenter osascript parallel
    pkexec pwsh runuser screen script setsid sh source ssh stdbuf strace su sudo systemd-run taskset tcsh time timeout
    tmux trap unshare watch xargs zsh
"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())
_LITERAL = re.compile(r"'[^']*'")
_MEANT_IN_DOUBLE = re.compile(r"[\\`$]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_MEANT_UNQUOTED = re.compile(r"[\s#*?\[]")
_COMMENT = re.compile(r"(?<!\S)#")
_MANY_WORDS = re.compile(r"(?<!\S)(?:-\S*)?[*?\[]")


def program_of(command: str) -> str | None:
    """The one program that a command line runs; None where it may run others.

    Compound commands, pipes, redirections, substitutions, variables, assignments, comments and wrappers such as `sudo`
    or `bash` all give None.
    """
    words = words_of(command)
    return words[0] if words else None


def words_of(command: str, *, literal: bool = False) -> list[str] | None:
    """The command line's words, the first of them its one program; see `program_of`.

    :param literal: a `$`, a backtick or a backslash between single quotes is taken for the character that it is, as in
        `git add 'routes/$id.tsx'`. Only for a program that hands nothing on to another shell.
    """
    command = _ESCAPED.sub(lambda found: found[1] or f"'{found[2]}'", command)
    meant = _without_literals(command) if literal else command
    if _BEYOND_QUOTING.search(meant.strip()) or _COMMENT.search(_unquoted(command)):
        return None
    # Quoted, an operator is a word like any other, and `{}` by itself never is one.
    if _OPERATOR.search(_BRACES.sub("", _QUOTED.sub("_", command))):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words:
        return None
    program = words[0]
    if not _PROGRAM.fullmatch(program) or program.rpartition("/")[2] in _WRAPPERS:
        return None
    return words


def _without_literals(command: str) -> str:
    """The command line, and `_` for each such character between single quotes.

    Each pair of them is one only where there are no double quotes. A backslash outside of them is left, and with it the
    line is not understood.
    """
    return command if '"' in command else _LITERAL.sub(lambda pair: _MEANT_IN_DOUBLE.sub("_", pair[0]), command)


def may_grow_options(command: str, *, anywhere: bool = False) -> bool:
    """Whether the shell may put an option into a command line that `words_of` understands, where a file is called so: a
    `*` that is not quoted begins a word before `--`, or is part of an option.

    :param anywhere: what stands behind `--` is an option too.
    """
    unquoted = _unquoted(command)
    return _MANY_WORDS.search(unquoted if anywhere else unquoted.partition(" -- ")[0]) is not None


def _unquoted(command: str) -> str:
    """The command line with its quotes taken off, and nothing between them that means something outside of quotes."""
    return _QUOTED.sub(lambda quoted: _MEANT_UNQUOTED.sub("_", quoted[0][1:-1]), command)
