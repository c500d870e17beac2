"""`StateFile`: one small JSON file in the agent's home, which several processes read and change.

It has a version and a size limit. Changes are made under a lock, and each write is atomic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar, cast

from acp_agent.config.home import ensure_private_dir
from acp_agent.errors import ConfigError

MAX_BYTES = 4 * 1024 * 1024

T = TypeVar("T")


class StateFile(Generic[T]):
    """One file, and how its content is made of the JSON object.

    :param path: in the folder of all state.
    :param version: what is written as its `version`.
    :param load: makes the content of the JSON object, which is empty where there is no file; raises `ValueError` where
        it is none of ours.
    :param dump: makes the JSON object of the content, without the version.
    :param advice: what it means for the user that the file cannot be used, and what to do; behind "so that".
    :param older: further versions that `load` knows.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        load: Callable[[Mapping[str, object]], T],
        dump: Callable[[T], dict[str, object]],
        advice: str,
        older: tuple[int, ...] = (),
    ) -> None:
        self.path = path
        self._version = version
        self._known = (version, *older)
        self._load = load
        self._dump = dump
        self._advice = advice

    def read(self) -> T:
        """Return its content; that of an empty object where there is no file.

        :raises ConfigError: it cannot be understood.
        """
        try:
            if self.path.stat().st_size > MAX_BYTES:
                raise self._error("is too large to be ours")
            said: object = json.loads(self.path.read_bytes().decode())
            if not isinstance(said, dict) or cast("dict[str, object]", said).get("version") not in self._known:
                raise ValueError(f"it is no JSON object of version {self._version}")
            return self._load(cast("dict[str, object]", said))
        except FileNotFoundError:
            return self._load({})
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror or error})") from error
        except (ValueError, RecursionError) as error:
            raise self._error(f"cannot be understood ({error})") from error

    def signature(self) -> tuple[int, ...]:
        """Return a value that differs when the file has changed; empty if there is no file. Stats the file."""
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

    @contextmanager
    def update(self) -> Generator[T]:
        """Read, change and write under a lock. The content is to be changed in place.

        :raises ConfigError: see `read`; or the file cannot be written.
        """
        import fcntl

        try:
            descriptor = os.open(ensure_private_dir(self.path.parent), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                content = self.read()
                yield content
                text = json.dumps({"version": self._version, **self._dump(content)}, indent=2)
                with atomic_write(self.path) as file:
                    file.write(text.encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._error(f"cannot be written ({error.strerror or error})") from error

    def _error(self, message: str) -> ConfigError:
        return ConfigError(f"{message}, so that {self._advice}", source=str(self.path))


def member(said: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the mapping that a file's content has under a name; an empty one where there is no file yet.

    :raises ValueError: there is none.
    """
    found = said.get(name, None if said else {})
    if not isinstance(found, dict):
        raise ValueError(f"it has no `{name}`")
    return cast("dict[str, object]", found)


@contextmanager
def atomic_write(path: Path) -> Generator[BinaryIO]:
    """Yield a temporary file that replaces `path` when the block succeeds; it is readable by the user alone.

    :raises OSError: it cannot be written.
    """
    import tempfile

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
