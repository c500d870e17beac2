"""`StateFile`: one small JSON file in the agent's home, which several processes read and change.

Knows what every such file needs: a version, a limit of its size, one who changes it at a time, and a replacement
that is whole or not there at all. What stands in it is its owner's business.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar, cast

from acp_agent.config.home import ensure_private_dir
from acp_agent.errors import ConfigError

MAX_BYTES = 4 * 1024 * 1024

T = TypeVar("T")


class StateFile(Generic[T]):
    """:param path: in the folder of all state.
    :param version: what its `version` has to be.
    :param load: makes the content of the JSON object; raises `ValueError` where it is none of ours.
    :param dump: makes the JSON object of the content, without the version.
    :param advice: what it means for the user that it cannot be used, and what to do; behind "so that".
    """

    def __init__(
        self,
        path: Path,
        version: int,
        load: Callable[[dict[str, object]], T],
        dump: Callable[[T], dict[str, object]],
        advice: str,
    ) -> None:
        self.path = path
        self._version = version
        self._load = load
        self._dump = dump
        self._advice = advice

    def read(self) -> T:
        """Its content; that of an empty object where there is no file.

        :raises ConfigError: it cannot be understood.
        """
        try:
            if self.path.stat().st_size > MAX_BYTES:
                raise self._error("is too large to be ours")
            text = self.path.read_bytes().decode()
        except FileNotFoundError:
            return self._load({})
        except UnicodeDecodeError as error:
            raise self._error("is not UTF-8 text") from error
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror or error})") from error
        try:
            return self._load(self._object(text))
        except (ValueError, RecursionError) as error:
            raise self._error(f"cannot be understood ({error})") from error

    def signature(self) -> tuple[int, ...]:
        """What is another one when the file was changed; empty where there is none. Touches the disk, but little."""
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

    @contextmanager
    def changing(self) -> Generator[T]:
        """Read, change and write with nobody in between. The content is to be changed in place.

        :raises ConfigError: see `read`; or the file cannot be written.
        """
        import fcntl

        try:
            descriptor = os.open(ensure_private_dir(self.path.parent), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                content = self.read()
                yield content
                self._write(content)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._error(f"cannot be written ({error.strerror or error})") from error

    def _write(self, content: T) -> None:
        with replacing(self.path) as file:
            file.write(json.dumps({"version": self._version, **self._dump(content)}, indent=2).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _object(self, text: str) -> dict[str, object]:
        document = cast("object", json.loads(text))
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object")
        said = cast("dict[str, object]", document)
        if said.get("version") != self._version:
            raise ValueError(f"its version is not {self._version}")
        return said

    def _error(self, message: str) -> ConfigError:
        return ConfigError(f"{message}, so that {self._advice}", source=str(self.path))


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """What is written takes a file's place as a whole, or not at all; for the user alone, as long as its mode is not
    changed meanwhile.

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
