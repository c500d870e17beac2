"""What is known about programs by their names and arguments: which wrap others, which only look, which run tests.

Tables and argument readers without any state; what a command does to files is `ledger_shell`'s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_WRAPPER_NAMES = "sudo doas time nice nohup command exec env stdbuf xvfb-run timeout then do else if while ! {"
_WRAPPERS: Final = frozenset(_WRAPPER_NAMES.split())
# What runs the rest of its words behind this verb, or at once where the verb is empty.
_RUNNERS: Final = {
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi", "conda"), "run"),
    **dict.fromkeys(("bundle", "pnpm", "npm", "yarn"), "exec"),
    **dict.fromkeys(("npx", "bunx", "uvx"), ""),
}
_VALUED: Final = frozenset(("-n", "-c", "-C", "-u", "-k", "-s", "-p", "--with", "--group", "--extra", "--python"))
_LOOK_NAMES = """
    [ ag awk basename bat cat cd cmp cut date df diff dirname du echo egrep env fd fgrep file find grep head jq less ll
    ls more nl printf pwd readlink realpath rg sed sort stat tail test tr tree true type uname uniq wc which whoami
"""
_LOOKS: Final = frozenset(_LOOK_NAMES.split())
_GIT_LOOK_NAMES = "blame branch describe diff grep log ls-files remote rev-parse show status"
_LOOKS_OF_GIT: Final = frozenset(_GIT_LOOK_NAMES.split())
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_DURATION: Final = re.compile(r"\d+[smh]?")

_TEST_PROGRAM_NAMES = """
    ava bats behave busted ctest ginkgo gotestsum green jasmine jest karma mocha nose2 nosetests nox pest phpunit
    py.test pytest rspec stestr tap tox trial vitest ward
"""
_TEST_PROGRAMS: Final = frozenset(_TEST_PROGRAM_NAMES.split())
_TEST_MODULES: Final = frozenset(("doctest", "nose", "nose2", "nox", "pytest", "tox", "twisted.trial", "unittest"))
_TEST_VERB_NAMES = """
    bazel bun cabal cargo composer cypress dart deno dotnet flutter go gradle gradlew hatch just lein make meson mix mvn
    mvnw ng ninja npm nx pnpm playwright poe rails rake sbt stack swift task turbo yarn zig
"""
_HAVE_TEST_VERBS: Final = frozenset(_TEST_VERB_NAMES.split())
_TEST_VERB: Final = re.compile(r":?(?:[\w-]+:)*(?:tests?|check|verify|spec|nextest|integrationTest)(?:[:_-][\w:-]+)?")
_TEST_SCRIPT: Final = re.compile(r"(?:run[_-]?)?tests?(?:[._-].*)?|.*[._-](?:tests?|spec)\.\w+")
_INTERPRETER: Final = re.compile(r"(?:python|pypy|node|ruby|php|perl|coverage)[\d.]*")
_NO_RUN: Final = frozenset(("--version", "--help", "-h", "-V", "--collect-only", "--co", "--list", "--listTests"))

_RANGE: Final = re.compile(r"\s*(\d{1,9})(?:,(\d{1,9}))?\s*p")
_HEAD: Final = re.compile(r"(?:^| )-(?:n ?|-lines[= ])?(\d{1,9})\b")


def bare(words: Sequence[str]) -> tuple[str, ...]:
    """A simple command's words from its program on: without assignments, `sudo`, `timeout 60`, `poetry run` …"""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        verb = _RUNNERS.get(name)
        if _ASSIGNMENT.match(words[at]):
            at += 1
        elif name in _WRAPPERS or verb == "" or (verb and tuple(words[at + 1 : at + 2]) == (verb,)):
            at += 2 if verb else 1
            while at < len(words) - 1 and (words[at].startswith("-") or _DURATION.fullmatch(words[at])):
                at += 2 if words[at] in _VALUED else 1
        else:
            break
    return tuple(words[at:])


def program_name(words: Sequence[str]) -> str:
    """The program's name without its directory; a script `bin/test` keeps it, as it is not the shell's `test`."""
    name = words[0].rpartition("/")[2] if words else ""
    return words[0] if name == "test" else name


def only_looks(words: Sequence[str]) -> bool:
    """Whether a command, as `bare` gives it, only shows something, apart from what it may write to files."""
    name = program_name(words)
    if name == "git":
        return len(words) > 1 and words[1] in _LOOKS_OF_GIT
    return not name or name in _LOOKS


def runs_tests(words: Sequence[str]) -> bool:
    """Whether a command, as `bare` gives it, runs tests, as far as its name and its first arguments tell.

    Test runners (`pytest`, `jest`, `ctest` …), tools with a verb for it (`npm test`, `go test`, `make check`, `gradle
    :app:test` …), modules of Python (`python -m unittest`), and scripts that are called so (`./run_tests.sh`,
    `python test_cart.py`, `manage.py test`).
    """
    if not words or not _NO_RUN.isdisjoint(words):
        return False
    program, *arguments = words
    name = program.rpartition("/")[2].lower()
    if name in _TEST_PROGRAMS:
        return True
    plain = [word for word in arguments[:8] if not word.startswith("-")]
    if name in _HAVE_TEST_VERBS:
        verbs = [word for word in plain if word != "run"][:2]
        if name in ("make", "gradle", "gradlew", "mvn", "mvnw"):
            verbs = plain
        return any(_TEST_VERB.fullmatch(word) or word in _TEST_PROGRAMS for word in verbs) or (
            name == "cypress" and plain[:1] == ["run"]
        )
    if _INTERPRETER.fullmatch(name):
        if "-c" in arguments[:4]:
            return False
        modules = [word for before, word in pairwise(arguments[:8]) if before == "-m"]
        if modules:
            return not _TEST_MODULES.isdisjoint(modules)
        script = plain[0].rpartition("/")[2] if plain else ""
        return bool(_TEST_SCRIPT.fullmatch(script)) or (script in ("manage.py", "setup.py") and plain[1:2] == ["test"])
    return "/" in program and bool(_TEST_SCRIPT.fullmatch(name))


def sed_arguments(arguments: Sequence[str]) -> tuple[bool, str, list[str]]:
    """Whether sed changes files in place, its first script, and its files."""
    changes, script, files = False, None, list[str]()
    skip = ""
    for at, word in enumerate(arguments):
        if skip:
            script, skip = script or (word if skip == "-e" else ""), ""
        elif word in ("-e", "-f"):
            skip = word
        elif word.startswith("--"):
            changes = changes or word.startswith("--in-place")
            script = word.partition("=")[2] if word.startswith("--expression=") else script
        elif word.startswith("-") and word != "-":
            changes = changes or "i" in word
            skip = "-e" if word.endswith("e") and "i" not in word else ""
        elif not word and at and "i" in arguments[at - 1]:
            continue  # the empty suffix that macOS wants
        elif script is None:
            script = word
        else:
            files.append(word)
    return changes, script or "", files


def printed_range(script: str) -> tuple[int, int] | None:
    """The lines that a script of sed prints: `10,20p`."""
    found = _RANGE.match(script)
    if not found:
        return None
    first = int(found[1])
    return first, max(first, int(found[2] or first))


def head_range(arguments: Sequence[str]) -> tuple[int, int] | None:
    """The lines that head shows."""
    text = " ".join(arguments[:3])
    if "-c" in text or "--bytes" in text:
        return None
    found = _HEAD.search(text)
    return (1, max(1, int(found[1]))) if found else (1, 10)
