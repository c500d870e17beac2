"""`Policy`: what a command may read, write and reach in the sandbox, and the paths that are closed to it by default."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

from acp_agent.frozen import frozen
from acp_agent.regular import read_regular

READ_DENIED = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".colima", ".lima", ".rd", ".netrc", ".git-credentials",
    ".config/git/credentials", ".pypirc", ".config/gh", ".config/gcloud", ".config/op", ".password-store",
    ".vault-token", ".local/share/keyrings", ".local/share/kwalletd", ".mozilla", ".config/mozilla", "snap/firefox",
    "snap/chromium", ".var/app", ".config/google-chrome", ".config/vivaldi", ".config/opera", ".config/chromium",
    ".config/BraveSoftware", ".config/microsoft-edge", ".claude", ".claude.json", ".codex", ".cursor", ".gemini",
    ".qwen", ".copilot", ".config/github-copilot", ".config/goose", ".config/opencode", ".local/share/opencode",
    ".config/amp", ".local/share/amp", ".continue", ".config/aider", ".aider", ".cache/git/credential",
    ".config/glab-cli", ".config/hub", ".config/rclone", ".terraform.d", ".pgpass", ".cargo/credentials.toml",
    ".librewolf", ".thunderbird", ".local/share/acp-agent", "Library/Keychains", "Library/Safari",
    "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
)  # fmt: skip
"""In the user's home: keys, keyrings, browser profiles, folders of agents, and sockets of virtual machines."""
CACHES = (".cache", ".npm", ".cargo/registry")
"""In the user's home: what commands may write."""
_PROTECTED = (".acp-agent", ".claude", ".vscode", ".zed", ".idea", ".envrc")
"""In a root. Where one is missing its placeholder is a folder, also for `.envrc`, since git does not see empty ones."""
_GIT_FILES = {"config": "", "config.worktree": "", "commondir": "./\n"}
"""With the text of their placeholders: git reads hooks and settings from the directory that `commondir` names. Of a
plain `.` libgit2 says that there is no repository."""

_ENDING_SECONDS = 1.0
_POLL_SECONDS = 0.01

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

        A mount point that is removed uncovers what was mounted there. So they stay while another agent runs a command
        here, and until no process has them, such as one of a command that was killed; what is left after a second goes
        with the next command.
        """
        made: list[Path] = []
        with ExitStack() as locks:
            for root in self.roots:
                locks.enter_context(_locked(root, fcntl.LOCK_SH))
            try:
                for root in self.roots:
                    made.extend(_make_missing(root))
                yield
            finally:
                with _holding:
                    for path in made:
                        _held[path] -= 1
        end = time.monotonic() + _ENDING_SECONDS
        for root in self.roots:
            with suppress(BlockingIOError), _locked(root, fcntl.LOCK_EX | fcntl.LOCK_NB):
                while _remove_unused(root) and time.monotonic() < end:
                    time.sleep(_POLL_SECONDS)


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
    for folder in _git_directories(root):
        yield folder / "hooks"
    is_below = any((folder / ".git").exists() for folder in root.parents)
    if not is_below and not (root / ".git").is_file() and not any((root / ".git").glob("*")):
        yield root / ".git"  # else a command could make a repository with hooks


def _files_of(root: Path) -> Iterator[Path]:
    for folder in _git_directories(root):
        yield from (folder / name for name in _GIT_FILES)
        for worktree in _folders_in(folder / "worktrees"):
            yield from (worktree / name for name in ("config.worktree", "commondir"))
    if (root / ".git").is_file():
        yield root / ".git"  # a worktree's or submodule's: it names the real directory


def _git_directories(root: Path) -> Iterator[Path]:
    """Yield the git directories in a root: its repository's, which a `.git` file may name, and those of submodules.

    A command cannot hide one from the next, since each and its `config` are mounted by themselves.
    """
    git = root / ".git"
    places = [git]
    if git.is_file():
        named = root / _line(git).removeprefix("gitdir:").strip()
        places = [named, named / _line(named / "commondir")]
    for place in dict.fromkeys(Path(os.path.normpath(each)) for each in places):
        if any(place.glob("*")) and place != root and place.is_relative_to(root):
            yield place
            yield from _submodules(place / "modules")


def _submodules(modules: Path) -> Iterator[Path]:
    for folder in _folders_in(modules):
        if (folder / "config").is_file():
            yield folder
            yield from _submodules(folder / "modules")
        else:
            yield from _submodules(folder)  # a slash in its name


def _folders_in(folder: Path) -> list[Path]:
    try:
        found = () if folder.is_symlink() else os.scandir(folder)
        return sorted(Path(each) for each in found if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _line(file: Path) -> str:
    try:
        return read_regular(file).decode(errors="surrogateescape").strip()
    except (OSError, ValueError):
        return ""


def _make_missing(root: Path) -> Iterator[Path]:
    """Make what is missing of the protected paths, and count those that are placeholders, also those that an agent has
    left which was killed."""
    with _holding:
        for make, paths in ((Path.mkdir, _folders_of(root)), (_touch, _files_of(root))):
            for path in list(paths):
                try:
                    if not os.path.lexists(path):
                        make(path)
                        path.chmod(path.stat().st_mode | stat.S_ISVTX)
                    elif path not in _held and not _is_left(path):
                        continue
                except OSError:  # the folder cannot be written, by a command neither
                    continue
                _held[path] = _held.get(path, 0) + 1
                yield path


def _touch(path: Path) -> None:
    with path.open("x") as file:
        file.write(_GIT_FILES.get(path.name, ""))


def _is_left(path: Path) -> bool:
    """Return whether a path is a placeholder, which nothing else has the sticky bit that is empty."""
    return bool(path.lstat().st_mode & stat.S_ISVTX) and _is_empty(path)


def _is_empty(path: Path) -> bool:
    found, text = path.lstat(), _GIT_FILES.get(path.name, "").encode()
    if stat.S_ISDIR(found.st_mode):
        return not any(path.iterdir())
    return stat.S_ISREG(found.st_mode) and found.st_size == len(text) and path.read_bytes() == text


@contextmanager
def _locked(folder: Path, how: int) -> Generator[None]:
    """Hold a lock on a folder during the body, which ends with the process at the latest.

    :param how: of `fcntl.flock`.
    :raises BlockingIOError: another process has it, and `how` does not wait.
    """
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, how)
        yield
    finally:
        os.close(file)


def _remove_unused(root: Path) -> bool:
    """Remove the placeholders that no command needs; return whether some are covered in a process that still ends."""
    with _holding:
        unused = [path for path, count in _held.items() if not count and path.is_relative_to(root)]
        mounts = _other_mounts() if unused else ""
        if mounts is None:
            return True
        for path in reversed(unused):
            if f" {_escaped(path)} " not in mounts:
                del _held[path]
                with suppress(OSError):  # it has gone
                    if not _is_empty(path):
                        path.chmod(path.lstat().st_mode & ~stat.S_ISVTX)  # it is another's by now
                    elif path.is_dir():
                        path.rmdir()
                    else:
                        path.unlink()
    return any(path in _held for path in unused)


def _other_mounts() -> str | None:
    """Return what is mounted in other mount namespaces than the agent's; None while a process ends, which does not tell
    its own any more and may still write."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            with suppress(PermissionError):
                if (process / "ns" / "mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
                    continue
            found.append((process / "mountinfo").read_text(errors="surrogateescape"))
        except OSError:
            with suppress(OSError):  # it has gone
                if (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX":
                    return None
    return "\n".join(found)


def _escaped(path: Path) -> str:
    """Return a path in the form of proc_pid_mountinfo(5)."""
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", str(path))
