"""The description in the help of each sub-command, and an example to copy."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import cast

_USAGE: Mapping[str, tuple[str, str]] = {
    "run": (
        "Prompt a new session of this directory, or an existing one. It asks for permissions at the terminal.",
        'acp-agent run "why does the build fail?"',
    ),
    "chat": ("", "acp-agent chat --follow"),
    "compact": (
        "Compact a session and print the summary. The history is kept, and `/compact undo` undoes the compaction.",
        'acp-agent compact --follow "keep the API decisions"',
    ),
    "compact-eval": (
        "",
        "acp-agent compact-eval --recipe compact --size 10% ~/.claude/projects/*/*.jsonl",
    ),
    "sessions": ("", "acp-agent sessions --archived"),
    "sessions list": ("", "acp-agent sessions list --json"),
    "sessions rename": ("", "acp-agent sessions rename sess_7f3a The cart"),
    "sessions rm": ("", "acp-agent sessions rm sess_7f3a"),
    "sessions archive": ("", "acp-agent sessions archive sess_7f3a"),
    "sessions unarchive": ("", "acp-agent sessions unarchive sess_7f3a"),
    "sessions move": ("", "acp-agent sessions move sess_7f3a ~/new/place"),
    "sessions fork": ("", "acp-agent sessions fork --at 12 sess_7f3a"),
    "serve": (
        "Serve clients on other machines, or several at once. A client that connects can run commands as you.",
        "acp-agent serve --websocket 127.0.0.1:8123",
    ),
    "inspect": (
        "Write a session as a web page, or serve the page and update it.",
        "acp-agent inspect -o session.html",
    ),
    "wire": (
        "Print the messages between an editor and the agent, which ACP_AGENT_WIRE=1 records.",
        "acp-agent wire --follow",
    ),
    "hooks": (
        "List the hooks of this directory, or test their answers to a sample event.",
        "acp-agent hooks list",
    ),
    "hooks list": ("", "acp-agent hooks list"),
    "hooks test": (
        "",
        'acp-agent hooks test before_tool_call --tool shell --input \'{"command": "git push"}\'',
    ),
    "models": ("", "acp-agent models"),
    "config": (
        "Show every setting with its value, and the file and line or variable that set it.",
        "acp-agent config",
    ),
    "login": (
        "Store a provider's key in the system's keyring, or in a file that only you can read.",
        "pass show anthropic | acp-agent login anthropic",
    ),
    "logout": (
        "Forget the stored key of a provider, or all of them.",
        "acp-agent logout anthropic",
    ),
    "trust": (
        "Show what a project's hooks and recipes would run, and allow it. After a change to them, you are asked again.",
        "acp-agent trust ~/src/shop",
    ),
    "permissions": ("", "acp-agent permissions"),
    "permissions revoke": ("", 'acp-agent permissions revoke "shell: make test"'),
    "recipe": (
        "Work with recipes: Markdown prompts that you run as `/NAME`.",
        "acp-agent recipe list",
    ),
    "recipe list": ("", "acp-agent recipe list"),
    "recipe show": (
        "",
        'acp-agent recipe show --arg depth=overview explain "the session log"',
    ),
    "recipe new": ("", "acp-agent recipe new --project review"),
    "recipe check": ("", "acp-agent recipe check .acp-agent/recipes"),
    "schema": (
        "Print a JSON Schema that editors use to check a file.",
        "acp-agent schema config > config.schema.json",
    ),
    "setup": (
        "Print an editor's entry, and write it to the settings if you agree.",
        "acp-agent setup zed --dry-run",
    ),
    "doctor": ("", "acp-agent doctor --report > report.md"),
    "help": ("", "acp-agent help mcp"),
    "completion": (
        "Print a shell's completion script. `acp-agent help cli` says where to put it.",
        "acp-agent completion bash > ~/.local/share/bash-completion/completions/acp-agent",
    ),
    "demo": (
        "Show the agent at work, without a key or network. Everything it creates is deleted.",
        "acp-agent demo",
    ),
}
"""A description, or "" for the help in the list of commands, and an example, by the
words of the sub-command.
"""


def explain(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add description and example to the help of a sub-command and of those below it.

    :param name: its words, as `recipe show`.
    :param text: its help in the list of commands.
    """
    description, example = _USAGE[name]
    parser.description = fill(description or f"{text[0].upper()}{text[1:]}.", 80)
    parser.epilog = f"example:\n  {example}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for word, below, its_text in sub_commands(parser):
        explain(below, f"{name} {word}", its_text)


def sub_commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Yield the sub-commands of a parser: the word, its parser, and its help in the
    list.
    """
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            parsers = cast(
                Mapping[str, argparse.ArgumentParser], vars(action)["choices"]
            )
            for listed in action._choices_actions:  # pyright: ignore[reportPrivateUsage]
                yield listed.dest, parsers[listed.dest], listed.help or ""
