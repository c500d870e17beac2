"""`acp-agent setup`: add the agent to an editor's settings, or print what belongs
into them.

Settings that are there keep their comments and their form; the change is shown first,
and a copy is kept. The text is that of the files in `editors/`, which a person may copy
as well.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from itertools import count
from pathlib import Path

from acp_agent.cli.terminal.jsonc import parse_jsonc, with_member
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import typed
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.config.home import user_home
from acp_agent.config.state_file import atomic_write
from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.programs import find_program
from acp_agent.regular import read_regular
from acp_agent.visible import on_one_line

NAME = "acp-agent"
PLACEHOLDER = "/path/to/acp-agent"
"""Stands in the files of `editors/` for the command."""
_XDG = {".config/": "XDG_CONFIG_HOME", ".local/share/": "XDG_DATA_HOME"}
_PACKAGE = Path(__file__).parents[1]
_MOST_SETTINGS = 16 * 1024 * 1024
"""Maximum size of an editor's settings, in bytes."""


@frozen
class _Editor:
    """One editor.

    :ivar title: as it calls itself.
    :ivar sample: its file in `editors/`.
    :ivar then: what to do when the entry is there.
    :ivar settings: the path of its settings below the user's home, or below
        `XDG_CONFIG_HOME` or `XDG_DATA_HOME` in place of their defaults; "" where the
        user has to put the text into a file of their own.
    :ivar on_macos: the same on macOS; "" for no other one.
    :ivar at: the name under which its settings have the agents.
    """

    title: str
    sample: str
    then: str
    settings: str = ""
    on_macos: str = ""
    at: str = ""

    def file(self, home: Path) -> Path | None:
        """Return the path of its settings; None where there are none to be written."""
        path = (self.on_macos if sys.platform == "darwin" else "") or self.settings
        for default, variable in _XDG.items():
            folder = "" if sys.platform == "darwin" else os.environ.get(variable, "")
            if path.startswith(default) and folder.startswith("/"):
                return Path(folder, path.removeprefix(default))
        return home / path if path else None


def _vs_code(title: str, folder: str, name: str) -> _Editor:
    then = f"In {title}: install the extension ACP Client, open its view, and connect to acp-agent."
    settings = f"{name}/User/settings.json"
    macos = f"Library/Application Support/{settings}"
    return _Editor(
        title, "vscode/settings.json", then, f"{folder}/{settings}", macos, "acp.agents"
    )


EDITORS: Mapping[str, _Editor] = {
    "zed": _Editor(
        "Zed",
        "zed/settings.json",
        "In Zed: open the agent panel, click + and choose acp-agent.",
        ".config/zed/settings.json",
        at="agent_servers",
    ),
    "jetbrains": _Editor(
        "JetBrains",
        "jetbrains/acp.json",
        "In the IDE: open AI Chat, and choose acp-agent in the list of agents.",
        ".jetbrains/acp.json",
        at="agent_servers",
    ),
    "vscode": _vs_code("VS Code", ".config", "Code"),
    "vscodium": _vs_code("VSCodium", ".config", "VSCodium"),
    "code-server": _vs_code("code-server", ".local/share", "code-server"),
    "acpx": _Editor(
        "acpx",
        "acpx/config.json",
        "Then: acpx acp-agent exec 'explain this repository'",
        ".acpx/config.json",
        at="agents",
    ),
    "neovim": _Editor(
        "CodeCompanion",
        "neovim/codecompanion.lua",
        "Put it where you set up CodeCompanion, then run :CodeCompanionChat. For other plugins: setup avante, "
        "setup agentic.",
    ),
    "avante": _Editor(
        "avante",
        "neovim/avante.lua",
        "Put it where you set up avante, with HOME and your keys in `env`, then run :AvanteAsk.",
    ),
    "agentic": _Editor(
        "agentic.nvim",
        "neovim/agentic.lua",
        "Put it where you set up agentic.nvim, then open its chat.",
    ),
    "emacs": _Editor(
        "Emacs",
        "emacs/acp-agent.el",
        "Put it into your init file after agent-shell, then run M-x agent-shell-acp-agent.",
    ),
}


def editors_dir() -> Path:
    """Return the folder of the files for editors: in the installed package, or at the
    root of a checkout.
    """
    installed = _PACKAGE / "builtin_editors"
    return installed if installed.is_dir() else _PACKAGE.parent / "editors"


def program() -> str:
    """Return the absolute path of the command that starts this agent; editors have a
    shorter `PATH` than a shell.

    :raises AgentError: there is no such command.
    """
    sibling = Path(sys.executable).with_name(NAME)
    found = (
        str(sibling) if sibling.is_file() else find_program(NAME, holding_home=False)
    )
    if found is None:
        raise AgentError(
            f"There is no command {NAME} next to {sys.executable} or on the PATH. Install the agent, for "
            "example with `pipx install acp-agent-server`, and run this again."
        )
    return str(Path(found).absolute())


def sample(name: str, command: str) -> str:
    """Return the text of a file in `editors/`, with the command in it.

    :param name: as zed/settings.json.
    :param command: absolute path.
    """
    text = (editors_dir() / name).read_text(encoding="utf-8")
    # JSON, Lua and Lisp quote alike what a path may hold.
    return text.replace(PLACEHOLDER, json.dumps(command, ensure_ascii=False)[1:-1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "editor",
        nargs="?",
        choices=tuple(EDITORS),
        help="editor or Neovim plugin; `neovim` means CodeCompanion (default: list all editors)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the change without writing it"
    )
    parser.add_argument(
        "--yes", action="store_true", help="write without asking for confirmation"
    )


def _list_editors(home: Path) -> None:
    """Print the editors, and where the settings of each are."""
    width = max(map(len, EDITORS))
    for name, editor in EDITORS.items():
        file = editor.file(home)
        where = (
            "prints the lines for your own file" if file is None else on_one_line(file)
        )
        if file is not None and not file.exists():
            where += " (does not exist yet)"
        print(f"{name:<{width}}  {editor.title:<14}  {where}")
    aside("\n`acp-agent setup EDITOR` sets one up; it asks before it writes.")


async def run(arguments: argparse.Namespace) -> int:
    """Set up one editor.

    :returns: 0; 1 where it was not allowed to write.
    :raises AgentError: there is no home directory, or the settings cannot be written.
    """
    home = user_home(os.environ)
    if home is None:
        raise AgentError("There is no home directory with settings. Set HOME.")
    if arguments.editor is None:
        _list_editors(home)
        return 0
    editor = EDITORS[arguments.editor]
    file = editor.file(home)
    text = sample(editor.sample, program())
    print(text, end="")
    if file is None:
        aside(editor.then)
        return 0
    shown = on_one_line(file)
    before = _settings_of(file)
    after = text if before is None else _with_entry(before, editor, text, file)
    if before == after:
        aside(f"{shown} contains the agent already. {editor.then}")
        return 0
    if before is not None:
        aside(f"This changes {shown}:\n{_difference(before, after)}")
    if arguments.dry_run:
        aside(f"This would be written to {shown}.")
        return 0
    if not (
        arguments.yes
        or await typed(f"Write this to {shown}? [y]es, [n]o: ") in ("y", "yes")
    ):
        aside("Nothing was written; --yes writes without asking.")
        return 1
    backup = _write(file, before, after)
    kept = "" if backup is None else f" The previous file is {on_one_line(backup)}."
    aside(f"Written: {shown}.{kept} {editor.then}")
    return 0


def _settings_of(file: Path) -> str | None:
    """Return the text of an editor's settings with its line ends; None if there is no
    such file.

    :raises AgentError: it cannot be read.
    """
    try:
        return read_regular(file, _MOST_SETTINGS).decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise AgentError(
            f"{file} cannot be read ({error}), and is not changed."
        ) from error


def _with_entry(before: str, editor: _Editor, text: str, file: Path) -> str:
    """Return settings with the agent's entry; of an entry that is there, only the
    program is replaced.

    :param text: the settings that an editor without any would get.
    :raises AgentError: the settings cannot be understood.
    """
    entry = json.loads(text)[editor.at][NAME]
    path: tuple[str, ...] = (editor.at, NAME)
    try:
        settings = parse_jsonc(before)
        agents = settings.get(editor.at) if isinstance(settings, dict) else None
        known = agents.get(NAME) if isinstance(agents, dict) else None
        if isinstance(known, dict) and known.get("type") == "registry":
            return before  # the editor installs the agent itself
        if isinstance(known, dict):
            if known.get("command") == entry["command"]:
                return before
            path = (*path, "command")
            entry = entry["command"]
        return with_member(before, path, entry)
    except (ValueError, RecursionError) as error:
        raise AgentError(
            f"{file} cannot be changed ({error}). Add `{editor.at}` by hand. {editor.then}"
        ) from error


def _difference(before: str, after: str) -> str:
    """Return the changed lines, with the values masked that the names in the settings
    say to be secrets.
    """
    texts = enumerate(_texts_below(parse_jsonc(before)))
    secrets = {f"X{number}_{name}": text for number, (name, text) in texts}
    lines = unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return safe_for({**os.environ, **secrets})("\n".join(list(lines)[2:]))


def _texts_below(value: JsonValue, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts with their keys."""
    if isinstance(value, str):
        yield name, value
        yield name, json.dumps(value)[1:-1]
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts_below(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _texts_below(each, name)


def _write(file: Path, before: str | None, after: str) -> Path | None:
    """Write settings, and keep a copy of those that were there.

    A link, as people have it who keep their settings elsewhere, stays one.

    :returns: the copy.
    :raises AgentError: they cannot be written, or have changed meanwhile.
    """
    try:
        if before is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(after)
            return None
        real = file.resolve()
        if read_regular(real, _MOST_SETTINGS).decode() != before:
            raise AgentError(
                f"{file} has changed in the meantime, so it was not written. Run this again."
            )
        mode = stat.S_IMODE(real.stat().st_mode)
        copies = (
            real.with_name(f"{real.name}.bak{number or ''}") for number in count()
        )
        backup = next(copy for copy in copies if not copy.exists())
        for path, text in ((backup, before), (real, after)):
            with atomic_write(path, mode) as opened:
                opened.write(text.encode())
        return backup
    except OSError as error:
        raise AgentError(f"{file} cannot be written ({error.strerror}).") from error
