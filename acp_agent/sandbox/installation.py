"""The agent's own installation: the places that its code is loaded from, now and at its
next start.

The installation may be in a place that commands can write to: in a virtual environment
of the project, in the cache from which `uvx` runs programs, or, as an editable
installation, in the project itself. Its files may also have other names: uv creates
hard links from its cache into every environment, so changing a file in one environment
changes it in all.

Source: Python, `site` and "sys.path"; PEP 405; uv's documentation, "Caching" and
`--link-mode`
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from acp_agent.module_path import editable_places

_OF_AN_ENVIRONMENT = ("bin", "lib", "lib64", "pyvenv.cfg")
"""The parts of an environment from which code is loaded, or that name its interpreter.
"""
_PACKAGE = str(Path(__file__).parent.parent)
_OF_UV = ("archive-v", "environments-v")
_SITE = ("site-packages", "dist-packages")


def installed_in(writable: Iterable[Path]) -> tuple[Path, ...]:
    """Return the installation's files and folders that are in folders that commands may
    write to.

    If an environment contains such a folder, for example because the session's
    directory is the environment itself, the environment's parts are returned instead.

    :param writable: absolute and resolved.
    :returns: paths, none of which is inside another.
    """
    folders = tuple(writable)
    found: set[Path] = set()
    for place in _places():
        parts = (place,)
        if any(folder.is_relative_to(place) for folder in folders):
            parts = (
                tuple(place / name for name in _OF_AN_ENVIRONMENT)
                if (place / _OF_AN_ENVIRONMENT[-1]).exists()
                else ()
            )
        for part in parts:
            is_within = any(part.is_relative_to(folder) for folder in folders)
            if (
                is_within
                and part.exists()
                and not any(folder.is_relative_to(part) for folder in folders)
            ):
                found.add(part)
    found = {
        each for each in found if not (each.is_symlink() and found & {each.resolve()})
    }
    return tuple(sorted(each for each in found if found.isdisjoint(each.parents)))


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to the installation, or would if it existed.

    :param path: absolute and resolved.
    """
    parts = {
        part
        for place in _places()
        for part in (place, *(place / name for name in _OF_AN_ENVIRONMENT))
    }
    return not (parts - _environments()).isdisjoint((path, *path.parents))


def _environments() -> set[Path]:
    """Return the folders of the interpreters, which may also contain a project."""
    return {
        Path(each).resolve() for each in (sys.prefix, sys.exec_prefix, sys.base_prefix)
    }


def variables_of_commands() -> dict[str, str]:
    """Return environment variables that let commands work without the closed parts of
    the installation.

    If the agent runs from uv's cache, as with `uvx`, its folders there are mounts, and
    uv cannot move a file between mounts. So uv uses another cache in commands. If
    PYTHONPYCACHEPREFIX names a folder for bytecode, commands use another folder, since
    the agent loads its own bytecode from there.
    """
    variables: dict[str, str] = {}
    if sys.pycache_prefix:
        variables["PYTHONPYCACHEPREFIX"] = (
            f"{sys.pycache_prefix.rstrip('/')}-of-commands"
        )
    for folder in Path(sys.prefix).resolve().parents:
        if folder.name.startswith(_OF_UV):
            variables["UV_CACHE_DIR"] = str(
                folder.parent.with_name(f"{folder.parent.name}-of-commands")
            )
            break
    return variables


@cache
def _places() -> tuple[Path, ...]:
    """Return the installation's locations, both as named and with links resolved."""
    named = [
        sys.prefix,
        sys.exec_prefix,
        sys.base_prefix,
        sys.argv[0],
        _PACKAGE,
        *editable_places(),
    ]
    if sys.pycache_prefix:
        # As long as there is no bytecode, a command could create the folder.
        with suppress(OSError):
            os.makedirs(sys.pycache_prefix, exist_ok=True)  # noqa: PTH103 - a text
        named += (
            sys.pycache_prefix,
            *(f"{sys.pycache_prefix}{each}" for each in (*named, *sys.path)),
        )
    found: dict[Path, None] = {}
    for place in map(Path, (*named, *sys.path)):
        if place.is_absolute() and place != place.parent:
            with suppress(OSError, RuntimeError):  # a loop of links
                found[place.parent.resolve() / place.name] = None
                found[place.resolve()] = None
    return tuple(found)


@cache
def unshare_installation() -> str:
    """Replace the installation's files that have other names elsewhere with copies.
    This is done once per process.

    :returns: why this failed; empty if it succeeded or was not necessary.
    """
    searched = [each for each in sys.path if Path(each).name in _SITE]
    for folder in {Path(each).resolve() for each in (*searched, _PACKAGE)}:
        if not any(map(_is_shared, _samples(folder))):
            continue
        try:
            for file in _files(folder):
                if _is_shared(file):
                    _copy_in_place(file)
        except OSError as error:
            return (
                f"Files of the agent in {folder} are hard links, which a command could change under another name,"
                f" and they cannot be copied ({error.strerror}). Reinstall the agent with `--link-mode copy`."
            )
    return ""


def _samples(folder: Path) -> Iterator[Path]:
    """Yield one file of each package in a folder. Installers link either all files of a
    package or none.
    """
    for entry in folder.iterdir():
        if entry.is_dir():
            yield entry / "__init__.py"
        else:
            yield entry


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield Path(place, name)


def _is_shared(file: Path) -> bool:
    """Return whether a file has another name through which this user could change it."""
    try:
        found = file.lstat()
    except OSError:
        return False
    is_ours = found.st_uid == os.geteuid() or os.access(file, os.W_OK)
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and is_ours


def _copy_in_place(file: Path) -> None:
    """Replace a file with a copy of itself. Processes that have the file open keep the
    old one.
    """
    copy = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        shutil.copy2(file, copy)
        copy.replace(file)
    finally:
        copy.unlink(missing_ok=True)
