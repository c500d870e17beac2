"""Checks of what is on this machine's disk: the program, the configuration, the agent's home and the sessions in it.

Makes no folder and no file that is not there.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from acp_agent import __version__
from acp_agent.app import DATABASE, LOGS
from acp_agent.commands.doctor.findings import Finding
from acp_agent.commands.editors import program
from acp_agent.compaction.service import CompactionService
from acp_agent.config import Settings, home_dir, load_settings
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE
from acp_agent.config.load import MODEL_VARIABLE, WINDOW_VARIABLE
from acp_agent.errors import AgentError, ConfigError
from acp_agent.llm.registry import BUILT_IN_PROVIDERS
from acp_agent.logfile import NAME as LOG_FILE
from acp_agent.server.recorded import records_wire
from acp_agent.storage.sqlite import SqliteStore

_VARIABLES = (HOME_VARIABLE, MODEL_VARIABLE, WINDOW_VARIABLE)
_LEAST_SPACE = 200_000_000
"""Bytes."""


def check_program(env: Mapping[str, str]) -> Iterator[Finding]:
    """The agent itself, and what editors start."""
    versions = f"acp-agent {__version__}, Python {platform.python_version()}"
    try:
        yield Finding("ok", "program", f"{versions}: {program(env)}")
    except AgentError as error:
        yield Finding("warn", "program", versions, str(error))


def check_config(env: Mapping[str, str], cwd: Path | None) -> tuple[Settings | None, list[Finding]]:
    """The configuration for a directory; None where it cannot be read.

    :param cwd: None for that of no project.
    """
    try:
        strategies = CompactionService().choices
        settings = load_settings(env, cwd, strategies=strategies, providers=BUILT_IN_PROVIDERS)
    except ConfigError as error:
        # A home that is none is told of with the state.
        found = [] if error.source == HOME_VARIABLE else [Finding("fail", "config", str(error), _mend(error, env))]
        return None, found
    file = settings.home / CONFIG_FILE
    text = f"{file} can be read." if file.exists() else f"There is no {file}; all is as by default."
    found = [Finding("ok", "config", text)]
    if settings.project is not None and (settings.project / CONFIG_FILE).exists():
        found.append(Finding("ok", "config", f"{settings.project / CONFIG_FILE} can be read."))
    found += [
        Finding("warn", "config", f"A hook is left out: {fault.text}", "Mend it.") for fault in settings.hook_faults
    ]
    found += [
        Finding("warn", "config", notice, "Correct the file, and this is not told again.")
        for notice in settings.notices
    ]
    return settings, found


def _mend(error: ConfigError, env: Mapping[str, str]) -> str:
    """What to do about a configuration that cannot be read."""
    if error.source in _VARIABLES:
        return f"Set {error.source} to that, or unset it, where the agent is started: here, or in your editor."
    schema = "config" if error.source == str(home_dir(env) / CONFIG_FILE) else "project"
    return f"Mend it; `acp-agent schema {schema}` says what may be there."


async def check_state(env: Mapping[str, str]) -> list[Finding]:
    """The agent's home and the sessions."""
    try:
        home = home_dir(env)
    except ConfigError as error:
        return [Finding("fail", "state", str(error), _mend(error, env))]
    if (finding := _missing(home)) is not None:
        return [finding]
    return [*_folder(home), *await _store(home / DATABASE), *_recording(env)]


def _missing(home: Path) -> Finding | None:
    """What to say of a home that is not there, or cannot be used."""
    if not os.path.lexists(home):
        above = next(folder for folder in home.parents if os.path.lexists(folder))
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return Finding("ok", "state", f"{home} is not there yet, and will be made.")
        advice = f"Make it, or set {HOME_VARIABLE} to a folder that you can write to."
        return Finding("fail", "state", f"{home} is not there, and cannot be made.", advice)
    if not home.is_dir() or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        advice = f"Set {HOME_VARIABLE} to a folder that you can write to."
        return Finding("fail", "state", f"{home} is no folder that you can write to.", advice)
    return None


def _folder(home: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        text = f"Others can enter {home} (mode {mode:04o})."
        advice = f"The agent closes it when it starts next; by hand: chmod 700 {shlex.quote(str(home))}"
        yield Finding("warn", "state", text, advice)
    else:
        yield Finding("ok", "state", f"{home} is yours alone, and can be written to.")
    if (free := shutil.disk_usage(home).free) < _LEAST_SPACE:
        text = f"There are {free // 1_000_000} MB left on the disk of {home}."
        yield Finding("warn", "state", text, "Make room: what is said is stored before it is shown.")
    logs = home / LOGS
    if os.path.lexists(logs) and not (logs.is_dir() and os.access(logs, os.W_OK | os.X_OK)):
        yield Finding("warn", "state", f"{logs} cannot be written to, so that nothing is logged.", "Move it away.")
    elif os.path.lexists(log := logs / LOG_FILE) and not (log.is_file() and os.access(log, os.W_OK)):
        yield Finding("warn", "state", f"{log} cannot be written to, so that nothing is logged.", "Move it away.")


async def _store(path: Path) -> list[Finding]:
    mode = _mode(path)  # before it is opened, which makes it private
    if mode is None:
        return [Finding("ok", "sessions", "There are none yet.")]
    try:
        store = await SqliteStore.open(path)
        try:
            page = await store.list(limit=1, not_begun=())
        finally:
            await store.aclose()
    except AgentError as error:
        return [Finding("fail", "sessions", str(error), "Until then no session can be opened.")]
    newest = f"the newest is {page.sessions[0].session_id}" if page.sessions else "it holds none"
    found = [Finding("ok", "sessions", f"{path} can be opened; {newest}.")]
    if mode & 0o077:
        found.append(Finding("warn", "sessions", f"Others could read {path} (mode {mode:04o}); it is closed now."))
    return found


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _recording(env: Mapping[str, str]) -> Iterator[Finding]:
    if records_wire(env):
        text = "What editors and the agent say to each other is recorded, as you wanted."
        yield Finding("ok", "wire", text, "`acp-agent wire` shows it.")
