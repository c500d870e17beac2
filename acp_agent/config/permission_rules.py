"""`PermissionRules`: the calls that the user has permanently allowed in each project
with "Always allow".

The rules are in one small file in the agent's home, never in the project, so that a
repository cannot allow itself anything. An invalid file allows nothing. A rule for the
shell is the exact command line, or the first words of the commands that it allows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from acp_agent.config.state_file import StateFile

RULES_FILE = "permissions.json"

_VERSION = 2
"""In a file of version 1, all rules for the shell were prefixes of command lines. They
are now read as exact command lines, which allows less.
"""


class PermissionRules:
    """The rules of one home.

    :param home: the folder of all state.
    """

    def __init__(self, home: Path) -> None:
        advice = '"Always allow" of earlier sessions has no effect; remove the file, and allow the calls again'
        self._file = StateFile(home / RULES_FILE, "projects", advice, _VERSION)

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Return the rules of every project. Each rule is mapped to the time when it
        was added, in ISO 8601 and UTC.

        :raises ConfigError: if the file is invalid.
        """
        return self._file.read()

    def of(self, project: Path) -> frozenset[str]:
        """Return the rules of a project.

        :param project: absolute path of a session's working directory.
        :raises ConfigError: see `read`.
        """
        return frozenset(self.read().get(_key(project), ()))

    def allow(self, project: Path, subject: str) -> None:
        """Add a rule to a project.

        :param subject: what the rule allows, as the permission policy's `grant_subject`
            returns it.

        :raises ConfigError: see `read`; also if the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._file.update() as rules:
            rules.setdefault(_key(project), {}).setdefault(subject, now)

    def revoke(self, project: Path, subjects: Collection[str] = ()) -> tuple[str, ...]:
        """Remove rules of a project, so that the user is asked again.

        :param project: the project's folder, which may no longer exist.
        :param subjects: the rules to remove; empty for all.
        :returns: the removed rules.
        :raises ConfigError: see `allow`.
        """
        with self._file.update() as rules:
            allowed = rules.get(_key(project), {})
            revoked = tuple(
                subject for subject in allowed if not subjects or subject in subjects
            )
            for subject in revoked:
                del allowed[subject]
        return revoked


def _key(project: Path) -> str:
    return str(project.resolve())
