"""`acp-agent trust` and `acp-agent permissions`: what the user has allowed in projects,
and its revocation.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from acp_agent.app import checked_settings, project_places
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import is_interactive, typed
from acp_agent.config import Settings, home_dir
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.config.project import MadeStore
from acp_agent.config.trust import ProjectCode, TrustStore, read_project_code
from acp_agent.errors import AgentError
from acp_agent.sandbox.repositories import repository_of
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.session.trust import lines_of
from acp_agent.tools.text import one_line
from acp_agent.visible import on_one_line

_LONGEST_RULE = 4_000
"""Characters of a rule that are listed."""


_CHANGED = "  (changed since, and no longer trusted)"
_NOBODY = "There is no terminal to ask at; `--yes` trusts without asking."


async def run(arguments: argparse.Namespace) -> int:
    """Allow a folder, or do what an option says instead.

    :returns: 0; 1 where the user did not allow it after all.
    :raises AgentError: the folder is none or has more files than can be read, there was
        nothing to revoke, or the store cannot be read.
    """
    store = TrustStore(home_dir(os.environ))
    if arguments.list:
        _list(store)
    elif arguments.revoke is not None:
        _revoke(store, arguments.revoke)
    else:
        folder = _folder(arguments.path)
        made = MadeStore(home_dir(os.environ))
        accepted = made.accept(folder)
        codes = _shown(folder)
        if codes and not arguments.yes:
            answer = await typed(
                "Trust it until something in it changes? [y]es, [n]o: "
            )
            if (answer or "").lower() not in ("y", "yes"):
                made.add(accepted)
                nobody = "" if is_interactive() else f" {_NOBODY}"
                aside(f"Nothing was trusted.{nobody}")
                return 1
        _accept_commits(folder, accepted)
        for path in accepted:
            print(
                f"{on_one_line(path)}, which a command made, now counts as part of the project."
            )
        if codes:
            store.trust(codes)
            print("Trusted until something in it changes.")
    return 0


def _accept_commits(folder: Path, made: Iterable[Path]) -> None:
    """Let the commits in a folder's repository count as the user's, and print whether
    this changes anything.

    :param made: what commands made and the user accepts. Commits that commands left in
        such a repository count as well.
    """
    store = Sandbox((), (home_dir(os.environ),)).tips()
    wanted = [
        (folder, False),
        *((mark.parent, True) for mark in made if mark.name == ".git"),
    ]
    for place, wholly in wanted:
        repository = repository_of(place)
        if repository is not None and store.accept(repository, wholly=wholly):
            print(f"The commits in {on_one_line(place)} now count as your own.")


def code_of(settings: Settings, folder: Path) -> tuple[ProjectCode, ...]:
    """Return what a session in this folder would have to be allowed.

    :param folder: absolute path of an existing directory.
    """
    commands = [command for command in settings.hooks if command.origin == "project"]
    places = project_places(os.environ, settings, folder)
    codes = (
        read_project_code(place, commands if place == settings.project else ())
        for place in places
    )
    return tuple(code for code in codes if not code.is_empty)


def _list(store: TrustStore) -> None:
    """Print the folders that the user has allowed, and the ones that have changed."""
    trusted = store.read()
    for place, entry in trusted.items():
        changed = "" if _digest_now(Path(place)) == entry.get("digest") else _CHANGED
        since = on_one_line(entry.get("since", ""))
        print(f"{on_one_line(place)}  {since}{changed}")
    if not trusted:
        print("No project's hooks and recipes are trusted.")


def _digest_now(place: Path) -> str:
    """Return the digest of what a folder could run now; "" if that cannot be read."""
    if not place.is_dir():
        return ""
    try:
        settings = checked_settings(os.environ, place.parent)
    except AgentError:
        return ""  # the hooks of a wrong configuration are not known
    for code in code_of(settings, place.parent):
        if code.place.resolve() == place.resolve():
            return "" if code.problem else code.digest
    return ""


def _folder(path: str | None) -> Path:
    return Path(path or ".").resolve()


def _shown(folder: Path) -> tuple[ProjectCode, ...]:
    """Print what a folder could run, and return it."""
    if not folder.is_dir():
        raise AgentError(
            f"{on_one_line(folder)} is not a directory. Name the project's folder."
        )
    codes = code_of(checked_settings(os.environ, folder), folder)
    for code in codes:
        if code.problem:
            raise AgentError(
                f"{on_one_line(code.place)} is not trusted: {code.problem}."
            )
    if not codes:
        print(f"{on_one_line(folder)} has no hooks and no recipes.")
    for code in codes:
        print(f"If you trust {on_one_line(code.place)}, it can run:")
        for line in lines_of(code):
            print(f"  {line}")
    return codes


def _revoke(store: TrustStore, path: str) -> None:
    folder = Path(path).resolve()
    try:
        settings = checked_settings(os.environ, folder)
        places = project_places(os.environ, settings, folder)
    except AgentError:
        places = ()  # what is wrong with a project's files is no reason to trust it
    revoked = store.revoke(folder, places)
    for place in revoked:
        print(f"No longer trusted: {on_one_line(place)}")
    if not revoked:
        raise AgentError(
            f"{on_one_line(folder)} was not trusted. `acp-agent trust --list` lists trusted projects."
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="the project's folder (default: the current directory)",
    )
    what.add_argument("--list", action="store_true", help="list the trusted projects")
    what.add_argument(
        "--revoke", metavar="PATH", help="revoke the trust in this project"
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="trust the project without asking for confirmation",
    )


async def run_permissions(arguments: argparse.Namespace) -> int:
    """List the rules, or revoke some.

    :returns: 0.
    :raises AgentError: there is no such rule, or the file cannot be read or written.
    """
    rules = PermissionRules(home_dir(os.environ))
    if arguments.action == "revoke":
        _revoke_rules(rules, Path(arguments.project), arguments.rules)
        return 0
    found = rules.read()
    for project, allowed in found.items():
        print(on_one_line(project))
        for subject, since in allowed.items():
            print(f"  {since}  {_rule(subject)}")
    if not found:
        print("There are no permanent permissions.")
    return 0


def _revoke_rules(rules: PermissionRules, project: Path, wanted: list[str]) -> None:
    project = project.resolve()
    allowed = {_rule(subject): subject for subject in rules.of(project)}
    if not allowed or not allowed.keys() >= {*wanted}:
        raise AgentError(
            f"{on_one_line(project)} has no such rule. `acp-agent permissions` lists them."
        )
    for subject in rules.revoke(project, {allowed[rule] for rule in wanted}):
        print(f"Revoked: {_rule(subject)}")


def _rule(subject: str) -> str:
    """Return a rule as it is listed and typed: a command may have lines, and what a
    terminal would obey.
    """
    return one_line(subject, _LONGEST_RULE)


def add_permissions_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `permissions`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    revoke = actions.add_parser(
        "revoke", help="revoke rules, so that you are asked again"
    )
    revoke.add_argument(
        "rules",
        nargs="*",
        metavar="RULE",
        help="rule, as listed (default: all rules of the project)",
    )
    revoke.add_argument(
        "--project",
        default=".",
        metavar="PATH",
        help="the project's folder (default: the current directory)",
    )
