"""Creates the sandbox from the settings, and records what commands in it create."""

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

_MOST_TOLD = 5
_LONGEST = 600
"""Maximum length of the description of changes to one repository."""
_AUTOMATIC = "Other programs run or obey files with these names automatically"
_BLOCKED = (
    "While a command ran, these paths appeared, and the agent renamed them: {listed}. "
    + _AUTOMATIC
    + ", and the agent cannot tell whether the command or you created them. If you want the first one, look at it and "
    "rename it back (`mv {new} {old}`). Otherwise delete it, and do not commit it."
)
_STUCK = (
    "While a command ran, these paths appeared, and the agent could not rename them: {listed}. "
    + _AUTOMATIC
    + ". Look at them, and delete them unless you created them."
)
_UNSTAGED = (
    "A command staged files in git's index that do not exist in the folder, and the agent unstaged them: {listed}. You "
    "would have committed them unseen. " + _AUTOMATIC + "."
)
_UNCHECKED = (
    "A command changed a git index that the agent could not check or restore: {listed}. It may contain files that the "
    "command staged. Look at `git diff --cached` before you commit."
)
_REPLACED = (
    "A command made git replace objects, so git may show and check out something other than your commits contain. "
    "Unless you want that, undo it: {listed}."
)
_KEPT = (
    "A command checked out {listed} from a commit that your repository already had. "
    + _AUTOMATIC
    + "."
)
"""Notices about what was found after a command; see `sandbox.planted.Findings`."""
_STRICTER = ("off", "auto", "required")


@frozen
class MadeKeeper:
    """Records in the home what commands created; see `sandbox.planted.Keeper`.

    :ivar home: the folder of all state.
    :ivar notices: a sentence for the user about each of these is appended to it.
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
        for told, notice in (
            (found.blocked, _BLOCKED),
            (found.stuck, _STUCK),
            (found.unstaged, _UNSTAGED),
            (found.unchecked, _UNCHECKED),
            (found.replaced, _REPLACED),
            (found.kept, _KEPT),
        ):
            if told:
                texts = [*map(str, told)]
                self.notices.append(
                    notice.format(listed=_listed(texts), **_undo(texts))
                )
        self.notices.extend(map(_told, found.planted[:_MOST_TOLD]))
        if len(found.planted) > _MOST_TOLD:
            self.notices.append(
                f"The command created {len(found.planted) - _MOST_TOLD} more repositories or folders of this kind."
            )

    def refuse_sockets(self, lost: Sequence[str]) -> None:
        """Add a sentence about sockets whose files could not be found, unless it waits
        to be shown already.
        """
        text = (
            "Commands cannot create Unix sockets at present. Another program listens on a socket whose file is not "
            f"where its name says, and the folders that commands may write are too large to search: {_listed(lost)}. "
            "End or restart that program."
        )
        if text not in self.notices:
            self.notices.append(text)


def _undo(renamed: Sequence[str]) -> dict[str, str]:
    """Return the shell words that rename the first of these back.

    :param renamed: see `sandbox.planted.Findings.blocked`; other texts are ignored.
    """
    old, _, new = renamed[0].partition(" → ")
    return {
        "old": shlex.quote(_one_line(old)),
        "new": shlex.quote(_one_line(new)),
    }


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(map(_one_line, texts[:_MOST_TOLD]))
    return (
        shown
        if len(texts) <= _MOST_TOLD
        else f"{shown} and {len(texts) - _MOST_TOLD} more"
    )


def _told(planted: Planted) -> str:
    """Return the notice about something that a command created."""
    place = shlex.quote(_one_line(str(planted.place)))
    if planted.mark is None:
        return (
            f"A command added {place} to git's index as a nested repository, in which `git status` and your editor run "
            f"what its settings name. If you do not want it: `git rm --cached {place}`."
        )
    if planted.mark.name in (PROJECT_FOLDER, CLAUDE_FOLDER):
        return (
            f"A command made the folder {planted.mark.name} in {place}. Sessions in there do not use it before you say "
            f"`acp-agent trust {place}`."
        )
    said = (
        f"A command made a git repository in {place}. Your editor may run `git` there. It is not taken for a project "
        f"of its own before you say `acp-agent trust {place}`."
    )
    if planted.done:
        done = _one_line("; ".join(planted.done), _LONGEST)
        said += f" The agent changed it so that git runs no programs that it names: {done}. Look before you undo it."
    return said


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
    :param notices: notices for the user about what commands created are appended to it.
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
