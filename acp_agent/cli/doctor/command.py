"""`acp-agent doctor`: checks the installation and the configuration, and gives advice.
It creates no folders or files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio import to_thread

from acp_agent import __version__
from acp_agent.app import DATABASE, checked_settings, model_access
from acp_agent.cli.doctor.report import fault_report
from acp_agent.cli.setup import EDITORS, NAME, program
from acp_agent.cli.terminal.jsonc import parse_jsonc
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.cli.trust import code_of
from acp_agent.config import Settings, home_dir
from acp_agent.config.home import CONFIG_FILE, HOME_VARIABLE, user_home
from acp_agent.config.load import MODEL_VARIABLE
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.messages import Text, UserMessage, new_id
from acp_agent.conversation.strict_json import get_text
from acp_agent.errors import AgentError, ToolError
from acp_agent.llm.places import check_key
from acp_agent.llm.provider import AskedAgain, ModelRequest, Retrying
from acp_agent.llm.registry import Registry
from acp_agent.mcp.launch import launch
from acp_agent.mcp.model import environment_for, with_values
from acp_agent.module_path import foreign_python_path, relative_user_base
from acp_agent.programs import distrust
from acp_agent.regular import read_regular
from acp_agent.sandbox.folders import writable_folders
from acp_agent.sandbox.sandbox import platform_fault
from acp_agent.storage.store import SessionStore
from acp_agent.tools.text import counted
from acp_agent.visible import on_one_line

SECONDS = 20.0
"""Maximum time for the model's first word."""
_CORRECT = "Correct it; `acp-agent schema config` and `acp-agent schema project` print what the files may say."
_MOST_SETTINGS = 16 * 1024 * 1024
"""Maximum number of bytes to read of an editor's settings file."""
_MOST_TOKENS = 64
"""Maximum tokens of the answer. Some providers refuse a smaller number."""


_Said: TypeAlias = tuple[str, str] | tuple[str, str, str]
"""A finding: its status, what was found and, if there is something to do, what to do.
The status is `ok`, `warn` if the agent works but perhaps not as expected, or `fail` if
something does not work.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "--offline", action="store_true", help="do not send a request to a model"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the results as JSON")
    report = (
        "also print the information for a bug report, as Markdown with secrets masked"
    )
    form.add_argument("--report", action="store_true", help=report)


async def run(arguments: argparse.Namespace) -> int:
    """Run all checks, and print their findings.

    :returns: 0, or 1 if something does not work.
    """
    found = await _findings(offline=arguments.offline)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        text = _lines(found)
        print(fault_report(text) if arguments.report else text)
    return 1 if any(finding["level"] == "fail" for finding in found) else 0


async def _findings(*, offline: bool) -> list[dict[str, str]]:
    """Run all checks in the order of their dependencies, and return their findings,
    each with its area.

    :param offline: whether to skip the request to a model.
    """
    found: list[dict[str, str]] = []
    safe = safe_for()
    cwd = Path.cwd()

    def add(area: str, level: str, text: str, advice: str = "") -> None:
        found.append(
            {
                "level": level,
                "area": area,
                "text": on_one_line(safe(text)),
                "advice": on_one_line(safe(advice)),
            }
        )

    async def check(area: str, all_said: AsyncIterator[_Said]) -> None:
        try:
            async for said in all_said:
                add(area, *said)
        except AgentError as error:  # the other checks still run
            add(area, "fail", str(error))

    await check("program", _check_program())
    await check("python", _check_python())
    await check("state", _check_home())
    await check("sessions", _check_sessions())
    try:
        settings = checked_settings(os.environ, cwd)
    except AgentError as error:
        add("config", "fail", str(error), _CORRECT)
    else:
        await check("config", _check_config(settings))
        distrust(folders=writable_folders(cwd, settings.sandbox.write))
        await check("sandbox", _check_sandbox(settings))
        async with aclosing(
            Registry(settings, os.environ, model_access(os.environ))
        ) as registry:
            await check("keys", _check_keys(settings, registry))
            await check("model", _check_model(registry, offline=offline))
        await check("trust", _check_project(settings, cwd))
        await check("mcp", _check_mcp(settings))
    await check("editors", _check_editors())
    return found


async def _check_sandbox(settings: Settings) -> AsyncIterator[_Said]:
    wanted = settings.sandbox.commands
    if wanted == "off":
        yield "ok", "commands run without a sandbox, because of `sandbox.commands: off`"
    elif fault := await to_thread.run_sync(platform_fault, wanted == "required"):
        level = "fail" if wanted == "required" else "warn"
        yield level, "there is no sandbox, so you are asked about every command", fault
    else:
        yield "ok", "commands run in a sandbox"


def _lines(findings: Sequence[Mapping[str, str]]) -> str:
    """Return the findings as lines, followed by a summary."""
    width = max(len(finding["area"]) for finding in findings)
    lines: list[str] = []
    for finding in findings:
        lines.append(
            f"{finding['level']:<4}  {finding['area']:<{width}}  {finding['text']}"
        )
        if finding["advice"]:
            lines.append(f"{'':<{width + 8}}{finding['advice']}")
    fails, warns = (
        sum(finding["level"] == level for finding in findings)
        for level in ("fail", "warn")
    )
    said = [f"{fails} {'check' if fails == 1 else 'checks'} failed"] if fails else []
    said += [counted(warns, "warning")] if warns else []
    return "\n".join(
        [*lines, "", f"{'; '.join(said)}." if said else "All checks passed."]
    )


async def _check_program() -> AsyncIterator[_Said]:
    yield (
        "ok",
        f"acp-agent {__version__}, Python {platform.python_version()}: {program()}",
    )


async def _check_python() -> AsyncIterator[_Said]:
    """Yield Python settings that let a project or a command run code in the agent."""
    if named := foreign_python_path():
        text = (
            f"PYTHONPATH names {', '.join(named)}. The agent imports nothing from there, but Python imports "
            "`sitecustomize` and other modules from there before the agent starts."
        )
        yield (
            "warn",
            text,
            "Start the agent without PYTHONPATH, especially if one of these folders is in a project.",
        )
    prefix = os.environ.get("PYTHONPYCACHEPREFIX", "")
    if prefix and not os.path.isabs(prefix):  # noqa: PTH117 - as Python reads it
        yield (
            "warn",
            f"PYTHONPYCACHEPREFIX is {prefix}, which names a folder in the project that the agent is started in.",
            "Set it to an absolute path.",
        )
    if base := relative_user_base():
        text = (
            f"PYTHONUSERBASE is {base}, which names a folder in the project that the agent is started in. Python runs "
            "`.pth` files and `usercustomize` from there before the agent starts."
        )
        yield "warn", text, "Set it to an absolute path."


async def _check_home() -> AsyncIterator[_Said]:
    home = home_dir(os.environ)
    place = next(
        folder
        for folder in (home, *home.parents)
        if folder.is_symlink() or os.access(folder, os.F_OK)
    )
    if not place.is_dir() or not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        yield (
            "fail",
            f"{home} cannot be written to.",
            f"Set {HOME_VARIABLE} to a folder that you can write to.",
        )
    else:
        yield "ok", f"{home} can be written to."


async def _check_sessions() -> AsyncIterator[_Said]:
    """Yield whether the database can be opened. Opening it also migrates it."""
    database = home_dir(os.environ) / DATABASE
    if not os.access(database, os.F_OK):
        yield "ok", "There are none yet."
        return
    store = await SessionStore.open(database)
    distrust(former=await store.working_directories())
    await store.aclose()
    yield "ok", f"{database} can be opened."


async def _check_config(settings: Settings) -> AsyncIterator[_Said]:
    """Yield the configuration files that exist, and their parts that are ignored."""
    own = settings.home / CONFIG_FILE
    yield (
        "ok",
        f"{own} can be read."
        if own.exists()
        else f"There is no {own}; the defaults apply.",
    )
    if settings.project is not None and (settings.project / CONFIG_FILE).exists():
        yield "ok", f"{settings.project / CONFIG_FILE} can be read."
    for text in (
        *(f"A hook is ignored: {fault}" for fault in settings.hook_faults),
        *settings.notices,
    ):
        yield "warn", text, "Correct the file."


async def _check_keys(settings: Settings, registry: Registry) -> AsyncIterator[_Said]:
    """Yield whether each provider has a key. A missing key is a problem only if the
    configuration names a model of that provider.

    :raises ConfigError: if stored keys cannot be read.
    """
    places = registry.places
    of_summaries = (
        settings.compaction_for(model).model for model in ("", *settings.models)
    )
    models = [
        model
        for model in (settings.model, settings.small_model, *of_summaries)
        if model is not None
    ]
    wanted = {*settings.providers, *(model.partition("/")[0] for model in models)}
    for place in places.all():
        provider = place.name
        variables = place.variables
        found = place.variable
        if found is not None:
            try:
                check_key(provider, os.environ[found].strip(), found)
                yield "ok", f"{provider}: {found} is set."
            except AgentError as error:
                yield "fail", str(error)
        elif places.has_stored_key(provider):
            yield "ok", f"{provider}: a key is stored."
        elif variables and provider in wanted:
            text = f"{provider}: there is no key for it, but the configuration or {MODEL_VARIABLE} names it."
            where = f"set {' or '.join(variables)} in the environment that your editor starts the agent with"
            yield "fail", text, f"Run `acp-agent login {provider}`, or {where}."


async def _check_model(registry: Registry, *, offline: bool) -> AsyncIterator[_Said]:
    """Yield whether the default model answers one small request.

    :param offline: whether to skip the request.
    """
    name = await registry.default_model()
    if name is None:
        yield "fail", "There is none.", str(registry.no_model())
        return
    advice = f"To choose another model: {MODEL_VARIABLE}, or else `model` in config.yaml, as provider/model."
    if problem := registry.unusable(name):
        yield "fail", f"{name}: {problem}", advice
    elif offline:
        yield "ok", f"{name} was not asked (--offline)."
    else:
        began = time.monotonic()
        refused = ""
        try:
            await registry.unlock(name)
            resolved = registry.resolve(name)
            message = UserMessage(new_id("msg"), (Text("Say OK."),))
            request = ModelRequest(
                resolved.id,
                "Answer in one word.",
                (message,),
                max_output_tokens=_MOST_TOKENS,
            )
            with anyio.fail_after(SECONDS):
                async with aclosing(resolved.provider.stream(request)) as events:
                    async for event in events:
                        if isinstance(event, Retrying):
                            refused = f" {event.reason}"
                        elif not isinstance(event, AskedAgain):
                            break  # the model has answered
            yield "ok", f"{name} answered within {time.monotonic() - began:.1f} s."
        except TimeoutError:
            advice = "Check the network, the proxy (HTTPS_PROXY), your account's limits and the provider's status page."
            yield (
                "fail",
                f"{name} did not answer within {SECONDS:g} seconds.{refused}",
                advice,
            )
        except AgentError as error:
            yield "fail", f"{name}: {error}", advice


async def _check_project(settings: Settings, cwd: Path) -> AsyncIterator[_Said]:
    """Yield the code of this directory that would run, and whether it is allowed."""
    store = TrustStore(settings.home)
    codes = code_of(settings, cwd)
    for each in codes:
        if each.problem:
            yield (
                "warn",
                f"{each.place}: {each.problem}.",
                "None of it runs until you fix that.",
            )
        elif store.trusts(each):
            yield "ok", f"The hooks and recipes in {each.place} are trusted."
        else:
            advice = f"After you have read them: acp-agent trust {shlex.quote(str(each.place.parent))}"
            yield (
                "warn",
                f"The hooks and recipes in {each.place} are not trusted, and do not run.",
                advice,
            )
    if not codes:
        yield "ok", "This directory has no hooks and no recipes."


async def _check_mcp(settings: Settings) -> AsyncIterator[_Said]:
    """Yield whether the MCP servers of the configuration could be started, without
    starting them.
    """
    env = environment_for(Path.cwd())
    for server in settings.mcp_servers.values():
        try:
            entry = with_values(server, env)
        except AgentError as error:
            yield "fail", f"{server.name}: {error}.", "Set it, or remove it."
            continue
        try:
            if server.transport == "stdio" and not os.access(
                launch(entry, env).argv[0], os.X_OK
            ):
                raise ToolError(f"{entry.command} does not exist, or is not a program")
        except ToolError as error:
            yield (
                "fail",
                f"{server.name}: {error}.",
                "Install it, or write its full path.",
            )
        else:
            yield (
                "ok",
                f"{server.name}: {server.command or server.transport}, not started here.",
            )


async def _check_editors() -> AsyncIterator[_Said]:
    """Yield whether the agent's entry in the settings of each editor names an existing
    program, without starting it.
    """
    home = user_home(os.environ) or Path("/")
    for key, editor in EDITORS.items():
        file = editor.file(home)
        if file is None or not file.exists():
            continue
        try:
            settings = parse_jsonc(read_regular(file, _MOST_SETTINGS).decode())
        except (OSError, ValueError, RecursionError) as error:
            yield (
                "warn",
                f"{editor.title}: {file} cannot be read ({error}).",
                "Correct it.",
            )
            continue
        agents = settings.get(editor.at) if isinstance(settings, dict) else None
        entry = agents.get(NAME) if isinstance(agents, dict) else None
        advice = f"acp-agent setup {key} adds it."
        if not isinstance(entry, dict):
            yield "warn", f"{editor.title} does not know the agent.", advice
        elif entry.get("type") == "registry":
            yield "ok", f"{editor.title} starts the agent from the agent registry."
        elif Path(command := get_text(entry, "command")).is_absolute() and os.access(
            command, os.X_OK
        ):
            yield "ok", f"{editor.title} starts {command}."
        else:
            yield (
                "fail",
                f"{editor.title} starts {command}, which is not the absolute path of a program.",
                advice,
            )
