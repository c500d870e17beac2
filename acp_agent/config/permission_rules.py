"""`PermissionRules`: what the user has allowed for good, by project, with "Always allow".

One small file in the agent's home, never in the project: what a repository brings cannot allow itself anything. A file
that cannot be understood allows nothing. A rule is compared as a whole: of the shell it is the exact command line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, cast

from acp_agent.config.state_file import StateFile, member
from acp_agent.errors import ConfigError

RULES_FILE = "permissions.json"

_VERSION, _OLDER = 2, 1
"""A rule of the shell in version 1 could cover more than one command line."""
_SHELL = "shell: "

_Projects: TypeAlias = dict[str, dict[str, str]]
"""By project, each rule and since when it holds, in ISO 8601 and UTC."""


class PermissionRules:
    """The rules of one home.

    :param home: the folder of all state.
    :ivar notice: what the user should be told of the file; empty where there is nothing to tell.
    """

    def __init__(self, home: Path) -> None:
        advice = 'no "Always allow" of an earlier session holds; remove the file, and allow anew'
        self._file = StateFile(home / RULES_FILE, _VERSION, self._load, _dump, advice, older=(_OLDER,))
        self.notice = ""

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Return every project's rules, and since when they hold, in ISO 8601 and UTC.

        :raises ConfigError: the file cannot be understood.
        """
        told, rules = self.notice, self._file.read()
        if self.notice != told:
            with suppress(ConfigError), self._file.update():
                pass  # written as it is read
        return rules

    def of(self, project: Path) -> frozenset[str]:
        """Return what is allowed in a project.

        :param project: absolute path of a session's working directory.
        :raises ConfigError: see `read`.
        """
        return frozenset(self.read().get(_key(project), ()))

    def allow(self, project: Path, subject: str) -> None:
        """Allow what `grant_subject` of the permission policy names.

        :raises ConfigError: see `read`; or the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._file.update() as rules:
            rules.setdefault(_key(project), {}).setdefault(subject, now)

    def revoke(self, project: Path, subjects: Collection[str] = ()) -> tuple[str, ...]:
        """Ask again for these in a project, or for all.

        :param project: its folder, which need not exist any more.
        :returns: what had been allowed of them.
        :raises ConfigError: see `allow`.
        """
        with self._file.update() as rules:
            allowed = rules.get(_key(project), {})
            revoked = tuple(subject for subject in allowed if not subjects or subject in subjects)
            for subject in revoked:
                del allowed[subject]
        return revoked

    def _load(self, said: Mapping[str, object]) -> _Projects:
        rules, dropped = _Projects(), list[str]()
        for project, value in member(said, "projects").items():
            if not isinstance(value, dict):
                raise ValueError(f"{project} has no rules")
            rules[project] = allowed = dict[str, str]()
            for subject, since in cast("dict[str, object]", value).items():
                if not isinstance(since, str):
                    raise ValueError(f"a rule of {project} has no time")
                if said["version"] == _OLDER and subject.startswith(_SHELL):
                    dropped.append("".join(sign if sign.isprintable() else "\ufffd" for sign in subject[:100]))
                else:
                    allowed[subject] = since
        if dropped:
            self.notice = (
                f"{self._file.path}: these rules of an earlier version covered more than one command line. They are "
                f"dropped, and you are asked again: {', '.join(sorted(dropped)[:10])}"
            )
        return rules


def _key(project: Path) -> str:
    return str(project.resolve())


def _dump(rules: _Projects) -> dict[str, object]:
    return {"projects": {project: allowed for project, allowed in sorted(rules.items()) if allowed}}
