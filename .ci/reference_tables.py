"""The tables of the documentation: the keys of a model, the events and handlers, the
options of a sub-command.

Each is made of the descriptions in the models and of the helps of the command line.
Does not know where a table stands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from reference_schemas import MODELS, Schema, json_schema
from reference_words import EVENTS, HANDLERS

from acp_agent.cli.main import build_parser
from acp_agent.config import settings as config
from acp_agent.config.hook_events import ALIASES, EVENT_NAMES, OBSERVED
from acp_agent.hooks import rules
from acp_agent.hooks.handlers import SwapContextHandler
from acp_agent.hooks.outcomes import POSSIBLE
from acp_agent.recipes import model as recipe

DOCS = Path(__file__).parents[1] / "docs"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(
        "|" + "".join(f" {cell} |" if cell else " |" for cell in line) + "\n"
        for line in cells
    )


def keys(model: type) -> str:
    """Key, value and meaning of a model's keys."""
    schema = json_schema(model)
    rows: list[tuple[str, str, str]] = []
    for name, part in schema["properties"].items():
        rows.append((f"`{name}`", form(part), part.get("description", "")))
    return table(("key", "value", "meaning"), rows)


def form(schema: Schema) -> str:
    """What a value may be, in words."""
    if "title" in schema:
        return schema["title"]
    if "anyOf" in schema:
        forms = [form(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return ", or ".join(dict.fromkeys(word for word in forms if word))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number":
            return number(schema)
        case "string":
            return (
                "an RE2 regular expression"
                if schema.get("format") == "regex"
                else "a string"
            )
        case "array":
            return "a list"
        case _:
            return "`key: value` lines"


def number(schema: Schema) -> str:
    word = "a whole number" if schema["type"] == "integer" else "a number"
    least = schema.get("minimum")
    most = schema.get("maximum")
    if least is not None and most is not None and schema["type"] == "number":
        return f"{least} to {most}"
    if "exclusiveMinimum" in schema:
        word += f" above {schema['exclusiveMinimum']}"
    elif least is not None:
        word += f", at least {least}"
    return word if most is None or most > 100_000 else f"{word}, up to {most:,}"


def events() -> str:
    claude = {ours: theirs for theirs, ours in ALIASES.items()}
    rows = [
        (f"`{name}`", f"`{claude[name]}`" if name in claude else "", when, its)
        for name, (when, its) in ((name, EVENTS[name]) for name in EVENT_NAMES)
    ]
    return table(("event", "in Claude Code", "when", "its own keys"), rows)


def possible() -> str:
    """What an answer can do at which event."""
    rows = [
        (f"`{word}`", ", ".join(f"`{name}`" for name in names))
        for word, names in POSSIBLE.items()
        if word != "action: swap_context"
    ]
    return table(("answer", "at"), rows)


def handlers() -> str:
    rows: list[tuple[str, str, str, str]] = []
    for name, handler in sorted(MODELS.items()):
        at = ", ".join(f"`{event}`" for event in EVENT_NAMES if event in handler.events)
        fields = MODELS[name].model_fields
        rows.append(
            (
                f"`{name}`",
                at,
                ", ".join(f"`{field.alias or key}`" for key, field in fields.items()),
                HANDLERS[name],
            )
        )
    return table(("handler", "events", "params", "what it does"), rows)


def then() -> str:
    rows: list[tuple[str, str, str, str]] = []
    schema = json_schema(rules.Then)["properties"]
    for name, part in schema.items():
        where = (
            ""
            if name in ("action", "messages")
            else at_events(rules.RULE_POSSIBLE[name])
        )
        if name == "action":
            where = "; ".join(
                f"`{word}`: {at_events(rules.RULE_POSSIBLE[word])}"
                for word in ("compact", "summary", "continue")
            )
        rows.append((f"`{name}`", form(part), part["description"], where))
    return table(("key", "value", "outcome", "at"), rows)


def at_events(names: Iterable[str]) -> str:
    """Some events, named by those that are missing where these are fewer."""
    here = list(names)
    missing = [
        name for name in EVENT_NAMES if name not in here and name not in OBSERVED
    ]
    if len(missing) > 2:
        return ", ".join(f"`{name}`" for name in here)
    return "all" + (
        " but " + " and ".join(f"`{name}`" for name in missing) if missing else ""
    )


def options(command: str) -> str:
    """Arguments and options of a command as `--help` has them, and those of its
    sub-commands behind their names.
    """
    rows: list[tuple[str, str]] = []
    for parser, before in with_sub_commands(find(build_parser(), command)):
        for action in parser._actions:  # argparse has no other way to ask
            if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
                continue
            value = action.metavar or (
                "|".join(map(str, action.choices)) if action.choices else None
            )
            value = value or ("" if action.nargs == 0 else action.dest.upper())
            words = [
                f"{name}{f' {value}' if value else ''}"
                for name in action.option_strings
            ] or [value]
            names = ", ".join(f"`{before}{word}`" for word in words)
            rows.append((names, (action.help or "").replace("%%", "%")))
    return table(("", ""), rows)


def with_sub_commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """The parser, and those of its sub-commands with what is typed in front."""
    yield parser, ""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((below, f"{name} ") for name, below in action.choices.items())


def find(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    [choices] = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return choices.choices[command]


def commands() -> str:
    """All sub-commands."""
    [choices] = [
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    linked = (DOCS / "cli.md").read_text(encoding="utf-8")
    rows: list[tuple[str, str]] = []
    for action in choices._choices_actions:
        name = f"`{action.dest}`"
        target = (
            f"#{action.dest}"
            if f"\n## {action.dest}\n" in linked
            else f"{action.dest}.md"
        )
        there = target[0] == "#" or (DOCS / target).exists()
        rows.append((f"[{name}]({target})" if there else name, action.help or ""))
    return table(("command", "what it does"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "config.keys": partial(keys, config.Settings),
    "config.compaction": partial(keys, config.CompactionSettings),
    "config.model": partial(keys, config.ModelSettings),
    "config.prices": partial(keys, config.ModelPrices),
    "config.provider": partial(keys, config.ProviderSettings),
    "config.protocol": partial(keys, config.ProtocolSettings),
    "config.sandbox": partial(keys, config.SandboxSettings),
    "config.mcp_server": partial(keys, config.McpServer),
    "config.hook": partial(keys, config.HookCommand),
    "recipe.keys": partial(keys, recipe.FrontMatter),
    "recipe.argument": partial(keys, recipe.Argument),
    "recipe.hook": partial(keys, recipe.HookSection),
    "recipe.compaction": partial(keys, recipe.CompactionOptions),
    "recipe.handlers": handlers,
    "recipe.swap_context": partial(keys, SwapContextHandler),
    "hooks.events": events,
    "hooks.possible": possible,
    "rule.keys": partial(keys, rules.Rule),
    "rule.when": partial(keys, rules.When),
    "rule.then": then,
    "cli.commands": commands,
    "cli.run": partial(options, "run"),
    "cli.compact": partial(options, "compact"),
    "cli.compact-eval": partial(options, "compact-eval"),
    "cli.sessions": partial(options, "sessions"),
    "cli.hooks": partial(options, "hooks"),
    "cli.recipe": partial(options, "recipe"),
    "cli.permissions": partial(options, "permissions"),
    "cli.inspect": partial(options, "inspect"),
    "cli.serve": partial(options, "serve"),
    "cli.chat": partial(options, "chat"),
    "cli.wire": partial(options, "wire"),
    "cli.login": partial(options, "login"),
    "cli.logout": partial(options, "logout"),
    "cli.trust": partial(options, "trust"),
    "cli.schema": partial(options, "schema"),
    "cli.setup": partial(options, "setup"),
    "cli.doctor": partial(options, "doctor"),
    "cli.help": partial(options, "help"),
    "cli.completion": partial(options, "completion"),
}
