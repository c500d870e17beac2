"""Creates the sandbox from the settings, and records repositories and folders that
sandboxed commands create.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.config.home import CLAUDE_FOLDER, PROJECT_FOLDER
from acp_agent.config.project import MadeStore
from acp_agent.config.settings import SandboxSettings
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen
from acp_agent.visible import on_one_line

if TYPE_CHECKING:
    from acp_agent.sandbox.planted import Findings, Planted
    from acp_agent.sandbox.sandbox import Sandbox

_MAX_LISTED = 5
_MAX_CHANGES = 600
"""Maximum length of the description of changes to one repository, in characters."""
_AUTOMATIC = (
    "Other programs run files with these names, or follow their settings, automatically"
)
_BLOCKED = (
    "These paths appeared while a command ran, and the agent renamed them: {listed}. "
    + _AUTOMATIC
    + ", and the agent cannot tell whether the command or you created them. If you want to keep one, check it and "
    "rename it back (the first one: `mv {new} {old}`). Otherwise delete it, and do not commit it."
)
_STUCK = (
    "These paths appeared while a command ran, and the agent could not rename them: {listed}. "
    + _AUTOMATIC
    + ". Check them, and delete them unless you created them."
)
_UNSTAGED = (
    "A command staged files in git's index that do not exist in the folder, and the agent unstaged them: {listed}. "
    "Your next commit would have included them. " + _AUTOMATIC + "."
)
_UNCHECKED = (
    "A command changed a git index that the agent could not check or restore: {listed}. The index may contain files "
    "that the command staged. Look at `git diff --cached` before you commit."
)
_REPLACED = (
    "A command made git replace objects, so git may show and check out something other than your commits contain. "
    "If you do not want this, undo it: {listed}."
)
_KEPT = (
    "A command checked out {listed} from a commit that your repository already had. "
    + _AUTOMATIC
    + "."
)
"""Notices about changes that were found after a command; see
`sandbox.planted.Findings`.
"""
_STRICTER = ("off", "auto", "required")
"""The values of `commands`, from the least to the most strict."""


@frozen
class MadeKeeper:
    """Records in the agent's home what commands created; see `sandbox.planted.Keeper`.

    :ivar home: the folder of all state.
    :ivar notices: notices for the user; methods append to this list.
    """

    home: Path
    notices: list[str]

    def is_made(self, path: Path) -> bool:
        """Return whether a command created this file or folder."""
        return MadeStore(self.home).has(path)

    def keep(self, found: Findings) -> None:
        """Record what a command created, and append the notices."""
        try:
            MadeStore(self.home).add(
                each.mark for each in found.planted if each.mark is not None
            )
        except ConfigError as error:
            self.notices.append(
                f"The agent could not record what a command created. {error}"
            )
        for paths, notice in (
            (found.blocked, _BLOCKED),
            (found.stuck, _STUCK),
            (found.unstaged, _UNSTAGED),
            (found.unchecked, _UNCHECKED),
            (found.replaced, _REPLACED),
            (found.kept, _KEPT),
        ):
            if paths:
                texts = [*map(str, paths)]
                self.notices.append(
                    notice.format(listed=_listed(texts), **_undo(texts))
                )
        self.notices.extend(map(_notice_of, found.planted[:_MAX_LISTED]))
        if len(found.planted) > _MAX_LISTED:
            self.notices.append(
                f"The command created {len(found.planted) - _MAX_LISTED} more repositories or folders of this kind."
            )

    def refuse_sockets(self, lost: Sequence[str]) -> None:
        """Append a notice about sockets whose files could not be found, unless the same
        notice is still waiting to be shown.
        """
        text = (
            "Commands cannot create Unix sockets at the moment: another program listens on a socket whose file has "
            "been moved, and the folders that commands can write to are too large to search for the file. Stop or "
            f"restart the program that listens on {_listed(lost)}."
        )
        if text not in self.notices:
            self.notices.append(text)


def _undo(renamed: Sequence[str]) -> dict[str, str]:
    """Return the old and the new name of the first renamed path, quoted for the shell.

    :param renamed: entries of `sandbox.planted.Findings.blocked`, or other strings, for
        which the result is not used.
    """
    old, _, new = renamed[0].partition(" → ")
    return {
        "old": shlex.quote(_one_line(old)),
        "new": shlex.quote(_one_line(new)),
    }


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(map(_one_line, texts[:_MAX_LISTED]))
    return (
        shown
        if len(texts) <= _MAX_LISTED
        else f"{shown} and {len(texts) - _MAX_LISTED} more"
    )


def _notice_of(planted: Planted) -> str:
    """Return the notice about a repository or folder that a command created."""
    place = shlex.quote(_one_line(str(planted.place)))
    if planted.mark is None:
        return (
            f"A command added {place} to git's index as a nested repository. `git status` and your editor may run "
            f"programs that its settings name. If you do not want it, run `git rm --cached {place}`."
        )
    if planted.mark.name in (PROJECT_FOLDER, CLAUDE_FOLDER):
        return (
            f"A command created the folder {planted.mark.name} in {place}. Sessions there ignore it until you run "
            f"`acp-agent trust {place}`."
        )
    notice = (
        f"A command created a git repository in {place}. Your editor may run `git` there. The agent does not treat it "
        f"as a separate project until you run `acp-agent trust {place}`."
    )
    if planted.done:
        done = _one_line("; ".join(planted.done), _MAX_CHANGES)
        notice += (
            f" The agent changed its settings so that git does not run the programs that they name: {done}. Check them "
            "before you undo this."
        )
    return notice


def _one_line(text: str, longest: int = 300) -> str:
    plain = on_one_line(text)
    return plain if len(plain) <= longest else f"{plain[:longest]} …"


def sandbox_of(
    settings: SandboxSettings,
    roots: tuple[Path, ...],
    home: Path,
    keys: Iterable[str] = (),
    notices: list[str] | None = None,
) -> Sandbox:
    """Return the sandbox for commands, which may be off.

    :param roots: the directories to which commands may write.
    :param home: the agent's home, which commands may not read.
    :param keys: names of the environment variables with provider keys.
    :param notices: notices for the user about files that commands create are appended
        to this list.
    """
    from acp_agent.sandbox.sandbox import Sandbox

    keeper = MadeKeeper(home, [] if notices is None else notices)
    off = settings.commands == "off"
    required = settings.commands == "required"
    hidden = (*settings.env, *keys)
    return Sandbox(
        roots,
        (home,),
        settings.write,
        settings.read_deny,
        settings.network,
        required,
        hidden,
        off,
        keeper,
    )


def tightened(
    settings: SandboxSettings, project: SandboxSettings, named: Container[object]
) -> SandboxSettings:
    """Return the user's settings, tightened by a project's file.

    :param named: the keys that the project's file sets.
    """
    commands = project.commands if "commands" in named else settings.commands
    return replace(
        settings,
        commands=max(settings.commands, commands, key=_STRICTER.index),
        network=settings.network and (project.network or "network" not in named),
        read_deny=(*settings.read_deny, *project.read_deny),
        env=(*settings.env, *project.env),
    )
