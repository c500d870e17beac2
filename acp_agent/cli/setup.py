"""`acp-agent setup`: write an editor's settings where it has none yet, or print what belongs into them.

The text is that of the files in `editors/`, which a person may copy as well.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import typed
from acp_agent.config.home import user_home
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

NAME = "acp-agent"
PLACEHOLDER = "/path/to/acp-agent"
"""Stands in the files of `editors/` for the command."""
_XDG = {".config/": "XDG_CONFIG_HOME", ".local/share/": "XDG_DATA_HOME"}
_PACKAGE = Path(__file__).parents[1]


@frozen
class _Editor:
    """One editor.

    :ivar title: as it calls itself.
    :ivar sample: its file in `editors/`.
    :ivar then: what to do when the entry is there.
    :ivar settings: the path of its settings below the user's home, or below `XDG_CONFIG_HOME` or `XDG_DATA_HOME` in
        place of their defaults; "" where the user has to put the text into a file of their own.
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
    return _Editor(title, "vscode/settings.json", then, f"{folder}/{settings}", macos, "acp.agents")


EDITORS: Mapping[str, _Editor] = {
    "zed": _Editor(
        "Zed",
        "zed/settings.json",
        "In Zed: open the agent panel, and choose acp-agent behind the plus sign.",
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
        "Put it where you set CodeCompanion up, then :CodeCompanionChat. For others: setup avante, setup agentic.",
    ),
    "avante": _Editor(
        "avante",
        "neovim/avante.lua",
        "Put it where you set avante up, with HOME and your keys in `env`, then :AvanteAsk.",
    ),
    "agentic": _Editor(
        "agentic.nvim",
        "neovim/agentic.lua",
        "Put it where you set agentic.nvim up, then open its chat.",
    ),
    "emacs": _Editor(
        "Emacs",
        "emacs/acp-agent.el",
        "Put it into your init file behind agent-shell, then M-x agent-shell-acp-agent.",
    ),
}


def editors_dir() -> Path:
    """Return the folder of the files for editors: in the installed package, or at the root of a checkout."""
    installed = _PACKAGE / "builtin_editors"
    return installed if installed.is_dir() else _PACKAGE.parent / "editors"


def program() -> str:
    """Return the absolute path of the command that starts this agent; editors have a shorter `PATH` than a shell.

    :raises AgentError: there is no such command.
    """
    sibling = Path(sys.executable).with_name(NAME)
    found = str(sibling) if sibling.is_file() else shutil.which(NAME)
    if found is None:
        raise AgentError(
            f"There is no command {NAME} next to {sys.executable} or on the PATH. Install the agent, as with "
            "`pipx install acp-agent-server`, and call this again."
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
        help="the editor, or the plugin of Neovim (`neovim` is CodeCompanion); all of them are listed if none",
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--yes", action="store_true", help="write without asking")


def _list_editors(home: Path) -> None:
    """Print the editors, and where the settings of each are."""
    width = max(map(len, EDITORS))
    for name, editor in EDITORS.items():
        file = editor.file(home)
        where = "prints what belongs in your own file" if file is None else str(file)
        if file is not None and not file.exists():
            where += " (not there yet)"
        print(f"{name:<{width}}  {editor.title:<14}  {where}")
    aside("\n`acp-agent setup EDITOR` sets one up; it asks before it writes.")


async def run(arguments: argparse.Namespace) -> int:
    """Set up one editor.

    :returns: 0; 1 where it was not allowed to write.
    :raises AgentError: there is no home directory, or the settings cannot be written.
    """
    home = user_home(os.environ)
    if home is None:
        raise AgentError("There is no home directory to look for settings in. Set HOME.")
    if arguments.editor is None:
        _list_editors(home)
        return 0
    editor = EDITORS[arguments.editor]
    file, text = editor.file(home), sample(editor.sample, program())
    print(text, end="")
    if file is None:
        aside(editor.then)
    elif file.exists():
        aside(f"{file} is there already, and is not changed. Put `{editor.at}` next to the rest. {editor.then}")
    elif arguments.dry_run:
        aside(f"This would be written into {file}.")
    elif arguments.yes or await typed(f"Write this into {file}? [y]es, [n]o: ") in ("y", "yes"):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except OSError as error:
            raise AgentError(f"{file} cannot be written ({error.strerror}).") from error
        aside(f"Written: {file}. {editor.then}")
    else:
        aside("Nothing was written; --yes writes without asking.")
        return 1
    return 0
