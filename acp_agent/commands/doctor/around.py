"""Checks of what is around the agent: editors, what this project brings, MCP servers. Starts none of them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from acp_agent.commands.doctor.findings import Finding
from acp_agent.commands.editors import EDITORS, NAME, Editor
from acp_agent.commands.jsonc import JsonText, JsonTextError
from acp_agent.commands.trust import brought_by
from acp_agent.config import Settings
from acp_agent.config.settings import McpServer
from acp_agent.config.trust import TrustStore
from acp_agent.errors import AgentError
from acp_agent.regular import NotRegularError, read_regular

_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "zed": ("zed", "zeditor", "zed-editor"),
    "jetbrains": ("idea", "pycharm", "webstorm", "goland", "clion", "rustrover"),
    "vscode": ("code",),
    "acpx": ("acpx",),
    "neovim": ("nvim",),
    "emacs": ("emacs",),
}
_OWN_FILES: Mapping[str, tuple[str, ...]] = {
    "neovim": (".config/nvim/**/*.lua", ".config/nvim/**/*.vim"),
    "emacs": (".emacs", ".emacs.el", ".emacs.d/*.el", ".config/emacs/*.el", ".config/doom/*.el"),
}
"""Where people keep what an editor without settings of its own is told."""
_MOST_FILES = 400
_MOST_BYTES = 1_000_000
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def check_editors(home: Path | None, env: Mapping[str, str]) -> Iterator[Finding]:
    """Editors that are there, and whether they know the agent.

    :param home: the user's.
    """
    found = False
    for key, editor in EDITORS.items():
        file = editor.file(home, env) if home is not None else None
        installed = any(shutil.which(name, path=env.get("PATH")) for name in _PROGRAMS[key])
        if not installed and not (file is not None and _is_there(file)):
            continue
        found = True
        yield _settings(key, editor, file) if file is not None else _own_files(key, editor, home)
    if not found:
        yield Finding("warn", "editors", "None that is known was found.", "docs/editors.md says how to set up any.")


def _settings(key: str, editor: Editor, file: Path) -> Finding:
    unknown = Finding(
        "warn", "editors", f"{editor.title} does not know the agent.", f"To use it there: acp-agent setup {key}"
    )
    try:
        entry = JsonText.read(read_regular(file).decode()).get(editor.at, NAME)
    except FileNotFoundError:
        return unknown
    except OSError as error:
        text = f"{editor.title}: {file} cannot be read ({error.strerror})."
        odd = isinstance(error, NotRegularError | IsADirectoryError)
        return Finding("warn", "editors", text, "Move it away." if odd else "Make it readable for you.")
    except (UnicodeDecodeError, JsonTextError) as error:
        return Finding("warn", "editors", f"{editor.title}: {file} cannot be read ({error}).", "Mend it.")
    if not isinstance(entry, dict):
        return unknown
    if entry.get("type") == "registry":
        return Finding("ok", "editors", f"{editor.title} starts what the registry of agents names.")
    command = entry.get("command")
    if not isinstance(command, str) or shutil.which(command) is None:
        text = f"{editor.title} starts {command}, which is no program."
        return Finding("fail", "editors", text, f"Write the entry again: acp-agent setup {key}")
    if not Path(command).is_absolute():
        text = f"{editor.title} starts {command}, which it looks for itself: editors start with a shorter PATH."
        advice = f"Use the absolute path, which this writes: acp-agent setup {key}"
        return Finding("warn", "editors", text, advice)
    return Finding("ok", "editors", f"{editor.title} starts {command}.")


def _is_there(file: Path) -> bool:
    """Whether there is such a file, or somebody who may not look would have to say."""
    try:
        file.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _own_files(key: str, editor: Editor, home: Path | None) -> Finding:
    files = (path for pattern in _OWN_FILES[key] for path in (home.glob(pattern) if home is not None else ()))
    if any(_names_us(path) for path in islice(files, _MOST_FILES)):
        return Finding("ok", "editors", f"{editor.title} is told of the agent.")
    return Finding("warn", "editors", f"{editor.title} does not know the agent.", f"See: acp-agent setup {key}")


def _names_us(path: Path) -> bool:
    try:
        return path.stat().st_size <= _MOST_BYTES and NAME.encode() in read_regular(path)
    except OSError:
        return False


def check_project(settings: Settings, cwd: Path) -> Iterator[Finding]:
    """What this directory brings that would run, and whether that is allowed."""
    store = TrustStore(settings.home)
    try:
        brought = brought_by(settings, cwd)
        trusted = [store.trusts(each) for each in brought]
    except AgentError as error:
        yield Finding("fail", "trust", str(error))
        return
    for each, is_trusted in zip(brought, trusted, strict=True):
        if each.problem:
            yield Finding("warn", "trust", f"{each.place}: {each.problem}.", "Nothing of it runs until that is mended.")
        elif is_trusted:
            yield Finding("ok", "trust", f"What {each.place} brings is allowed to run.")
        else:
            advice = f"If you know what it does: acp-agent trust {shlex.quote(str(each.place.parent))}"
            yield Finding("warn", "trust", f"What {each.place} brings is not allowed, and does not run.", advice)
    if not brought:
        yield Finding("ok", "trust", "This directory brings no hooks and no recipes.")
    if own := sum(command.origin == "config" for command in settings.hooks):
        yield Finding("ok", "hooks", f"config.yaml names {own} {'command' if own == 1 else 'commands'}.")


def check_mcp(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    """The MCP servers of the configuration: whether they could be started."""
    for server in settings.mcp_servers:
        unset = sorted(
            {
                name
                for value in (*server.env.values(), *server.headers.values())
                for name in _VARIABLE.findall(value)
                if name not in env
            }
        )
        if unset:
            yield Finding("fail", "mcp", f"{server.name}: {', '.join(unset)} is not set.", "Set it, or take it out.")
        elif server.transport == "stdio" and not _is_program(server, env):
            advice = "Install it, or write its whole path."
            yield Finding("fail", "mcp", f"{server.name}: {server.command} is no program on the PATH.", advice)
        else:
            what = server.command if server.transport == "stdio" else f"{server.transport}, not asked here"
            yield Finding("ok", "mcp", f"{server.name}: {what}.")


def _is_program(server: McpServer, env: Mapping[str, str]) -> bool:
    path = server.env.get("PATH", env.get("PATH", os.defpath))
    return shutil.which(server.command, path=path) is not None
