"""`acp-agent doctor`: runs the checks in the order of their dependencies, and prints the report."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from acp_agent.app import model_access, start_home_logging
from acp_agent.cli.doctor.checks import (
    Finding,
    check_editors,
    check_home,
    check_keys,
    check_mcp,
    check_model,
    check_program,
    check_project,
    check_sessions,
    checked_settings,
)
from acp_agent.cli.terminal.progress import Activity
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.cli.terminal.sessions import current_directory
from acp_agent.config import Settings
from acp_agent.config.home import user_home
from acp_agent.errors import AgentError
from acp_agent.llm.registry import Registry
from acp_agent.logfile import log_failure

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("--offline", action="store_true", help="ask no model")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


async def run(arguments: argparse.Namespace) -> int:
    """Run all checks, and print their findings.

    :returns: 0; 1 where something does not work.
    """
    env, safe, activity = os.environ, safe_for(os.environ), Activity()
    activity.busy("looking around" if arguments.offline else "looking around, and asking the model")
    try:
        all_found = await _findings(env, offline=arguments.offline)
    finally:
        activity.idle()
    found = [replace(finding, text=safe(finding.text), advice=safe(finding.advice)) for finding in all_found]
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in found], ensure_ascii=False, indent=2))
    else:
        print(report(found))
    return 1 if any(finding.level == "fail" for finding in found) else 0


async def _findings(env: Mapping[str, str], *, offline: bool) -> list[Finding]:
    """Return what all checks find.

    :param offline: ask no model.
    """
    found = [check_program(env)]
    cwd = _directory(found)
    with _guarded("state", env, found):
        found += check_home(env)
        found += await check_sessions(env)
    settings: Settings | None = None
    with _guarded("config", env, found):
        settings, of_config = checked_settings(env, cwd)
        found += of_config
    if settings is not None:
        registry = Registry(settings, env, model_access(env))
        try:
            with _guarded("keys", env, found):
                found += check_keys(settings, registry, env)
            with _guarded("model", env, found):
                found.append(await check_model(registry, env, offline=offline))
        finally:
            await registry.aclose()
        with _guarded("trust", env, found):
            found += check_project(settings, cwd) if cwd is not None else ()
        with _guarded("mcp", env, found):
            found += check_mcp(settings, env)
    with _guarded("editors", env, found):
        found += check_editors(user_home(env), env)
    return found


def _directory(found: list[Finding]) -> Path | None:
    try:
        return Path(current_directory())
    except AgentError as error:
        found.append(Finding("fail", "directory", str(error)))
        return None


@contextmanager
def _guarded(area: str, env: Mapping[str, str], found: list[Finding]) -> Generator[None]:
    """Make a finding of a check that fails itself, so that the others are made all the same."""
    try:
        yield
    except AgentError as error:
        found.append(Finding("fail", area, str(error)))
    except Exception as error:
        start_home_logging(env)
        found.append(Finding("fail", area, log_failure(_log, "The check failed inside", error)))


def report(findings: Sequence[Finding]) -> str:
    """Return the findings as lines, the last of them a summary."""
    width = max((len(finding.area) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.level:<4}  {finding.area:<{width}}  {' '.join(finding.text.splitlines())}")
        if finding.advice:
            lines.append(f"{'':<{width + 8}}{' '.join(finding.advice.splitlines())}")
    fails, warns = (sum(finding.level == level for finding in findings) for level in ("fail", "warn"))
    said = [f"{fails} {'thing does' if fails == 1 else 'things do'} not work"] if fails else []
    said += [f"{warns} {'warning' if warns == 1 else 'warnings'}"] if warns else []
    return "\n".join([*lines, "", f"{'; '.join(said)}." if said else "All is well."])
