"""What a shell command line did to files, read from its text: one small reader per program.

    cat, head, tail, nl, sed -n, awk NR        read
    > and >> and tee, cp, mv, touch, curl -o   create, write, alter
    sed -i, perl -i, ed, patch, git apply      alter
    rm, mv, git rm, git mv                     delete
    git checkout, restore, reset --hard        restore
    python code that opens a file for writing  alter

Errs on the side of not understanding: what a variable, a loop or another script does stays unknown. Knows nothing of
results; `ledger_calls` leaves out what a failure makes doubtful.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import Final

from acp_agent.compaction.ledger_programs import (
    bare,
    head_range,
    only_looks,
    printed_range,
    program_name,
    sed_arguments,
)
from acp_agent.compaction.ledger_touch import Touch, joined, patched, written_by_python
from acp_agent.compaction.ledger_words import Simple, take_apart
from acp_agent.conversation.messages import JsonValue
from acp_agent.frozen import frozen

_SHELLS: Final = frozenset(("bash", "sh", "zsh", "dash"))
_NR: Final = re.compile(r"NR\s*>=\s*(\d{1,9})\s*&&\s*NR\s*<=\s*(\d{1,9})")
_FILE_LIKE: Final = re.compile(r"/|\.\w{1,8}$")
_PASSING: Final = frozenset(("cat", "nl", "less", "more", "bat"))
_DEEPEST: Final = 3


@frozen
class Part:
    """One simple command of a line.

    :ivar words: without assignments and wrappers such as `sudo` or `poetry run`.
    :ivar before: the operator before it.
    :ivar touches: what it does to files, if it succeeds.
    """

    words: tuple[str, ...]
    before: str
    touches: tuple[Touch, ...] = ()

    @property
    def program(self) -> str:
        """The program's name without its directory."""
        return program_name(self.words)

    @property
    def looks(self) -> bool:
        """Whether it only shows something, so that its output is no sign of how anything went."""
        return only_looks(self.words) and all(touch.kind == "read" for touch in self.touches)


@frozen
class ShellLine:
    """A command line, read.

    :ivar shown: the line as it is named, without the bodies of here-documents.
    """

    parts: tuple[Part, ...]
    shown: str

    @property
    def looks(self) -> bool:
        """Whether no part of it does more than show something."""
        return all(part.looks for part in self.parts)


def command_line(command: JsonValue) -> str:
    """The command line that a call hands over: a text, or words, where a shell's script stands for the shell.

    :param command: the argument of the call, as `"pytest a.py"` or `["bash", "-lc", "pytest a.py"]`; empty for others.
    """
    if isinstance(command, str):
        return command
    if not isinstance(command, list):
        return ""
    words = [word for word in command if isinstance(word, str)]
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)


def read_shell(command: str, base: str, depth: int = 0) -> ShellLine:
    """Read a command line.

    :param base: directory that it runs in, absolute, or empty where it is not known.
    """
    taken = take_apart(command)
    parts: list[Part] = []
    bases = [base]
    bodies: dict[str, str] = {}
    for number, simple in enumerate(taken.commands):
        del bases[simple.depth + 1 :]
        bases += [bases[-1]] * (simple.depth + 1 - len(bases))
        words = list(bare(simple.words))
        name = program_name(words)
        if name in ("cd", "pushd") and len(words) > 1:
            bases[-1] = joined(words[1], bases[-1]) or bases[-1]
        if name in _SHELLS and depth < _DEEPEST and (inner := _inner(words, simple)) is not None:
            inside = read_shell(inner, bases[-1], depth + 1).parts
            parts += [Part(part.words, part.before or simple.before, part.touches) for part in inside]
            continue
        following = _followers(taken.commands, number)
        touches = _Program(words, simple, bases[-1], following, bodies).touches()
        parts.append(Part(tuple(words), simple.before, tuple(touches)))
    return ShellLine(tuple(parts), taken.shown)


def _inner(words: list[str], simple: Simple) -> str | None:
    """The command line that a shell is handed, if it is."""
    for at, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--"):
            if "c" in word:
                return words[at + 1] if at + 1 < len(words) else None
        else:
            return None
    return simple.documents[0] if simple.documents else None


def _followers(commands: tuple[Simple, ...], number: int) -> list[Simple]:
    """The commands that a command's output is piped through."""
    found: list[Simple] = []
    while number < len(commands) and commands[number].after in ("|", "|&"):
        number += 1
        found += commands[number : number + 1]
    return found


class _Program:
    """One simple command, whose program decides how its words are read."""

    def __init__(
        self, words: list[str], simple: Simple, base: str, following: list[Simple], bodies: dict[str, str]
    ) -> None:
        self.name = program_name(words)
        self.arguments = words[1:]
        self.simple = simple
        self.base = base
        self.following = following
        self.bodies = bodies

    def touches(self) -> list[Touch]:
        """What it does to files, redirections first."""
        return [*self._redirected(), *self._by_program()]

    def _redirected(self) -> list[Touch]:
        found: list[Touch] = []
        for operator, target in self.simple.redirects:
            if "<" in operator or target.isdigit() or target == "-":
                continue
            path = joined(target, self.base)
            if path is None:
                continue
            whole = bool(self.simple.documents) or self.name in ("echo", "printf")
            if operator == ">>":
                found.append(Touch("alter" if not whole else "write", path, made="edited"))
            else:
                found.append(Touch("write" if whole else "create", path))
            if self.simple.documents:
                self.bodies[path] = "\n".join(self.simple.documents)
        return found

    def _by_program(self) -> list[Touch]:
        match self.name:
            case "cat" | "nl" | "bat" | "less" | "more" | "head" | "tail" | "sed" | "awk" | "gawk":
                return self._shown_or_changed()
            case "perl" | "ruby" if any(re.match(r"-[a-z]*i", each) for each in self.arguments):
                return self._all("alter", [each for each in self.arguments if _FILE_LIKE.search(each)][-1:])
            case "ed" | "ex":
                return self._all("alter", self._plain()[:1])
            case "rm" | "unlink":
                return self._all("delete", self._plain())
            case "mv" | "cp" | "install":
                return self._copied(self._plain(), moved=self.name == "mv")
            case "touch":
                return self._all("create", self._plain())
            case "tee":
                kind = "alter" if "-a" in self.arguments else "create"
                return self._all(kind, self._plain())
            case "curl" | "wget":
                options = ("-o", "--output") if self.name == "curl" else ("-O", "--output-document")
                return self._all("create", [word for at, word in self._pairs() if at in options])
            case "patch" | "apply_patch" | "applypatch":
                return self._patched()
            case "git":
                return self._git()
            case _ if re.fullmatch(r"(?:python|pypy)[\d.]*", self.name):
                return self._python()
            case _:
                return []

    def _plain(self, valued: str = "") -> list[str]:
        """The arguments that are no options; `valued` lists the options that take a value."""
        taking = valued.split()
        words: list[str] = []
        skip = False
        for at, word in enumerate(self.arguments):
            if skip:
                skip = False
            elif word == "--":
                return words + self.arguments[at + 1 :]
            elif word.startswith("-") and word != "-":
                skip = word in taking
            else:
                words.append(word)
        return words

    def _pairs(self) -> list[tuple[str, str]]:
        return list(zip(self.arguments, self.arguments[1:], strict=False))

    def _all(self, kind: str, words: list[str], lines: tuple[int, int] | None = None) -> list[Touch]:
        found: list[Touch] = []
        for word in words:
            if (path := joined(word, self.base)) is None:
                continue
            match kind:
                case "read":
                    # One look cannot be at many files by a pattern.
                    if not any(mark in word for mark in "*?["):
                        found.append(Touch("read", path, lines))
                case "delete":
                    found.append(Touch("delete", path))
                case "restore":
                    found.append(Touch("restore", path))
                case "create":
                    found.append(Touch("create", path))
                case _:
                    found.append(Touch("alter", path))
        return found

    def _shown_or_changed(self) -> list[Touch]:
        lines: tuple[int, int] | None = None
        match self.name:
            case "sed":
                changes, script, words = sed_arguments(self.arguments)
                if changes:
                    return self._all("alter", words)
                lines = printed_range(script)
            case "awk" | "gawk":
                first, *words = self._plain("-F -v -f") or [""]
                if not (found := _NR.search(first)):
                    return []
                lines = (int(found[1]), int(found[2]))
            case "head":
                words = self._plain("-n -c --lines --bytes")
                lines = head_range(self.arguments)
            case "tail":
                words = self._plain("-n -c --lines --bytes")
            case _:
                words = self._plain("-b -d -f -h -i -l -n -s -v -w -r" if self.name == "nl" else "-r --line-range")
        if any(">" in operator and not target.isdigit() for operator, target in self.simple.redirects):
            return []
        for command in self.following:
            name = command.words[0] if command.words else ""
            if name == "sed":
                lines = printed_range(sed_arguments(command.words[1:])[1]) or lines
            elif name == "head":
                lines = lines or head_range(command.words[1:])
            elif name not in _PASSING and name != "tail":
                return []
        return self._all("read", words, lines)

    def _copied(self, words: list[str], *, moved: bool) -> list[Touch]:
        if len(words) < 2 or any(re.match(r"-[a-zA-Z]*[rRa]", each) for each in self.arguments if not moved):
            return []
        *sources, target = words
        found: list[Touch] = []
        for source in sources:
            inside = len(sources) > 1 or target.endswith("/") or target == "."
            name = posixpath.join(target, posixpath.basename(source.rstrip("/"))) if inside else target
            if moved:
                found += self._all("delete", [source])
            found += self._all("create", [name])
        return found

    def _patched(self) -> list[Touch]:
        texts = [*self.simple.documents, *self.arguments]
        return [touch for text in texts if "\n" in text for touch in patched(text, self.base)]

    def _git(self) -> list[Touch]:
        while self.arguments and self.arguments[0].startswith("-"):
            if self.arguments[0] == "-C" and len(self.arguments) > 1:
                self.base = joined(self.arguments[1], self.base) or self.base
            del self.arguments[: 2 if self.arguments[0] in ("-C", "-c") else 1]
        action, self.arguments = (self.arguments or [""])[0], self.arguments[1:]
        words = self._plain("-b -B -s --source")
        match action:
            case "rm" if "--cached" not in self.arguments:
                return self._all("delete", words)
            case "mv":
                return self._copied(words, moved=True)
            case "apply" | "am":
                return self._patched()
            case "checkout" | "restore":
                if "--staged" in self.arguments and "--worktree" not in self.arguments:
                    return []
                if "--" in self.arguments:
                    words = self.arguments[self.arguments.index("--") + 1 :]
                if "." in words:
                    return [Touch("restore", self.base)]
                return self._all("restore", [each for each in words if action == "restore" or _FILE_LIKE.search(each)])
            case "reset" if "--hard" in self.arguments:
                return [Touch("restore", self.base)]
            case _:
                return []

    def _python(self) -> list[Touch]:
        code = [*self.simple.documents, *(text for option, text in self._pairs() if option == "-c")]
        script = next(iter(self._plain("-W -X -c -m")), None)
        if script is not None and "-m" not in self.arguments and (path := joined(script, self.base)):
            code.append(self.bodies.get(path, ""))
        return [touch for text in code for touch in written_by_python(text, self.base)]
