"""`StateFile`: a small JSON file in the agent's home that several processes read and
change.

It contains a version and, under one key, named mappings of strings. Changes are made
under a lock, and each write is atomic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from acp_agent.config.home import ensure_private_dir
from acp_agent.errors import ConfigError

Entries: TypeAlias = dict[str, dict[str, str]]


class StateFile:
    """Reads and updates one file.

    :param path: path of the file, in the folder of all state.
    :param key: the key that contains the entries.
    :param advice: continues the error message after "so": the consequence if the file
        cannot be used, and what the user should do.
    :param version: the `version` to write. Earlier versions can also be read.
    """

    def __init__(self, path: Path, key: str, advice: str, version: int = 1) -> None:
        self.path = path
        self._key = key
        self._advice = advice
        self._version = version

    def read(self) -> Entries:
        """Return the entries, or nothing if there is no file.

        :raises ConfigError: if the file is unreadable or invalid.
        """
        try:
            match json.loads(self.path.read_bytes().decode()):
                case {"version": int(version), self._key: entries} if (
                    0 < version <= self._version
                ):
                    return _texts(entries)
                case _:
                    raise ValueError(
                        f"it is not a JSON object of version {self._version} with `{self._key}`"
                    )
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror or error})") from error
        except (ValueError, RecursionError) as error:
            raise self._error(f"is invalid ({error})") from error

    @contextmanager
    def update(self) -> Generator[Entries]:
        """Yield the entries so that the caller can change them in place, and write them
        when the block ends. Empty entries are removed. Other processes wait until the
        block has ended.

        :raises ConfigError: see `read`; also if the file cannot be written.
        """
        import fcntl

        try:
            descriptor = os.open(
                ensure_private_dir(self.path.parent), os.O_RDONLY | os.O_CLOEXEC
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                entries = self.read()
                yield entries
                content = {
                    name: entry for name, entry in sorted(entries.items()) if entry
                }
                with atomic_write(self.path) as file:
                    file.write(
                        json.dumps(
                            {"version": self._version, self._key: content}, indent=2
                        ).encode()
                        + b"\n"
                    )
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._error(
                f"cannot be written ({error.strerror or error})"
            ) from error

    def _error(self, message: str) -> ConfigError:
        return ConfigError(f"{message}, so {self._advice}", source=str(self.path))


def file_signature(path: Path) -> tuple[int, ...]:
    """Return a value that changes when a file changes; empty if there is no file. This
    does not read the file.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    # A change may restore the old st_mtime_ns, but not st_ctime_ns.
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _texts(entries: object) -> Entries:
    """Return the strings of each entry. Entries from version 0.1.0 have other values
    too.
    """
    mappings = (
        cast("dict[str, object]", entries) if isinstance(entries, dict) else {"": None}
    )
    found: Entries = {}
    for name, entry in mappings.items():
        if not isinstance(entry, dict):
            raise ValueError("an entry is not a JSON object")
        values = cast("dict[str, object]", entry).items()
        found[name] = {key: value for key, value in values if isinstance(value, str)}
    return found


@contextmanager
def atomic_write(
    path: Path, mode: int = 0o600, folder: int | None = None
) -> Generator[BinaryIO]:
    """Yield a temporary file that replaces `path` when the block succeeds, so that
    `path` is never missing or half written.

    :param mode: permissions of the new file, before the umask; by default only the user
        has access.
    :param folder: descriptor of the folder that a relative `path` is relative to.
    :raises OSError: if the file cannot be written.
    """
    temporary = path.with_name(f".{os.urandom(16).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
