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
            self.notices.append(f"What a command made could not be remembered. {error}")
        if found.blocked:
            self.notices.append(_told_of_blocked(found.blocked))
        if found.unstaged:
            self.notices.append(_told_of_unstaged(found.unstaged))
        if found.unchecked:
            self.notices.append(_told_of_unchecked(found.unchecked))
        if found.replaced:
            self.notices.append(_told_of_replaced(found.replaced))
        if found.kept:
            self.notices.append(_told_of_kept(found.kept))
        self.notices.extend(map(_told, found.planted[:_MOST_TOLD]))
        if len(found.planted) > _MOST_TOLD:
            self.notices.append(
                f"The command made {len(found.planted) - _MOST_TOLD} more of the kind."
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


def _told_of_blocked(blocked: Sequence[str]) -> str:
    """Return the notice about paths that were renamed.

    :param blocked: see `sandbox.planted.Findings`.
    """
    first = tuple(map(shlex.quote, map(_one_line, blocked[0].partition(" → ")[::2])))
    return (
        f"While a command ran, this appeared, and was renamed: {_listed(blocked)}. Other programs run or obey by "
        "themselves what they find under these names, and the agent cannot tell whether the command made it or you "
        f"did. If you want it, look at it and rename it back (`mv {first[1]} {first[0]}`). Otherwise delete it, and do "
        "not commit it."
    )


def _told_of_unstaged(unstaged: Sequence[str]) -> str:
    """Return what the user has to know of guarded paths that a command had staged.

    :param unstaged: see `sandbox.planted.Findings`.
    """
    return (
        f"A command staged this in git's index, and the agent took it out again: {_listed(unstaged)}. There is no such "
        "file, so you would have committed it unseen. Other programs run or obey by themselves what they find under "
        "these names."
    )


def _told_of_unchecked(unchecked: Sequence[str]) -> str:
    """Return what the user has to know of indexes that could not be checked or
    restored.

    :param unchecked: see `sandbox.planted.Findings`.
    """
    return (
        "A command changed an index of git that the agent could not check or restore: "
        f"{_listed(unchecked)}. It may contain files that the command staged. Look at `git diff --cached` before you "
        "commit."
    )


def _told_of_replaced(replaced: Sequence[str]) -> str:
    """Return what the user has to know of objects that git replaces by others.

    :param replaced: see `sandbox.planted.Findings`.
    """
    return (
        "A command told git to replace objects by others, so git may show and check out other content than what your "
        f"commits contain. Unless you want that, undo it: {_listed(replaced)}."
    )


def _told_of_kept(kept: Sequence[Path]) -> str:
    """Return the notice about guarded paths that git has checked out."""
    names = _listed([str(path) for path in kept])
    return (
        f"A command checked out {names} from a commit that your repository already had. Other programs run or obey by "
        "themselves what they find there."
    )


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
        said += f" Git would have run programs that it names, and does not any more: {done}. Look before you undo it."
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
