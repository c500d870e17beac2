"""`acp-agent help`: the pages of the documentation, which the package brings with it; and `acp-agent completion`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from acp_agent.cli.main import build_parser
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.streams import unfiltered
from acp_agent.cli.terminal.usage import sub_commands
from acp_agent.config.document import did_you_mean
from acp_agent.errors import AgentError

_PACKAGE = Path(__file__).parents[1]
_SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "PATH", "SESSION")
"""What the arguments are called that are files or folders."""


def docs_dir() -> Path:
    """Return the folder of the documentation: in the installed package, or at the root of a checkout."""
    installed = _PACKAGE / "builtin_docs"
    return installed if installed.is_dir() else _PACKAGE.parent / "docs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a page, or a sub-command; all pages if none")


async def run(arguments: argparse.Namespace) -> int:
    """Print a page, rendered where stdout is a terminal and as Markdown elsewhere; without a topic the list of pages.

    :returns: 0.
    :raises AgentError: there is no such page and no such sub-command.
    """
    pages = {page.stem: page for page in docs_dir().glob("*.md")}
    commands = {name: parser for name, parser, _ in sub_commands(build_parser())}
    topic: str = arguments.topic or ""
    if topic in pages:
        _print_page(pages[topic].read_text(encoding="utf-8"))
    elif topic in commands:
        commands[topic].print_help()
    elif topic:
        raise AgentError(f"There is no page {topic!r}; {did_you_mean(topic, {*pages, *commands})}")
    else:
        width = max(map(len, pages))
        for name, page in sorted(pages.items()):
            print(f"{name:<{width}}  {page.read_text(encoding='utf-8').splitlines()[0].lstrip('# ')}")
        aside("\n`acp-agent help TOPIC` shows a page, `acp-agent COMMAND --help` the options of a command.")
    return 0


def _print_page(text: str) -> None:
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=unfiltered(sys.stdout)).print(Markdown(text, hyperlinks=False))


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that reads the script")


async def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script with which a shell completes the command line.

    The shell reads it once and starts no agent to complete, so that nothing of it is imported anywhere else.

    :returns: 0.
    """
    import shtab

    parser = build_parser()
    for each in _with_all_below(parser):
        for action in each._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way to ask
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # pyright: ignore[reportAttributeAccessIssue] - shtab's own attribute
    print(shtab.complete(parser, arguments.shell))
    return 0


def _with_all_below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for _, below, _ in sub_commands(parser):
        yield from _with_all_below(below)
