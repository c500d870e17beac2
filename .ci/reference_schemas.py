"""The JSON Schemas of the files that people write: those of the models that read them, made fit for an editor.

Owns what a schema says beside what pydantic makes of a model: the events and handlers by their names, what needs what.
Does not know where the files are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from reference_words import EVENTS, HANDLERS

from acp_agent.config import schema as config
from acp_agent.config.hook_events import OnError
from acp_agent.hooks import params, rule_schema
from acp_agent.hooks.events import ALIASES, EVENT_NAMES, OBSERVED
from acp_agent.hooks.handlers import builtin_handlers, known_handlers
from acp_agent.recipes import front_matter
from acp_agent.recipes.front_matter import HandlerSection, HookSection
from acp_agent.recipes.model import EXTERNAL
from acp_agent.schemas import SchemaName

DRAFT = "https://json-schema.org/draft/2020-12/schema"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")

Schema = dict[str, Any]


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
    means = plain(HandlerSection.model_fields["on_error"].description)
    on_error = {"enum": [*get_args(OnError)], "description": means}
    return {
        "type": "object",
        "properties": {
            "handler": {"const": name, "description": plain(HANDLERS.get(name, description))},
            "params": {**said, "description": words},
            **({} if name == EXTERNAL else {"on_error": on_error}),
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
