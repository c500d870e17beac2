"""A JSON Schema accepts what the reader of the file accepts, and refuses what it
refuses, but for what is listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from acp_agent.config import load_settings
from acp_agent.config.document import DocumentError
from acp_agent.errors import AgentError
from acp_agent.hooks.handlers import known_handlers
from acp_agent.hooks.rules import load
from acp_agent.recipes.model import Known
from acp_agent.recipes.parser import parse_recipe
from acp_agent.schemas import SCHEMA_NAMES, SchemaName, schema_path

Document = Any
KNOWN = Known(known_handlers())

STRANGE: list[Document] = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        7,
        0.05,
        0.5,
        0.7,
        0.95,
        0.97,
        1.5,
        2_000_000,
        2_000_000_000,
        "",
        " ",
        "x",
        "off",
    ),
    *(
        "0%",
        "4%",
        "5%",
        "20%",
        "70%",
        "90%",
        "91%",
        "100%",
        "101%",
        "012 %",
        "7.25%",
        "1.2345%",
        "30s",
        "10 m",
        "2w",
    ),
    *(0.01, 0.02, 999, 1_000, 1_000_001, "1.9%", "2%"),
    *(
        "a/b",
        "a/b/c",
        "a/",
        "/b",
        "a b/c",
        "https://x.example/v1",
        "ftp://x",
        "https://u:p@x",
        "KEY_1",
        "1KEY",
    ),
    "two words",
    *(
        "# Goal",
        "##",
        "turn_end",
        "compact",
        "summary",
        "continue",
        "external",
        "swap_context",
        "validate_output",
    ),
    *(
        "../x",
        "notes/x.md",
        "x.jsonl",
        "(",
        [],
        {},
        [""],
        ["x"],
        [1],
        ["external"],
        ["compact", "external"],
    ),
    *(
        ["log_tool_usage"],
        ["export_markdown"],
        [{"handler": "append_context", "params": {"text": "x"}}],
    ),
    *(
        {"x": 1},
        {"text": "x"},
        {"tokens": 5},
        {"tokens": 0},
        {"handler": "compact"},
        {"schema": {"type": "object"}},
    ),
]
"""Values that are right somewhere, and wrong everywhere else."""

NAMES = ["x", "a/b", "KEY", "X-Team", "instructions", "cwd", "9", "two words"]
NAMES += ["PreToolUse", "turn_end", "Stop", "Notification", "nowhere"]


def schema_of(name: SchemaName) -> dict[str, Any]:
    return json.loads(schema_path(name).read_text("utf-8"))


def written(document: Document) -> str:
    """Return it as JSON, which is YAML, and read sooner."""
    return f"{json.dumps(document)}\n"


def read_config(document: Document) -> None:
    read_file(document, "config.yaml")


def read_project(document: Document) -> None:
    read_file(document, "project/.acp-agent/config.yaml")


def read_file(document: Document, name: str) -> None:
    home = Path(scratch().name)
    file = home / name
    file.write_text(written(document))
    try:
        found = load_settings({"ACP_AGENT_HOME": str(home)}, home / "project")
        unused = (
            notice
            for notice in found.notices
            if notice.endswith("The key was ignored.")
        )
        for fault in (*found.hook_faults, *unused):
            raise DocumentError(fault)
    finally:
        file.unlink()


@cache
def scratch() -> TemporaryDirectory[str]:
    """Make a home with a project in it, for all documents: to remove one takes longer
    than to read a file.
    """
    made = TemporaryDirectory()
    Path(made.name, "project", ".acp-agent").mkdir(parents=True)
    return made


def read_recipe(document: Document) -> None:
    text = f"---\n{written(document)}---\nSay hello.\n"
    parse_recipe(text, name="x", source=Path("x.md"), origin="user", known=KNOWN)


def read_rules(document: Document) -> None:
    file = Path(scratch().name) / "rule.yaml"
    file.write_text(written(document))
    for error in load(file, "user").errors:
        raise error


def fault_of(name: SchemaName, document: Document) -> str | None:
    """What the reader has against a document; None where it reads it."""
    try:
        READERS[name](document)
    except (DocumentError, AgentError) as error:
        return str(error)
    return None


READERS: Mapping[SchemaName, Callable[[Document], None]] = {
    "config": read_config,
    "project": read_project,
    "recipe": read_recipe,
    "rule": read_rules,
}

BEYOND: Mapping[SchemaName, tuple[str, ...]] = {
    "config": ("is not a valid RE2 regular expression",),
    "project": ("is not a valid RE2 regular expression",),
    "recipe": (
        "but the file is x.md",
        "has a default under `arguments` too",
        "is for recipes whose answer takes the place",
        "is for recipes whose answer is shown",
        "is for recipes that run tools",
        "is listed twice",
        "is not a valid RE2 regular expression",
        "cannot be used as a JSON Schema",
        "should be the path of a file below the folder",
        "should have either `schema` or `file`",
        "should have a `schema` or a `file`",
        "should have a `text` or a `file`",
    ),
    "rule": (
        "should be a share of the window",
        "should be a time, such as",
        "is known only at",
        "is possible only at",
        "has more than one of block, allow and ask",
        "requires `messages`",
        "does nothing",
    ),
}
"""What a reader refuses and a schema does not: two keys that contradict each other, and
languages of their own.
"""


def smallest(schema: dict[str, Any], whole: dict[str, Any]) -> Document:
    """A short document that the schema accepts."""
    if "$ref" in schema:
        return smallest(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if schema.get("required"):
        return {
            key: smallest(schema["properties"][key], whole)
            for key in schema["required"]
        }
    validator = Draft202012Validator({**schema, "$defs": whole["$defs"]})
    return next(
        value
        for value in [schema.get("const"), *schema.get("enum", []), *STRANGE]
        if validator.is_valid(value)
    )


def places(
    schema: dict[str, Any], whole: dict[str, Any], depth: int = 0
) -> Iterator[Callable[[Document], Document]]:
    """Every place of a document that a value can stand at: what puts it there, with no
    more around it than needed.
    """
    if depth > 12:
        return
    if "$ref" in schema:
        yield from places(
            whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, depth + 1
        )
    for part in schema.get("anyOf", []):
        yield from places(part, whole, depth + 1)
    if isinstance(items := schema.get("items"), dict):
        yield lambda value: [value]
        yield from (
            (lambda value, inner=inner: [inner(value)])
            for inner in places(items, whole, depth + 1)
        )
    inside = dict(schema.get("properties", {}))
    for pattern, part in schema.get("patternProperties", {}).items():
        inside[next(name for name in NAMES if re.search(pattern, name))] = part
    for key, part in inside.items():
        around = {
            name: smallest(inside[name], whole)
            for name in schema.get("required", ())
            if name != key
        }
        yield lambda value, key=key, around=around: {**around, key: value}
        for inner in places(part, whole, depth + 1):
            yield lambda value, key=key, around=around, inner=inner: {
                **around,
                key: inner(value),
            }


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_key_takes_the_same_values_in_the_schema_and_in_the_file(
    name: SchemaName,
) -> None:
    schema = schema_of(name)
    validator = Draft202012Validator(schema)
    once = {json.dumps(place("?")): place for place in places(schema, schema)}
    # Other events have the same form, and the other names of events mean the same.
    if name == "recipe":
        once = {
            text: place
            for text, place in once.items()
            if '"hooks"' not in text or '"turn_end"' in text
        }
    if name in ("config", "project"):
        once = {
            text: place
            for text, place in once.items()
            if '"hooks"' not in text or '"PreToolUse"' in text
        }
    wrong: list[Document] = []
    for place in once.values():
        for value in STRANGE:
            document = place(value)
            fault = fault_of(name, document)
            beyond = fault is not None and any(words in fault for words in BEYOND[name])
            if validator.is_valid(document) != (fault is None) and not beyond:
                wrong.append((document, fault))
    assert wrong == []


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_key_is_described_and_unknown_ones_are_refused(name: SchemaName) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    objects_of_keys = [schema, *schema["$defs"].values()]
    keys = {
        key: part
        for found in objects_of_keys
        for key, part in found.get("properties", {}).items()
    }
    assert [key for key, part in keys.items() if not part.get("description")] == []
    assert all(
        found["additionalProperties"] is False
        for found in objects_of_keys
        if "properties" in found
    )
    assert re.search(r"\]\(|/home/|/tmp/", json.dumps(schema)) is None


def test_words_that_have_two_spellings_are_accepted_in_both() -> None:
    config, recipe, rule = (
        Draft202012Validator(schema_of(name)) for name in ("config", "recipe", "rule")
    )
    for off in (False, "off"):
        assert config.is_valid({"compaction": {"prepare": off}})
        assert fault_of("config", {"compaction": {"prepare": off}}) is None
    for event in ("before_tool_call", "PreToolUse"):
        assert config.is_valid({"hooks": {event: [{"command": "true"}]}})
        assert config.is_valid(
            {
                "hooks": {
                    event: [
                        {
                            "matcher": "Bash",
                            "hooks": [{"type": "command", "command": "true"}],
                        }
                    ]
                }
            }
        )
        assert recipe.is_valid({"hooks": {event: {"handler": "log_tool_usage"}}})
        assert rule.is_valid({"on": event, "when": {"usage": "70%"}, "then": "compact"})
    assert recipe.is_valid(
        {"hooks": {"Stop": {"handlers": ["external", "export_markdown"]}}}
    )
    assert not recipe.is_valid(
        {"hooks": {"Stop": {"handlers": ["external", "external", "export_markdown"]}}}
    )
    assert rule.is_valid([{"on": ["turn_end"], "then": {"block": "No."}}])


SERVER = {"command": "run"}
ADDRESS = {"url": "https://x.example"}


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({"mcp_servers": {"x": {**SERVER, "args": [], "env": {}}}}, True),
        ({"mcp_servers": {"x": {**ADDRESS, "transport": "sse", "headers": {}}}}, True),
        ({"mcp_servers": {"x": {**SERVER, "url": None, "headers": None}}}, True),
        ({"mcp_servers": {"x": {**SERVER, **ADDRESS}}}, False),
        ({"mcp_servers": {"x": {"args": []}}}, False),
        ({"mcp_servers": {"x": {**SERVER, "headers": {}}}}, False),
        ({"mcp_servers": {"x": {**ADDRESS, "env": {}}}}, False),
        ({"providers": {"x": {"kind": "scripted", "script": "x.yaml"}}}, True),
        ({"providers": {"x": {"kind": "scripted"}}}, False),
        ({"providers": {"x": {"script": "x.yaml"}}}, False),
        ({"providers": {"x": {"kind": "anthropic", "script": None}}}, True),
    ],
)
def test_keys_that_need_or_exclude_each_other_do_so_in_schema_and_file(
    document: Document, fits: bool
) -> None:
    assert Draft202012Validator(schema_of("config")).is_valid(document) is fits
    assert (fault_of("config", document) is None) is fits
