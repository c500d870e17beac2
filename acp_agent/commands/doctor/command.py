"""`acp-agent doctor`: asks every check, in an order in which one thing rests on those before it, and prints."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from acp_agent.app import model_access, start_logging_at_home
from acp_agent.commands.choosing import current_directory
from acp_agent.commands.doctor.around import check_mcp, check_project
from acp_agent.commands.doctor.editors import check_editors
from acp_agent.commands.doctor.findings import Finding, report
from acp_agent.commands.doctor.models import check_keys, check_model
from acp_agent.commands.doctor.state import check_config, check_program, check_state
from acp_agent.commands.progress import Activity
from acp_agent.commands.safe import safe_for
from acp_agent.config import Settings
from acp_agent.config.home import user_home
from acp_agent.errors import AgentError
from acp_agent.llm.registry import Registry
from acp_agent.logfile import log_failure

_log = logging.getLogger(__name__)


async def run(arguments: argparse.Namespace) -> int:
    """Look at everything, and print what was found.

    :returns: 0; 1 where something does not work.
    """
    env, safe, activity = os.environ, safe_for(os.environ), Activity()
    activity.busy("looking around" if arguments.offline else "looking around, and asking the model")
    try:
        findings_ = await findings(env, offline=arguments.offline)
    finally:
        activity.idle()
    found = [replace(finding, text=safe(finding.text), advice=safe(finding.advice)) for finding in findings_]
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in found], ensure_ascii=False, indent=2))
    else:
        print(report(found))
    return 1 if any(finding.level == "fail" for finding in found) else 0


async def findings(env: Mapping[str, str], *, offline: bool) -> list[Finding]:
    """What all checks have found.

    :param offline: ask no model.
    """
    found = [*check_program(env)]
    cwd = _directory(found)
    with _the_rest_matters_too("state", env, found):
        found += await check_state(env)
    settings: Settings | None = None
    with _the_rest_matters_too("config", env, found):
        settings, of_config = check_config(env, cwd)
        found += of_config
    if settings is not None:
        registry = Registry(settings, env, model_access(env))
        try:
            with _the_rest_matters_too("keys", env, found):
                found += check_keys(settings, registry, env)
            with _the_rest_matters_too("model", env, found):
                found += await check_model(registry, env, offline=offline)
        finally:
            await registry.aclose()
        if cwd is not None:
            with _the_rest_matters_too("trust", env, found):
                found += check_project(settings, cwd)
        with _the_rest_matters_too("mcp", env, found):
            found += check_mcp(settings, env)
    with _the_rest_matters_too("editors", env, found):
        found += [finding async for finding in check_editors(user_home(env), env)]
    return found


def _directory(found: list[Finding]) -> Path | None:
    """The directory that is meant; None where it is gone, which is said."""
    try:
        return Path(current_directory())
    except AgentError as error:
        found.append(Finding("fail", "directory", str(error)))
        return None


@contextmanager
def _the_rest_matters_too(area: str, env: Mapping[str, str], found: list[Finding]) -> Generator[None]:
    """A check that fails itself is a finding, and the others are made all the same."""
    try:
        yield
    except AgentError as error:
        found.append(Finding("fail", area, str(error)))
    except Exception as error:
        start_logging_at_home(env)
        found.append(Finding("fail", area, log_failure(_log, "The check failed inside", error)))
