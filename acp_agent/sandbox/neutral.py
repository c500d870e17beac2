"""Takes the programs out of a repository that a command has made, so that git runs none of them outside of the sandbox.

Nothing is deleted: a setting becomes a comment, and hooks keep their contents in a folder of another name. Which
settings stay is a list of those that are known to run nothing, since git gets new ones that do.

Source: git-config(1); githooks(5)
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from acp_agent.sandbox.roots import line_of

NOTE = b"# acp-agent: "
"""Begins a line of a configuration that was a setting."""
_OFF = ".off"
_MOST_BYTES = 1024 * 1024
_SAMPLE = ".sample"
_HEADER = re.compile(rb'\[([a-z]+)(?: "[^"\\\x00-\x1f]*")?\]')
_SETTING = re.compile(rb"([a-z][a-z0-9-]*) *= *([^\x00-\x08\x0b-\x1f\\]*)")
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
"""Settings that run nothing and read no other file, by section; in lower case."""


def harmless(config: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a configuration of git in which every setting that may run a program is a comment, and those lines."""
    lines: list[bytes] = []
    taken: list[str] = []
    section = b""
    for line in config.split(b"\n"):
        plain = line.strip(b" \t\r").lower()
        header = _HEADER.fullmatch(plain)
        setting = _SETTING.fullmatch(plain)
        if header is not None:
            section = header[1] if header[1] in _SECTIONS else b""
            is_kept = bool(section)
        elif setting is not None:
            is_kept = setting[1] in _SECTIONS.get(section, ())
        else:
            is_kept = not plain or (plain[:1] in (b"#", b";") and not plain.endswith(b"\\"))
            section = section if is_kept else b""
        lines.append(line if is_kept else NOTE + line.replace(b"\r", b" ").rstrip(b"\\ "))
        if not is_kept and header is None:
            taken.append(line.decode(errors="replace").strip())
    return b"\n".join(lines), tuple(taken)


def neutralise(git: Path, writable: Sequence[Path]) -> tuple[str, ...]:
    """Take the programs out of a git directory, and return what was changed, as texts for the user.

    :param git: absolute and resolved.
    :param writable: folders that commands may write; a directory that is in none of them by now is left alone.
    """
    done: list[str] = []
    with suppress(OSError), _opened(git, writable) as folder:
        for name in ("config", "config.worktree"):
            done += _close_config(git, folder, name)
        done += _close_hooks(git, folder)
    return tuple(done)


def common_directory(git: Path) -> Path:
    """Return the directory whose settings and hooks count for a git directory; usually the same."""
    try:
        return (git / line_of(git / "commondir")).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return git


@contextmanager
def _opened(git: Path, writable: Sequence[Path]) -> Generator[int]:
    folder = os.open(git, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        described = Path(f"/proc/self/fd/{folder}")
        real = described.readlink() if described.exists() else git
        if any(real.is_relative_to(each) for each in writable):
            yield folder
        else:
            raise NotADirectoryError(str(real))
    finally:
        os.close(folder)


def _close_config(git: Path, folder: int, name: str) -> Iterator[str]:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:  # a link, which git would follow
        yield f"{git / name} was a link, and is called {_set_aside(folder, name)} now"
        return
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            yield f"{git / name} is no ordinary file, and is called {_set_aside(folder, name)} now"
            return
        text, taken = harmless(opened.read(_MOST_BYTES + 1))
    if not taken:
        return
    temporary = f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, stat.S_IMODE(status.st_mode) | 0o600, dir_fd=folder), "wb") as made:
        made.write(text)
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    yield f"these lines of {git / name} are comments now: {', '.join(taken)}"


def _close_hooks(git: Path, folder: int) -> Iterator[str]:
    try:
        hooks = os.open("hooks", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:  # a link, which git would follow
        yield f"{git / 'hooks'} was a link, and is called {_set_aside(folder, 'hooks')} now"
        return
    try:
        entries = os.listdir(hooks)  # noqa: PTH208 - a descriptor
        names = [name for name in entries if not name.endswith(_SAMPLE) and _may_run(name, hooks)]
    finally:
        os.close(hooks)
    if names:
        yield f"{git / 'hooks'} is called {_set_aside(folder, 'hooks')} now, since it has {', '.join(sorted(names))}"


def _may_run(name: str, folder: int) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.S_ISLNK(found.st_mode) or bool(found.st_mode & 0o111 and stat.S_ISREG(found.st_mode))


def _set_aside(folder: int, name: str) -> str:
    new = name + _OFF
    while True:
        try:
            os.stat(new, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
            return new
        new = f"{name}.{os.urandom(4).hex()}{_OFF}"
