"""`PermissionRules`: what the user has allowed for good, by project, with "Always allow".

One small file in the agent's home, never in the project: what a repository brings cannot allow itself anything. A file
that cannot be understood allows nothing. A rule is compared as a whole: of the shell it is the exact command line.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from acp_agent.config.state_file import Entries, StateFile
from acp_agent.errors import ConfigError

RULES_FILE = "permissions.json"

_VERSION, _OLDER = 2, 1
"""A rule of the shell in version 1 could cover more than one command line."""
_SHELL = "shell: "


class PermissionRules:
    """The rules of one home.

    :param home: the folder of all state.
    :ivar notice: what the user should be told of the file; empty where there is nothing to tell.
    """

    def __init__(self, home: Path) -> None:
        advice = 'no "Always allow" of an earlier session holds; remove the file, and allow anew'
        self._file = StateFile(home / RULES_FILE, "projects", advice, _VERSION)
        self.notice = ""

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Return every project's rules, and since when they hold, in ISO 8601 and UTC.

        :raises ConfigError: the file cannot be understood.
        """
        rules = self._file.read()
        if self._drop_older(rules):
            with suppress(ConfigError), self._update():
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
        with self._update() as rules:
            rules.setdefault(_key(project), {}).setdefault(subject, now)

    def revoke(self, project: Path, subjects: Collection[str] = ()) -> tuple[str, ...]:
        """Ask again for these in a project, or for all.

        :param project: its folder, which need not exist any more.
        :returns: what had been allowed of them.
        :raises ConfigError: see `allow`.
        """
        with self._update() as rules:
            allowed = rules.get(_key(project), {})
            revoked = tuple(subject for subject in allowed if not subjects or subject in subjects)
            for subject in revoked:
                del allowed[subject]
        return revoked

    @contextmanager
    def _update(self) -> Generator[Entries]:
        with self._file.update() as rules:
            self._drop_older(rules)
            yield rules

    def _drop_older(self, rules: Entries) -> bool:
        """Remove what an earlier version allowed of the shell, and return whether there was any."""
        if self._file.read_version != _OLDER:
            return False
        dropped = {rule for allowed in rules.values() for rule in allowed if rule.startswith(_SHELL)}
        for allowed in rules.values():
            for rule in dropped & allowed.keys():
                del allowed[rule]
        if dropped:
            shown = ("".join(sign if sign.isprintable() else "\ufffd" for sign in rule[:100]) for rule in dropped)
            self.notice = (
                f"{self._file.path}: these rules of an earlier version covered more than one command line. They are "
                f"dropped, and you are asked again: {', '.join(sorted(shown)[:10])}"
            )
        return bool(dropped)


def _key(project: Path) -> str:
    return str(project.resolve())
