"""`acp-agent setup`: write an editor's settings where it has none yet, or print what belongs into them."""

from __future__ import annotations

import argparse
import os

from acp_agent.cli.setup.editors import EDITORS, program, sample
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import typed
from acp_agent.config.home import user_home
from acp_agent.errors import AgentError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "editor",
        choices=tuple(EDITORS),
        help="the editor, or the plugin of Neovim (`neovim` is CodeCompanion)",
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--yes", action="store_true", help="write without asking")


async def run(arguments: argparse.Namespace) -> int:
    """Set up one editor.

    :returns: 0; 1 where it was not allowed to write.
    :raises AgentError: there is no home directory, or the settings cannot be written.
    """
    env = os.environ
    editor, home = EDITORS[arguments.editor], user_home(env)
    if home is None:
        raise AgentError("There is no home directory to look for settings in. Set HOME.")
    file, text = editor.file(home, env), sample(editor.sample, program(env))
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
