"""The command line: which sub-commands there are. Each one's work is in `commands`, loaded when it is called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn, cast

from acp_agent import __version__
from acp_agent.commands.editors import EDITORS
from acp_agent.schemas import SCHEMA_NAMES

_EPILOG = "Without a command it serves the Agent Client Protocol on stdin and stdout; that is how an editor starts it."

_LISTED = "as `acp-agent sessions` lists it; may be repeated"
_SESSION = "its id, or the beginning of it; the newest session of this directory where none is given"
_ADDRESS = "127.0.0.1:0"


def main(argv: Sequence[str]) -> NoReturn:
    """Run a command, and end the process.

    :param argv: the arguments behind the program's name.
    """
    _open_standard_streams()
    arguments = parse(argv)
    from acp_agent.commands.terminal import run_command

    run_command(arguments)


def _open_standard_streams() -> None:
    """Put the null device in the place of those that are closed, as by `2>&-`: Python has none then, prints on stdout
    what was for stderr, and the next file to be opened would take the descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    # A terminal of a smaller alphabet, or a file's name that is no text, is no reason to print nothing at all.
    cast(TextIOWrapper, sys.stdout).reconfigure(errors="replace")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """What was asked for. Ends the process with a message where it cannot be understood.

    :param argv: the arguments behind the program's name.
    """
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if not rest:
        return arguments
    # `recipe show NAME --arg …`: argparse takes no words behind an option where there were none before it.
    end = rest.index("--") if "--" in rest else len(rest)
    words = [*rest[:end], *rest[end + 1 :]]
    shows = arguments.command == "recipe" and arguments.action == "show"
    if not shows or any(word[:1] == "-" for word in rest[:end]):
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    arguments.text += words
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """All sub-commands, with the words that `--help` and the documentation have for them."""
    parser = argparse.ArgumentParser(
        prog="acp-agent", description="A coding agent for editors that speak the Agent Client Protocol.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"acp-agent {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="prompt the agent from the terminal")
    run.add_argument(
        "text",
        nargs="*",
        help="what to do; with a recipe, its instructions. Read from stdin where it is `-`, as in "
        "`git diff | acp-agent run -`",
    )
    run.add_argument(
        "-r",
        "--recipe",
        metavar="NAME",
        help="run this recipe, as `/NAME` does in an editor (`github/pr` for one in a folder)",
    )
    run.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="arguments",
        metavar="NAME=VALUE",
        help="an argument of the recipe; each may be given once",
    )
    _session_choice(run, required=False)
    _options(run)

    chat = commands.add_parser("chat", help="talk with the agent in the terminal")
    _session_choice(chat, required=False)
    _options(chat)

    compact = commands.add_parser("compact", help="compact a session's context")
    compact.add_argument("text", nargs="*", metavar="INSTRUCTIONS", help="what the summary should keep in mind")
    _session_choice(compact, required=True)

    _compact_eval(commands.add_parser("compact-eval", help="measure what compactions of recorded sessions keep"))

    sessions = commands.add_parser("sessions", help="list the sessions; remove, archive or fork one")
    sessions.add_argument("--archived", action="store_true", help="list those that are archived, and no others")
    actions = sessions.add_subparsers(dest="action", metavar="ACTION")
    remove = actions.add_parser("rm", help="remove sessions with their history, for good")
    remove.add_argument("ids", nargs="+", metavar="ID", help=_LISTED)
    archive = actions.add_parser("archive", help="leave sessions out of the list, with all they hold kept")
    archive.add_argument("ids", nargs="+", metavar="ID", help=_LISTED)
    unarchive = actions.add_parser("unarchive", help="list sessions again that were archived")
    unarchive.add_argument("ids", nargs="+", metavar="ID", help="as `acp-agent sessions --archived` lists it")
    fork = actions.add_parser("fork", help="make a session that goes on from a point of another one; prints its id")
    fork.add_argument("id", metavar="ID", help="as `acp-agent sessions` lists it")
    fork.add_argument(
        "--at",
        type=int,
        metavar="N",
        help="the last entry that the new session has, by its number in `acp-agent inspect`; all of them where none is "
        "given",
    )

    serve = commands.add_parser("serve", help="serve clients over WebSocket, several at once")
    serve.add_argument(
        "--websocket",
        action="append",
        default=[],
        dest="addresses",
        metavar="HOST:PORT",
        help=f"where to listen; may be repeated. Port 0 stands for any that is free. `{_ADDRESS}` where none is given; "
        "one that is not loopback needs a token",
    )
    serve.add_argument(
        "--token-file",
        metavar="FILE",
        help="the token that clients have to send is in this file, or comes over this pipe; it may be in the "
        "environment as `ACP_AGENT_TOKEN` instead",
    )
    serve.add_argument(
        "--origin",
        action="append",
        default=[],
        dest="origins",
        metavar="ORIGIN",
        help="web pages of this origin, as http://localhost:2718, may connect; may be repeated",
    )

    inspect = commands.add_parser("inspect", help="show a session as a page: its turns, its context, its compactions")
    inspect.add_argument("session", nargs="?", metavar="SESSION", help=_SESSION)
    where = inspect.add_mutually_exclusive_group()
    where.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write (`SESSION.html` in this directory), `-` for stdout"
    )
    where.add_argument(
        "--serve",
        nargs="?",
        const=_ADDRESS,
        metavar="HOST:PORT",
        help="show it to this machine's browser instead, and follow the session while it goes on; a free port of "
        "127.0.0.1 where none is given",
    )

    _wire(commands.add_parser("wire", help="show what the editor and the agent said to each other, as recorded"))
    _hooks(commands.add_parser("hooks", help="show the hooks of this directory, or try them"))

    login = commands.add_parser("login", help="store a provider's key, after trying it")
    login.add_argument(
        "provider",
        nargs="?",
        metavar="PROVIDER",
        help="as `anthropic`, or one of your own; the configured model's where none is given, or you are asked",
    )
    login.add_argument("--no-check", action="store_true", help="store the key without trying it")
    logout = commands.add_parser("logout", help="forget stored keys")
    logout.add_argument("provider", nargs="?", metavar="PROVIDER", help="whose; all where none is given")

    trust = commands.add_parser("trust", help="allow the hooks and recipes of a project to run")
    what = trust.add_mutually_exclusive_group()
    what.add_argument("path", nargs="?", metavar="PATH", help="the project's folder (this directory)")
    what.add_argument("--list", action="store_true", help="show what is allowed")
    what.add_argument("--revoke", metavar="PATH", help="allow nothing of this project any more")
    _permissions(commands.add_parser("permissions", help="list what you have allowed for good, or revoke it"))
    _recipe(commands.add_parser("recipe", help="list the recipes, show, make or check one"))
    schema = commands.add_parser("schema", help="print the JSON Schema of a file that you write")
    schema.add_argument(
        "name",
        choices=SCHEMA_NAMES,
        help="the user's config.yaml, a project's, the front matter of a recipe, or a rule among the hooks",
    )

    setup = commands.add_parser("setup", help="put the agent into an editor's settings")
    setup.add_argument(
        "editor",
        choices=tuple(EDITORS),
        help="the editor; for Neovim and Emacs the text for your own file is printed",
    )
    setup.add_argument(
        "--plugin",
        choices=tuple(EDITORS["neovim"].plugins),
        help="of Neovim (`codecompanion`)",
    )
    setup.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    setup.add_argument("--yes", action="store_true", help="write without asking")

    doctor = commands.add_parser("doctor", help="check that all is there, and say what to do where it is not")
    doctor.add_argument("--offline", action="store_true", help="ask no model")
    doctor.add_argument("--json", action="store_true", help="print it as JSON")

    demo = commands.add_parser("demo", help="show the agent at work on a scratch project")
    demo.add_argument("--model", metavar="PROVIDER/MODEL", help="play with a real model instead of the script")
    return parser


def _compact_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sessions", nargs="+", metavar="SESSION", help="a session's id, its beginning, or a recorded file"
    )
    parser.add_argument(
        "--recipe",
        action="append",
        default=[],
        dest="recipes",
        metavar="NAME|FILE",
        help="measure this recipe, a name or a Markdown file; may be repeated. Otherwise all that compact and all "
        "strategies that ask no model are measured",
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        dest="sizes",
        metavar="PERCENT|TOKENS",
        help="size of the new context, in place of what the recipes say; a percentage is of the conversation's tokens. "
        "May be repeated, for one row for each method and size",
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="let this model write the summaries. One call or more for each recipe at each point: it costs money",
    )


def _permissions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    revoke = actions.add_parser("revoke", help="have calls asked for again")
    revoke.add_argument(
        "rules", nargs="*", metavar="RULE", help="as listed; all rules of the project where none is named"
    )
    revoke.add_argument("--project", default=".", metavar="PATH", help="the project's folder (this directory)")


def _wire(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, or the beginning of it: all that was recorded of it"
    )
    which.add_argument("--last", action="store_true", help="all of the agent that was started last (the default)")
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until ctrl-c")
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="NAME",
        help="this method alone, with its responses, as `session/prompt` or `fs/*`; may be repeated",
    )
    parser.add_argument("--full", action="store_true", help="whole messages, however long")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each message")


def _hooks(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what would be asked, in this order")
    listing.add_argument("--json", action="store_true", help="print it as JSON")
    test = actions.add_parser("test", help="ask all that are bound to an event, and do nothing of what they want")
    test.add_argument("event", metavar="EVENT", help="such as before_tool_call, or PreToolUse")
    test.add_argument(
        "--tool", default="shell", metavar="NAME", help="the tool of a call, by our name or Claude Code's (`shell`)"
    )
    test.add_argument("--input", metavar="JSON", help='its arguments, as `{"command": "ls"}`')
    test.add_argument("--output", default="", metavar="TEXT", help="its result")
    test.add_argument("--prompt", default="Hello", metavar="TEXT", help="what the user sent")
    test.add_argument("--response", default="Done.", metavar="TEXT", help="the model's answer, or the summary")
    test.add_argument(
        "--source", default="new", choices=("new", "load", "resume", "compact"), help="how the session starts (`new`)"
    )
    test.add_argument("--used", type=float, default=0.5, metavar="SHARE", help="how full the window is, as 0.7 (0.5)")
    test.add_argument("--reason", metavar="REASON", help="why it is compacted, as `manual` or `threshold`")
    test.add_argument("--json", action="store_true", help="print it as JSON")


def _recipe(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the recipes of this directory, and what is wrong with others")
    listing.add_argument("--json", action="store_true", help="print it as JSON")
    show = actions.add_parser("show", help="a recipe's front matter, and what would be sent to the model")
    show.add_argument("name", metavar="NAME", help="as github/pr for one in a folder")
    show.add_argument("text", nargs="*", metavar="INSTRUCTIONS", help="what would be typed behind its name")
    show.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="arguments",
        metavar="NAME=VALUE",
        help="an argument of the recipe; each may be given once",
    )
    new = actions.add_parser("new", help="write a file to begin with; one of a built-in recipe's name begins as that")
    new.add_argument("name", metavar="NAME", help="as github/pr for one in a folder; the file is NAME.md")
    where = new.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for you, in every project (the default)")
    where.add_argument("--project", action="store_true", help="for everybody who works on this project")
    check = actions.add_parser("check", help="say what is wrong with recipes, by file and line")
    check.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders; all recipes of this directory if none"
    )


def _session_choice(parser: argparse.ArgumentParser, *, required: bool) -> None:
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument("--follow", action="store_true", help="the newest session of this directory")
    group.add_argument(
        "-c",
        "--conversation-id",
        metavar="ID",
        dest="session_id",
        help="the session with this id, in the directory that it belongs to",
    )


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="the session's model from now on")
    parser.add_argument(
        "--mode", metavar="MODE", help="the session's mode from now on: `ask`, `accept-edits`, `plan` or `full-access`"
    )
