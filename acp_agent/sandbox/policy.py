"""`Policy`: what a command may read, write and reach in the sandbox, and the paths that are closed to it by default."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from acp_agent.frozen import frozen

READ_DENIED = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".colima", ".lima", ".rd", ".netrc", ".git-credentials",
    ".config/git/credentials", ".pypirc", ".config/gh", ".config/gcloud", ".config/op", ".password-store",
    ".vault-token", ".local/share/keyrings", ".local/share/kwalletd", ".mozilla", ".config/mozilla", "snap/firefox",
    "snap/chromium", ".var/app", ".config/google-chrome", ".config/vivaldi", ".config/opera",
    ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".claude", ".claude.json", ".codex",
    ".cursor", ".gemini", ".qwen", ".copilot", ".config/github-copilot", ".config/goose", ".config/opencode",
    ".local/share/opencode", "Library/Keychains", "Library/Safari", "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
)  # fmt: skip
"""In the user's home: keys, keyrings, browser profiles, folders of other agents, and sockets of virtual machines."""
CACHES = (".cache", ".npm", ".cargo/registry")
"""In the user's home: what commands may write."""
_PROTECTED = (".acp-agent", ".claude", ".vscode", ".zed", ".idea", ".envrc")
"""In a root. Where one is missing its placeholder is a folder, also for `.envrc`, since git does not see empty ones."""
_GIT_FOLDERS = ("hooks",)
_GIT_FILES = {"config": "", "config.worktree": "", "commondir": ".\n"}
"""With the text of their placeholders: git reads hooks and settings from the directory that `commondir` names."""

_held: dict[Path, int] = {}
"""Placeholders, and how many commands of this process need them."""
_holding = Lock()


@frozen
class Policy:
    """What a command may do. All paths are absolute and resolved.

    :ivar roots: the session's directories, which it may write but for `protected`.
    :ivar write: further folders that it may write.
    :ivar read_deny: files and folders that it may not read.
    :ivar network: whether it reaches the network; else nothing but its own 127.0.0.1.
    """

    roots: tuple[Path, ...]
    write: tuple[Path, ...]
    read_deny: tuple[Path, ...]
    network: bool = False

    @classmethod
    def of(
        cls,
        roots: Sequence[Path],
        private: Iterable[Path],
        write: Iterable[str],
        read_deny: Iterable[str],
        *,
        network: bool = False,
    ) -> Policy:
        """Return the policy of a session's commands.

        :param private: the agent's own folders, which commands may not read.
        :param roots: the session's directories; relative paths begin at the first.
        :param write: further folders, as the user names them, `~` included.
        :param read_deny: further files and folders, likewise.
        """
        home, (first, *_) = Path.home(), roots
        named_denied = (first / Path(each).expanduser() for each in read_deny)
        named_writable = (first / Path(each).expanduser() for each in write)
        writable = (*(home / each for each in CACHES), *named_writable)
        real_roots, real_writable = _without_planted_links(roots, writable)
        return cls(
            real_roots,
            real_writable,
            tuple(_existing((*(home / each for each in READ_DENIED), *named_denied, *private))),
            network,
        )

    @property
    def protected(self) -> tuple[Path, ...]:
        """Return what a command may not write in the roots, since other programs run it or what it names; some of it
        may not exist."""
        return tuple(path for root in self.roots for path in (*_folders_of(root), *_files_of(root)))

    @property
    def holders(self) -> tuple[Path, ...]:
        """Return the folders in writable ones that hold what is protected or denied: moved away, they would take it
        along, and another could be made in their place."""
        writable, closed = {*self.write, *self.roots}, {*self.protected, *self.read_deny}
        found: list[Path] = []
        for folder in {parent for path in closed for parent in path.parents} - closed:
            nearest = next((each for each in folder.parents if each in writable or each in closed), None)
            if nearest in writable:
                found.append(folder)
        return tuple(found)

    @property
    def unprotectable(self) -> Path | None:
        """Return a protected path or its holder that is a symbolic link, so that it cannot be protected from being
        replaced."""
        return next((path for path in (*self.protected, *self.holders) if path.is_symlink()), None)

    @contextmanager
    def placeholders(self) -> Generator[None]:
        """Let every protected path exist during the body, so that it can be covered; remove the placeholders behind it.

        Another process that removes one of them at the same time uncovers it for the rest of this command.
        """
        made = [path for root in self.roots for path in _make_missing(root)]
        try:
            yield
        finally:
            with _holding:
                for path in reversed(made):
                    _held[path] -= 1
                    if not _held[path]:
                        del _held[path]
                        _remove_placeholder(path)


def search_path(writable: Iterable[Path]) -> str:
    """Return PATH without these folders, where a command could have put a program for the agent to run."""
    folders = tuple(writable)
    places = (Path(each) for each in os.environ.get("PATH", os.defpath).split(os.pathsep))
    real = ((place, place.resolve()) for place in places if place.is_absolute())
    return os.pathsep.join(
        str(place) for place, found in real if not any(found.is_relative_to(each) for each in folders)
    )


def _without_planted_links(*groups: Iterable[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the real paths of each group but of links in a folder that commands may write: one could have made them."""
    real = [[(path, found) for path in group for found in _existing((path,))] for group in groups]
    folders = [found for group in real for _, found in group]
    for group in real:
        yield tuple(
            found
            for path, found in group
            if not any(folder in path.parents and not found.is_relative_to(folder) for folder in folders)
        )


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        with suppress(OSError, RuntimeError):  # a loop of links
            yield path.resolve(strict=True)


def _folders_of(root: Path) -> Iterator[Path]:
    for name in _PROTECTED:
        yield root / name
    if _is_repository(root):
        for folder in _git_directories(root / ".git"):
            yield from (folder / name for name in _GIT_FOLDERS)
    elif not (root / ".git").is_file():
        yield root / ".git"  # else a command could make a repository with hooks


def _files_of(root: Path) -> Iterator[Path]:
    if _is_repository(root):
        for folder in _git_directories(root / ".git"):
            yield from (folder / name for name in _GIT_FILES)
        yield from (root / ".git" / "worktrees").glob("*/commondir")
    elif (root / ".git").is_file():
        yield root / ".git"  # a worktree's or submodule's: it names the real directory


def _is_repository(root: Path) -> bool:
    """Return whether a folder holds the directory of a git repository."""
    return (root / ".git" / "HEAD").is_file()


def _git_directories(git: Path) -> Iterator[Path]:
    """Yield a repository's directory and those of its submodules."""
    yield git
    for head in sorted((git / "modules").rglob("HEAD")) if (git / "modules").is_dir() else ():
        if (head.parent / "objects").is_dir():
            yield head.parent


def _make_missing(root: Path) -> Iterator[Path]:
    """Make what is missing of the protected paths, and count those that are placeholders."""
    with _holding:
        for make, paths in ((Path.mkdir, _folders_of(root)), (_touch, _files_of(root))):
            for path in list(paths):
                if path in _held:
                    _held[path] += 1
                    yield path
                    continue
                with suppress(OSError):  # it is there; or the folder cannot be written, by a command neither
                    make(path)
                    _held[path] = 1
                    yield path


def _touch(path: Path) -> None:
    with path.open("x") as file:
        file.write(_GIT_FILES.get(path.name, ""))


def _remove_placeholder(path: Path) -> None:
    with suppress(OSError, ValueError):  # it belongs to another by now: not empty, or gone
        if path.is_dir():
            path.rmdir()
        elif path.read_text() == _GIT_FILES.get(path.name, ""):
            path.unlink()
