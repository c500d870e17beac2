"""Disarms a git configuration that a command wrote, by turning settings that could run
a program into comments.

Only settings that are known not to run anything are kept, since new versions of git may
add settings that run programs. Some settings are kept only with certain values: an
address can name a program (`ext::sh -c …`) or a repository with hooks, a work tree can
be any folder, and git fetches missing objects from a promisor remote as soon as it
needs them, even in `git status`.

Source: git-config(1); git-remote-ext(1); gitremote-helpers(7); git-fetch(1), "GIT
URLS"; partial-clone in git's technical documentation; `extensions.refStorage`, whose
value may be the address of another folder
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.config_syntax import settings_in
from acp_agent.sandbox.nested import git_directory_of
from acp_agent.sandbox.walk import is_walked

NOTE = b"# acp-agent: "
"""Prefix of a line that used to be a setting."""
_HEADER = re.compile(rb'\[([a-z]+)(?: "[^"\\\x00-\x1f]*")?\]')
_SETTING = re.compile(rb"([a-zA-Z][a-zA-Z0-9-]*) *= *([^\x00-\x08\x0b-\x1f\\]*)")
_SECTIONS: dict[bytes, frozenset[bytes]] = {
    section: frozenset(keys.split())
    for section, keys in {
        b"core": b"""repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks
            autocrlf eol safecrlf sparsecheckout sparsecheckoutcone quotepath longpaths worktree untrackedcache""",
        b"remote": b"url pushurl fetch push mirror prune tagopt promisor partialclonefilter",
        b"branch": b"remote merge rebase description pushremote vscode-merge-base",
        b"submodule": b"url active path branch ignore shallow fetchrecursesubmodules",
        b"extensions": b"objectformat refstorage partialclone worktreeconfig relativeworktrees",
        b"user": b"name email",
        b"commit": b"gpgsign",
        b"tag": b"gpgsign",
        b"init": b"defaultbranch",
        b"pull": b"rebase ff",
        b"push": b"default autosetupremote",
        b"fetch": b"prune",
        b"merge": b"ff conflictstyle",
        b"rerere": b"enabled",
        b"gc": b"auto",
        b"lfs": b"repositoryformatversion",
    }.items()
}
"""Settings that run nothing and read no other file, keyed by section, in lower case."""
_HELPER = re.compile(r"[A-Za-z0-9]+::")
_SCHEME = re.compile(r"([A-Za-z0-9+.-]+)://([^/]*)")
_SCHEMES = ("http", "https", "ssh", "git", "git+ssh", "ssh+git")
"""URL schemes that git handles with its own programs and that lead to another machine.
"""


@frozen
class RepositorySurroundings:
    """The context in which the values of a repository's settings are judged. All paths
    are absolute and resolved.

    :ivar git: the git directory.
    :ivar work_tree: the folder in which git runs. Relative addresses are relative to
        this folder.
    :ivar roots: the session's directories, in which repositories are found and
        disarmed.
    :ivar writable: the folders that commands may write to, including the roots.
    :ivar is_whole: whether the roots were searched completely.
    :ivar may_fetch: whether git may fetch missing objects from other machines on its
        own.
    """

    git: Path
    work_tree: Path
    roots: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    is_whole: bool = True
    may_fetch: bool = False

    def is_address(self, value: str) -> bool:
        """Return whether an address leads neither to a program nor to a repository that
        a command has filled.
        """
        if value.startswith(("-", "~")) or _HELPER.match(value):
            return False
        if scheme := _SCHEME.match(value):
            if scheme[1].lower() != "file":
                return scheme[1].lower() in _SCHEMES and not scheme[2].startswith("-")
            value = value[len("file://") :]
        elif ":" in value.partition("/")[0]:
            return True  # SSH: `host:path`
        places = (
            Path(os.path.realpath(base / value)) for base in (self.work_tree, self.git)
        )
        return bool(value) and all(map(self._is_sound, places))

    def is_remote(self, value: str) -> bool:
        """Return whether a branch's remote, which is a name or an address, is harmless."""
        return (
            self.is_address(value)
            if "/" in value or ":" in value
            else bool(value) and not value.startswith("-")
        )

    def is_work_tree(self, value: str) -> bool:
        """Return whether a folder itself declares that it is the work tree of the git
        directory.
        """
        place = Path(os.path.realpath(self.git / value))
        return git_directory_of(place / ".git") == self.git

    def _is_sound(self, place: Path) -> bool:
        if not any(place.is_relative_to(folder) for folder in self.writable):
            return True
        is_protected = any(place in (root, root / ".git") for root in self.roots)
        return is_protected or (
            self.is_whole and any(is_walked(root, place) for root in self.roots)
        )


_CHECKS: dict[tuple[bytes, bytes], Callable[[RepositorySurroundings, str], bool]] = {
    (b"core", b"worktree"): RepositorySurroundings.is_work_tree,
    (b"remote", b"url"): RepositorySurroundings.is_address,
    (b"remote", b"pushurl"): RepositorySurroundings.is_address,
    (b"submodule", b"url"): RepositorySurroundings.is_address,
    (b"branch", b"remote"): RepositorySurroundings.is_remote,
    (b"branch", b"pushremote"): RepositorySurroundings.is_remote,
    (b"remote", b"promisor"): lambda around, _: around.may_fetch,
    (b"remote", b"partialclonefilter"): lambda around, _: around.may_fetch,
    (b"extensions", b"partialclone"): lambda around, _: around.may_fetch,
    (b"extensions", b"refstorage"): lambda _, value: value in ("files", "reftable"),
}
"""Settings that are kept only with certain values."""


def harmless(
    config: bytes, around: RepositorySurroundings
) -> tuple[bytes, tuple[str, ...]]:
    """Return a git configuration in which settings that may run a program are commented
    out, and a list of these settings.

    :param around: the context in which values are judged.
    """
    lines: list[bytes] = []
    taken: list[str] = []
    section = b""
    for line in config.split(b"\n"):
        plain = line.strip(b" \t\r")
        header = _HEADER.fullmatch(plain.lower())
        setting = _SETTING.fullmatch(plain)
        if header is not None:
            section = header[1] if header[1] in _SECTIONS else b""
            is_kept = bool(section)
        elif setting is not None:
            is_kept = _is_kept(section, setting[1].lower(), setting[2], around)
        else:
            is_kept = not plain or (
                plain[:1] in (b"#", b";") and not plain.endswith(b"\\")
            )
            section = section if is_kept else b""
        lines.append(
            line if is_kept else NOTE + line.replace(b"\r", b" ").rstrip(b"\\ ")
        )
        if not is_kept and header is None:
            taken.append(line.decode(errors="replace").strip())
    return b"\n".join(lines), tuple(taken)


def _is_kept(
    section: bytes, key: bytes, value: bytes, around: RepositorySurroundings
) -> bool:
    if key not in _SECTIONS.get(section, ()):
        return False
    check = _CHECKS.get((section, key))
    if check is None:
        return True
    text = _plain_value(value)
    return text is not None and "\0" not in text and check(around, text)


def _plain_value(value: bytes) -> str | None:
    """Return a value as git reads it; None if git cannot read it."""
    try:
        [(_, read)] = settings_in(b"key = " + value)
    except ValueError:
        return None
    return os.fsdecode(read or b"")
