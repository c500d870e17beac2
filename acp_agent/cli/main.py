"""The command line and its table of sub-commands. Each sub-command has a module with
`add_arguments` and `run`, which is loaded when the sub-command is called.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn, cast

from acp_agent import __version__
from acp_agent.cli.terminal.suggestions import meant_command
from acp_agent.cli.terminal.usage import explain, sub_commands
from acp_agent.config.document import did_you_mean
from acp_agent.visible import on_one_line

_COMMANDS: Mapping[str, Sequence[str]] = {
    "run": ("run", "prompt the agent from the terminal"),
    "chat": ("chat.command", "chat with the agent in the terminal"),
    "compact": ("run", "compact a session's context", "add_compact_arguments", "run"),
    "compact-eval": (
        "compact_eval",
        "measure what compactions keep of recorded sessions",
    ),
    "sessions": (
        "sessions",
        "list sessions, or rename, remove, archive, move or fork one",
    ),
    "serve": ("serve", "serve clients over WebSocket, several at once"),
    "inspect": (
        "inspect.command",
        "show a session as a web page: turns, context, compactions",
    ),
    "wire": (
        "wire",
        "show the recorded messages between the editor and the agent",
    ),
    "hooks": ("hooks", "list the hooks of this directory, or test them"),
    "models": (
        "models",
        "list the models with window and price, and missing keys",
    ),
    "config": (
        "models",
        "show every setting and where it was set",
        "add_config_arguments",
        "run_config",
    ),
    "login": ("login", "test a provider's key and store it"),
    "logout": ("login", "forget stored keys", "add_logout_arguments", "run_logout"),
    "trust": ("trust", "allow the hooks and recipes of a project to run"),
    "permissions": (
        "trust",
        "list permanent permissions, or revoke them",
        "add_permissions_arguments",
        "run_permissions",
    ),
    "recipe": ("recipe", "list recipes, or show, create or check one"),
    "schema": (
        "recipe",
        "print the JSON Schema of a configuration file, recipe or rule",
        "add_schema_arguments",
        "run_schema",
    ),
    "setup": ("setup", "add the agent to an editor's settings"),
    "doctor": (
        "doctor.command",
        "check the installation and suggest fixes",
    ),
    "demo": ("demo", "show the agent at work on a scratch project"),
    "help": ("help", "show a page of the documentation"),
    "completion": (
        "help",
        "print a shell's completion script",
        "add_completion_arguments",
        "run_completion",
    ),
}
"""The sub-commands by name: the module below this package, what `--help` and the
documentation say of it, and the two functions where it is the second one of its module.
"""
_EPILOG = "Without a command, it serves the Agent Client Protocol on stdin and stdout, as editors start it."


def main(argv: Sequence[str]) -> NoReturn:
    """Run a sub-command, and end the process.

    :param argv: the arguments after the program's name.
    """
    _open_standard_streams()
    arguments = parse(argv)
    from acp_agent.cli.terminal.process import run_command

    run_command(partial(arguments.run, arguments))


def _open_standard_streams() -> None:
    """Open the null device in place of a standard stream that is closed, as by `2>&-`.

    Python has no such stream otherwise, and the next opened file would get its
    descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    # A terminal of a smaller alphabet, or a file's name that is no text, is no reason
    # to print nothing at all.
    cast(TextIOWrapper, sys.stdout).reconfigure(errors="replace")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of the sub-command, with the function that runs it as `run`.
    End the process with a message if the arguments are wrong.

    :param argv: the arguments after the program's name.
    """
    names = [word for word in argv if not word.startswith("-")][:1]
    parser = build_parser(names)
    if meant := meant_command(argv, _COMMANDS):
        parser.error(meant)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        _called(parser, arguments).refuse(unknown)
    return arguments


class _Parser(argparse.ArgumentParser):
    """A parser whose errors suggest what the user may mean, and contain no control
    characters.
    """

    def error(self, message: str) -> NoReturn:
        super().error(on_one_line(message))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Print the usage and the unknown words, and end the process."""
        options = [
            option for action in self._actions for option in action.option_strings
        ]
        first = unknown[0].partition("=")[0]
        advice = (
            did_you_mean(first, options)
            if first.startswith("-")
            else "quote words that belong together"
        )
        self.error(f"unrecognized arguments: {' '.join(unknown)}; {advice}")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Suggest similar choices for an invalid one. argparse also calls this for the
        name of a sub-command.
        """
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action,
                f"there is no {str(value)!r}; {did_you_mean(str(value), choices)}",
            )


def _called(parser: _Parser, arguments: argparse.Namespace) -> _Parser:
    """Return the parser of the sub-command that the arguments name."""
    for name in (arguments.command, getattr(arguments, "action", None)):
        for word, below, _ in sub_commands(parser):
            if word == name:
                parser = cast("_Parser", below)
                break
    return parser


async def _run(
    command: Callable[[argparse.Namespace], Awaitable[int]],
    arguments: argparse.Namespace,
) -> int:
    from acp_agent.cli.terminal.streams import harmless_output

    _distrust_surroundings()
    with harmless_output():
        return await command(arguments)


def _distrust_surroundings() -> None:
    """Never run programs from the project that the command is called in, nor from
    caches that sandboxed commands may write.

    Most commands open no session, which would do this. But PATH may name the project's
    `.venv/bin`, and an earlier session's command may have put a program there.
    """
    from acp_agent.programs import distrust
    from acp_agent.sandbox.folders import CACHES

    caches = (os.path.expanduser(f"~/{each}") for each in CACHES)  # noqa: PTH111 - fails if there is no home
    with suppress(FileNotFoundError):  # the current directory no longer exists
        distrust((os.getcwd(),))  # noqa: PTH109 - a string is needed
    distrust(folders=caches)


def build_parser(names: Collection[str] = tuple(_COMMANDS)) -> _Parser:
    """Return the parser.

    :param names: the sub-commands whose modules are loaded. The other sub-commands get
        no arguments.
    """
    parser = _Parser(
        prog="acp-agent",
        description="A coding agent for editors that speak the Agent Client Protocol.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--version", action="version", version=f"acp-agent {__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module_name, text, *functions) in _COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if name in names:
            module = import_module(f"acp_agent.cli.{module_name}")
            add_arguments, run = functions or ("add_arguments", "run")
            getattr(module, add_arguments)(command)
            command.set_defaults(run=partial(_run, getattr(module, run)))
            explain(command, name, text)
    return parser
