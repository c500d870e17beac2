"""Finds facts in messages, as defined in `docs/compact-eval.md`. The patterns are
independent of those that compaction uses.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Literal, TypeAlias

from acp_agent.compaction.facts import passages
from acp_agent.conversation.messages import AssistantMessage, Entry, Message
from acp_agent.frozen import frozen

FactClass: TypeAlias = Literal[
    "files", "commands", "errors", "rules", "decisions", "numbers", "words"
]

CLASSES: tuple[FactClass, ...] = (
    "files",
    "commands",
    "errors",
    "rules",
    "decisions",
    "numbers",
)

_RUN = re.compile(r"[\w./@~+-]{4,}")
_LAST_NAME = re.compile(r"(?:^|/)[\w@+-][\w.@+-]*\.([A-Za-z]\w{0,7})$")
_LONGEST_PATH = 260
_EXTENSION_NAMES = """
    bash bat c cc cfg clj cmake conf cpp cs css csv dart diff ex exs fish go gradle graphql h hpp hs html ini ipynb java
    jpg js json jsonl jsx kt less lock log lua md mdx mjs mk nix patch php pl png po proto ps1 py pyi r rb rs rst sass
    scala scss sh sql sqlite svelte svg swift tex tf toml ts tsv tsx txt vue xml yaml yml zig zsh"""
_EXTENSIONS = frozenset(_EXTENSION_NAMES.split())
_RAISED = re.compile(
    r"^(?:E[ ]{2,}|Uncaught )?(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Warning|Failure))(?::[ ]?([^\n]*)|$)",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"^(?:FAILED|ERROR) \S*::([\w.]+)|^[ \t]*--- FAIL: (\w+)|^FAIL: (\w+)"
    r"|\b(?:error|warning)(?:\[| )((?:E|TS|CS|C)\d{3,5})\b",
    re.MULTILINE,
)
_LONGEST_ERROR = 160
_SHORTEST_ERROR = 12
_NUMBER = re.compile(
    r"(?<![\w.,#-])(?:v?\d+(?:\.\d+)+|\d[\d,_]*\d|[0-9a-f]{7,40})(?![\w]|[.,]\d)"
)
_LONG_NUMBER = 4
_LEFT = re.compile(r"([A-Za-z_]{3,})[^\w\n]{1,2}$")
_RIGHT = re.compile(r"[^\w\n]?([A-Za-z_]{3,})")
_PLAIN_WORD = re.compile(
    r"(?<![\w./\\@$<=\"'`(\[-])[A-Za-z]?[a-z]{5,}(?![\w/=(\[<>\"'`-]|\.\w|:\w)"
)
_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?=\S)[^\n.!?]*)*")
_DECIDES = re.compile(
    r"\b(?:decided|decision|because|instead|rather than|we will|we'll|chose|chosen|root cause|turns out|so that|"
    r"must not|should not)\b",
    re.IGNORECASE,
)
_SHORTEST_DECISION = 30
_LONGEST_DECISION = 400
_CONTENT = 4

_COMMAND_ARGUMENTS = ("command", "cmd", "script")
_QUOTES = str.maketrans("", "", "'\"`\\")
_WORD = re.compile(r"\w+")

_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_WRAPPERS = {
    "sudo",
    "time",
    "nice",
    "nohup",
    "command",
    "exec",
    "env",
    "timeout",
    "then",
    "do",
    "else",
    "if",
    "while",
}
_RUNNERS = frozenset(
    (
        "uv run",
        "poetry run",
        "hatch run",
        "pipenv run",
        "conda run",
        "bundle exec",
        "npm exec",
    )
)
_LOOK_NAMES = """. : [ ag awk basename cat cd cmp cut date df diff dirname du echo egrep env exit export false fd fgrep
    file find grep head jq less ls more nl popd printf pushd pwd readlink realpath rg sed set sleep sort source stat
    tail test tr tree true type uname uniq wc which whoami"""
_LOOKS = frozenset(_LOOK_NAMES.split())
_GIT_LOOKS = {
    "blame",
    "branch",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "remote",
    "rev-parse",
    "show",
    "status",
}
_DOCUMENT = re.compile(
    r"(<<-?[ \t]*(['\"]?)([\w.-]+)\2[^\n]*\n)(?:.*?\n)??[ \t]*\3[ \t]*(?:\n|\Z)",
    re.DOTALL,
)
_LONGEST_COMMAND = 200
_MOST_CHARACTERS = 4_000
"""Maximum number of characters of a command line to read."""
_BEFORE_PROGRAM = re.compile(r"[A-Za-z_]\w*\+?=|-|\d+[smh]?$")
_SIGNS = ";&|()<>\n"


@frozen
class FoundFact:
    """A fact in a text.

    :ivar key: the form in which facts are compared and searched for.
    :ivar start: offset of the fact in the text.
    :ivar end: offset after it.
    """

    kind: FactClass
    key: str
    start: int
    end: int


def files(text: str, cwd: str) -> Iterator[FoundFact]:
    """Yield file paths, relative to `cwd`. A path has a known extension, or a directory
    and any extension.
    """
    for match in _RUN.finditer(text):
        path = match[0].rstrip(".-+@~")
        if (
            len(path) > _LONGEST_PATH
            or path.startswith("//")
            or (name := _LAST_NAME.search(path)) is None
        ):
            continue
        if name[1] not in _EXTENSIONS and ("/" not in path or not name[1].islower()):
            continue
        end = match.start() + len(path)
        line = text.rfind("\n", max(0, match.start() - 300), match.start()) + 1
        if path.startswith(("a/", "b/")) and text.startswith(
            ("diff --git ", "--- ", "+++ "), line
        ):
            path = path[2:]
        path = path.removeprefix(f"{cwd.rstrip('/')}/" if cwd else "").removeprefix(
            "./"
        )
        if not path.startswith((".", "self.", "cls.", "this.")):
            yield FoundFact("files", path, match.start(), end)


def errors(text: str) -> Iterator[FoundFact]:
    """Yield the errors in a result: exceptions and their messages, failed tests,
    compilers' error codes.
    """
    for match in _RAISED.finditer(text):
        yield FoundFact("errors", match[1], match.start(1), match.end(1))
        if len(message := plain((match[2] or "")[:_LONGEST_ERROR])) >= _SHORTEST_ERROR:
            yield FoundFact("errors", message, match.start(2), match.end(2))
    for match in _FAILED.finditer(text):
        group = match.lastindex or 0
        yield FoundFact("errors", match[group], match.start(group), match.end(group))


def numbers(text: str) -> Iterator[FoundFact]:
    """Yield numbers of two or more digits, versions and hashes. A short integer
    includes an adjacent word.
    """
    for match in _NUMBER.finditer(text):
        number = match[0]
        start = match.start()
        end = match.end()
        if (
            not number.isdecimal()
            and number.isalnum()
            and (number.isalpha() or len(number) < 7)
        ):
            continue
        keys = [number]
        if number.isdecimal() and len(number) < _LONG_NUMBER:
            left = _LEFT.search(text[max(0, start - 30) : start])
            right = _RIGHT.match(text[end : end + 30])
            keys = [f"{left[1]} {number}"] if left else []
            keys += [f"{number} {right[1]}"] if right else []
        yield from (FoundFact("numbers", key, start, end) for key in keys)


def decisions(text: str) -> Iterator[FoundFact]:
    """Yield sentences of prose that say what was decided, or why."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        if _SHORTEST_DECISION <= len(sentence) <= _LONGEST_DECISION and _DECIDES.search(
            sentence
        ):
            start = match.start() + match[0].index(sentence)
            yield FoundFact("decisions", plain(sentence), start, start + len(sentence))


def content_words(sentence: str) -> frozenset[str]:
    """Return the content words of a sentence."""
    return frozenset(
        word
        for word in words(sentence)
        if len(word) >= _CONTENT and not word.isdecimal()
    )


def plain_words(text: str) -> Iterator[FoundFact]:
    """Yield words of prose, without names in code, paths and quoted words."""
    for match in _PLAIN_WORD.finditer(text):
        yield FoundFact("words", match[0].lower(), match.start(), match.end())


def text_of(message: Message) -> str:
    """Return the passages of a message, joined by line breaks."""
    return "\n".join(text for _, text in passages(Entry(0, message)))


def plain(text: str) -> str:
    """Return a text without quotes and backslashes and with single spaces, for
    comparisons. A summary may change these characters.
    """
    return " ".join(text.translate(_QUOTES).split())


def words(text: str) -> list[str]:
    """Return the words, numbers and names of a text, without the characters between
    them.
    """
    return _WORD.findall(text)


def command_lines(message: Message) -> Iterator[str]:
    """Yield the command lines in the calls of an answer."""
    for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
        for value in (call.arguments.get(name) for name in _COMMAND_ARGUMENTS):
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                yield shlex.join(word for word in value if isinstance(word, str))


def commands(line: str) -> Iterator[tuple[str, str]]:
    """Yield each command that does more than read, in two forms: in full, and with only
    the program and its first argument. If the command is long, both are the short form.

    A command that is passed to a shell, such as `bash -lc "pytest a.py"`, is treated as
    if it ran without that shell.
    """
    lines = _DOCUMENT.sub(r"\1", line[:_MOST_CHARACTERS].replace("\\\n", " ")).split(
        "\n"
    )
    for words in _simple_commands(
        "\n".join(each for each in lines if not each.lstrip(" \t").startswith("#"))
    ):
        program, *rest = words
        name = program if program.endswith("/test") else program.rpartition("/")[2]
        if (
            name in _SHELLS
            and len(rest) > 1
            and rest[0].startswith("-")
            and "c" in rest[0]
        ):
            yield from commands(rest[1])
        elif name not in _LOOKS and not (
            name == "git" and rest and rest[0] in _GIT_LOOKS
        ):
            arguments = [
                word for word in rest if not word.startswith("-") or word == "-m"
            ]
            briefly = [program, *arguments[: 1 + (arguments[:1] == ["-m"])]]
            whole = plain(" ".join(words))
            brief = plain(" ".join(briefly))
            if arguments and len(brief) <= _LONGEST_COMMAND:
                yield whole if len(whole) <= _LONGEST_COMMAND else brief, brief


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command, without assignments, wrappers such as `timeout
    60`, and redirections.
    """
    words: list[str] = []
    redirected = False
    for token in (*_tokens(text), "\n"):
        if token.strip(_SIGNS) or not token:
            if not redirected:
                words.append(token)
            redirected = False
        elif "<" in token or ">" in token:
            words = words[: -1 if words and words[-1].isdecimal() else None]
            redirected = True
        else:
            while words and (words[0] in _WRAPPERS or _BEFORE_PROGRAM.match(words[0])):
                del words[0]
            words = words[2:] if " ".join(words[:2]) in _RUNNERS else words
            if words:
                yield words
            words = []
            redirected = False


def _tokens(text: str) -> Iterator[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SIGNS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        yield from lexer
    except ValueError:  # an unclosed quote
        return
