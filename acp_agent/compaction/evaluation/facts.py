"""Facts in a text, found by patterns of this module's own: what is measured is not found by the code that is measured.

Exceptions are the user's rules, which have to be the same sentences, and a shell's words. What a fact is, class by
class, stands in `docs/compact-eval.md`; change both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from acp_agent.compaction.evaluation.texts import plain, words
from acp_agent.compaction.ledger_programs import only_looks
from acp_agent.compaction.ledger_shell import read_shell
from acp_agent.frozen import frozen

FactClass: TypeAlias = Literal["files", "commands", "errors", "rules", "decisions", "numbers", "words"]

CLASSES: tuple[FactClass, ...] = ("files", "commands", "errors", "rules", "decisions", "numbers")
"""The classes that count; `words` is the control."""

LONGEST_COMMAND = 200
LONGEST_ERROR = 160

_RUN = re.compile(r"[\w./@~+-]{4,}")
_LAST_NAME = re.compile(r"(?:^|/)[\w@+-][\w.@+-]*\.([A-Za-z]\w{0,7})$")
_LONGEST_PATH = 260
_OF_A_DIFF = ("diff --git ", "--- ", "+++ ")
_KNOWN_EXTENSIONS = """
bash bat c cc cfg clj cmake conf cpp cs css csv dart diff ex exs fish go gradle graphql h hpp hs html ini ipynb java
jpg js json jsonl jsx kt less lock log lua md mdx mjs mk nix patch php pl png po proto ps1 py pyi r rb rs rst sass
scala scss sh sql sqlite svelte svg swift tex tf toml ts tsv tsx txt vue xml yaml yml zig zsh
"""
_EXTENSIONS = frozenset(_KNOWN_EXTENSIONS.split())
_OF_NO_CONSEQUENCE = """
. : cd echo exit export false popd printf pushd set sleep source true
"""
_NO_COMMANDS = frozenset(_OF_NO_CONSEQUENCE.split())
_RAISED = re.compile(
    r"^(?:E[ ]{2,}|Uncaught )?(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Warning|Failure))(?::[ ]?([^\n]*)|$)",
    re.MULTILINE,
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S*::([\w.]+)|^[ \t]*--- FAIL: (\w+)|^FAIL: (\w+)", re.MULTILINE)
_CODED = re.compile(r"\b(?:error|warning)(?:\[| )((?:E|TS|CS|C)\d{3,5})\b")
_NUMBER = re.compile(r"(?<![\w.,#-])(?:v?\d+(?:\.\d+)+|\d[\d,_]*\d|[0-9a-f]{7,40})(?![\w]|[.,]\d)")
_LONG_NUMBER = 4
_LEFT = re.compile(r"([A-Za-z_]{3,})[^\w\n]{1,2}$")
_RIGHT = re.compile(r"[^\w\n]?([A-Za-z_]{3,})")
_PLAIN_WORD = re.compile(r"(?<![\w./\\@$<=\"'`(\[-])[A-Za-z]?[a-z]{5,}(?![\w/=(\[<>\"'`-]|\.\w|:\w)")
_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?=\S)[^\n.!?]*)*")
_DECIDES = re.compile(
    r"\b(?:decided|decision|because|instead|rather than|we will|we'll|chose|chosen|root cause|turns out|so that|"
    r"must not|should not)\b",
    re.IGNORECASE,
)
_SHORTEST_DECISION, _LONGEST_DECISION = 30, 400
_CONTENT = 4


@frozen
class Found:
    """A fact at a place in a text.

    :ivar key: what it is compared and looked for by.
    """

    kind: FactClass
    key: str
    start: int
    end: int


def files(text: str, cwd: str) -> Iterator[Found]:
    """Paths of files: with a known extension, or with a directory and any extension.

    :param cwd: absolute, or empty; a path in it is the same with and without it.
    """
    for match in _RUN.finditer(text):
        path = match[0].rstrip(".-+@~")
        if len(path) > _LONGEST_PATH or path.startswith("//") or (name := _LAST_NAME.search(path)) is None:
            continue
        if name[1] not in _EXTENSIONS and ("/" not in path or not name[1].islower()):
            continue
        end = match.start() + len(path)
        if path.startswith(("a/", "b/")) and text.startswith(
            _OF_A_DIFF, text.rfind("\n", max(0, match.start() - 300), match.start()) + 1
        ):
            path = path[2:]
        path = path.removeprefix(f"{cwd.rstrip('/')}/") if cwd else path
        path = path.removeprefix("./")
        if not path.startswith((".", "self.", "cls.", "this.")):
            yield Found("files", path, match.start(), end)


def commands(line: str) -> Iterator[tuple[str, str]]:
    """The simple commands of a command line that do more than look: each as a whole, where it is not too long, and by
    its program and first argument. What a shell is handed (`bash -lc "pytest a.py"`) counts as if it stood there."""
    for part in read_shell(line, "").parts:
        parts = part.words
        if len(parts) < 2 or part.program in _NO_COMMANDS or only_looks(parts):
            continue
        arguments = [word for word in parts[1:] if not word.startswith("-") or word == "-m"]
        brief = plain(" ".join((parts[0], *arguments[: 2 if arguments[:1] == ["-m"] else 1])))
        whole = plain(" ".join(parts))
        if arguments and len(brief) <= LONGEST_COMMAND:
            yield whole if len(whole) <= LONGEST_COMMAND else brief, brief


def errors(text: str) -> Iterator[Found]:
    """Errors that a result tells of: the exception's name, what it says, tests that failed, a compiler's codes."""
    for match in _RAISED.finditer(text):
        yield Found("errors", match[1], match.start(1), match.end(1))
        message = plain((match[2] or "")[:LONGEST_ERROR])
        if len(message) >= 12:
            yield Found("errors", message, match.start(2), match.end(2))
    for pattern in (_FAILED, _CODED):
        for match in pattern.finditer(text):
            name = next(group for group in match.groups() if group)
            start = match.start(match.lastindex or 0)
            yield Found("errors", name, start, start + len(name))


def numbers(text: str) -> Iterator[Found]:
    """Numbers of two digits or more, versions and hashes. A short whole number counts with a word beside it."""
    for match in _NUMBER.finditer(text):
        said = match[0]
        if said.isalpha() or (not said.isdecimal() and said.isalnum() and len(said) < 7):
            continue
        if said.isdecimal() and len(said) < _LONG_NUMBER:
            for pair in _with_neighbour(text, match.start(), match.end(), said):
                yield Found("numbers", pair, match.start(), match.end())
        else:
            yield Found("numbers", said, match.start(), match.end())


def _with_neighbour(text: str, start: int, end: int, number: str) -> Iterator[str]:
    """A number with the word before it, and with the word behind it, on its line."""
    if left := _LEFT.search(text[max(0, start - 30) : start]):
        yield f"{left[1]} {number}"
    if right := _RIGHT.match(text[end : end + 30]):
        yield f"{number} {right[1]}"


def decisions(text: str) -> Iterator[Found]:
    """Sentences of prose that say what was decided, or why."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        if _SHORTEST_DECISION <= len(sentence) <= _LONGEST_DECISION and _DECIDES.search(sentence):
            start = match.start() + match[0].index(sentence)
            yield Found("decisions", plain(sentence), start, start + len(sentence))


def content_words(sentence: str) -> frozenset[str]:
    """The words of a sentence that say what it is about."""
    return frozenset(word for word in words(sentence) if len(word) >= _CONTENT and not word.isdecimal())


def plain_words(text: str) -> Iterator[Found]:
    """Words of prose: those that are no names in code, no paths, and in no quotes."""
    for match in _PLAIN_WORD.finditer(text):
        yield Found("words", match[0].lower(), match.start(), match.end())
