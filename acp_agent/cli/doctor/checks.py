"""The checks: of the program, the configuration and what it names, the agent's home, the sessions and the editors.

No folder and no file is made.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from acp_agent import __version__
from acp_agent.app import DATABASE
from acp_agent.cli.setup.editors import EDITORS, NAME, program, read_settings
from acp_agent.cli.trust import code_of
from acp_agent.compaction.service import CompactionService
from acp_agent.config import Settings, home_dir, load_settings
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE
from acp_agent.config.load import MODEL_VARIABLE, WINDOW_VARIABLE
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.messages import JsonValue, Text, UserMessage, new_id
from acp_agent.errors import AgentError, ConfigError
from acp_agent.frozen import frozen
from acp_agent.llm.places import check_key
from acp_agent.llm.provider import ModelRequest, Retrying
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.regular import read_regular
from acp_agent.storage.store import SessionStore

SECONDS = 20.0
"""How long the model may take to say a word."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_TOKENS = 64
"""Of the answer: enough for a word, also with providers that refuse smaller numbers."""
_VARIABLES = (HOME_VARIABLE, MODEL_VARIABLE, WINDOW_VARIABLE)
_LEAST_SPACE = 200_000_000
"""Bytes."""
Level: TypeAlias = Literal["ok", "warn", "fail"]
"""`warn`: the agent works, though perhaps not as expected. `fail`: something does not work."""


@frozen
class Finding:
    """One line of the report.

    :ivar area: what it is about, in a word.
    :ivar advice: what to do; empty where nothing is to be done.
    """

    level: Level
    area: str
    text: str
    advice: str = ""


def check_program(env: Mapping[str, str]) -> Finding:
    """Return the versions, and the command that editors can start."""
    versions = f"acp-agent {__version__}, Python {platform.python_version()}"
    try:
        return Finding("ok", "program", f"{versions}: {program(env)}")
    except AgentError as error:
        return Finding("warn", "program", versions, str(error))


def checked_settings(env: Mapping[str, str], cwd: Path | None) -> tuple[Settings | None, list[Finding]]:
    """Return the configuration of a directory, None where it cannot be read, and what is to be said of it.

    :param cwd: None for that of no project.
    """
    try:
        settings = load_settings(env, cwd, strategies=CompactionService().choices, providers=BUILT_IN_PROVIDERS)
    except ConfigError as error:
        # A wrong home is a finding of `check_home`.
        told = [] if error.source == HOME_VARIABLE else [Finding("fail", "config", str(error), _advice(error, env))]
        return None, told
    own = settings.home / CONFIG_FILE
    text = f"{own} can be read." if own.exists() else f"There is no {own}; all is as by default."
    found = [Finding("ok", "config", text)]
    if settings.project is not None and (settings.project / CONFIG_FILE).exists():
        found.append(Finding("ok", "config", f"{settings.project / CONFIG_FILE} can be read."))
    faults = [f"A hook is left out: {fault.text}" for fault in settings.hook_faults]
    return settings, [
        *found,
        *(Finding("warn", "config", text, "Correct the file.") for text in (*faults, *settings.notices)),
    ]


def _advice(error: ConfigError, env: Mapping[str, str]) -> str:
    """Return what to do about a configuration that cannot be read."""
    if error.source in _VARIABLES:
        return f"Set {error.source} to that, or unset it, where the agent is started: here, or in your editor."
    schema = "config" if error.source == str(home_dir(env) / CONFIG_FILE) else "project"
    return f"Correct it; `acp-agent schema {schema}` says what may be there."


def check_home(env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what there is to say of the agent's home."""
    try:
        home = home_dir(env)
    except ConfigError as error:
        yield Finding("fail", "state", str(error), _advice(error, env))
        return
    there = os.path.lexists(home)
    above = home if there else next(folder for folder in home.parents if os.path.lexists(folder))
    if not above.is_dir() or not os.access(above, os.R_OK | os.W_OK | os.X_OK):
        text = f"{home} {'is no folder that you can write to' if there else 'is not there, and cannot be made'}."
        yield Finding("fail", "state", text, f"Set {HOME_VARIABLE} to a folder that you can write to.")
    elif not there:
        yield Finding("ok", "state", f"{home} is not there yet, and will be made.")
    else:
        yield from _folder(home)


def _folder(home: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        advice = f"The agent closes it when it starts next; by hand: chmod 700 {shlex.quote(str(home))}"
        yield Finding("warn", "state", f"Others can enter {home} (mode {mode:04o}).", advice)
    else:
        yield Finding("ok", "state", f"{home} is yours alone, and can be written to.")
    if (free := shutil.disk_usage(home).free) < _LEAST_SPACE:
        text = f"There are {free // 1_000_000} MB left on the disk of {home}."
        yield Finding("warn", "state", text, "Make room: what is said is stored before it is shown.")


async def check_sessions(env: Mapping[str, str]) -> list[Finding]:
    """Return whether the database can be opened, which brings it up to date."""
    try:
        path = home_dir(env) / DATABASE
    except ConfigError:
        return []
    if not os.access(path, os.F_OK):
        return [Finding("ok", "sessions", "There are none yet.")]
    try:
        store = await SessionStore.open(path)
        try:
            page = await store.list(limit=1, not_begun=())
        finally:
            await store.aclose()
    except AgentError as error:
        return [Finding("fail", "sessions", str(error), "Until then no session can be opened.")]
    newest = f"the newest is {page.sessions[0].session_id}" if page.sessions else "it holds none"
    return [Finding("ok", "sessions", f"{path} can be opened; {newest}.")]


def check_keys(settings: Settings, registry: Registry, env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the keys of all providers; one that is missing matters where a model of that provider is named.

    :raises ConfigError: stored keys cannot be read.
    """
    places = registry.places
    of_summaries = (settings.compaction_for(model).model for model in ("", *settings.models))
    models = [model for model in (settings.model, settings.small_model, *of_summaries) if model is not None]
    wanted = dict.fromkeys(settings.providers, "the configuration")
    for model in models:
        wanted[model.partition("/")[0]] = MODEL_VARIABLE if _is_of_environment(model, env) else "the configuration"
    for provider, variables in places.key_variables().items():
        found = next((name for name in variables if env.get(name, "").strip()), None)
        if found is not None:
            try:
                check_key(provider, env[found].strip(), found)
                yield Finding("ok", "keys", f"{provider}: {found} is set.")
            except AgentError as error:
                yield Finding("fail", "keys", str(error))
        elif places.has_stored_key(provider):
            yield Finding("ok", "keys", f"{provider}: a key is stored.")
        elif variables and provider in wanted:
            text = f"{provider}: there is no key for it, though {wanted[provider]} names it."
            where = f"set {' or '.join(variables)} in the environment that your editor starts the agent with"
            yield Finding("fail", "keys", text, f"Run `acp-agent login {provider}`, or {where}.")


async def check_model(registry: Registry, env: Mapping[str, str], *, offline: bool) -> Finding:
    """Return whether the default model answers one small request.

    :param offline: do not ask it.
    """
    name = await registry.default_model()
    if name is None:
        return Finding("fail", "model", "There is none.", str(registry.no_model()))
    advice = "To choose another model: `model` in config.yaml, as provider/model."
    if _is_of_environment(name, env):
        advice = f"{MODEL_VARIABLE} names it, and goes before config.yaml: set it to another model, or unset it."
    if problem := registry.unusable(name):
        return Finding("fail", "model", f"{name}: {problem}", advice)
    if offline:
        return Finding("ok", "model", f"{name} was not asked (--offline).")
    return await _asked(registry, name, advice)


async def _asked(registry: Registry, name: str, advice: str) -> Finding:
    """Ask the model for a word.

    :param advice: what to do where it cannot be asked.
    """
    began, refused = time.monotonic(), ""
    try:
        await registry.unlock(name)
        resolved = registry.resolve(name)
        message = UserMessage(new_id("msg"), (Text("Say OK."),))
        request = ModelRequest(resolved.id, "Answer in one word.", (message,), max_output_tokens=_MOST_TOKENS)
        with anyio.fail_after(SECONDS):
            async with aclosing(resolved.provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Retrying):
                        refused = f" {event.reason}"
                    else:
                        break  # it speaks: that is enough
    except TimeoutError:
        text = f"{name} did not answer within {SECONDS:g} seconds.{refused}"
        advice = "Look at the network, a proxy (HTTPS_PROXY), your account's limits, and the provider's state."
        return Finding("fail", "model", text, advice)
    except AgentError as error:
        return Finding("fail", "model", f"{name}: {error}", advice)
    return Finding("ok", "model", f"{name} answered within {time.monotonic() - began:.1f} s.")


def _is_of_environment(model: str, env: Mapping[str, str]) -> bool:
    return env.get(MODEL_VARIABLE, "").strip() == model


def check_project(settings: Settings, cwd: Path) -> Iterator[Finding]:
    """Yield what this directory brings that would run, and whether that is allowed."""
    store = TrustStore(settings.home)
    codes = code_of(settings, cwd)
    for each in codes:
        if each.problem:
            yield Finding("warn", "trust", f"{each.place}: {each.problem}.", "Nothing of it runs until that is right.")
        elif store.trusts(each):
            yield Finding("ok", "trust", f"What {each.place} brings is allowed to run.")
        else:
            advice = f"If you know what it does: acp-agent trust {shlex.quote(str(each.place.parent))}"
            yield Finding("warn", "trust", f"What {each.place} brings is not allowed, and does not run.", advice)
    if not codes:
        yield Finding("ok", "trust", "This directory brings no hooks and no recipes.")
    if own := sum(command.origin == "config" for command in settings.hooks):
        yield Finding("ok", "hooks", f"config.yaml names {own} {'command' if own == 1 else 'commands'}.")


def check_mcp(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the MCP servers of the configuration could be started; none is."""
    for server in settings.mcp_servers.values():
        values = (*server.env.values(), *server.headers.values())
        unset = sorted({name for value in values for name in _VARIABLE.findall(value)} - env.keys())
        path = server.env.get("PATH", env.get("PATH", os.defpath))
        if unset:
            yield Finding("fail", "mcp", f"{server.name}: {', '.join(unset)} is not set.", "Set it, or take it out.")
        elif server.transport != "stdio":
            yield Finding("ok", "mcp", f"{server.name}: {server.transport}, not asked here.")
        elif shutil.which(server.command, path=path) is None:
            advice = "Install it, or write its whole path."
            yield Finding("fail", "mcp", f"{server.name}: {server.command} is no program on the PATH.", advice)
        else:
            yield Finding("ok", "mcp", f"{server.name}: {server.command}.")


def check_editors(home: Path | None, env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is to be said of each editor that is there.

    :param home: the user's.
    """
    here = [(key, editor) for key, editor in EDITORS.items() if home is not None and editor.is_here(home, env)]
    for key, editor in here:
        assert home is not None
        file = editor.file(home, env)
        if file is None:  # Neovim's and Emacs' own files are programs
            continue
        try:
            agents = read_settings(read_regular(file).decode()).get(editor.at) if file.exists() else None
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or error
            yield Finding("warn", "editors", f"{editor.title}: {file} cannot be read ({reason}).", "Correct it.")
            continue
        yield _entry(key, editor.title, agents.get(NAME) if isinstance(agents, dict) else None, env)
    if not here:
        yield Finding("warn", "editors", "None that is known was found.", "docs/editors.md says how to set up any.")


def _entry(key: str, title: str, entry: JsonValue, env: Mapping[str, str]) -> Finding:
    """Return whether an editor's entry starts the agent; it is not started."""
    if not isinstance(entry, dict):
        return Finding(
            "warn", "editors", f"{title} does not know the agent.", f"To use it there: acp-agent setup {key}"
        )
    if entry.get("type") == "registry":
        return Finding("ok", "editors", f"{title} starts what the registry of agents names.")
    command, advice = entry.get("command"), f"Write the entry again: acp-agent setup {key}"
    found = shutil.which(command, path=env.get("PATH")) if isinstance(command, str) else None
    if not isinstance(command, str) or found is None:
        return Finding("fail", "editors", f"{title} starts {command}, which is no program.", advice)
    if entry.get("args") and NAME in (Path(command).name, Path(found).resolve().name):
        text = f"{title} starts {command} with arguments, as which it is a command for the terminal."
        return Finding("fail", "editors", text, advice)
    if not Path(command).is_absolute():
        text = f"{title} starts {command}, which it looks for itself: editors have a shorter PATH."
        return Finding("warn", "editors", text, advice)
    return Finding("ok", "editors", f"{title} starts {command}.")
