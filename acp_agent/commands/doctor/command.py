"""`acp-agent doctor`: asks every check, in an order in which one thing rests on those before it, and prints."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from acp_agent.app import model_access, start_logging_at_home
from acp_agent.commands.choosing import current_directory
from acp_agent.commands.doctor.around import check_editors, check_mcp, check_project
from acp_agent.commands.doctor.findings import Finding, report
from acp_agent.commands.doctor.models import check_keys, check_model
from acp_agent.commands.doctor.state import check_config, check_program, check_state
from acp_agent.commands.safe import safe_for
from acp_agent.config.home import user_home
from acp_agent.errors import AgentError
from acp_agent.llm.registry import Registry
from acp_agent.logfile import log_failure

_log = logging.getLogger(__name__)


async def run(arguments: argparse.Namespace) -> int:
    """Look at everything, and print what was found.

    :returns: 0; 1 where something does not work.
    """
    env, safe = os.environ, safe_for(os.environ)
    found = [
        replace(finding, text=safe(finding.text), advice=safe(finding.advice))
        for finding in await findings(env, Path(current_directory()), offline=arguments.offline)
    ]
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in found], ensure_ascii=False, indent=2))
    else:
        print(report(found))
    return 1 if any(finding.level == "fail" for finding in found) else 0


async def findings(env: Mapping[str, str], cwd: Path, *, offline: bool) -> list[Finding]:
    """What all checks have found.

    :param cwd: the directory that is meant, absolute.
    :param offline: ask no model.
    """
    found = [*check_program(env)]
    try:
        found += await check_state(env)
    except AgentError as error:
        found.append(Finding("fail", "state", str(error)))
    settings, of_config = check_config(env, cwd)
    found += of_config
    if settings is not None:
        registry = Registry(settings, env, model_access(env))
        try:
            found += check_keys(settings, registry, env)
            found += await check_model(registry, offline=offline)
        except Exception as error:  # the rest is worth knowing all the more
            start_logging_at_home(env)
            found.append(Finding("fail", "model", log_failure(_log, "The check failed inside", error)))
        finally:
            await registry.aclose()
        found += check_project(settings, cwd)
        found += check_mcp(settings, env)
    return [*found, *check_editors(user_home(env), env)]
