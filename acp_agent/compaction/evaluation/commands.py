"""The simple commands of a shell command line, as far as a measurement needs them; nothing is expanded."""

import re
import shlex
from collections.abc import Iterator

from acp_agent.compaction.evaluation.texts import plain

LONGEST_COMMAND = 200

_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_WRAPPERS = {"sudo", "time", "nice", "nohup", "command", "exec", "env", "timeout", "then", "do", "else", "if", "while"}
_RUNNERS = frozenset(("uv run", "poetry run", "hatch run", "pipenv run", "conda run", "bundle exec", "npm exec"))
_LOOK_NAMES = """. : [ ag awk basename cat cd cmp cut date df diff dirname du echo egrep env exit export false fd fgrep
    file find grep head jq less ls more nl popd printf pushd pwd readlink realpath rg sed set sleep sort source stat
    tail test tr tree true type uname uniq wc which whoami"""
_LOOKS = frozenset(_LOOK_NAMES.split())
_GIT_LOOKS = {"blame", "branch", "describe", "diff", "grep", "log", "ls-files", "remote", "rev-parse", "show", "status"}
_DOCUMENT = re.compile(r"(<<-?[ \t]*(['\"]?)([\w.-]+)\2[^\n]*\n)(?:.*?\n)??[ \t]*\3[ \t]*(?:\n|\Z)", re.DOTALL)
_COMMENT = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
_BEFORE_PROGRAM = re.compile(r"[A-Za-z_]\w*\+?=|-|\d+[smh]?$")
_SIGNS = ";&|()<>\n"


def commands(line: str) -> Iterator[tuple[str, str]]:
    """Yield each command that does more than look: whole, where it is not too long, and as program and first argument.

    What a shell is handed (`bash -lc "pytest a.py"`) counts as if it stood there.
    """
    for words in _simple_commands(_COMMENT.sub("", _DOCUMENT.sub(r"\1", line.replace("\\\n", " ")))):
        program, *rest = words
        name = program if program.endswith("/test") else program.rpartition("/")[2]
        if name in _SHELLS and len(rest) > 1 and rest[0].startswith("-") and "c" in rest[0]:
            yield from commands(rest[1])
        elif name not in _LOOKS and not (name == "git" and rest and rest[0] in _GIT_LOOKS):
            arguments = [word for word in rest if not word.startswith("-") or word == "-m"]
            briefly = [program, *arguments[: 1 + (arguments[:1] == ["-m"])]]
            whole, brief = plain(" ".join(words)), plain(" ".join(briefly))
            if arguments and len(brief) <= LONGEST_COMMAND:
                yield whole if len(whole) <= LONGEST_COMMAND else brief, brief


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command, without assignments, wrappers such as `timeout 60`, and redirections."""
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
            words, redirected = [], False


def _tokens(text: str) -> Iterator[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SIGNS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        yield from lexer
    except ValueError:  # a quotation that is not closed
        return
