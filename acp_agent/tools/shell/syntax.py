"""Splits a command line into simple commands with tree-sitter's bash grammar.

Only plain commands joined by `;`, `&`, `&&`, `||`, `|` or a newline are understood. A
line with a redirection, a substitution, a variable, an assignment, a loop or a function
is not, and neither is a very long line.

The grammar's error recovery takes time quadratic in the length of the line: 25 seconds
for 100 KB of `)`. So the tokens are checked first, and only plain commands are parsed.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from acp_agent.frozen import frozen

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Words: TypeAlias = tuple[str, ...]
"""A simple command: the program and its arguments, without quotes."""

MAX_CHARACTERS = 8_000
"""Maximum length of a line that is parsed."""
_JOINED = frozenset({"program", "list", "pipeline"})
_JOINTS = frozenset({";", "&", "&&", "||", "|", "|&", "\n"})
_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t]|\\\n)++)|(?P<newline>\n)|(?P<joint>&&|\|\||\|&|[;&|])"""
    r"""|(?P<word>(?:'[^']*+'|"(?:[^"\\$`]|\\.)*+"|\\.|\{\}|[^\s(){}<>|&;$`'"\\])++)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(?:\n|(.))")
_IN_QUOTES = re.compile(r"\\([\"\\$`])|\\\n")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")
_SPECIAL = re.compile(r"""[{}()<>|&;$`'"\s]""")
"""Characters that an unquoted word never contains, whatever the grammar says."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WILDCARDS = frozenset("*?[")
# Programs and keywords that run another command, so their own name says nothing about
# what happens.
_WRAPPER_NAMES = """
    ! . [[ ash bash builtin busybox chroot command coproc csh dash doas entr env eval exec expect fakeroot fish flock
    gchroot genv gnice gnohup gstdbuf gtime gtimeout gxargs ionice ksh ksh93 mksh nice nohup nsenter osascript parallel
    pkexec pwsh runuser screen script setsid sh source ssh stdbuf strace su sudo systemd-run taskset tcsh time timeout
    tmux trap unshare watch xargs zsh case do done elif else esac fi for function if select then until while
"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())


@frozen
class _CommandLine:
    """A parsed command line.

    :ivar commands: its simple commands in order; empty if the line is not understood.
    :ivar has_wildcard: whether the shell may insert file names into it.
    """

    commands: tuple[Words, ...]
    has_wildcard: bool


def parse(line: str) -> _CommandLine:
    """Parse a bash command line into simple commands."""
    unknown = _CommandLine((), any(each in line for each in _WILDCARDS))
    if (
        len(line) > MAX_CHARACTERS
        or _CONTROL.search(line)
        or line.endswith("\\")
        or not _is_plain(line)
    ):
        return unknown
    source = line.encode()
    root = _parser().parse(source).root_node
    if root.has_error or source[: root.start_byte].strip():
        return unknown
    try:
        commands = [_words(node, source) for node in _commands(root, source)]
    except _NotUnderstoodError:
        return unknown
    return _CommandLine(
        tuple(tuple(word for word, _ in words) for words in commands),
        _has_wildcard(commands),
    )


class _NotUnderstoodError(Exception):
    """Raised if the line is more than plain commands."""


def _has_wildcard(commands: list[list[tuple[str, bool]]]) -> bool:
    return any(is_wild for words in commands for _, is_wild in words)


def _is_plain(line: str) -> bool:
    """Return whether a line has only words and joints, with each joint after a command
    and plain program names.
    """
    at = 0
    # Whether there is a command since the last joint, and whether one must follow.
    has_command = is_open = False
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None:
            return False
        at = token.end()
        kind = token.lastgroup
        if kind == "word":
            word = token[0]
            is_bare = not any(quote in word for quote in "'\"\\")
            if (
                not has_command
                and is_bare
                and (not _PROGRAM.fullmatch(word) or word in _WRAPPERS)
            ):
                return False
            has_command = True
            is_open = False
        elif kind == "joint":
            if not has_command:
                return False
            has_command = False
            is_open = token[0] not in (";", "&")
        elif kind == "newline":
            has_command = False
    return not is_open and bool(line.strip())


def _children(node: Node, source: bytes, between: str) -> list[Node]:
    """Return the children of a node, after checking the text between them, since the
    grammar skips some escapes.

    :param between: the pattern that the text between two children must match.
    """
    children = node.children
    for one, other in pairwise(children):
        if not re.fullmatch(between, source[one.end_byte : other.start_byte].decode()):
            raise _NotUnderstoodError
    return children


def _commands(root: Node, source: bytes) -> list[Node]:
    """Return the nodes of the simple commands in order."""
    found: list[Node] = []
    waiting = [root]  # a stack, since a thousand `&&` are nested a thousand levels deep
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            found.append(node)
        elif node.type in _JOINED:
            waiting += reversed(_children(node, source, r"[ \t\n]*"))
        elif node.type not in _JOINTS:
            raise _NotUnderstoodError
    return found


def _words(command: Node, source: bytes) -> list[tuple[str, bool]]:
    """Return a command's words, each with whether the shell may replace it with file
    names.
    """
    name, *arguments = _children(command, source, r"[ \t]+")
    if name.type != "command_name" or len(name.children) != 1:
        raise _NotUnderstoodError
    words = [_word(node, source) for node in (name.children[0], *arguments)]
    program = words[0][0]
    if not _PROGRAM.fullmatch(program) or program.rpartition("/")[2] in _WRAPPERS:
        raise _NotUnderstoodError
    return words


def _word(node: Node, source: bytes) -> tuple[str, bool]:
    text = source[node.start_byte : node.end_byte].decode()
    match node.type:
        case "word" | "number":
            bare = re.sub(r"\\.", "", text, flags=re.DOTALL)
            if _SPECIAL.search(bare) or not bare.isprintable():
                raise _NotUnderstoodError
            return _ESCAPED.sub(
                lambda found: found[1] or "", text
            ), not _WILDCARDS.isdisjoint(bare)
        case "raw_string":
            return text[1:-1], False
        case "string":
            if any(
                child.type not in ('"', "string_content") for child in node.children
            ):
                raise _NotUnderstoodError
            return _IN_QUOTES.sub(lambda found: found[1] or "", text[1:-1]), False
        case "concatenation" if text == "{}":  # as in `find -exec`
            return text, False
        case "concatenation":
            parts = [_word(child, source) for child in _children(node, source, "")]
            return "".join(part for part, _ in parts), any(
                is_wild for _, is_wild in parts
            )
        case _:
            raise _NotUnderstoodError


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
