"""`acp-agent setup`: put the agent into an editor's settings with the user's consent, or print what belongs there.

Settings are written where they are plain JSON, and nothing but the entry changes.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
from pathlib import Path

from acp_agent.cli.setup.editors import EDITORS, NAME, Editor, entry, program, read_settings, sample
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import typed
from acp_agent.config.home import CONFIG_FILE, ensure_private_dir, home_dir, user_home
from acp_agent.config.state_file import atomic_write
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import AgentError
from acp_agent.regular import read_regular
from acp_agent.schemas import modeline, put_copy, schema_path

_STYLES = (2, 4, "\t", None)
"""Indentations of JSON that is written anew without a change of anything else."""
_SCHEMAS = "schemas"
"""The folder, next to config.yaml, of its schema."""
_CONFIG = """\
# Settings of acp-agent, for every project. docs/configuration.md says what each is for.

# The model that works where a session chooses no other, as provider/model.
# model: anthropic/claude-sonnet-5-5

# compaction:
#   threshold: 80%    # of the window, from which on a conversation is made short
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "editor",
        choices=tuple(EDITORS),
        help="the editor; for Neovim and Emacs the text for your own file is printed",
    )
    parser.add_argument("--plugin", choices=tuple(EDITORS["neovim"].plugins), help="of Neovim (`codecompanion`)")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.add_argument("--yes", action="store_true", help="write without asking")


async def run(arguments: argparse.Namespace) -> int:
    """Set up one editor, and make a configuration where there is none.

    :returns: 0; 1 where it was not allowed to write into the editor's settings.
    :raises AgentError: the settings cannot be read or written.
    """
    env = os.environ
    editor, home, command = EDITORS[arguments.editor], user_home(env), program(env)
    if home is None:
        raise AgentError("There is no home directory to look for settings in. Set HOME.")
    name, then = editor.sample, editor.then
    if arguments.plugin is not None:
        if arguments.plugin not in editor.plugins:
            raise AgentError(f"{editor.title} has no plugin {arguments.plugin!r}; Neovim has.")
        name, then = editor.plugins[arguments.plugin]
    config, changes = home_dir(env) / CONFIG_FILE, dict[Path, str]()
    file = editor.file(home, env)
    before = _read(file) if file is not None else ""
    after = _with_entry(editor, file, before, command) if file is not None else None
    if file is not None and after is not None:
        if after != before:
            changes[file] = after
            shown = json.dumps(entry(editor, command), ensure_ascii=False)
            print(f"{file}\n  {editor.at}.{NAME}: {shown}")
    else:
        print(sample(name, command), end="")
        own = f"{file} has comments or a form of its own, and is not written here. Put `{editor.at}` next to the rest. "
        aside(f"{own if file is not None else ''}{then}")
    if _is_missing(config):
        changes[config] = f"{modeline(config.parent / _SCHEMAS / schema_path('config').name, config)}\n{_CONFIG}"
        aside(f"{config}\n  a configuration to begin with")
    if changes and arguments.dry_run:
        aside("Nothing was written.")
        return 0
    if changes and not arguments.yes and (answer := await typed("Write this? [y]es, [n]o: ")) not in ("y", "yes"):
        hint = " There is no terminal to ask at; --yes writes without asking." if answer is None else ""
        aside(f"Nothing was written.{hint}")
        return 1 if file in changes else 0
    if config in changes:
        put_copy("config", ensure_private_dir(config.parent) / _SCHEMAS)
    for path, text in changes.items():
        _write(path, text)
        aside(f"Written: {path}")
    if after is not None:
        aside(f"{editor.title} is set up. {then}")
    return 0


def _with_entry(editor: Editor, file: Path, text: str, command: str) -> str | None:
    """Return settings with the agent in them, as they are where it is there already; None where they have comments or
    a form that writing would change.

    :raises AgentError: they cannot be understood.
    """
    try:
        settings = read_settings(text)
    except (ValueError, RecursionError) as error:
        raise AgentError(f"{file}: {error}. Nothing was written; correct it, or copy the entry by hand.") from error
    plain = text.strip()
    indent = next((each for each in _STYLES if _dumped(settings, each) == plain), "none")
    agents = settings.setdefault(editor.at, {})
    if not isinstance(agents, dict):
        raise AgentError(
            f"{file}: `{editor.at}` holds no object. Nothing was written; correct it, and call this again."
        )
    old = agents.get(NAME)
    kept = old if isinstance(old, dict) else {}
    # What the user has set besides the command stays, such as an environment.
    new = entry(editor, command) | {key: each for key, each in kept.items() if key not in ("command", "type", "args")}
    if new == {"args": [], **kept}:
        return text
    if not plain:
        return sample(editor.sample, command)
    agents[NAME] = new
    return None if indent == "none" else text.replace(plain, _dumped(settings, indent))


def _dumped(settings: JsonObject, indent: int | str | None) -> str:
    return json.dumps(settings, ensure_ascii=False, indent=indent)


def _is_missing(file: Path) -> bool:
    return not os.path.lexists(file)


def _read(file: Path) -> str:
    """Return what a file says; "" where there is none."""
    try:
        return read_regular(file).decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise AgentError(f"{file} cannot be read ({reason}). Nothing was written.") from error


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, through links, and with its own mode.

    :raises AgentError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
        with atomic_write(target) as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), mode)
    except OSError as error:
        raise AgentError(f"{path} cannot be written ({error.strerror}).") from error
