"""`TrustStore`: which folders with hooks and recipes the user has allowed to run, and in which state.

One small file in the agent's home. What stands in it is a folder and the digest of what was in it, so that another
content is another question. A file that cannot be understood allows nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from acp_agent.config.brought import Brought
from acp_agent.config.home import ensure_private_dir
from acp_agent.errors import ConfigError

TRUST_FILE = "trust.json"
MAX_BYTES = 4 * 1024 * 1024

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trusted:
    """What was allowed for one folder.

    :ivar digest: see `Brought.digest`.
    :ivar since: when, as in ISO 8601, in UTC.
    """

    digest: str
    since: str


class TrustStore:
    """:param home: the folder of all state."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.path = home / TRUST_FILE

    def read(self) -> Mapping[str, Trusted]:
        """What is allowed, by folder, with the project's path resolved.

        :raises ConfigError: the file cannot be understood.
        """
        try:
            if self.path.stat().st_size > MAX_BYTES:
                raise self._error("is too large to be ours")
            text = self.path.read_bytes().decode()
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError as error:
            raise self._error("is not UTF-8 text") from error
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror or error})") from error
        try:
            return _parsed(text)
        except (ValueError, RecursionError) as error:
            raise self._error(f"cannot be understood ({error})") from error

    def trusts(self, brought: Brought) -> bool:
        """Whether this was allowed just as it is.

        :raises ConfigError: see `read`.
        """
        trusted = self.find(brought.place)
        return trusted is not None and not brought.problem and trusted.digest == brought.digest

    def find(self, place: Path) -> Trusted | None:
        """What was allowed for a folder, in whatever state it was then.

        :raises ConfigError: see `read`.
        """
        return self.read().get(_key(place))

    def trust(self, brought: Iterable[Brought]) -> None:
        """Allow this as it is, and nothing else in its folders.

        :raises ConfigError: see `read`; or the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._changing() as trusted:
            trusted.update({_key(each.place): Trusted(each.digest, now) for each in brought})

    def revoke(self, project: Path, places: Iterable[Path] = ()) -> tuple[str, ...]:
        """Allow nothing any more of a project.

        :param project: its folder; what was allowed of it is found although it is gone.
        :param places: further folders that were allowed.
        :returns: what had been allowed.
        :raises ConfigError: see `trust`.
        """
        above, keys = project.resolve(), {_key(place) for place in places}
        with self._changing() as trusted:
            revoked = [key for key in trusted if key in keys or above in (Path(key), Path(key).parent)]
            for key in revoked:
                del trusted[key]
        return tuple(revoked)

    @contextmanager
    def _changing(self) -> Generator[dict[str, Trusted]]:
        """Read, change and write with nobody in between."""
        import fcntl

        try:
            descriptor = os.open(ensure_private_dir(self._home), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                trusted = dict(self.read())
                yield trusted
                self._write(trusted)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._error(f"cannot be written ({error.strerror or error})") from error

    def _write(self, trusted: Mapping[str, Trusted]) -> None:
        folders = {key: {"digest": each.digest, "since": each.since} for key, each in sorted(trusted.items())}
        descriptor, name = tempfile.mkstemp(dir=self._home, prefix=f".{TRUST_FILE}.")  # 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"version": _VERSION, "folders": folders}, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def _error(self, message: str) -> ConfigError:
        advice = "no project's hooks and recipes are allowed; remove the file, and allow them anew"
        return ConfigError(f"{message}, so that {advice}", source=str(self.path))


def _key(place: Path) -> str:
    # Not what the folder itself leads to: a stranger's link to what is allowed elsewhere is not allowed here.
    return str(place.parent.resolve() / place.name)


def _parsed(text: str) -> dict[str, Trusted]:
    document = cast("object", json.loads(text))
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    said = cast("dict[str, object]", document)
    if said.get("version") != _VERSION:
        raise ValueError(f"its version is not {_VERSION}")
    folders = said.get("folders")
    if not isinstance(folders, dict):
        raise ValueError("it has no `folders`")
    trusted: dict[str, Trusted] = {}
    for key, value in cast("dict[str, object]", folders).items():
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        found, since = fields.get("digest"), fields.get("since")
        if not isinstance(found, str) or not isinstance(since, str):
            raise ValueError(f"{key} has no digest or no time")
        trusted[key] = Trusted(found, since)
    return trusted
