"""Finds the programs and files that git's settings name by a path: those of a
repository, of the user and of the system.

Git reads `/etc/gitconfig`, two files in the user's home, the repository's own files,
the files that any of these include, and environment variables. It resolves a relative
hooks folder or program against the work tree, so a setting in the user's home can name
a file in every project. A command could write that file, and git would run it with the
user's next commit.

All included files are read, whatever the condition of their inclusion. A command line
is not parsed as a shell would parse it: every word that may name a program or a script
is treated as one. The exceptions are words that name a folder, and the arguments of
programs that run nothing.

Source: git-config(1), "FILES", "Includes" and each setting; git-credential(1); git's
config.c (`handle_path_include`); githooks(5)
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.nofollow import resolved
from acp_agent.regular import TooLargeError, read_regular
from acp_agent.sandbox.config_syntax import settings_in
from acp_agent.sandbox.git_variables import VARIABLES, settings_in_variables
from acp_agent.sandbox.roots import is_repository

_MOST_SETTINGS = 1024 * 1024
"""Maximum size of a settings file in bytes. Settings files are usually a few KiB, and
all of them are read before each command.
"""
_MOST_FILES = 100
"""Maximum number of settings files that are read for one repository."""
_MOST_DEPTH = 5
"""Maximum depth of command lines within command lines, as in `sh -c "…"`."""
_OF_THE_SYSTEM = (
    "/etc/gitconfig",
    "/usr/local/etc/gitconfig",
    "/opt/homebrew/etc/gitconfig",
)
_VARIABLES_OF_FILES = {
    "GIT_CONFIG_SYSTEM": "",
    "GIT_CONFIG_GLOBAL": "",
    "XDG_CONFIG_HOME": "git/config",
}
"""Variables that name a settings file, or a folder with this file."""
_TOP = "$(git rev-parse --show-toplevel)"
"""How command lines often name the top of the work tree."""
_TOP_IN_BACKQUOTES = "`git rev-parse --show-toplevel`"
_MOST_LINKS = 40
"""Maximum number of links that are followed in one path, as in Linux."""
_MOST_WORDS = 500
"""Maximum number of words in a command line that may name programs."""
_MOST_FOLDERS = 8
"""Maximum number of folders in which each of these words is looked up."""
_QUOTES = re.compile(r"[\"']")
_OPERATOR = re.compile(r"[;|&<>()`\n]")
_VARIABLE = re.compile(r"^\$\{?\w*[^}/]{0,40}\}?/")
_BEFORE_FOLDERS = frozenset(("cd", "pushd", "-C", "--chdir", "--directory"))
"""Words that precede the folder in which a program runs."""
_RUNS_NOTHING = frozenset(
    ("rm", "rmdir", "mkdir", "ls", "touch", "chmod", "test", "[", "[[")
)
"""Programs that neither run their arguments nor pass on the files that they name."""
_GIT_RUNS_NOTHING = frozenset(
    (
        "add", "blame", "branch", "checkout", "cherry-pick", "clean", "commit", "describe", "diff", "log", "ls-files",
        "ls-tree", "merge", "mv", "reset", "restore", "rev-list", "rev-parse", "revert", "rm", "shortlog", "show",
        "show-branch", "stash", "status", "switch", "tag", "whatchanged", "worktree",
    )
)  # fmt: skip
"""Git subcommands that do not run their arguments. Options that precede the subcommand
may still name programs.
"""

How: TypeAlias = Literal["include", "hooks", "path", "program", "command", "shell"]
"""The kind of a value: a settings file; a folder of hooks; another file or folder; a
program's path; a command line; or a command line if it starts with `!`.
"""
_SETTINGS: dict[str, dict[str, How]] = {
    "include": {"path": "include"},
    "includeif": {"path": "include"},
    "core": {
        "hookspath": "hooks",
        "attributesfile": "path",
        "fsmonitor": "command",
        "sshcommand": "command",
        "editor": "command",
        "pager": "command",
        "askpass": "command",
        "gitproxy": "command",
        "alternaterefscommand": "command",
    },
    "init": {"templatedir": "path"},
    "sequence": {"editor": "command"},
    "diff": {"external": "command", "command": "command", "textconv": "command"},
    "interactive": {"difffilter": "command"},
    "merge": {"driver": "command"},
    "filter": {"clean": "command", "smudge": "command", "process": "command"},
    "mergetool": {"cmd": "command", "path": "program"},
    "difftool": {"cmd": "command", "path": "program"},
    "browser": {"cmd": "command", "path": "program"},
    "man": {"cmd": "command", "path": "program"},
    "guitool": {"cmd": "command"},
    "gpg": {"program": "program", "defaultkeycommand": "command"},
    "credential": {"helper": "command"},
    "remote": {"uploadpack": "command", "receivepack": "command"},
    "uploadpack": {"packobjectshook": "command"},
    "trailer": {"command": "command", "cmd": "command"},
    "sendemail": {
        "smtpserver": "program",
        "sendmailcmd": "command",
        "tocmd": "command",
        "cccmd": "command",
        "headercmd": "command",
    },
    "tar": {"command": "command"},
    "submodule": {"update": "shell"},
    "hook": {"command": "command"},
    "alias": {"*": "shell"},
    "pager": {"*": "command"},
    "lfs": {"path": "program"},
    "gc": {"recentobjectshook": "command"},
}
"""The settings that name files, keyed by section and last part. `*` matches any last
part.
"""
_BEFORE_PROGRAMS = frozenset(
    (
        "env", "exec", "command", "nice", "time", "sudo", "nohup", "eval", "builtin", "xargs", "!", "{", "}", "if",
        "then", "elif", "else", "while", "until", "do",
    )
)  # fmt: skip
"""Words that may precede a program in a command line."""
_INTERPRETERS = frozenset(
    (
        "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python2", "python3", "pypy", "pypy3", "node", "nodejs",
        "deno", "bun", "ruby", "perl", "php", "lua", "tclsh", "rscript", "source", ".",
    )
)  # fmt: skip
"""Programs that run a script, whose path may have no slash."""
HOOKS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
    "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
    "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
    "p4-post-changelist", "p4-pre-submit", "post-index-change",
)  # fmt: skip
"""Source: githooks(5)"""
_HOOKS_OF_A_PUSH = (
    "pre-receive", "update", "proc-receive", "post-receive", "post-update", "push-to-checkout", "reference-transaction",
)  # fmt: skip
"""Hooks that git runs in the git directory of the repository that is pushed to. For
these hooks, git resolves a relative hooks folder against that directory.
"""


@frozen
class _Named:
    """A value of a setting that names files."""

    how: How
    value: str


def named_in_settings(git: Path, root: Path) -> Iterator[Path]:
    """Yield the paths that git runs or obeys in a root because its settings name them.
    Some may not exist.

    :param git: a directory whose `config` applies to the root.
    :raises TooLargeError: if the settings are too large to be read before each command.
    """
    yield from _named_in((git / "config", git / "config.worktree"), root)


def named_by_the_user(folder: Path) -> Iterator[Path]:
    """Yield the paths that git runs or obeys for a folder because the settings of the
    user or the system name them, and the settings files themselves. Some may not exist.

    :param folder: absolute and resolved. Relative paths are resolved against the top
        of the work tree that contains it.
    :raises TooLargeError: if the settings are too large to be read before each command.
    """
    top = next(filter(is_repository, (folder, *folder.parents)), folder)
    files = [*_files_of_the_user(dict.fromkeys((top, folder)))]
    for file in files:
        # The user may keep a file in a project, and a link to it in the home.
        yield file
        yield from _after_links(file)
    yield from _named_in(files, top)
    for how, value in _in_variables():
        yield from _paths_of(_Named(how, value), top)


def _files_of_the_user(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the settings files of the system and the user. Some may not exist.

    Variables in the agent's environment add files but never remove any, since the
    user's terminal may have other variables.

    :param folders: the folders in which git may run. A relative value of a variable is
        resolved against each of them.
    """
    yield from map(Path, _OF_THE_SYSTEM)
    for variable, below in _VARIABLES_OF_FILES.items():
        if named := os.environ.get(variable, ""):
            for folder in folders:
                yield folder / named / below
    home = Path(_expanded("~"))
    yield home / ".config" / "git" / "config"
    yield home / ".gitconfig"
    for name, value in settings_in_variables():
        if _how(name) == "include":
            for folder in folders:
                yield folder / _expanded(value)


def _in_variables() -> Iterator[tuple[How, str]]:
    """Yield the kind and value of each setting in the environment that names files,
    except for included files.
    """
    for name, value in settings_in_variables():
        how = _how(name)
        if how is not None and how != "include" and value:
            yield how, value
    for name, kind in VARIABLES.items():
        if value := os.environ.get(name, ""):
            yield kind, value


def _named_in(files: Iterable[Path], top: Path) -> Iterator[Path]:
    """Yield the paths that are named in settings files or in files that these include.

    :param top: the folder against which relative paths are resolved. Paths of included
        files are resolved against the folder of the including file.
    """
    waiting = list(files)
    read: set[Path] = set()
    while waiting and len(read) < _MOST_FILES:
        file = waiting.pop()
        if file in read:
            continue
        read.add(file)
        for named in _settings_of(_content(file)):
            if named.how == "include":
                included = _places(file.parent, named.value)
                waiting += included
                yield from included
            else:
                yield from _paths_of(named, top)


def _paths_of(named: _Named, top: Path) -> Iterator[Path]:
    """Yield the paths in the value of a setting."""
    if named.how == "hooks":
        for folder in _places(top, named.value):
            for hook in HOOKS:
                yield folder / hook
                if _is_link(folder / hook):
                    yield from _after_links(folder / hook)
        for folder in _places(top / ".git", named.value):
            yield from (folder / hook for hook in _HOOKS_OF_A_PUSH)
    elif named.how == "path" or (named.how == "program" and "/" in named.value):
        yield from _places(top, named.value)
    elif named.how == "command" or (
        named.how == "shell" and named.value.startswith("!")
    ):
        line = named.value.removeprefix("!")
        for program in _programs_in(line):
            yield from _places(top, program)
        yield from _mentioned_in(line, top)
    elif named.how == "shell":  # a git command line, which may contain `--exec`
        yield from _mentioned_in(f"git {named.value}", top)


def _places(folder: Path, path: str) -> tuple[Path, ...]:
    """Return a path as written, the paths that result as each link on the way is
    resolved, and the path with all links in its parent folder resolved.
    """
    if "\0" in path:
        return ()
    whole = folder / _expanded(path)
    written = Path(os.path.normpath(whole))
    found = dict.fromkeys((written, *_after_links(written)))
    if whole.name != "..":
        found[resolved(whole.parent) / whole.name] = None
    return tuple(found)


def _after_links(path: Path) -> Iterator[Path]:
    """Yield what a path becomes as its links are resolved one by one.

    A command that can replace any link in the chain controls where the path leads.
    """
    for _ in range(_MOST_LINKS):
        link = next(filter(_is_link, (*reversed(path.parents), path)), None)
        if link is None:
            return
        try:
            target = link.parent / os.readlink(link)  # noqa: PTH115 - as text
        except OSError:  # the link has just been replaced
            return
        path = Path(os.path.normpath(target / path.relative_to(link)))
        yield path


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except (OSError, ValueError):  # a name that is too long
        return False


def _expanded(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - `Path` fails without a home


def _programs_in(line: str, depth: int = 0) -> Iterator[str]:
    """Yield the programs and scripts that a command line names by a path."""
    is_expected = True  # whether the next word may be a program
    is_script = False  # whether it is a script, which may have no slash
    is_line = False  # whether it is a command line of its own
    for word in _words(line.replace(_TOP, ".")):
        if not word.strip("();|&<>"):
            is_expected = True
            is_script = is_line = False
        elif not is_expected:
            continue
        elif word.startswith("-"):
            is_line = is_script and not word.startswith("--") and word.endswith("c")
        elif is_line:
            if depth < _MOST_DEPTH:
                yield from _programs_in(word, depth + 1)
            is_expected = False
        elif word.rpartition("/")[2] in _INTERPRETERS:
            if "/" in word:  # the interpreter may be a file of the project
                yield os.path.expandvars(word)
            is_script = True
        elif word not in _BEFORE_PROGRAMS and not _is_assignment(word):
            if is_script or "/" in word:
                yield os.path.expandvars(word)
            is_expected = False


def _mentioned_in(line: str, top: Path) -> Iterator[Path]:
    """Yield the paths that words in a command line may name, if the paths are below the
    top of the work tree and are not folders.
    """
    line = line.replace(_TOP, ".").replace(_TOP_IN_BACKQUOTES, ".")
    commands = [
        *_commands_of(_words(line)),
        *(
            each.split()
            for each in _OPERATOR.split(_QUOTES.sub(" ", line.replace("\\", "")))
        ),
    ]
    folders = _folders_of(commands, top)
    words: dict[str, None] = {}
    for command in commands:
        for word in _arguments(command):
            words.update(dict.fromkeys(_names_in(word)))
    for word in [*words][:_MOST_WORDS]:
        for folder in folders:
            for path in _places(folder, word):
                # A setting such as `sh .` must not close the whole work tree.
                if path != top and path.is_relative_to(top) and not _is_folder(path):
                    yield path


def _commands_of(words: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each command in a line, without the operators."""
    command: list[str] = []
    for word in words:
        if word.strip("();|&<>"):
            command.append(word)
        else:
            yield command
            command = []
    yield command


def _folders_of(commands: Iterable[Sequence[str]], top: Path) -> tuple[Path, ...]:
    """Return the folders in which a command line may look for files: the top of the
    work tree, the folders that `cd` changes to, and other folders that the line names.
    """
    folders = {top: None}
    for command in commands:
        for before, word in zip(("", *command), command, strict=False):
            is_entered = before in _BEFORE_FOLDERS
            for name in _names_in(word):
                for folder in tuple(folders):
                    for inner in _places(folder, name):
                        if len(folders) >= _MOST_FOLDERS:
                            return tuple(folders)
                        if is_entered or _is_folder(inner):
                            folders[inner] = None
    return tuple(folders)


def _arguments(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command that may name programs or scripts."""
    words = [*command]
    while words and (words[0] in _BEFORE_PROGRAMS or _is_assignment(words[0])):
        yield words.pop(0)
    if not words or words[0] in _RUNS_NOTHING:
        return
    is_git = words[0].rpartition("/")[2] == "git"
    is_script = False
    before = ""
    for word in words:
        is_value = before in ("-c", "--config-env")
        if is_git and not is_value and word in _GIT_RUNS_NOTHING:
            return
        if is_git and word != words[0] and not is_value and not word.startswith("-"):
            is_git = before in _BEFORE_FOLDERS
        if before not in _BEFORE_FOLDERS and ("/" in word or is_script):
            yield word
        if word.rpartition("/")[2] in _INTERPRETERS:
            is_script = True
        before = word


def _names_in(word: str) -> Iterator[str]:
    """Yield the paths that a word of a command line may name."""
    expanded = os.path.expandvars(word)
    for each in (expanded, expanded.rpartition("=")[2]):
        if each.startswith("-"):
            yield each[2:]
            yield each[3:]
        else:
            yield each
            # The part before the slash may be a variable or a command's output.
            yield _VARIABLE.sub("", each).lstrip("/")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # an unfinished quote
        return line.replace('"', " ").replace("'", " ").split()


def _is_assignment(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()


@lru_cache(64)
def _settings_of(config: bytes) -> tuple[_Named, ...]:
    """Return the settings of a file that name other files, up to the first syntax
    error, where git stops reading.
    """
    found: list[_Named] = []
    try:
        for name, value in settings_in(config):
            how = _how(os.fsdecode(name))
            if how is not None and value:
                found.append(_Named(how, os.fsdecode(value)))
    except ValueError:
        pass  # git stops there too
    return tuple(found)


def _how(name: str) -> How | None:
    """Return the kind of a setting's value; None if the setting names no file."""
    section, _, rest = name.partition(".")
    keys = _SETTINGS.get(section.lower(), {})
    return keys.get(rest.rpartition(".")[2].lower()) or keys.get("*")


def _content(file: Path) -> bytes:
    """Return the content of a settings file; empty if it cannot be read.

    :raises TooLargeError: if the file has more than `_MOST_SETTINGS` bytes.
    """
    try:
        return read_regular(file, _MOST_SETTINGS)
    except TooLargeError:
        raise
    except (OSError, ValueError):
        return b""
