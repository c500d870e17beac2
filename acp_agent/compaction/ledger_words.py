"""Command lines taken apart as far as a ledger needs it: simple commands, their words, redirections and here-documents.

Owns the shell's quoting and operators, in one pass over the text. Knows no program; nothing is expanded, and what a
substitution would give stays as it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from acp_agent.frozen import frozen

_PLAIN: Final = re.compile(r"""[^\s'"\\$`;&|<>()#]+""")
_REDIRECT: Final = re.compile(r"(?:\d*|&)(<<<|<<-?|<>|<&|<|>>|>\||>&|>)")
_IN_DOUBLE: Final = re.compile(r'[^"\\]+')
_BRACKETS: Final = re.compile(r"[()]")
_MOST_PIECES: Final = 10_000
"""What stands behind so many words and signs is not read; texts in quotes and here-documents count as one."""
_OPERATORS: Final = ("&&", "||", ";;", "|&", ";", "|", "&", "\n")


@dataclass(slots=True)
class Simple:
    """One simple command.

    :ivar before: the operator that stands before it; empty for the first.
    :ivar after: the operator behind it.
    :ivar depth: how many parentheses are open around it.
    :ivar redirects: operator and target each, without descriptors: `(">", "out.txt")`.
    :ivar documents: texts of its here-documents and here-strings.
    """

    before: str = ""
    after: str = ""
    depth: int = 0
    words: list[str] = field(default_factory=list[str])
    redirects: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    documents: list[str] = field(default_factory=list[str])


@frozen
class CommandLine:
    """A command line, taken apart.

    :ivar shown: the text without the bodies of here-documents, its commands on one line.
    """

    commands: tuple[Simple, ...]
    shown: str


def take_apart(text: str) -> CommandLine:
    """Read a command line, which may have several lines; never fails, whatever it is given."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at: int = 0
        self.depth = 0
        self.commands: list[Simple] = []
        self.current = Simple()
        self.word: list[str] | None = None
        self.target: str | None = None
        self.waiting: list[tuple[Simple, str, bool]] = []
        self.shown: list[str] = []
        self.shown_from = 0

    def read(self) -> CommandLine:
        text, size = self.text, len(self.text)
        for _ in range(_MOST_PIECES):
            if self.at >= size:
                break
            char = text[self.at]
            if (plain := _PLAIN.match(text, self.at)) and not self._descriptor(plain.end()):
                self._add(plain.group())
                self.at = plain.end()
            elif char in "'\"":
                self._quoted(char)
            elif char == "\\":
                if text[self.at + 1 : self.at + 2] != "\n":
                    self._add(text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char in "$`":
                self._substitution(char)
            elif char == "#":
                if self.word is None:
                    end = text.find("\n", self.at)
                    self.at = size if end < 0 else end
                else:
                    self._add(char)
                    self.at += 1
            elif redirect := _REDIRECT.match(text, self.at):
                self._end_word()
                self.target = redirect.group(1)
                self.at = redirect.end()
            elif char in "()":
                self._end_command("\n")
                self.depth = max(0, self.depth + (1 if char == "(" else -1))
                self.current.depth = self.depth
                self.at += 1
            elif operator := next((each for each in _OPERATORS if text.startswith(each, self.at)), None):
                known = len(self.commands)
                self._end_command(operator)
                if operator == "\n" and len(self.commands) > known:
                    self.shown += (text[self.shown_from : self.at], "; ")
                    self.shown_from = self.at + 1
                self.at += len(operator)
                if operator == "\n":
                    self._documents()
            else:
                self._end_word()
                self.at += 1
        self._end_command("")
        self.shown.append(text[self.shown_from :])
        return CommandLine(tuple(self.commands), "".join(self.shown).replace("\\\n", " ").rstrip("; \n"))

    def _descriptor(self, end: int) -> bool:
        """Whether the digits here are the `2` of `2>`."""
        return self.word is None and self.text[end : end + 1] in ("<", ">") and self.text[self.at : end].isdigit()

    def _add(self, piece: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(piece)

    def _quoted(self, quote: str) -> None:
        text = self.text
        self._add("")
        self.at += 1
        if quote == "'":
            end = text.find("'", self.at)
            end = len(text) if end < 0 else end
            self._add(text[self.at : end])
            self.at = end + 1
            return
        while self.at < len(text) and text[self.at] != '"':
            if text[self.at] == "\\":
                following = text[self.at + 1 : self.at + 2]
                if following != "\n":
                    self._add(following if following in '"\\$`' else f"\\{following}")
                self.at += 2
            elif plain := _IN_DOUBLE.match(text, self.at):
                self._add(plain.group())
                self.at = plain.end()
        self.at += 1

    def _substitution(self, char: str) -> None:
        """Take `$( … )` or backticks as they are written, into the word."""
        text, start = self.text, self.at
        if char == "`":
            end = text.find("`", start + 1)
            self.at = len(text) if end < 0 else end + 1
        elif text.startswith("$(", start):
            depth, self.at = 1, start + 2
            for bracket in _BRACKETS.finditer(text, self.at):
                depth += 1 if bracket.group() == "(" else -1
                self.at = bracket.end()
                if not depth:
                    break
            else:
                self.at = len(text)
        else:
            self.at = start + 1
        self._add(text[start : self.at])

    def _end_word(self) -> None:
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        if self.target is None:
            self.current.words.append(word)
            return
        operator, self.target = self.target, None
        if operator in ("<<", "<<-"):
            self.waiting.append((self.current, word, operator == "<<-"))
        elif operator == "<<<":
            self.current.documents.append(word)
        else:
            self.current.redirects.append((operator, word))

    def _end_command(self, operator: str) -> None:
        self._end_word()
        self.target = None
        command = self.current
        if command.words or command.redirects or any(command is each[0] for each in self.waiting):
            command.after = operator
            self.commands.append(command)
            self.current = Simple(before=operator, depth=self.depth)
        elif not command.before or operator not in ("\n", ""):
            command.before = operator

    def _documents(self) -> None:
        """Behind the line's end stand the here-documents that the line announced."""
        for command, end_word, indented in self.waiting:
            self.shown.append(self.text[self.shown_from : self.at])
            body: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                if (line.lstrip("\t") if indented else line) == end_word:
                    break
                body.append(line)
            command.documents.append("\n".join(body))
            self.shown_from = min(self.at, len(self.text))
        self.waiting.clear()
