"""The editors that this agent can be set up in: where each keeps its settings, and what belongs into them.

What belongs into them is kept in the files of `editors/`, which a person may copy as well. Touches no settings.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from acp_agent.commands.jsonc import JsonText, JsonValue
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

NAME = "acp-agent"
PLACEHOLDER = "/path/to/acp-agent"
"""Stands in the files of `editors/` for the command."""
_XDG = {".config/": "XDG_CONFIG_HOME", ".local/share/": "XDG_DATA_HOME"}
_PACKAGE = Path(__file__).parents[1]


@frozen
class Editor:
    """One editor.

    :ivar title: as it calls itself.
    :ivar sample: its file in `editors/`.
    :ivar programs: the commands that start it.
    :ivar settings: its settings below the user's home, by platform (`darwin`, or empty for any other); none where the
        user has to put the sample's text into a file of their own.
    :ivar at: where its agents stand in them.
    :ivar then: what to do when the entry is there.
    :ivar plugins: where it is a plugin that speaks the protocol, and there is a choice: the sample of each, and what to
        do with it. The first is that of `sample`.
    :ivar kin: other builds of it, which are set up alike and keep their settings elsewhere.
    """

    title: str
    sample: str
    then: str
    programs: tuple[str, ...]
    settings: Mapping[str, str] | None = None
    at: str = ""
    plugins: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    kin: tuple[Editor, ...] = ()

    def file(self, home: Path, env: Mapping[str, str]) -> Path | None:
        """Its settings.

        :param home: the user's.
        :param env: environment variables.
        """
        if self.settings is None:
            return None
        return below_home(home, env, self.settings.get(sys.platform, self.settings[""]))

    def found(self, home: Path, env: Mapping[str, str]) -> tuple[Editor, ...]:
        """Those of its builds that are here: that can be started, or have settings.

        :param home: the user's.
        :param env: environment variables.
        """
        return tuple(each for each in (self, *self.kin) if each._is_here(home, env))

    def _is_here(self, home: Path, env: Mapping[str, str]) -> bool:
        if any(shutil.which(name, path=env.get("PATH")) for name in self.programs):
            return True
        file = self.file(home, env)
        try:
            return file is not None and bool(file.stat())
        except PermissionError:
            return True  # somebody who may not look would have to say
        except OSError:
            return False


def below_home(home: Path, env: Mapping[str, str], name: str) -> Path:
    """Where a file of the user's is, other than on macOS below `XDG_CONFIG_HOME` or `XDG_DATA_HOME` where that is set.

    :param home: the user's.
    :param env: environment variables.
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
_VSCODE = Editor(
    "VS Code",
    "vscode/settings.json",
    "In VS Code: install the extension ACP Client, open its view, and connect to acp-agent.",
    ("code",),
    {"": ".config/Code/User/settings.json", "darwin": "Library/Application Support/Code/User/settings.json"},
    "acp.agents",
)
_VSCODIUM = replace(
    _VSCODE,
    title="VSCodium",
    then="In VSCodium: install the extension ACP Client, open its view, and connect to acp-agent.",
    programs=("codium", "vscodium"),
    settings={
        "": ".config/VSCodium/User/settings.json",
        "darwin": "Library/Application Support/VSCodium/User/settings.json",
    },
)
_CODE_SERVER = replace(
    _VSCODE,
    title="code-server",
    then="In code-server: install the extension ACP Client, open its view, and connect to acp-agent.",
    programs=("code-server",),
    settings={
        "": ".local/share/code-server/User/settings.json",
        "darwin": "Library/Application Support/code-server/User/settings.json",
    },
)
EDITORS: Mapping[str, Editor] = {
    "zed": Editor(
        "Zed",
        "zed/settings.json",
        "In Zed: open the agent panel, and choose acp-agent behind the plus sign.",
        ("zed", "zeditor", "zed-editor"),
        {"": ".config/zed/settings.json"},
        "agent_servers",
    ),
    "jetbrains": Editor(
        "JetBrains",
        "jetbrains/acp.json",
        "In the IDE: open AI Chat, and choose acp-agent in the list of agents.",
        ("idea", "pycharm", "webstorm", "phpstorm", "goland", "clion", "rustrover", "rubymine", "rider"),
        {"": ".jetbrains/acp.json"},
        "agent_servers",
    ),
    "vscode": replace(_VSCODE, kin=(_VSCODIUM, _CODE_SERVER)),
    "acpx": Editor(
        "acpx",
        "acpx/config.json",
        "Then: acpx acp-agent exec 'explain this repository'",
        ("acpx",),
        {"": ".acpx/config.json"},
        "agents",
    ),
    "neovim": Editor(
        "Neovim",
        *_PLUGINS["codecompanion"],
        ("nvim",),
        plugins=_PLUGINS,
    ),
    "emacs": Editor(
        "Emacs",
        "emacs/acp-agent.el",
        "Put it into your init file behind agent-shell, then M-x agent-shell-acp-agent.",
        ("emacs",),
    ),
}


def editors_dir() -> Path:
    """The files for editors: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "builtin_editors"
    return installed if installed.is_dir() else _PACKAGE.parent / "editors"


def program(env: Mapping[str, str]) -> str:
    """The absolute path of the command that starts this agent; editors start with a shorter `PATH` than a shell.

    :raises AgentError: it is installed without one.
    """
    beside = Path(sys.executable).with_name(NAME)
    found = str(beside) if beside.is_file() else shutil.which(NAME, path=env.get("PATH"))
    if found is None:
        raise AgentError(
            f"There is no command {NAME} beside {sys.executable} or on the PATH. Install the agent, as with "
            "`pipx install .` in its folder, and call this again."
        )
    return str(Path(found).absolute())


def entry(editor: Editor, command: str) -> JsonValue:
    """What stands under the agent's name in an editor's settings.

    :param command: absolute path.
    """
    return JsonText.read(sample(editor.sample, command)).get(editor.at, NAME)


def sample(name: str, command: str) -> str:
    """The text of a file in `editors/`, with the command in it.

    :param name: as zed/settings.json.
    :param command: absolute path.
    """
    text = (editors_dir() / name).read_text(encoding="utf-8")
    # JSON, Lua and Lisp quote alike what a path may hold.
    return text.replace(PLACEHOLDER, json.dumps(command, ensure_ascii=False)[1:-1])
