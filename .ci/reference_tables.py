"""The tables of the documentation: the keys of a model, the events and handlers, the options of a sub-command.

Each is made of the descriptions in the models and of the helps of the command line. Does not know where a table stands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from pydantic import BaseModel
from reference_schemas import Generator, Schema
from reference_words import EVENTS, HANDLERS

from acp_agent.cli import build_parser
from acp_agent.config import hook_section, mcp_section, model_section
from acp_agent.config import schema as config
from acp_agent.hooks import params, rule_schema
from acp_agent.hooks.events import ALIASES, EVENT_NAMES, OBSERVED
from acp_agent.hooks.handlers import builtin_handlers
from acp_agent.hooks.possible import POSSIBLE
from acp_agent.recipes import front_matter
from acp_agent.recipes.front_matter import HookSection

DOCS = Path(__file__).parents[1] / "docs"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) + "\n" for line in cells)


def keys(model: type[BaseModel]) -> str:
    """Key, value and meaning of a model's keys."""
    schema = model.model_json_schema(schema_generator=Generator)
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
            return "a regular expression of RE2" if schema.get("format") == "regex" else "a text"
        case "array":
            return "a list"
        case _:
            return "`key: value` lines"


def number(schema: Schema) -> str:
    word = "a whole number" if schema["type"] == "integer" else "a number"
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None and schema["type"] == "number":
        return f"{least} to {most}"
    if "exclusiveMinimum" in schema:
        word += f" above {schema['exclusiveMinimum']}"
    elif least is not None:
        word += f" from {least} on"
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
    for name, handler in sorted(builtin_handlers().items()):
        at = ", ".join(f"`{event}`" for event in EVENT_NAMES if event in handler.events)
        fields = params.HANDLER_PARAMS[name].model_fields
        rows.append(
            (f"`{name}`", at, ", ".join(f"`{field.alias or key}`" for key, field in fields.items()), HANDLERS[name])
        )
    return table(("handler", "events", "params", "what it does"), rows)


def then() -> str:
    rows: list[tuple[str, str, str, str]] = []
    schema = rule_schema.Then.model_json_schema(schema_generator=Generator)["properties"]
    for name, part in schema.items():
        where = "" if name in ("action", "messages") else at_events(rule_schema.POSSIBLE[name])
        if name == "action":
            where = "; ".join(
                f"`{word}`: {at_events(rule_schema.POSSIBLE[word])}" for word in ("compact", "summary", "continue")
            )
        rows.append((f"`{name}`", form(part), part["description"], where))
    return table(("key", "value", "what comes of it", "at"), rows)


def at_events(names: Iterable[str]) -> str:
    """Some events, named by those that are missing where these are fewer."""
    here = list(names)
    missing = [name for name in EVENT_NAMES if name not in here and name not in OBSERVED]
    if len(missing) > 2:
        return ", ".join(f"`{name}`" for name in here)
    return "all" + (" but " + " and ".join(f"`{name}`" for name in missing) if missing else "")


def options(*commands: str) -> str:
    """Arguments and options of a sub-command, as `--help` has them."""
    rows: list[tuple[str, str]] = []
    for action in find(build_parser(), commands)._actions:  # argparse has no other way to ask
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else None)
        value = value or ("" if action.nargs == 0 else action.dest.upper())
        names = [f"`{name}{f' {value}' if value else ''}`" for name in action.option_strings] or [f"`{value}`"]
        rows.append((", ".join(names), (action.help or "").replace("%%", "%")))
    return table(("", ""), rows)


def find(parser: argparse.ArgumentParser, commands: tuple[str, ...]) -> argparse.ArgumentParser:
    for command in commands:
        [choices] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        parser = choices.choices[command]
    return parser


def commands() -> str:
    """All sub-commands."""
    [choices] = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    linked = (DOCS / "cli.md").read_text(encoding="utf-8")
    rows: list[tuple[str, str]] = []
    for action in choices._choices_actions:
        name = f"`{action.dest}`"
        target = f"#{action.dest}" if f"\n## {action.dest}\n" in linked else f"{action.dest}.md"
        there = target[0] == "#" or (DOCS / target).exists()
        rows.append((f"[{name}]({target})" if there else name, action.help or ""))
    return table(("command", "what it does"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "config.keys": partial(keys, config.UserFile),
    "config.compaction": partial(keys, model_section.CompactionSection),
    "config.model": partial(keys, model_section.ModelSection),
    "config.prices": partial(keys, model_section.PricesSection),
    "config.provider": partial(keys, config.ProviderSection),
    "config.protocol": partial(keys, config.ProtocolSection),
    "config.mcp_server": partial(keys, mcp_section.McpServerSection),
    "config.hook": partial(keys, hook_section.HookSection),
    "recipe.keys": partial(keys, front_matter.FrontMatter),
    "recipe.argument": partial(keys, front_matter.ArgumentSection),
    "recipe.hook": partial(keys, HookSection),
    "recipe.compaction": partial(keys, front_matter.CompactionSection),
    "recipe.handlers": handlers,
    "recipe.swap_context": partial(keys, params.SwapContextParams),
    "hooks.events": events,
    "hooks.possible": possible,
    "rule.keys": partial(keys, rule_schema.Rule),
    "rule.when": partial(keys, rule_schema.When),
    "rule.then": then,
    "cli.commands": commands,
    "cli.run": partial(options, "run"),
    "cli.compact": partial(options, "compact"),
    "cli.compact-eval": partial(options, "compact-eval"),
    "cli.sessions": partial(options, "sessions"),
    "cli.sessions-rm": partial(options, "sessions", "rm"),
    "cli.sessions-archive": partial(options, "sessions", "archive"),
    "cli.sessions-unarchive": partial(options, "sessions", "unarchive"),
    "cli.sessions-fork": partial(options, "sessions", "fork"),
    "cli.inspect": partial(options, "inspect"),
    "cli.serve": partial(options, "serve"),
    "cli.chat": partial(options, "chat"),
    "cli.wire": partial(options, "wire"),
    "cli.hooks-list": partial(options, "hooks", "list"),
    "cli.login": partial(options, "login"),
    "cli.logout": partial(options, "logout"),
    "cli.trust": partial(options, "trust"),
    "cli.permissions-revoke": partial(options, "permissions", "revoke"),
    "cli.recipe-list": partial(options, "recipe", "list"),
    "cli.recipe-show": partial(options, "recipe", "show"),
    "cli.recipe-new": partial(options, "recipe", "new"),
    "cli.recipe-check": partial(options, "recipe", "check"),
    "cli.hooks-test": partial(options, "hooks", "test"),
    "cli.schema": partial(options, "schema"),
    "cli.setup": partial(options, "setup"),
    "cli.doctor": partial(options, "doctor"),
    "cli.demo": partial(options, "demo"),
}
