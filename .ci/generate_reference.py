"""Regenerates the JSON Schemas in acp_agent/schemas and the reference tables in docs/ from the models that read.

    python .ci/generate_reference.py            write the schemas, and what stands between the marks in the pages
    python .ci/generate_reference.py --check    change nothing; fail where something is out of date

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`. Its words are the descriptions in the models and
the helps of the command line, so that a page, a schema and `--help` cannot say different things.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel  # noqa: E402
from pydantic.json_schema import GenerateJsonSchema, models_json_schema  # noqa: E402
from reference_words import EVENTS, HANDLERS  # noqa: E402

from acp_agent.cli import build_parser  # noqa: E402
from acp_agent.config import hook_section, mcp_section  # noqa: E402
from acp_agent.config import schema as config  # noqa: E402
from acp_agent.hooks import params, rule_schema  # noqa: E402
from acp_agent.hooks.events import ALIASES, EVENT_NAMES, OBSERVED  # noqa: E402
from acp_agent.hooks.handlers import builtin_handlers, known_handlers  # noqa: E402
from acp_agent.hooks.possible import POSSIBLE  # noqa: E402
from acp_agent.recipes import compaction_section, front_matter  # noqa: E402
from acp_agent.recipes.hooks_section import EXTERNAL, HandlerSection, HookSection  # noqa: E402
from acp_agent.schemas import SchemaName, schema_path  # noqa: E402

DRAFT = "https://json-schema.org/draft/2020-12/schema"
BLOCK = re.compile(
    r"(?P<begin>^<!-- generated: (?P<name>[\w.-]+) -->\n)(?P<text>.*?)(?P<end>^<!-- end -->$)", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")

Schema = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is out of date")
    check = parser.parse_args().check
    stale = [path for path, text in wanted().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not check:
        for path in stale:
            path.write_text(wanted()[path], encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run .ci/generate_reference.py", file=sys.stderr)
    return 1 if stale else 0


def wanted() -> dict[Path, str]:
    """Every generated file, and every page that has generated parts, as they should be."""
    files = {
        schema_path(name): json.dumps(make(), indent=2, ensure_ascii=False) + "\n" for name, make in SCHEMAS.items()
    }
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if BLOCK.search(text):
            files[page] = BLOCK.sub(lambda found: f"{found['begin']}{TABLES[found['name']]()}{found['end']}", text)
    return files


# ---------------------------------------------------------------------------------------------------- schemas


class Generator(GenerateJsonSchema):
    """Without the titles that repeat the names of the keys."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema_of(model: type[BaseModel], name: SchemaName, description: str) -> Schema:
    whole = tidied(model.model_json_schema(schema_generator=Generator))
    return {"$schema": DRAFT, "$id": f"urn:acp-agent:schema:{name}", "description": description, **whole}


def tidied(node: Any, *, names: bool = False) -> Any:
    """Without what is for us alone: the docstrings and names of the models, defaults, links between our pages.

    :param names: whether the keys of a mapping are names that somebody chose, and not keywords.
    """
    if isinstance(node, list):
        return [tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: tidied(value, names=not names and key in ("properties", "$defs")) for key, value in node.items()}
    if names:
        return made
    made.pop("default", None)
    if isinstance(made.get("title"), str) and "properties" in made:
        del made["title"]
        made.pop("description", None)
    if isinstance(made.get("title"), str):
        made["title"] = made["title"].replace("`", "")
    if isinstance(made.get("description"), str):
        made["description"] = LINK.sub(r"\1", made["description"])
    if "patternProperties" in made:
        made["additionalProperties"] = False
    return made


def config_schema(model: type[BaseModel], name: SchemaName, description: str) -> Schema:
    schema = schema_of(model, name, description)
    hooks = schema["properties"]["hooks"]["anyOf"][0]
    hooks["properties"] = by_event(hooks["additionalProperties"], (*EVENT_NAMES, *ALIASES))
    hooks["additionalProperties"] = False
    scripted = {"properties": {"kind": {"const": "scripted"}}, "required": ["kind"]}
    script = {"properties": {"script": {"type": "string"}}, "required": ["script"]}
    if "ProviderSection" in schema["$defs"]:
        schema["$defs"]["ProviderSection"] |= {"if": scripted, "then": script, "else": {"not": script}}
    if "McpServerSection" in schema["$defs"]:
        schema["$defs"]["McpServerSection"] |= a_program_or_an_address()
    return schema


def a_program_or_an_address() -> Schema:
    """A server has a command or a URL, and what belongs to it."""

    def given(key: str) -> Schema:
        return {"properties": {key: {"not": {"type": "null"}}}, "required": [key]}

    def only(key: str, *others: str) -> Schema:
        return {**given(key), "not": {"anyOf": [given(other) for other in others]}}

    return {"oneOf": [only("command", "url", "transport", "headers"), only("url", "command", "args", "env")]}


def by_event(value: Schema, words: Iterable[str]) -> Schema:
    """Properties for events, which an editor offers where it would not offer a pattern."""
    events = {**EVENT_NAMES, **ALIASES}
    return {word: {"description": EVENTS[events[word]][0], **value} for word in words}


def as_written(part: Schema) -> Schema:
    """A parameter that is a text is taken as it is written: without quotes, an editor may see a number in it."""
    if str(part.get("pattern", "")).endswith("$"):  # of a certain ending, which no number has
        return part
    changed = {**part, "anyOf": [as_written(each) for each in part["anyOf"]]} if "anyOf" in part else dict(part)
    types = [part["type"]] if isinstance(part.get("type"), str) else part.get("type", [])
    return {**changed, "type": [*types, "number", "boolean"]} if "string" in types else changed


def recipe_schema() -> Schema:
    schema = schema_of(front_matter.FrontMatter, "recipe", "The front matter of a recipe of acp-agent.")
    schema["$defs"].pop("HookSection")
    schema["$defs"].pop("HandlerSection")
    handlers = builtin_handlers()
    _, parameters = models_json_schema(
        [(model, "validation") for model in params.HANDLER_PARAMS.values()], schema_generator=Generator
    )
    models = tidied(parameters)["$defs"]
    for model in models.values():
        for name, part in model.get("properties", {}).items():
            model["properties"][name] = as_written(part)
    schema["$defs"] |= models
    properties: Schema = {}
    for word, names in known_handlers(handlers.values()).items():
        if names:
            event = {**EVENT_NAMES, **ALIASES}[word]
            schema["$defs"][f"at_{event}"] = at_event(sorted(names))
            properties |= by_event({"$ref": f"#/$defs/at_{event}"}, [word])
    hooks = schema["properties"]["hooks"]
    hooks.update({"properties": properties, "additionalProperties": False})
    return schema


def at_event(names: list[str]) -> Schema:
    """What may stand below an event: one handler with its parameters, or several."""
    words = {key: plain(field.description) for key, field in HookSection.model_fields.items()}
    once = {"type": "boolean", "description": words["once"]}
    one = [handler_schema(name, words["handler"], {"once": once, "handlers": {"type": "null"}}) for name in names]
    external = handler_schema(EXTERNAL, words["handlers"], {}, {"type": "object", "maxProperties": 0})
    alone = [name for name in names if takes_nothing(name)]
    external_item = {"anyOf": [{"const": EXTERNAL}, external]}
    items = {
        "anyOf": [{"enum": [*alone, EXTERNAL]}, *[handler_schema(n, words["handler"], {}) for n in names], external]
    }
    several = {
        "type": "object",
        "properties": {
            "handlers": {
                "description": words["handlers"],
                "type": "array",
                "items": items,
                "contains": external_item,
                "minContains": 0,
                "maxContains": 1,
                "allOf": [{"contains": {"not": external_item}}],
            },
            "handler": {"type": "null"},
            "params": {"type": "object", "maxProperties": 0},
            "once": once,
        },
        "required": ["handlers"],
        "additionalProperties": False,
    }
    return {"anyOf": [*one, several]}


def handler_schema(name: str, description: str, more: Schema, parameters: Schema | None = None) -> Schema:
    said = parameters or {"$ref": f"#/$defs/{params.HANDLER_PARAMS[name].__name__}"}
    words = plain(HandlerSection.model_fields["params"].description)
    return {
        "type": "object",
        "properties": {
            "handler": {"const": name, "description": plain(HANDLERS.get(name, description))},
            "params": {**said, "description": words},
            **more,
        },
        "required": ["handler"] if name == EXTERNAL or takes_nothing(name) else ["handler", "params"],
        "additionalProperties": False,
    }


def takes_nothing(handler: str) -> bool:
    """Whether a handler may be named without parameters."""
    try:
        params.HANDLER_PARAMS[handler].model_validate({})
    except ValueError:
        return False
    return True


def rule_file_schema() -> Schema:
    schema = schema_of(rule_schema.Rule, "rule", "Rules of acp-agent: hooks in YAML, one or a list of them.")
    rule = {key: schema.pop(key) for key in ("type", "properties", "required", "additionalProperties")}
    events = [word for word, event in {**EVENT_NAMES, **ALIASES}.items() if event not in OBSERVED]
    for form in rule["properties"]["on"]["anyOf"]:
        form.get("items", form).update({"enum": events})
    schema["$defs"]["Rule"] = rule
    reference = {"$ref": "#/$defs/Rule"}
    return {**schema, "anyOf": [reference, {"type": "array", "items": reference}]}


def plain(text: str | None) -> str:
    return LINK.sub(r"\1", text or "")


SCHEMAS: Mapping[SchemaName, Callable[[], Schema]] = {
    "config": partial(config_schema, config.UserFile, "config", "config.yaml in the home of acp-agent."),
    "project": partial(config_schema, config.ProjectFile, "project", ".acp-agent/config.yaml of a project."),
    "recipe": recipe_schema,
    "rule": rule_file_schema,
}

# ----------------------------------------------------------------------------------------------------- tables


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
            return "a regular expression" if schema.get("format") == "regex" else "a text"
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
    linked = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows: list[tuple[str, str]] = []
    for action in choices._choices_actions:
        name = f"`{action.dest}`"
        target = f"#{action.dest}" if f"\n## {action.dest}\n" in linked else f"{action.dest}.md"
        there = target[0] == "#" or (ROOT / "docs" / target).exists()
        rows.append((f"[{name}]({target})" if there else name, action.help or ""))
    return table(("command", "what it does"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "config.keys": partial(keys, config.UserFile),
    "config.compaction": partial(keys, config.CompactionSection),
    "config.model": partial(keys, config.ModelSection),
    "config.prices": partial(keys, config.PricesSection),
    "config.provider": partial(keys, config.ProviderSection),
    "config.protocol": partial(keys, config.ProtocolSection),
    "config.mcp_server": partial(keys, mcp_section.McpServerSection),
    "config.hook": partial(keys, hook_section.HookSection),
    "recipe.keys": partial(keys, front_matter.FrontMatter),
    "recipe.argument": partial(keys, front_matter.ArgumentSection),
    "recipe.hook": partial(keys, HookSection),
    "recipe.compaction": partial(keys, compaction_section.CompactionSection),
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

if __name__ == "__main__":
    sys.exit(main())
