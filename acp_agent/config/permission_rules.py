"""`PermissionRules`: what the user has allowed for good, by project, with "Always allow".

One small file in the agent's home, never in the project: what a repository brings cannot allow itself anything. A file
that cannot be understood allows nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, cast

from acp_agent.config.state_file import StateFile

RULES_FILE = "permissions.json"

_VERSION = 1

Rules: TypeAlias = dict[str, dict[str, str]]
"""By project, what is allowed there and since when, as in ISO 8601, in UTC."""


class PermissionRules:
    """:param home: the folder of all state."""

    def __init__(self, home: Path) -> None:
        advice = 'no "Always allow" of an earlier session holds; remove the file, and allow anew'
        self._file = StateFile(home / RULES_FILE, _VERSION, _loaded, _dumped, advice)
        self._read: tuple[tuple[int, ...], Rules] = ((), {})

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Every project's rules: what is allowed and since when, as in ISO 8601, in UTC. Cheap where the file is as it
        was.

        :raises ConfigError: the file cannot be understood.
        """
        # Taken first: a file that changes meanwhile is read once more.
        signature = self._file.signature()
        if signature != self._read[0]:
            self._read = (signature, self._file.read() if signature else {})
        return self._read[1]

    def of(self, project: Path) -> frozenset[str]:
        """What is allowed in a project.

        :param project: absolute path of a session's working directory.
        :raises ConfigError: see `read`.
        """
        return frozenset(self.read().get(_key(project), ()))

    def allow(self, project: Path, subject: str) -> None:
        """Allow what `grant_subject` of the permission policy names.

        :raises ConfigError: see `read`; or the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._file.changing() as rules:
            rules.setdefault(_key(project), {}).setdefault(subject, now)

    def revoke(self, project: Path, subjects: Collection[str] = ()) -> tuple[str, ...]:
        """Ask again for these in a project, or for all.

        :param project: it is found although it is gone.
        :returns: what had been allowed of them.
        :raises ConfigError: see `allow`.
        """
        key = _key(project)
        with self._file.changing() as rules:
            allowed = rules.get(key, {})
            revoked = tuple(subject for subject in allowed if not subjects or subject in subjects)
            for subject in revoked:
                del allowed[subject]
            if not allowed:
                rules.pop(key, None)
        return revoked


def _key(project: Path) -> str:
    return str(project.resolve())


def _loaded(said: dict[str, object]) -> Rules:
    projects = said.get("projects", {} if not said else None)
    if not isinstance(projects, dict):
        raise ValueError("it has no `projects`")
    rules: Rules = {}
    for project, value in cast("dict[str, object]", projects).items():
        if not isinstance(value, dict):
            raise ValueError(f"{project} has no rules")
        allowed = cast("dict[str, object]", value)
        rules[project] = {subject: since for subject, since in allowed.items() if isinstance(since, str)}
        if len(rules[project]) < len(allowed):
            raise ValueError(f"a rule of {project} has no time")
    return rules


def _dumped(rules: Rules) -> dict[str, object]:
    return {"projects": {project: allowed for project, allowed in sorted(rules.items()) if allowed}}
