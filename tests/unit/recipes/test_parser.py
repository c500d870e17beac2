"""What stands in a recipe's file, and how mistakes in it are named."""

from __future__ import annotations

import hashlib
import keyword
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from acp_agent.config.document import DocumentError
from acp_agent.config.forms import Share
from acp_agent.hooks.handlers import known_handlers
from acp_agent.recipes.model import (
    Argument,
    CompactionOptions,
    HookSection,
    Known,
    NamedHandler,
    Recipe,
)
from acp_agent.recipes.parser import parse_recipe, split
from acp_agent.recipes.template import render

KNOWN = Known(
    known_handlers(),
    ("read", "write", "grep"),
    ("squash",),
    lambda: ("summary", "mask", "excerpts"),
    ("anthropic", "mine"),
)
THREE = map(NamedHandler, ("compact", "external", "export_markdown"))
HOOK = "hooks:\n  turn_end: {handler: swap_context}\n"


def parse_file(text: str, name: str = "note", known: Known = KNOWN) -> Recipe:
    return parse_recipe(
        text, name=name, source=Path("/r/note.md"), origin="user", known=known
    )


def parse(matter: str, known: Known = KNOWN) -> Recipe:
    return parse_file(f"---\n{matter}\n---\nbody\n", known=known)


def options(section: str) -> CompactionOptions | None:
    return parse(f"{HOOK}compaction:\n  {section}").compaction


LINE = st.text(
    st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=10
).filter(lambda line: line.rstrip() != "---")
FENCES = st.sampled_from(["---", "--- ", "---\t"])
ENDS = st.sampled_from(["\n", "\r\n"])


@settings(deadline=None)
@given(
    st.lists(LINE, max_size=5),
    st.lists(LINE | FENCES, max_size=5),
    FENCES,
    FENCES,
    ENDS,
)
def test_a_file_is_cut_at_its_fences_and_the_body_knows_its_line(
    matter: list[str], body: list[str], first: str, second: str, end: str
) -> None:
    parts = split(end.join([first, *matter, second, *body, "x"]))
    assert parts == ("\n".join(matter), "\n".join([*body, "x"]), len(matter) + 3)
    assert split(end.join(["x", *matter, first, *body])) == (
        None,
        "\n".join(["x", *matter, first, *body]),
        1,
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("---\nname: x\n", 1, "has no closing ---"),
        ("", 1, "has no text below its front matter"),
        ("\n\n", 1, "has no text below its front matter"),
        ("---\nname: note\n---\n \n", 4, "has no text below its front matter"),
    ],
)
def test_front_matter_without_an_end_and_a_file_without_text_are_errors(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(DocumentError, match=words) as caught:
        parse_file(text)
    assert caught.value.line == line


def test_every_key_arrives_in_the_recipe() -> None:
    text = """\
---
name: note
description: >
  Writes
  a note
version: 1.10
model: anthropic/claude-haiku-4-5
mode: accept-edits
allowed_tools: [read, grep, mcp__x__y]
allowed_commands: ["git log*"]
arguments:
  topic: {description: What about, required: true}
  length: {default: 5}
  loud:
defaults: {loud: true, place: here}
hooks:
  PostToolUse: {handler: log_tool_usage, once: true, on_error: block}
  turn_end:
    handlers: [compact, external, export_markdown, {handler: append_context, params: {text: "1"}, on_error: allow}]
---
Write about {{ topic }}.
"""
    assert parse_file(text) == Recipe(
        name="note",
        description="Writes a note",
        body="Write about {{ topic }}.\n",
        body_line=21,
        source=Path("/r/note.md"),
        origin="user",
        digest=hashlib.sha256(text.encode()).hexdigest(),
        allowed_tools=("read", "grep", "mcp__x__y"),
        allowed_commands=("git log*",),
        arguments=(
            Argument("topic", "What about", None, True),
            Argument("length", default="5"),
            Argument("loud", default="true"),
            Argument("place", default="here"),
        ),
        hooks={
            "PostToolUse": HookSection(
                handlers=(NamedHandler("log_tool_usage", on_error="block"),), once=True
            ),
            "turn_end": HookSection(
                handlers=(
                    *THREE,
                    NamedHandler("append_context", {"text": "1"}, "allow"),
                )
            ),
        },
        model="anthropic/claude-haiku-4-5",
        mode="accept-edits",
        version="1.10",
    )


@pytest.mark.parametrize(
    "text",
    [
        "# Say hello\n\nto all\n",
        "---\n---\n# Say hello\n",
        "---\nmodel:\nmode:\n---\n\nSay hello\n",
    ],
)
def test_a_recipe_may_say_nothing_about_itself(text: str) -> None:
    recipe = parse_file(text)
    assert (recipe.description, recipe.allowed_tools, recipe.allowed_commands) == (
        "Say hello",
        None,
        None,
    )
    assert (recipe.arguments, recipe.hooks, recipe.compaction, recipe.notice) == (
        (),
        {},
        CompactionOptions(),
        "",
    )
    assert (recipe.model, recipe.mode, recipe.version) == (None, None, "")


AS_WRITTEN = [
    "1.10",
    "12:30",
    "007",
    "no",
    "on",
    "True",
    "1_000",
    "0x1F",
    "2026-01-02",
    "1e3",
    ".5",
    "=",
    "<<",
    "-0",
]


@pytest.mark.parametrize("written", AS_WRITTEN)
def test_a_text_is_kept_as_it_is_written(written: str) -> None:
    keys = (
        f"version: {written}\ndescription: {written}\nallowed_commands: [{written}]\n"
    )
    recipe = parse(
        f"{keys}arguments: {{a: {{default: {written}, description: {written}}}, b: , c: {{default: ~}}}}\n"
        f"defaults:\n  b: {written}"
    )
    assert (recipe.version, recipe.description, recipe.allowed_commands) == (
        written,
        written,
        (written,),
    )
    assert recipe.arguments == (
        Argument("a", written, written),
        Argument("b", "", written),
        Argument("c"),
    )


@pytest.mark.parametrize(
    "form",
    [
        "{{handler: {name}, params: {params}}}",
        "{{handlers: [{{handler: {name}, params: {params}}}]}}",
    ],
)
def test_of_a_parameter_nothing_is_made_but_what_json_writes_so(form: str) -> None:
    def params(name: str, written: str) -> object:
        recipe = parse(f"hooks:\n  turn_end: {form.format(name=name, params=written)}")
        return next(
            handler.params for handler in recipe.hooks["turn_end"].handlers or ()
        )

    for word in ("12:30", "007", "no", "1_000", "2026-01-02", "'5'"):
        assert params("append_context", f"{{text: {word}}}") == {
            "text": word.strip("'")
        }
    schema = "{enum: [no, yes, 12:30, 007, 1, 1.5, true, null], properties: {on: {const: off}}, required: [on]}"
    read = {
        "enum": ["no", "yes", "12:30", "007", 1, 1.5, True, None],
        "properties": {"on": {"const": "off"}},
    }
    assert params("validate_output", f"{{schema: {schema}}}") == {
        "schema": {**read, "required": ["on"]}
    }
    swap = {"preserve_system_prompt": True, "max_summary_tokens": 4000}
    assert (
        params(
            "swap_context", "{preserve_system_prompt: true, max_summary_tokens: 4000}"
        )
        == swap
    )


def test_a_size_a_check_and_headings_of_a_compaction_have_several_forms() -> None:
    assert options(
        "strategy: summary\n  model: mine/d/e\n  size: 40%\n  sections: ['## Goal', Open   work]"
    ) == (
        CompactionOptions(
            "summary", Share(0.4), ("Goal", "Open work"), None, "mine/d/e"
        )
    )
    assert options("sections: []") == CompactionOptions(sections=())
    assert (
        options("strategy:\n  size:\n  sections:\n  verify:\n  model:")
        == CompactionOptions()
    )
    for written, size in (
        ("12.5 %", Share(0.125)),
        ("0.4", Share(0.4)),
        ("1000", 1_000),
        ("1000000", 1_000_000),
    ):
        assert options(f"size: {written}") == CompactionOptions(size=size)
    for verify in ("off", "mark", "mend", "reject"):
        assert (
            options(f"verify: {verify}")
            == options(f"verify: '{verify}'")
            == CompactionOptions(verify=verify)
        )


MISTAKES = [
    (
        "description: x\nallowed_tool: []",
        3,
        "allowed_tool",
        "unknown key; did you mean `allowed_tools`?",
    ),
    (
        "zebra: 1",
        2,
        "zebra",
        "unknown key; use one of: allowed_commands, allowed_tools,",
    ),
    ("allowed_tools:", 2, "allowed_tools", "is empty; write [] for none at all"),
    (
        "\nallowed_commands: null",
        3,
        "allowed_commands",
        "is empty; write [] for none at all",
    ),
    (
        "allowed_tools:\n  - read\n  - 5",
        4,
        "allowed_tools.1",
        "should be a valid string",
    ),
    (
        "allowed_tools: [raed]",
        2,
        "allowed_tools.0",
        "there is no tool 'raed'; did you mean `read`?",
    ),
    ("name: other", 2, "name", "says 'other', but the file is note.md"),
    (
        "arguments:\n  instructions: {}",
        3,
        "arguments.instructions",
        "means the rest of the command line",
    ),
    (
        "defaults:\n  x: 1\n  self: x",
        4,
        "defaults.self",
        "has another meaning in a template",
    ),
    (
        "arguments:\n  a-b: {}",
        3,
        "arguments.a-b",
        "may only contain letters, digits and underscores",
    ),
    (
        "arguments:\n  a:\n    requierd: true",
        4,
        "arguments.a.requierd",
        "did you mean `required`?",
    ),
    (
        "arguments:\n  a: {default: [1]}",
        3,
        "arguments.a.default",
        "should be a valid string",
    ),
    (
        "arguments: {a: {default: 1}}\ndefaults:\n  a: 2",
        4,
        "defaults.a",
        "has a default under `arguments` too",
    ),
    (
        "version: 1\nmodel: anthropc/claude",
        3,
        "model",
        "there is no provider 'anthropc'",
    ),
    (
        f"{HOOK}model: mine/gpt",
        4,
        "model",
        "the model that writes a summary is `compaction.model`",
    ),
    (f"{HOOK}mode: plan", 4, "mode", "is for recipes that run tools"),
    (
        f"{HOOK}  PostToolUse: {{handler: log_tool_usage}}",
        4,
        "hooks.PostToolUse",
        "is for recipes that run tools",
    ),
    (
        "hooks:\n  turn_ended: {handler: compact}",
        3,
        "hooks.turn_ended",
        "no such event; did you mean `turn_end`?",
    ),
    (
        "hooks:\n  turn_end: swap_context",
        3,
        "hooks.turn_end",
        "should be a mapping: `key: value` lines, indented below the key",
    ),
    (
        "hooks:\n  turn_end: {once: true}",
        3,
        "hooks.turn_end",
        "says neither `handler` nor `handlers`",
    ),
    (
        "hooks:\n  session_start: {handler: compact}",
        3,
        "hooks.session_start.handler",
        "there is none for it",
    ),
    (
        "compaction: {}",
        2,
        "compaction",
        "add the hook `turn_end: {handler: swap_context}`",
    ),
    (
        "hooks: {turn_end: {handler: compact}}\ncompaction: {tail: 5}",
        3,
        "compaction",
        "add the hook",
    ),
    (
        f"{HOOK}compaction: mask",
        4,
        "compaction",
        "should be a mapping: `key: value` lines",
    ),
]
TURN_END = [
    (
        "{handler: export_markdwn}",
        3,
        "handler",
        "no handler 'export_markdwn' for this event; did you mean",
    ),
    (
        "{handler: log_tool_usage}",
        3,
        "handler",
        "no handler 'log_tool_usage' for this event",
    ),
    (
        "{handlers: [external, compact, external]}",
        3,
        "handlers.2",
        "takes no parameters, and stands here once",
    ),
    ("{handlers: [external]}", 3, "handlers", "names no handler"),
    ("{handlers: []}", 3, "handlers", "names no handler"),
    ("{handler: external}", 3, "handler", "in a list of `handlers` alone"),
    ("{handler: compact, handlers: [compact]}", 3, "handler", "belongs to one handler"),
    ("{handlers: [compact], params: {a: 1}}", 3, "params", "belongs to one handler"),
    (
        "\n    handlers:\n    - compact\n    - swap",
        6,
        "handlers.1",
        "no handler 'swap' for this event",
    ),
    (
        "\n    handlers:\n    - handler: external\n      params: {a: 1}",
        5,
        "handlers.0",
        "no parameters",
    ),
    (
        "\n    handlers:\n    - handler: compact\n      parms: {}",
        6,
        "handlers.0.parms",
        "did you mean `params`?",
    ),
    ("\n    handler: compact\n    params:\n      a: 1", 6, "params.a", "unknown key"),
    (
        "\n    handlers:\n    - compact\n    - handler: swap_context\n      params:\n        keep_tail_token: 5",
        8,
        "handlers.1.params.keep_tail_token",
        "did you mean `keep_tail_tokens`?",
    ),
    (
        "\n    handlers: [swap_context]\n    on_error: block",
        5,
        "on_error",
        "belongs to one handler",
    ),
    (
        "\n    handlers:\n    - compact\n    - {handler: external, on_error: block}",
        6,
        "handlers.1",
        "no parameters",
    ),
    (
        "{handler: compact, on_error: stop}",
        3,
        "on_error",
        "should be 'ask', 'allow' or 'block'",
    ),
    (
        "{handler: swap_context, params: {max_summary_tokens: 0}}",
        3,
        "params.max_summary_tokens",
        "greater than 0",
    ),
    (
        "{handler: swap_context, params: {preserve_system_prompt: no}}",
        3,
        "params.preserve_system_prompt",
        "boolean",
    ),
    ("{handler: append_context}", 3, "params", "should have a `text` or a `file`"),
    (
        "{handler: append_context, params: {file: ../a}}",
        3,
        "params.file",
        "without `..`",
    ),
    (
        "{handler: export_markdown, params: {path: a.py}}",
        3,
        "params.path",
        r"should match pattern '\.md$'",
    ),
    ("{handler: validate_output}", 3, "params", "should have a `schema` or a `file`"),
    (
        "{handler: validate_output, params: {schema: {type: objekt}}}",
        3,
        "params.schema",
        "cannot be used as a JSON Schema",
    ),
    (
        "{handler: validate_output, params: {schema: {$ref: 'http://a/b'}}}",
        3,
        "params.schema",
        "refers to another document",
    ),
    (
        "{handler: validate_output, params: {schema: {items: {pattern: '^(?!error)'}}}}",
        3,
        "params.schema",
        "`^(?!error)` is not a valid RE2 regular expression: invalid perl operator: (?!. It has no lookaround",
    ),
]
SIZE = "should be a share of the window from 2% to 90%, such as 20% or 0.2, or a number of tokens from 1,000"
COMPACTION = [
    (
        "strategy: sumary",
        "strategy",
        "there is no strategy 'sumary'; did you mean `summary`?",
    ),
    (
        "model: zzz/small",
        "model",
        "there is no provider 'zzz' (you can add one under `providers` in config.yaml)",
    ),
    *(
        (f"size: {size}", "size", SIZE)
        for size in ("1%", "91%", "0.01", "1.0", "999", "1000001", "yes", "[5]")
    ),
    ("sections: Goal", "sections", "should be a list, such as [one, two]"),
    ("sections: ['## ']", "sections.0", "should be the text of a heading"),
    ("sections: [Goal, '# goal']", "sections.1", "is listed twice; keep one"),
    ("verify: maybe", "verify", "should be 'off', 'mark', 'mend' or 'reject'"),
]


@pytest.mark.parametrize(
    ("matter", "line", "key", "words"),
    [
        *MISTAKES,
        *(
            (f"hooks:\n  turn_end: {matter}", line, f"hooks.turn_end.{key}", words)
            for matter, line, key, words in TURN_END
        ),
        *(
            (f"{HOOK}compaction:\n  {matter}", 5, f"compaction.{key}", words)
            for matter, key, words in COMPACTION
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_key(
    matter: str, line: int, key: str | None, words: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(matter)
    assert words in caught.value.message
    assert (caught.value.line, caught.value.key) == (line, key)


@settings(deadline=None)
@given(
    st.sampled_from(
        [
            *keyword.kwlist,
            "true",
            "none",
            "self",
            "loop",
            "macro",
            "super",
            "caller",
            "range",
            "_",
        ]
    )
    | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
)
def test_an_argument_of_any_name_that_is_taken_is_what_the_template_says(
    name: str,
) -> None:
    body = f"{{{{ {name} }}}} {{% if {name} == 'x y' %}}same{{% endif %}}"
    body += f"{{% for each_one in [1] %}} {{{{ {name} }}}}{{% endfor %}}"
    try:
        recipe = parse_file(f"---\narguments:\n  '{name}':\n---\n{body}")
    except DocumentError:
        reject()
    assert render(recipe, {name: "x y"}, "") == "x y same x y"


@pytest.mark.parametrize(
    ("matter", "line"),
    [
        ("", 1),
        ("---\ndescription: x\nhooks: {}\n---\n", 3),
        ("---\nhooks:\n  turn_end: {handler: compact}\n---\n", 2),
    ],
)
def test_a_recipe_of_a_name_that_has_a_duty_must_keep_its_hook(
    matter: str, line: int
) -> None:
    with pytest.raises(
        DocumentError, match=r"must have `turn_end: \{handler: swap_context\}`"
    ) as caught:
        parse_file(f"{matter}body\n", "squash")
    assert (caught.value.line, caught.value.key) == (line, "hooks")
    assert (
        parse_file(f"---\n{HOOK}---\nbody\n", "squash").handler("swap_context")
        is not None
    )


def test_keys_of_earlier_versions_are_ignored_with_one_notice_that_names_file_lines_and_the_new_key() -> (
    None
):
    keys = (
        "tail: 10%",
        "target: nonsense",
        "ledger: -1",
        "requests: 0",
        "summary: 300",
        "strategy: truncate",
    )
    recipe = parse(f"{HOOK}compaction:\n" + "".join(f"  {key}\n" for key in keys))
    assert recipe.compaction == CompactionOptions(strategy="excerpts")
    assert recipe.notice.startswith(
        "/r/note.md: `compaction.tail` (line 5) is no longer used; set `size` instead; "
    )
    assert recipe.notice.endswith(
        "; `compaction.strategy: truncate` (line 10) is now called `excerpts`."
    )
