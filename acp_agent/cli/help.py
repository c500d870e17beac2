"""`acp-agent help`: the pages of the documentation, which the package brings with it;
and `acp-agent completion`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from acp_agent.cli.main import build_parser
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.streams import unfiltered
from acp_agent.cli.terminal.usage import sub_commands
from acp_agent.config.document import did_you_mean
from acp_agent.errors import AgentError
from acp_agent.programs import find_program

_PACKAGE = Path(__file__).parents[1]
_SHELLS = ("bash", "zsh", "fish")
_GROUPS = {
    "Start": ("start", "editors", "models", "login", "doctor"),
    "Use": (
        "chat",
        "cli",
        "commands",
        "compaction",
        "strategies",
        "inspect",
        "sessions",
        "permissions",
        "questions",
        "attachments",
        "tools",
        "sandbox",
        "trust",
    ),
    "Extend": (
        "configuration",
        "recipes",
        "hooks",
        "hooks-rules",
        "hooks-python",
        "mcp",
        "library",
    ),
    "Operate": (
        "scripts",
        "serving",
        "wire",
        "compact-eval",
        "security",
        "upgrading",
        "protocol",
        "conformance",
        "benchmarks",
        "comparison",
        "architecture",
    ),
}
"""All pages, by what a person wants to do; README.md groups them in the same way."""
_FILES = ("FILE", "PATH", "SESSION")
"""What the arguments are called that are files or folders."""
_SESSIONS = "acp-agent sessions 2>/dev/null | cut -d ' ' -f 1"
_RECIPES = "acp-agent recipe list 2>/dev/null | awk '/^[^ ]/ {print $2}'"
_LISTS = {
    "id": _SESSIONS,
    "ids": _SESSIONS,
    "model": "acp-agent models 2>/dev/null | awk '/^  / {print ($1 ~ /[/]/) ? $1 : $2}'",
    "name": _RECIPES,
    "recipe": _RECIPES,
    "session": _SESSIONS,
    "session_id": _SESSIONS,
}
"""The commands that list what an argument may be, by the argument's name in the parser."""


def docs_dir() -> Path:
    """Return the folder of the documentation: in the installed package, or at the root
    of a checkout.
    """
    installed = _PACKAGE / "builtin_docs"
    return installed if installed.is_dir() else _PACKAGE.parent / "docs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help="page or sub-command (default: list all pages)",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Print a page, rendered where stdout is a terminal and as Markdown elsewhere;
    without a topic the list of pages.

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
        raise AgentError(
            f"There is no page {topic!r}; {did_you_mean(topic, {*pages, *commands})}"
        )
    else:
        _print_first_page(pages)
    return 0


def _print_first_page(pages: Mapping[str, Path]) -> None:
    """List the pages in groups, each with its first line."""
    width = max(map(len, pages))
    for title, names in _GROUPS.items():
        print(f"{title}:")
        for name in names:
            first = pages[name].read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            print(f"  {name:<{width}}  {first}")
        print()
    aside(
        "New here? Run `acp-agent help start`. `acp-agent help TOPIC` shows a page, `acp-agent COMMAND --help` "
        "the options."
    )


def _print_page(text: str) -> None:
    """Print a page: as Markdown where stdout is no terminal, else rendered, in a pager
    if it is longer than the screen.

    The pager is the one that git and man use: `PAGER`, or `less`, which keeps colours
    with `-R` and ends by itself.
    """
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=unfiltered(sys.stdout))
    page = Markdown(text, hyperlinks=False)
    pager = _pager()
    if pager is None or len(console.render_lines(page)) < console.height:
        console.print(page)
        return
    with console.capture() as rendered:
        console.print(page)
    # Of a pager that is left early, the rest of the page is not read.
    subprocess.run(
        pager,
        input=rendered.get().encode(),
        env={"LESS": "FRX", **os.environ},
        check=False,
    )


def _pager() -> list[str] | None:
    """Return the command of the pager; None if there is none, others can write to its
    folder, or the terminal cannot move its cursor.
    """
    if not sys.stdin.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:
        return None
    program = (
        find_program(words[0], holding_home=False)
        if words and words[0] != "cat"
        else None
    )
    return [program, *words[1:]] if program else None


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    parser.add_argument("shell", choices=_SHELLS, help="shell that the script is for")


async def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script with which a shell completes the command line.

    The shell reads it once; only names of sessions, recipes and models are asked for
    when they are completed.

    :returns: 0.
    """
    import shtab

    parser = build_parser()
    topics = sorted(
        {page.stem for page in docs_dir().glob("*.md")}
        | {name for name, _, _ in sub_commands(parser)}
    )
    for each in _with_all_below(parser):
        for action in each._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way to ask
            command = (
                _LISTS.get(action.dest)
                if action.metavar in ("ID", "NAME", "SESSION", "PROVIDER/MODEL")
                else None
            )
            if action.metavar == "TOPIC":
                action.choices = topics
            elif command is not None:
                action.complete = shtab.cmd(command)  # pyright: ignore[reportAttributeAccessIssue] - shtab's own
            elif action.metavar in _FILES:
                action.complete = shtab.FILE  # pyright: ignore[reportAttributeAccessIssue] - shtab's own attribute
    print(shtab.complete(parser, arguments.shell))
    return 0


def _with_all_below(
    parser: argparse.ArgumentParser,
) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for _, below, _ in sub_commands(parser):
        yield from _with_all_below(below)
