"""The editors that this agent can be set up in: where each keeps its settings, and what belongs into them.

The text that belongs into them is that of the files in `editors/`, which a person may copy as well.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

NAME = "acp-agent"
PLACEHOLDER = "/path/to/acp-agent"
"""Stands in the files of `editors/` for the command."""
_XDG = {".config/": "XDG_CONFIG_HOME", ".local/share/": "XDG_DATA_HOME"}
_PACKAGE = Path(__file__).parents[2]
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


@frozen
class Editor:
    """One editor.

    :ivar title: as it calls itself.
    :ivar sample: its file in `editors/`.
    :ivar then: what to do when the entry is there.
    :ivar programs: the commands that start it.
    :ivar settings: the path of its settings below the user's home; "" where the user has to put the text into a file
        of their own.
    :ivar on_macos: the same on macOS; "" for no other one.
    :ivar at: the name under which its settings have the agents.
    :ivar plugins: the file and the advice for each plugin of an editor that has several.
    """

    title: str
    sample: str
    then: str
    programs: tuple[str, ...]
    settings: str = ""
    on_macos: str = ""
    at: str = ""
    plugins: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    def file(self, home: Path, env: Mapping[str, str]) -> Path | None:
        """Return the path of its settings; None where there are none to be written."""
        settings = self.on_macos if self.on_macos and sys.platform == "darwin" else self.settings
        return _below_home(home, env, settings) if settings else None

    def is_here(self, home: Path, env: Mapping[str, str]) -> bool:
        """Return whether it can be started, or has settings."""
        file = self.file(home, env)
        try:
            has_settings = file is not None and file.exists()
        except PermissionError:
            has_settings = True
        return has_settings or any(shutil.which(name, path=env.get("PATH")) for name in self.programs)


def _below_home(home: Path, env: Mapping[str, str], name: str) -> Path:
    """Return where a file is: below the user's home, or below `XDG_CONFIG_HOME` or `XDG_DATA_HOME` where that is set.

    :param name: below the home, as `.config/zed/settings.json`.
    """
    for default, variable in _XDG.items():
        folder = env.get(variable, "")
        if sys.platform != "darwin" and name.startswith(default) and folder.startswith("/"):
            return Path(folder, name.removeprefix(default))
    return home / name


_PLUGINS: Mapping[str, tuple[str, str]] = {
    "codecompanion": (
        "neovim/codecompanion.lua",
        "Put it where you set CodeCompanion up, then :CodeCompanionChat. For avante and agentic.nvim: --plugin.",
    ),
    "avante": (
        "neovim/avante.lua",
        "Put it where you set avante up, with HOME and your keys in `env`, then :AvanteAsk.",
    ),
    "agentic": ("neovim/agentic.lua", "Put it where you set agentic.nvim up, then open its chat."),
}


def _vs_code(title: str, programs: tuple[str, ...], folder: str, name: str) -> Editor:
    then = f"In {title}: install the extension ACP Client, open its view, and connect to acp-agent."
    settings = f"{name}/User/settings.json"
    macos = f"Library/Application Support/{settings}"
    return Editor(title, "vscode/settings.json", then, programs, f"{folder}/{settings}", macos, "acp.agents")


EDITORS: Mapping[str, Editor] = {
    "zed": Editor(
        "Zed",
        "zed/settings.json",
        "In Zed: open the agent panel, and choose acp-agent behind the plus sign.",
        ("zed", "zeditor", "zed-editor"),
        ".config/zed/settings.json",
        at="agent_servers",
    ),
    "jetbrains": Editor(
        "JetBrains",
        "jetbrains/acp.json",
        "In the IDE: open AI Chat, and choose acp-agent in the list of agents.",
        ("idea", "pycharm", "webstorm", "phpstorm", "goland", "clion", "rustrover", "rubymine", "rider"),
        ".jetbrains/acp.json",
        at="agent_servers",
    ),
    "vscode": _vs_code("VS Code", ("code",), ".config", "Code"),
    "vscodium": _vs_code("VSCodium", ("codium", "vscodium"), ".config", "VSCodium"),
    "code-server": _vs_code("code-server", ("code-server",), ".local/share", "code-server"),
    "acpx": Editor(
        "acpx",
        "acpx/config.json",
        "Then: acpx acp-agent exec 'explain this repository'",
        ("acpx",),
        ".acpx/config.json",
        at="agents",
    ),
    "neovim": Editor("Neovim", *_PLUGINS["codecompanion"], ("nvim",), plugins=_PLUGINS),
    "emacs": Editor(
        "Emacs",
        "emacs/acp-agent.el",
        "Put it into your init file behind agent-shell, then M-x agent-shell-acp-agent.",
        ("emacs",),
    ),
}


def editors_dir() -> Path:
    """Return the folder of the files for editors: in the installed package, or at the root of a checkout."""
    installed = _PACKAGE / "builtin_editors"
    return installed if installed.is_dir() else _PACKAGE.parent / "editors"


def program(env: Mapping[str, str]) -> str:
    """Return the absolute path of the command that starts this agent; editors have a shorter `PATH` than a shell.

    :raises AgentError: there is no such command.
    """
    sibling = Path(sys.executable).with_name(NAME)
    found = str(sibling) if sibling.is_file() else shutil.which(NAME, path=env.get("PATH"))
    if found is None:
        raise AgentError(
            f"There is no command {NAME} next to {sys.executable} or on the PATH. Install the agent, as with "
            "`pipx install .` in its folder, and call this again."
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


def entry(editor: Editor, command: str) -> JsonObject:
    """Return what stands under the agent's name in an editor's settings.

    :param command: absolute path.
    """
    return json.loads(sample(editor.sample, command))[editor.at][NAME]


def read_settings(text: str) -> JsonObject:
    """Return the settings in a text that may have comments and trailing commas; those of an empty text are empty.

    :raises ValueError: it is no JSON, or no object.
    """
    plain = _TRAILING_COMMA.sub(_quoted, _COMMENT.sub(_quoted, text.removeprefix("\ufeff")))
    value: JsonValue = json.loads(plain) if plain.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("it holds no object")
    return value


def _quoted(found: re.Match[str]) -> str:
    return found[1] or ""
