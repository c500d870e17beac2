"""`TrustStore`: which folders with hooks and recipes the user has allowed to run, and in which state.

One small file in the agent's home. What stands in it is a folder and the digest of what was in it, so that another
content is another question. A file that cannot be understood allows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from acp_agent.config.brought import Brought
from acp_agent.config.state_file import StateFile
from acp_agent.frozen import frozen

TRUST_FILE = "trust.json"

_VERSION = 1


@frozen
class Trusted:
    """What was allowed for one folder.

    :ivar digest: see `Brought.digest`.
    :ivar since: when, as in ISO 8601, in UTC.
    :ivar parts: see `Brought.parts`. It allows nothing, and only tells what has changed.
    """

    digest: str
    since: str
    parts: Mapping[str, str] = field(default_factory=dict[str, str])


class TrustStore:
    """:param home: the folder of all state."""

    def __init__(self, home: Path) -> None:
        advice = "no project's hooks and recipes are allowed; remove the file, and allow them anew"
        self._file = StateFile(home / TRUST_FILE, _VERSION, _loaded, _dumped, advice)
        self.path = self._file.path

    def read(self) -> Mapping[str, Trusted]:
        """What is allowed, by folder, with the project's path resolved.

        :raises ConfigError: the file cannot be understood.
        """
        return self._file.read()

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
        with self._file.changing() as trusted:
            trusted.update({_key(each.place): Trusted(each.digest, now, each.parts) for each in brought})

    def revoke(self, project: Path, places: Iterable[Path] = ()) -> tuple[str, ...]:
        """Allow nothing any more of a project.

        :param project: its folder; what was allowed of it is found although it is gone.
        :param places: further folders that were allowed.
        :returns: what had been allowed.
        :raises ConfigError: see `trust`.
        """
        above, keys = project.resolve(), {_key(place) for place in places}
        with self._file.changing() as trusted:
            revoked = [key for key in trusted if key in keys or above in (Path(key), Path(key).parent)]
            for key in revoked:
                del trusted[key]
        return tuple(revoked)


def _key(place: Path) -> str:
    # Not what the folder itself leads to: a stranger's link to what is allowed elsewhere is not allowed here.
    return str(place.parent.resolve() / place.name)


def _loaded(said: dict[str, object]) -> dict[str, Trusted]:
    folders = said.get("folders", {} if not said else None)
    if not isinstance(folders, dict):
        raise ValueError("it has no `folders`")
    trusted: dict[str, Trusted] = {}
    for key, value in cast("dict[str, object]", folders).items():
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        found, since = fields.get("digest"), fields.get("since")
        if not isinstance(found, str) or not isinstance(since, str):
            raise ValueError(f"{key} has no digest or no time")
        parts = fields.get("parts")
        known = cast("dict[str, object]", parts) if isinstance(parts, dict) else {}
        trusted[key] = Trusted(found, since, {name: sign for name, sign in known.items() if isinstance(sign, str)})
    return trusted


def _dumped(trusted: Mapping[str, Trusted]) -> dict[str, object]:
    folders = {
        key: {"digest": each.digest, "since": each.since, "parts": dict(each.parts)}
        for key, each in sorted(trusted.items())
    }
    return {"folders": folders}
