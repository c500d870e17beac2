"""`acp-agent doctor`: checks of the installation and the configuration, with advice. No folder and no file is made."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import anyio

from acp_agent import __version__
from acp_agent.app import DATABASE, model_access
from acp_agent.cli.setup import EDITORS, NAME, program
from acp_agent.cli.terminal.process import Activity
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.cli.terminal.sessions import current_directory
from acp_agent.cli.trust import code_of
from acp_agent.compaction.service import CompactionService
from acp_agent.config import Settings, home_dir, load_settings
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE, user_home
from acp_agent.config.load import MODEL_VARIABLE
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.messages import JsonValue, Text, UserMessage, new_id
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.llm.places import check_key
from acp_agent.llm.provider import ModelRequest, Retrying
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.regular import read_regular
from acp_agent.storage.store import SessionStore

SECONDS = 20.0
"""How long the model may take to say a word."""
_CORRECT = "Correct it; `acp-agent schema config` and `acp-agent schema project` print what the files may say."
_MOST_TOKENS = 64
"""Of the answer: enough for a word, also with providers that refuse smaller numbers."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LENIENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*(?://[^\n]*\s*)*[}\]])', re.DOTALL)
"""A text, which is kept, or a comment or trailing comma of an editor's settings, which is left out."""


@frozen
class _Finding:
    """One line of the report.

    :ivar level: `warn` where the agent works, though perhaps not as expected; `fail` where something does not work.
    :ivar area: what it is about, in a word.
    :ivar advice: what to do; empty where nothing is to be done.
    """

    level: Literal["ok", "warn", "fail"]
    area: str
    text: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("--offline", action="store_true", help="ask no model")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


async def run(arguments: argparse.Namespace) -> int:
    """Run all checks, and print their findings.

    :returns: 0; 1 where something does not work.
    """
    safe, activity = safe_for(os.environ), Activity()
    activity.busy("looking around" if arguments.offline else "looking around, and asking the model")
    try:
        all_found = await _findings(os.environ, offline=arguments.offline)
    finally:
        activity.idle()
    found = [replace(finding, text=safe(finding.text), advice=safe(finding.advice)) for finding in all_found]
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in found], ensure_ascii=False, indent=2))
    else:
        print(_report(found))
    return 1 if any(finding.level == "fail" for finding in found) else 0


async def _findings(env: Mapping[str, str], *, offline: bool) -> list[_Finding]:
    """Return what all checks find, in the order of their dependencies.

    :param offline: ask no model.
    """
    found: list[_Finding] = []
    cwd = Path(current_directory())
    with _guarded("program", found):
        text = f"acp-agent {__version__}, Python {platform.python_version()}: {program(env)}"
        found.append(_Finding("ok", "program", text))
    with _guarded("state", found):
        found.append(_check_home(home_dir(env)))
    with _guarded("sessions", found):
        found.append(await _check_sessions(home_dir(env) / DATABASE))
    try:
        settings = load_settings(env, cwd, strategies=lambda: CompactionService().choices, providers=BUILT_IN_PROVIDERS)
    except AgentError as error:
        found.append(_Finding("fail", "config", str(error), _CORRECT))
    else:
        found += _check_config(settings)
        await _check_settings(settings, cwd, env, found, offline=offline)
    found += _check_editors(user_home(env) or Path("/"), env)
    return found


async def _check_settings(
    settings: Settings, cwd: Path, env: Mapping[str, str], found: list[_Finding], *, offline: bool
) -> None:
    """Add what is found of all that the configuration names."""
    registry = Registry(settings, env, model_access(env))
    try:
        with _guarded("keys", found):
            found += _check_keys(settings, registry, env)
        with _guarded("model", found):
            found.append(await _check_model(registry, offline=offline))
    finally:
        await registry.aclose()
    with _guarded("trust", found):
        found += _check_project(settings, cwd)
    found += _check_mcp(settings, env)


@contextmanager
def _guarded(area: str, found: list[_Finding]) -> Generator[None]:
    """Make a finding of a check that fails itself, so that the others are made all the same."""
    try:
        yield
    except AgentError as error:
        found.append(_Finding("fail", area, str(error)))


def _report(findings: Sequence[_Finding]) -> str:
    """Return the findings as lines, the last of them a summary."""
    width = max(len(finding.area) for finding in findings)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.level:<4}  {finding.area:<{width}}  {' '.join(finding.text.splitlines())}")
        if finding.advice:
            lines.append(f"{'':<{width + 8}}{' '.join(finding.advice.splitlines())}")
    fails, warns = (sum(finding.level == level for finding in findings) for level in ("fail", "warn"))
    said = [f"{fails} {'thing does' if fails == 1 else 'things do'} not work"] if fails else []
    said += [f"{warns} {'warning' if warns == 1 else 'warnings'}"] if warns else []
    return "\n".join([*lines, "", f"{'; '.join(said)}." if said else "All is well."])


def _check_home(home: Path) -> _Finding:
    there = os.path.lexists(home)
    above = home if there else next(folder for folder in home.parents if os.path.lexists(folder))
    if not above.is_dir() or not os.access(above, os.R_OK | os.W_OK | os.X_OK):
        text = f"{home} {'is no folder that you can write to' if there else 'is not there, and cannot be made'}."
        return _Finding("fail", "state", text, f"Set {HOME_VARIABLE} to a folder that you can write to.")
    return _Finding("ok", "state", f"{home} {'can be written to' if there else 'is not there yet, and will be made'}.")


async def _check_sessions(database: Path) -> _Finding:
    """Return whether the database can be opened, which brings it up to date.

    :raises StorageError: it cannot.
    """
    if not os.access(database, os.F_OK):
        return _Finding("ok", "sessions", "There are none yet.")
    store = await SessionStore.open(database)
    await store.aclose()
    return _Finding("ok", "sessions", f"{database} can be opened.")


def _check_config(settings: Settings) -> Iterator[_Finding]:
    """Yield which files there are, and what is left out of them."""
    own = settings.home / CONFIG_FILE
    text = f"{own} can be read." if own.exists() else f"There is no {own}; all is as by default."
    yield _Finding("ok", "config", text)
    if settings.project is not None and (settings.project / CONFIG_FILE).exists():
        yield _Finding("ok", "config", f"{settings.project / CONFIG_FILE} can be read.")
    for text in (*(f"A hook is left out: {fault.text}" for fault in settings.hook_faults), *settings.notices):
        yield _Finding("warn", "config", text, "Correct the file.")


def _check_keys(settings: Settings, registry: Registry, env: Mapping[str, str]) -> Iterator[_Finding]:
    """Yield the keys of all providers; one that is missing matters where a model of that provider is named.

    :raises ConfigError: stored keys cannot be read.
    """
    places = registry.places
    of_summaries = (settings.compaction_for(model).model for model in ("", *settings.models))
    models = [model for model in (settings.model, settings.small_model, *of_summaries) if model is not None]
    wanted = {*settings.providers, *(model.partition("/")[0] for model in models)}
    for place in places.all():
        provider, variables, found = place.name, place.variables, place.variable
        if found is not None:
            try:
                check_key(provider, env[found].strip(), found)
                yield _Finding("ok", "keys", f"{provider}: {found} is set.")
            except AgentError as error:
                yield _Finding("fail", "keys", str(error))
        elif places.has_stored_key(provider):
            yield _Finding("ok", "keys", f"{provider}: a key is stored.")
        elif variables and provider in wanted:
            text = f"{provider}: there is no key for it, though the configuration or {MODEL_VARIABLE} names it."
            where = f"set {' or '.join(variables)} in the environment that your editor starts the agent with"
            yield _Finding("fail", "keys", text, f"Run `acp-agent login {provider}`, or {where}.")


async def _check_model(registry: Registry, *, offline: bool) -> _Finding:
    """Return whether the default model answers one small request.

    :param offline: do not ask it.
    """
    name = await registry.default_model()
    if name is None:
        return _Finding("fail", "model", "There is none.", str(registry.no_model()))
    advice = f"To choose another model: {MODEL_VARIABLE}, or else `model` in config.yaml, as provider/model."
    if problem := registry.unusable(name):
        return _Finding("fail", "model", f"{name}: {problem}", advice)
    if offline:
        return _Finding("ok", "model", f"{name} was not asked (--offline).")
    began, refused = time.monotonic(), ""
    try:
        await registry.unlock(name)
        resolved = registry.resolve(name)
        message = UserMessage(new_id("msg"), (Text("Say OK."),))
        request = ModelRequest(resolved.id, "Answer in one word.", (message,), max_output_tokens=_MOST_TOKENS)
        with anyio.fail_after(SECONDS):
            async with aclosing(resolved.provider.stream(request)) as events:
                async for event in events:
                    if not isinstance(event, Retrying):
                        break  # it speaks: that is enough
                    refused = f" {event.reason}"
    except TimeoutError:
        text = f"{name} did not answer within {SECONDS:g} seconds.{refused}"
        advice = "Look at the network, a proxy (HTTPS_PROXY), your account's limits, and the provider's state."
        return _Finding("fail", "model", text, advice)
    except AgentError as error:
        return _Finding("fail", "model", f"{name}: {error}", advice)
    return _Finding("ok", "model", f"{name} answered within {time.monotonic() - began:.1f} s.")


def _check_project(settings: Settings, cwd: Path) -> Iterator[_Finding]:
    """Yield what this directory brings that would run, and whether that is allowed."""
    store = TrustStore(settings.home)
    codes = code_of(settings, cwd)
    for each in codes:
        if each.problem:
            yield _Finding("warn", "trust", f"{each.place}: {each.problem}.", "Nothing of it runs until that is right.")
        elif store.trusts(each):
            yield _Finding("ok", "trust", f"What {each.place} brings is allowed to run.")
        else:
            advice = f"If you know what it does: acp-agent trust {shlex.quote(str(each.place.parent))}"
            yield _Finding("warn", "trust", f"What {each.place} brings is not allowed, and does not run.", advice)
    if not codes:
        yield _Finding("ok", "trust", "This directory brings no hooks and no recipes.")


def _check_mcp(settings: Settings, env: Mapping[str, str]) -> Iterator[_Finding]:
    """Yield whether the MCP servers of the configuration could be started; none is."""
    for server in settings.mcp_servers.values():
        values = (*server.env.values(), *server.headers.values())
        unset = sorted({name for value in values for name in _VARIABLE.findall(value)} - env.keys())
        path = server.env.get("PATH", env.get("PATH", os.defpath))
        if unset:
            yield _Finding("fail", "mcp", f"{server.name}: {', '.join(unset)} is not set.", "Set it, or take it out.")
        elif server.transport == "stdio" and shutil.which(server.command, path=path) is None:
            advice = "Install it, or write its whole path."
            yield _Finding("fail", "mcp", f"{server.name}: {server.command} is no program on the PATH.", advice)
        else:
            yield _Finding("ok", "mcp", f"{server.name}: {server.command or server.transport}, not started here.")


def _check_editors(home: Path, env: Mapping[str, str]) -> Iterator[_Finding]:
    """Yield whether the entry in the settings of each editor that is there names a program; it is not started.

    :param home: the user's.
    """
    for key, editor in EDITORS.items():
        file = editor.file(home, env)
        if file is None or not (
            file.exists() or any(shutil.which(name, path=env.get("PATH")) for name in editor.programs)
        ):
            continue
        try:
            text = read_regular(file).decode() if file.exists() else "{}"
            settings: JsonValue = json.loads(_LENIENT.sub(lambda found: found[1] or "", text) or "{}")
            agents = settings.get(editor.at) if isinstance(settings, dict) else None
        except (OSError, ValueError, RecursionError) as error:
            yield _Finding("warn", "editors", f"{editor.title}: {file} cannot be read ({error}).", "Correct it.")
            continue
        entry = agents.get(NAME) if isinstance(agents, dict) else None
        yield _entry(editor.title, entry, f"acp-agent setup {key}")


def _entry(title: str, entry: JsonValue, setup: str) -> _Finding:
    """Return whether an editor's entry starts the agent."""
    if not isinstance(entry, dict):
        return _Finding("warn", "editors", f"{title} does not know the agent.", f"{setup} prints the entry.")
    if entry.get("type") == "registry":
        return _Finding("ok", "editors", f"{title} starts what the registry of agents names.")
    command = entry.get("command")
    if isinstance(command, str) and Path(command).is_absolute() and os.access(command, os.X_OK):
        return _Finding("ok", "editors", f"{title} starts {command}.")
    text = f"{title} starts {command}, which is not the absolute path of a program."
    return _Finding("fail", "editors", text, f"{setup} prints the entry.")
