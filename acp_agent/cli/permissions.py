"""`acp-agent permissions`: the rules that "Always allow" has made, by project, and their revocation."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from acp_agent.config import home_dir
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.errors import AgentError
from acp_agent.tools.text import one_line

MAX_SHOWN = 4_000
"""Characters of a rule that are listed."""


async def run(arguments: argparse.Namespace) -> int:
    """List the rules, or revoke some.

    :returns: 0.
    :raises AgentError: there is no such rule, or the file cannot be read or written.
    """
    rules = PermissionRules(home_dir(os.environ))
    if arguments.action == "revoke":
        return _revoke(rules, Path(arguments.project), arguments.rules)
    return _list(rules)


def _list(rules: PermissionRules) -> int:
    found = rules.read()
    if rules.notice:
        print(rules.notice)
    for project, allowed in found.items():
        print(project)
        for subject, since in allowed.items():
            print(f"  {since}  {_shown(subject)}")
    if not found:
        print("Nothing is allowed without asking.")
    return 0


def _revoke(rules: PermissionRules, project: Path, wanted: list[str]) -> int:
    project = project.resolve()
    allowed = {_shown(subject): subject for subject in rules.of(project)}
    missing = [rule for rule in wanted if rule not in allowed]
    if missing:
        raise AgentError(f"{project} has no rule {missing[0]!r}. `acp-agent permissions` lists them.")
    if not allowed:
        raise AgentError(f"{project} has no rules. `acp-agent permissions` lists those that there are.")
    for subject in rules.revoke(project, {allowed[rule] for rule in wanted}):
        print(f"Asked for again: {_shown(subject)}")
    return 0


def _shown(subject: str) -> str:
    """Return a rule as it is listed and typed: a command may have lines, and what a terminal would obey."""
    return one_line(subject, MAX_SHOWN)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    revoke = actions.add_parser("revoke", help="have calls asked for again")
    revoke.add_argument(
        "rules", nargs="*", metavar="RULE", help="as listed; all rules of the project where none is named"
    )
    revoke.add_argument("--project", default=".", metavar="PATH", help="the project's folder (this directory)")
