"""The simple commands of a command line, found by tree-sitter's grammar of bash.

A line is understood where it is nothing but plain commands that are joined by `;`, `&`, `&&`, `||`, `|` or a new line.
One with a redirection, a substitution, a variable, an assignment, a loop or a function is not.
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

_JOINED = frozenset({"program", "list", "pipeline"})
_JOINTS = frozenset({";", "&", "&&", "||", "|", "|&", "\n"})
_ESCAPED = re.compile(r"\\(?:\n|(.))")
_IN_QUOTES = re.compile(r"\\([\"\\$`])|\\\n")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")
_SPECIAL = re.compile(r"""[{}()<>|&;$`'"\s]""")
"""What no unquoted word holds, whatever the grammar says."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WILDCARDS = frozenset("*?[")
# What runs something else, so that its name says nothing about what happens.
_WRAPPER_NAMES = """
    ! . [[ ash bash builtin busybox chroot command coproc csh dash doas entr env eval exec expect fakeroot fish flock
    gchroot genv gnice gnohup gstdbuf gtime gtimeout gxargs ionice ksh ksh93 mksh nice nohup nsenter osascript parallel
    pkexec pwsh runuser screen script setsid sh source ssh stdbuf strace su sudo systemd-run taskset tcsh time timeout
    tmux trap unshare watch xargs zsh case do done elif else esac fi for function if select then until while
"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())


@frozen
class _CommandLine:
    """What is known of a command line.

    :ivar commands: its simple commands in their order; empty where it is not understood.
    :ivar has_wildcard: whether the shell may put names of files into it.
    """

    commands: tuple[Words, ...]
    has_wildcard: bool


def parse(line: str) -> _CommandLine:
    """Return the simple commands of a line for bash."""
    unknown = _CommandLine((), any(each in line for each in _WILDCARDS))
    if not line.strip() or _CONTROL.search(line) or line.endswith("\\"):
        return unknown
    source = line.encode()
    root = _parser().parse(source).root_node
    if root.has_error or source[: root.start_byte].strip():
        return unknown
    try:
        commands = [_words(node) for node in _commands(root)]
    except _NotUnderstoodError:
        return unknown
    return _CommandLine(tuple(tuple(word for word, _ in words) for words in commands), _has_wildcard(commands))


class _NotUnderstoodError(Exception):
    """The line holds something else than plain commands."""


def _has_wildcard(commands: list[list[tuple[str, bool]]]) -> bool:
    return any(is_wild for words in commands for _, is_wild in words)


def _children(node: Node, between: str) -> list[Node]:
    """Return the children of a node that nothing but blanks is between, since the grammar skips some escapes.

    :param between: the pattern of what may be between two.
    """
    text, start = node.text or b"", node.start_byte
    for one, other in pairwise(node.children):
        if not re.fullmatch(between, text[one.end_byte - start : other.start_byte - start].decode()):
            raise _NotUnderstoodError
    return node.children


def _commands(node: Node) -> list[Node]:
    found: list[Node] = []
    for child in _children(node, r"[ \t\n]*"):
        if child.type == "command":
            found.append(child)
        elif child.type in _JOINED:
            found += _commands(child)
        elif child.type not in _JOINTS:
            raise _NotUnderstoodError
    return found


def _words(command: Node) -> list[tuple[str, bool]]:
    """Return a command's words, and of each whether the shell may replace it by names of files."""
    name, *arguments = _children(command, r"[ \t]+")
    if name.type != "command_name" or len(name.children) != 1:
        raise _NotUnderstoodError
    words = [_word(node) for node in (name.children[0], *arguments)]
    program = words[0][0]
    if not _PROGRAM.fullmatch(program) or program.rpartition("/")[2] in _WRAPPERS:
        raise _NotUnderstoodError
    return words


def _word(node: Node) -> tuple[str, bool]:
    text = (node.text or b"").decode()
    match node.type:
        case "word" | "number":
            bare = re.sub(r"\\.", "", text, flags=re.DOTALL)
            if _SPECIAL.search(bare) or not bare.isprintable():
                raise _NotUnderstoodError
            return _ESCAPED.sub(lambda found: found[1] or "", text), not _WILDCARDS.isdisjoint(bare)
        case "raw_string":
            return text[1:-1], False
        case "string":
            if any(child.type not in ('"', "string_content") for child in node.children):
                raise _NotUnderstoodError
            return _IN_QUOTES.sub(lambda found: found[1] or "", text[1:-1]), False
        case "concatenation" if text == "{}":  # as in `find -exec`
            return text, False
        case "concatenation":
            parts = [_word(child) for child in _children(node, "")]
            return "".join(part for part, _ in parts), any(is_wild for _, is_wild in parts)
        case _:
            raise _NotUnderstoodError


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
