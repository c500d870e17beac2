"""`Sandbox`: runs the commands of one session under a policy, using the mechanisms of
this operating system.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread

from acp_agent.errors import SandboxError
from acp_agent.frozen import frozen
from acp_agent.nofollow import resolved, temporary_folder
from acp_agent.programs import LOADER_VARIABLES
from acp_agent.regular import TooLargeError
from acp_agent.sandbox import bubblewrap, seatbelt
from acp_agent.sandbox.baseline import Survey, baseline_of, survey
from acp_agent.sandbox.blocked import sweeping
from acp_agent.sandbox.copies import private_copies
from acp_agent.sandbox.excludes import covered_excludes
from acp_agent.sandbox.exclusion import without_editor
from acp_agent.sandbox.folders import writable_folders
from acp_agent.sandbox.installation import unshare_installation, variables_of_commands
from acp_agent.sandbox.listing import open_up, restoring
from acp_agent.sandbox.nested import repositories_in
from acp_agent.sandbox.placeholders import placeholders
from acp_agent.sandbox.planted import Keeper, settle, settling, sweep_of
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.repositories import repository_of
from acp_agent.sandbox.roots import is_git_directory
from acp_agent.sandbox.tips import TipStore
from acp_agent.sandbox.unfinished import left_behind, recorded, tips_known

_LOCKS = "locks"
_RUNNING = "running"
_TIPS = "tips"
"""Folders in the agent's home."""
_MOST_NESTED = 50
"""Maximum number of nested repositories that are protected during a command. Changes to
other nested repositories are found afterwards.
"""
_MOST_PROTECTED = 1000
"""Maximum number of protected paths. Each is a mount, and the more mounts there are,
the longer mounting takes.
"""


@frozen
class Sandbox:
    """The sandbox of a session's commands.

    :ivar roots: the session's directories, absolute and resolved.
    :ivar private: the agent's own folders, which commands may not read, with its home
        first.
    :ivar write: further folders that commands may write to, as named by the user.
    :ivar read_deny: further files and folders that commands may not read, as named by
        the user.
    :ivar network: whether all commands have network access.
    :ivar required: whether commands may only run in a sandbox.
    :ivar env: wildcards for the names of environment variables that commands do not
        inherit.
    :ivar off: whether the user wants commands to run without the sandbox.
    :ivar keeper: records what commands create that other programs act on automatically.
        Without one, as in tests, new repositories are not searched for.
    """

    roots: tuple[Path, ...]
    private: tuple[Path, ...]
    write: tuple[str, ...] = ()
    read_deny: tuple[str, ...] = ()
    network: bool = False
    required: bool = False
    env: tuple[str, ...] = ()
    off: bool = False
    keeper: Keeper | None = field(default=None, compare=False)

    def usable(self) -> tuple[Self | None, str]:
        """Return the sandbox if commands can run in it; otherwise None, and the reason
        unless the sandbox is off.

        The first call runs a program, which may take seconds.

        :raises SandboxError: if commands cannot run in the sandbox but must.
        """
        if self.off:
            return None, ""
        fault = platform_fault(self.required) or self._checked_policy(network=False)[1]
        if fault and self.required:
            raise SandboxError(
                f"No command runs without a sandbox (`sandbox.commands: required`). {fault}"
            )
        return (None, fault) if fault else (self, "")

    def _checked_policy(
        self, *, network: bool, nested: Sequence[Path] = ()
    ) -> tuple[Policy | None, str]:
        """Return the policy, and the reason why this session's directories cannot be
        protected; the reason is empty if they can be protected.
        """
        try:
            policy = Policy.of(
                self.roots,
                self.private,
                self.write,
                self.read_deny,
                network=network,
                nested=nested,
            )
            return policy, self._unprotectable(policy)
        except TooLargeError as error:
            reason = "which is more than the agent reads before each command; shrink the file or open another folder."
            return (
                None,
                f"{error.filename} {str(error.strerror).removeprefix('it ')}, {reason}",
            )
        except (OSError, ValueError, RecursionError) as error:
            return (
                None,
                f"The session's directories cannot be searched ({type(error).__name__}: {error}).",
            )

    def _unprotectable(self, policy: Policy) -> str:
        home = Path.home().resolve()
        if above := next(
            (root for root in self.roots if home.is_relative_to(root.resolve())), None
        ):
            return (
                f"{above} contains your home directory, where other programs run many files automatically. Open a "
                "project's folder instead."
            )
        for root in self.roots:
            if denied := policy.denying(resolved(root)):
                return f"{root} is in {denied}, which commands may not read; open another folder instead."
        if moved := next((root for root in self.roots if resolved(root) != root), None):
            return f"{moved} now leads to {resolved(moved)}; reopen the session in the intended folder."
        for root in self.roots:
            if is_git_directory(root):
                return f"{root} is a git directory, which git trusts; open a work tree instead."
        protected = policy.protected
        if len(protected) > _MOST_PROTECTED:
            return "The session's directories contain too many git submodules or worktrees to protect them."
        if fault := unshare_installation():
            return fault
        link = policy.link_among(protected)
        return (
            f"{link} is a symbolic link, which cannot be protected; replace it with its target."
            if link
            else ""
        )

    def hidden(self) -> set[str]:
        """Return the names of the agent's variables that commands do not inherit."""
        return {
            name
            for name in os.environ
            for hidden in self.env
            if fnmatchcase(name, hidden)
        }

    @asynccontextmanager
    async def confine(
        self,
        argv: Sequence[str],
        cwd: Path,
        *,
        network: bool,
        blocked: list[str] | None = None,
        ends_with_agent: bool = True,
    ) -> AsyncGenerator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Do the same as `wrap`, in worker threads."""
        wrapped = self.wrap(
            argv, cwd, network=network, blocked=blocked, ends_with_agent=ends_with_agent
        )
        lines = await to_thread.run_sync(wrapped.__enter__)
        try:
            yield lines
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(wrapped.__exit__, None, None, None)

    @contextmanager
    def wrap(
        self,
        argv: Sequence[str],
        cwd: Path,
        *,
        network: bool,
        blocked: list[str] | None = None,
        ends_with_agent: bool = True,
    ) -> Generator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Yield two command lines: one that does nothing and succeeds if the sandbox
        works, for callers that want to try it first, and one that runs a program in it.

        The program must end before the `with` block does. Run both command lines
        without `LOADER_VARIABLES`. The program gets these variables anyway.

        :param cwd: the folder in which the program runs; absolute.
        :param network: whether the program has network access, even if other commands
            do not.
        :param blocked: a list that, by the end of the `with` block, has a line for each
            guarded path that the command created and that was renamed.
        :param ends_with_agent: whether the command ends if the agent is killed, as the
            agent's own children do.
        :raises SandboxError: if the session's directories can no longer be protected,
            or if the editor has been working on a file in them for a minute.
        """
        self.settle_unfinished()
        tips = self.tips()
        # An earlier command may have removed permissions from its own folders. The
        # agent needs them while it reads these folders.
        with restoring(_tops(self.roots)):
            before = survey(self.roots, self._writable())
            nested = self._nested(before, self.roots)
            policy, fault = self._checked_policy(
                network=network or self.network, nested=nested
            )
            # A command may have changed something since `usable` was checked.
            if policy is None or fault:
                raise SandboxError(f"The sandbox no longer works here. {fault}")
            baseline = baseline_of(
                before, policy, tips, ends_with_agent=ends_with_agent
            )
        sweep = sweep_of(baseline, [] if blocked is None else blocked)
        # These end in reverse order. So the search for what the command created comes
        # last, when the sandbox has removed its own files from the folders.
        with (
            recorded(self._kept(_RUNNING), baseline) as touch,
            settling(baseline, sweep, self.keeper, tips),
            without_editor((*policy.write, *policy.open)),
            placeholders(policy.closed, self._kept(_LOCKS)),
            covered_excludes(policy) as covers,
            private_copies(policy) as copies,
            sweeping(sweep, touch),
        ):
            if sys.platform == "darwin":
                with temporary_folder() as place:
                    yield (
                        seatbelt.command_line(policy, ("true",), place),
                        seatbelt.command_line(policy, argv, place),
                    )
            else:
                place = cwd.resolve()
                variables = self._variables()
                found = bubblewrap.sockets_of(policy)
                if found.unlocated and self.keeper is not None:
                    self.keeper.refuse_sockets(found.unlocated)
                with bubblewrap.filter_file(
                    unix_sockets=not found.unlocated
                ) as filtered:
                    words = bubblewrap.command_line(
                        policy, argv, place, covers, filtered, variables, found, copies
                    )
                    yield (*words[: len(words) - len(argv)], "true"), words

    def settle_unfinished(self) -> None:
        """Make everything harmless that commands created in any folder if their agent
        was killed while they were running.
        """
        for left in left_behind(self._kept(_RUNNING)):
            sweep = sweep_of(left.baseline, until=left.until)
            sweep.run(is_last=True)
            settle(left.baseline, sweep, self.keeper, self.tips(), left.until)

    def tips(self) -> TipStore:
        """Return the record that tells the user's commits from those of commands."""
        return TipStore(self._kept(_TIPS), lambda: tips_known(self._kept(_RUNNING)))

    def _kept(self, name: str) -> Path | None:
        """Return a folder in the agent's home, which is hidden from commands; None if
        there is no home.
        """
        return self.private[0] / name if self.private else None

    def _variables(self) -> dict[str, str]:
        """Return the variables that a program in the sandbox gets, but that the
        sandbox's launcher does not get.
        """
        hidden = self.hidden()
        loader = {
            name: os.environ[name]
            for name in LOADER_VARIABLES
            if name in os.environ and name not in hidden
        }
        return loader | variables_of_commands()

    def _writable(self) -> tuple[Path, ...]:
        """Return the folders that commands may write to in addition to the roots."""
        folders = writable_folders(self.roots[0], self.write)
        return tuple(resolved(folder) for folder in folders)

    def _nested(self, before: Survey, roots: Sequence[Path]) -> list[Path]:
        """Return the nested repositories to protect.

        Repositories that a command created are left out, since another command may
        remove them.
        """
        nested: list[Path] = []
        for mark, _ in repositories_in(before.marks):
            is_made = self.keeper is not None and self.keeper.is_made(mark)
            if (
                not is_made
                and mark.parent not in roots
                and mark not in roots
                and not mark.is_symlink()
            ):
                nested.append(mark)
        return nested[:_MOST_NESTED]


def _tops(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders in which commands may have removed permissions: the roots, and
    their git directories.
    """
    found = list(roots)
    with restoring(roots):
        for root in roots:
            with suppress(OSError):
                open_up(root)
                repository = repository_of(root)
                found += () if repository is None else (repository.common,)
    return tuple(found)


def platform_fault(required: bool = False) -> str:
    """Return why this machine has no sandbox and what to do; empty if it has one.

    :param required: whether the user requires a sandbox. The sandbox on macOS is
        experimental and is used only if required.
    """
    if sys.platform != "darwin":
        return bubblewrap.fault()
    if required:
        return seatbelt.fault()
    return "the sandbox for macOS is experimental; `sandbox.commands: required` in config.yaml turns it on."
