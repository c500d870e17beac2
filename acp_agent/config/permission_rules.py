"""`PermissionRules`: what the user has permanently allowed in each project with "Always
allow".

The rules are in one small file in the agent's home, never in the project, so that a
repository cannot allow itself anything. An invalid file allows nothing. A rule must
match in full: a rule for the shell is the exact command line.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from acp_agent.config.state_file import Entries, StateFile
from acp_agent.errors import ConfigError

RULES_FILE = "permissions.json"

_VERSION = 2
_OLDER = 1
"""A rule of the shell in version 1 could cover more than one command line."""
_SHELL = "shell: "


class PermissionRules:
    """The rules of one home.

    :param home: the folder of all state.
    :ivar notice: a notice for the user about the file; empty if there is none.
    """

    def __init__(self, home: Path) -> None:
        advice = 'no "Always allow" of an earlier session holds; remove the file, and allow anew'
        self._file = StateFile(home / RULES_FILE, "projects", advice, _VERSION)
        self.notice = ""

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Return every project's rules, each with the time since when it applies, in
        ISO 8601 and UTC.

        :raises ConfigError: if the file is invalid.
        """
        rules = self._file.read()
        if self._drop_older(rules):
            with suppress(ConfigError), self._update():
                pass  # write the file without the old rules
        return rules

    def of(self, project: Path) -> frozenset[str]:
        """Return the rules of a project.

        :param project: absolute path of a session's working directory.
        :raises ConfigError: see `read`.
        """
        return frozenset(self.read().get(_key(project), ()))

    def allow(self, project: Path, subject: str) -> None:
        """Add a rule for a subject, as returned by the permission policy's
        `grant_subject`.

        :raises ConfigError: see `read`; also if the file cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._update() as rules:
            rules.setdefault(_key(project), {}).setdefault(subject, now)

    def revoke(self, project: Path, subjects: Collection[str] = ()) -> tuple[str, ...]:
        """Remove rules of a project, so that the user is asked again.

        :param project: the project's folder, which may no longer exist.
        :param subjects: the rules to remove; empty for all.
        :returns: the removed rules.
        :raises ConfigError: see `allow`.
        """
        with self._update() as rules:
            allowed = rules.get(_key(project), {})
            revoked = tuple(
                subject for subject in allowed if not subjects or subject in subjects
            )
            for subject in revoked:
                del allowed[subject]
        return revoked

    @contextmanager
    def _update(self) -> Generator[Entries]:
        with self._file.update() as rules:
            self._drop_older(rules)
            yield rules

    def _drop_older(self, rules: Entries) -> bool:
        """Remove the shell rules of an earlier version, and return whether there were
        any.
        """
        if self._file.read_version != _OLDER:
            return False
        dropped = {
            rule
            for allowed in rules.values()
            for rule in allowed
            if rule.startswith(_SHELL)
        }
        for allowed in rules.values():
            for rule in dropped & allowed.keys():
                del allowed[rule]
        if dropped:
            shown = (
                "".join(sign if sign.isprintable() else "\ufffd" for sign in rule[:100])
                for rule in dropped
            )
            self.notice = (
                f"{self._file.path}: these rules of an earlier version covered more than one command line. They are "
                f"dropped, and you are asked again: {', '.join(sorted(shown)[:10])}"
            )
        return bool(dropped)


def _key(project: Path) -> str:
    return str(project.resolve())
