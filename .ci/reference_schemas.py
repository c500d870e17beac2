"""The JSON Schemas of the files that people write: those of the models that read them,
made fit for an editor.

Owns what a schema says beside what pydantic makes of a model: the events and handlers
by their names, what needs what. Does not know where the files are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from reference_words import EVENTS, HANDLERS

from acp_agent.config.forms import ConfigSection
from acp_agent.config.hook_events import ALIASES, EVENT_NAMES, OBSERVED, OnError
from acp_agent.config.load import USER_ONLY_KEYS
from acp_agent.config.settings import HookCommand, Settings
from acp_agent.hooks import rules
from acp_agent.hooks.handlers import known_handlers
from acp_agent.recipes.model import EXTERNAL, FrontMatter, HookSection, NamedHandler
from acp_agent.schemas import SchemaName

MODELS = {
    name: model for found in known_handlers().values() for name, model in found.items()
}
"""The built-in handlers by name."""

DRAFT = "https://json-schema.org/draft/2020-12/schema"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")

Schema = dict[str, Any]


class Generator(GenerateJsonSchema):
    """Without the titles that repeat the names of the keys."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def json_schema(model: type) -> Schema:
    """What pydantic makes of a model, or of a class of the settings, whose descriptions
    are docstrings.
    """
    ConfigSection.__pydantic_config__["use_attribute_docstrings"] = True
    return json.loads(
        json.dumps(TypeAdapter(model).json_schema(schema_generator=Generator)).replace(
            "\\n", " "
        )
    )


def schema_of(model: type, name: SchemaName, description: str) -> Schema:
    whole = tidied(json_schema(model))
    return {
        "$schema": DRAFT,
        "$id": f"urn:acp-agent:schema:{name}",
        "description": description,
        **whole,
    }


def tidied(node: Any, *, names: bool = False) -> Any:
    """Without what is for us alone: the docstrings and names of the models, defaults,
    links between our pages.

    :param names: whether the keys of a mapping are names that somebody chose, and not
        keywords.
    """
    if isinstance(node, list):
        return [tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: tidied(value, names=not names and key in ("properties", "$defs"))
        for key, value in node.items()
    }
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


def config_schema(name: SchemaName, description: str) -> Schema:
    schema = schema_of(Settings, name, description)
    for section in (schema, *schema["$defs"].values()):
        for key, part in section["properties"].items():
            if key not in section.get("required", ()):
                section["properties"][key] = or_null(part)
    if name == "project":
        del schema["$defs"]["SandboxSettings"]["properties"]["write"]
        for key in USER_ONLY_KEYS:
            schema["properties"].pop(key, None)
        schema["properties"]["mode"]["anyOf"][0]["enum"] = ["plan", "ask"]
        schema["$defs"] = {
            key: part for key, part in schema["$defs"].items() if key in used(schema)
        }
    one, group = hook_schemas()
    schema["$defs"] = dict(
        sorted({**schema["$defs"], "HookCommand": one, "HookGroup": group}.items())
    )
    forms = {
        "type": "array",
        "items": {
            "anyOf": [
                {"$ref": f"#/$defs/{name}"} for name in ("HookCommand", "HookGroup")
            ]
        },
    }
    hooks = schema["properties"]["hooks"]["anyOf"][0]
    hooks["properties"] = by_event(forms, (*EVENT_NAMES, *ALIASES))
    hooks["additionalProperties"] = False
    scripted = {"properties": {"kind": {"const": "scripted"}}, "required": ["kind"]}
    script = {"properties": {"script": {"type": "string"}}, "required": ["script"]}
    if "ProviderSettings" in schema["$defs"]:
        schema["$defs"]["ProviderSettings"] |= {
            "if": scripted,
            "then": script,
            "else": {"not": script},
        }
    if "McpServer" in schema["$defs"]:
        schema["$defs"]["McpServer"] |= a_program_or_an_address()
    return schema


def hook_schemas() -> tuple[Schema, Schema]:
    """A command, and several with a matcher in Claude Code's form."""
    one = tidied(json_schema(HookCommand))
    for key in one["properties"].keys() - one["required"]:
        one["properties"][key] = or_null(one["properties"][key])
    keys = {key: part for key, part in one["properties"].items() if key != "matcher"}
    about = {"description": "of Claude Code's form; means nothing here"}
    ignored = {"type": {"const": "command", **about}, "statusMessage": {**about}}
    grouped = {**one, "properties": {**keys, **ignored}}
    commands = {
        "description": "commands with this matcher",
        "type": "array",
        "items": grouped,
    }
    properties = {"matcher": one["properties"]["matcher"], "hooks": commands}
    group = {
        "type": "object",
        "properties": properties,
        "required": ["hooks"],
        "additionalProperties": False,
    }
    return one, group


def or_null(part: Schema) -> Schema:
    """Null is the same as leaving a key out."""
    if re.search("null|None", str(part.get("anyOf", ""))):
        return part
    about = {key: part[key] for key in ("description", "title") if key in part}
    return {
        "anyOf": [
            {key: value for key, value in part.items() if key not in about},
            {"type": "null"},
        ],
        **about,
    }


def used(schema: Schema) -> set[str]:
    """The names of the definitions that a schema leads to."""
    found: set[str] = set()
    waiting = [schema["properties"]]
    while waiting:
        for name in re.findall(r"'#/\$defs/(\w+)'", str(waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(schema["$defs"][name])
    return found


def a_program_or_an_address() -> Schema:
    """A server has a command or a URL, and what belongs to it."""

    def given(key: str) -> Schema:
        return {"properties": {key: {"not": {"type": "null"}}}, "required": [key]}

    def only(key: str, *others: str) -> Schema:
        return {**given(key), "not": {"anyOf": [given(other) for other in others]}}

    return {
        "oneOf": [
            only("command", "url", "transport", "headers"),
            only("url", "command", "args", "env"),
        ]
    }


def by_event(value: Schema, words: Iterable[str]) -> Schema:
    """Properties for events, which an editor offers where it would not offer a pattern."""
    events = {**EVENT_NAMES, **ALIASES}
    return {word: {"description": EVENTS[events[word]][0], **value} for word in words}


def recipe_schema() -> Schema:
    schema = schema_of(
        FrontMatter, "recipe", "The front matter of a recipe of acp-agent."
    )
    schema["$defs"].pop("HookSection")
    schema["$defs"].pop("NamedHandler")
    for section in (schema, *schema["$defs"].values()):
        for key in section.get("properties", {}).keys() - section.get("required", ()):
            section["properties"][key] = or_null(section["properties"][key])
    for key in ("allowed_tools", "allowed_commands"):
        listed, _ = schema["properties"][key].pop("anyOf")
        schema["properties"][key] |= listed
    _, parameters = models_json_schema(
        [(model, "validation") for model in MODELS.values()], schema_generator=Generator
    )
    models = tidied(parameters)["$defs"]
    schema["$defs"] |= models
    properties: Schema = {}
    for word, names in known_handlers().items():
        if names:
            event = {**EVENT_NAMES, **ALIASES}[word]
            schema["$defs"][f"at_{event}"] = at_event(sorted(names))
            properties |= by_event({"$ref": f"#/$defs/at_{event}"}, [word])
    hooks = schema["properties"]["hooks"]["anyOf"][0]
    hooks.update({"properties": properties, "additionalProperties": False})
    return schema


def at_event(names: list[str]) -> Schema:
    """What may stand below an event: one handler with its parameters, or several."""
    words = {
        key: plain(part["description"])
        for key, part in json_schema(HookSection)["properties"].items()
    }
    once = or_null({"type": "boolean", "description": words["once"]})
    one = [
        handler_schema(
            name, words["handler"], {"once": once, "handlers": {"type": "null"}}
        )
        for name in names
    ]
    external = handler_schema(
        EXTERNAL, words["handlers"], {}, {"type": "object", "maxProperties": 0}
    )
    alone = [name for name in names if takes_nothing(name)]
    external_item = {"anyOf": [{"const": EXTERNAL}, external]}
    items = {
        "anyOf": [
            {"enum": [*alone, EXTERNAL]},
            *[handler_schema(n, words["handler"], {}) for n in names],
            external,
        ]
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
            "params": {"type": "null"},
            "on_error": {"type": "null"},
            "once": once,
        },
        "required": ["handlers"],
        "additionalProperties": False,
    }
    return {"anyOf": [*one, several]}


def handler_schema(
    name: str, description: str, more: Schema, parameters: Schema | None = None
) -> Schema:
    said = parameters or {"$ref": f"#/$defs/{MODELS[name].__name__}"}
    words, means = (
        plain(json_schema(NamedHandler)["properties"][key]["description"])
        for key in ("params", "on_error")
    )
    on_error = {"enum": [*get_args(OnError)], "description": means}
    return {
        "type": "object",
        "properties": {
            "handler": {
                "const": name,
                "description": plain(HANDLERS.get(name, description)),
            },
            "params": or_null({**said, "description": words})
            if takes_nothing(name)
            else {**said, "description": words},
            "on_error": {"enum": ["ask", None]}
            if name == EXTERNAL
            else or_null(on_error),
            **more,
        },
        "required": ["handler"] if takes_nothing(name) else ["handler", "params"],
        "additionalProperties": False,
    }


def takes_nothing(handler: str) -> bool:
    """Whether a handler may be named without parameters."""
    if handler == EXTERNAL:
        return True
    try:
        MODELS[handler].model_validate({})
    except ValueError:
        return False
    return True


def rule_file_schema() -> Schema:
    schema = schema_of(
        rules.Rule, "rule", "Rules of acp-agent: hooks in YAML, one or a list of them."
    )
    rule = {
        key: schema.pop(key)
        for key in ("type", "properties", "required", "additionalProperties")
    }
    events = [
        word
        for word, event in {**EVENT_NAMES, **ALIASES}.items()
        if event not in OBSERVED
    ]
    for form in rule["properties"]["on"]["anyOf"]:
        form.get("items", form).update({"enum": events})
    schema["$defs"]["Rule"] = rule
    reference = {"$ref": "#/$defs/Rule"}
    return {**schema, "anyOf": [reference, {"type": "array", "items": reference}]}


def plain(text: str | None) -> str:
    return LINK.sub(r"\1", text or "")


SCHEMAS: Mapping[SchemaName, Callable[[], Schema]] = {
    "config": partial(config_schema, "config", "config.yaml in the home of acp-agent."),
    "project": partial(
        config_schema, "project", ".acp-agent/config.yaml of a project."
    ),
    "recipe": recipe_schema,
    "rule": rule_file_schema,
}
