"""`acp-agent setup`: put the agent into an editor's settings with the user's consent, or print what belongs there.

Settings are written where they are plain JSON, and nothing but the entry changes.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
from pathlib import Path

from acp_agent.cli.setup.editors import EDITORS, NAME, Editor, entry, program, sample
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import typed
from acp_agent.config.home import user_home
from acp_agent.config.state_file import atomic_write
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import AgentError
from acp_agent.regular import read_regular

_STYLES = (2, 4, "\t", None)
"""Indentations of JSON that is written anew without a change of anything else."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "editor",
        choices=tuple(EDITORS),
        help="the editor, or the plugin of Neovim (`neovim` is CodeCompanion); for Neovim and Emacs the text for your "
        "own file is printed",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.add_argument("--yes", action="store_true", help="write without asking")


async def run(arguments: argparse.Namespace) -> int:
    """Set up one editor.

    :returns: 0; 1 where it was not allowed to write into the editor's settings.
    :raises AgentError: there is no home directory.
    """
    env = os.environ
    editor, home, command = EDITORS[arguments.editor], user_home(env), program(env)
    if home is None:
        raise AgentError("There is no home directory to look for settings in. Set HOME.")
    file = editor.file(home, env)
    before = read_regular(file) if file is not None and file.exists() else b""
    after = _with_entry(editor, before, command) if file is not None else None
    if file is None or after is None:
        print(sample(editor.sample, command), end="")
        if file is not None:
            aside(f"{file} has a form of its own, and is not written here. Put `{editor.at}` next to the rest.")
        aside(editor.then)
        return 0
    if after != before:
        print(f"{file}\n  {editor.at}.{NAME}: {json.dumps(entry(editor, command), ensure_ascii=False)}")
        if arguments.dry_run:
            aside("Nothing was written.")
            return 0
        if not arguments.yes and (answer := await typed("Write this? [y]es, [n]o: ")) not in ("y", "yes"):
            hint = " There is no terminal to ask at; --yes writes without asking." if answer is None else ""
            aside(f"Nothing was written.{hint}")
            return 1
        _write(file, after)
        aside(f"Written: {file}")
    aside(f"{editor.title} is set up. {editor.then}")
    return 0


def _with_entry(editor: Editor, before: bytes, command: str) -> bytes | None:
    """Return settings with the agent in them, the same where it is there already; None where they are no plain JSON, or
    have a form that writing would change."""
    if not before.strip():
        return sample(editor.sample, command).encode()
    try:
        text = before.decode()
        settings = json.loads(text)
        plain = text.strip()
        indent = next(each for each in _STYLES if _dumped(settings, each) == plain)
        agents = settings.setdefault(editor.at, {})
        old = agents.get(NAME, {})
        # What the user has set besides the command stays, such as an environment.
        kept = {key: each for key, each in old.items() if key not in ("command", "type", "args")}
    except (ValueError, RecursionError, StopIteration, AttributeError):
        return None
    new = entry(editor, command) | kept
    if new == {"args": [], **old}:
        return before
    agents[NAME] = new
    return text.replace(plain, _dumped(settings, indent)).encode()


def _dumped(settings: JsonObject, indent: int | str | None) -> str:
    return json.dumps(settings, ensure_ascii=False, indent=indent)


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole, through links, and with its own mode."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    with atomic_write(target) as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
