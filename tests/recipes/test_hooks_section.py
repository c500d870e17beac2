"""`hooks` in a recipe: which handlers, in which order, with which parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.config.document import DocumentError
from acp_agent.hooks.handlers import builtin_handlers, known_handlers
from acp_agent.hooks.params import HANDLER_PARAMS
from acp_agent.recipes import HookBinding, Known, NamedHandler, Recipe
from acp_agent.recipes.front_matter import parse_recipe

KNOWN = Known(known_handlers(builtin_handlers().values()), params=HANDLER_PARAMS)
SCHEMA = "{schema: {type: object, required: [a]}}"


def parse(matter: str, known: Known = KNOWN) -> Recipe:
    return parse_recipe(f"---\n{matter}\n---\nx\n", name="note", source=Path("/r/note.md"), origin="user", known=known)


def test_every_handler_says_what_its_parameters_are() -> None:
    assert set(HANDLER_PARAMS) == set(builtin_handlers())


def test_one_handler_has_its_parameters_beside_it() -> None:
    recipe = parse("hooks:\n  turn_end: {handler: swap_context, once: true, params: {keep_tail_tokens: 0}}")
    swap = NamedHandler("swap_context", {"keep_tail_tokens": 0})
    assert recipe.hooks == {"turn_end": HookBinding((swap,), once=True)}
    assert recipe.handler("swap_context") == swap
    assert recipe.handler("compact") is None


@pytest.mark.parametrize(
    ("handlers", "first", "last"),
    [
        ("[swap_context]", [], ["swap_context"]),
        ("[external, swap_context]", [], ["swap_context"]),
        ("[swap_context, external]", ["swap_context"], []),
        (f"[{{handler: validate_output, params: {SCHEMA}}}, external, export_markdown, compact]", ["validate_output"],
         ["export_markdown", "compact"]),
    ],
)  # fmt: skip
def test_what_stands_before_external_comes_before_all_other_hooks(
    handlers: str, first: list[str], last: list[str]
) -> None:
    binding = parse(f"hooks:\n  turn_end: {{handlers: {handlers}}}").hooks["turn_end"]
    assert [handler.name for handler in binding.first] == first
    assert [handler.name for handler in binding.handlers] == last


def test_events_may_have_the_names_that_claude_code_gives_them() -> None:
    recipe = parse("hooks:\n  PreToolUse: {handler: log_tool_usage}\n  Stop: {handler: export_markdown}")
    assert list(recipe.hooks) == ["PreToolUse", "Stop"]


@pytest.mark.parametrize(
    ("section", "line", "key", "words"),
    [
        ("{handlers: [external, swap_context, external]}", 3, "handlers.2", "`external` stands here twice"),
        ("{handlers: [external]}", 3, "handlers", "names no handler"),
        ("{handlers: []}", 3, "handlers", "at least 1 item"),
        ("{handler: external}", 3, "handler", "in a list of `handlers` alone"),
        ("{handler: compact, handlers: [compact]}", 3, "handler", "stands beside `handlers`"),
        ("{handlers: [compact], params: {a: 1}}", 3, "params", "belongs to a handler"),
        ("\n    handlers:\n    - compact\n    - swap", 6, "handlers.1", "no handler 'swap' for this event"),
        ("\n    handlers:\n    - handler: external\n      params: {a: 1}", 6, "handlers.0.params", "no parameters"),
        ("\n    handlers:\n    - handler: compact\n      parms: {}", 6, "handlers.0.parms", "did you mean `params`?"),
        ("\n    handler: compact\n    params:\n      a: 1", 6, "params.a", "unknown key"),
        (
            "\n    handlers:\n    - compact\n    - handler: swap_context\n      params:\n        keep_tail_token: 5",
            8,
            "handlers.1.params.keep_tail_token",
            "did you mean `keep_tail_tokens`?",
        ),
        ("\n    handler: swap_context\n    params:\n      max_summary_tokens: 0", 6, "params.max_summary_tokens",
         "greater than 0"),
        ("\n    handlers: [swap_context]\n    on_error: block", 5, "on_error", "belongs to a handler"),
        ("\n    handlers:\n    - compact\n    - {handler: external, on_error: ask}", 6, "handlers.1.on_error",
         "no parameters"),
        ("{handler: compact, on_error: stop}", 3, "on_error", "should be 'ask', 'allow' or 'block'"),
        ("{handler: swap_context, params: {preserve_system_prompt: 1}}", 3, "params.preserve_system_prompt", "boolean"),
        ("{handler: validate_output}", 3, "params", "should have a `schema` or a `file`"),
        ("{handler: validate_output, params: {schema: {type: objekt}}}", 3, "params.schema", "no usable JSON Schema"),
        ("{handler: validate_output, params: {schema: {$ref: 'http://a/b'}}}", 3, "params.schema", "leads out of it"),
        ("{handler: validate_output, params: {shema: {}}}", 3, "params.shema", "did you mean `schema`?"),
        ("{handler: append_context}", 3, "params", "should name a `text` or a `file`"),
        ("{handler: append_context, params: {file: ../a}}", 3, "params.file", "without `..`"),
        ("{handler: export_markdown, params: {path: /etc/x}}", 3, "params.path", "below the folder"),
        ("{handler: export_markdown, params: {path: a.py}}", 3, "params.path", "should end in .md"),
        ("{handler: log_tool_usage}", 3, "handler", "no handler 'log_tool_usage' for this event"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(section: str, line: int, key: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(f"hooks:\n  turn_end: {section}")
    assert words in caught.value.message
    assert (caught.value.line, caught.value.key) == (line, f"hooks.turn_end.{key}")


def test_mistakes_at_other_events_are_named_too() -> None:
    with pytest.raises(DocumentError, match="there is none for it"):
        parse("hooks:\n  session_start: {handler: compact}")
    with pytest.raises(DocumentError, match=r"is no regular expression of RE2: missing \]"):
        parse("hooks:\n  PostToolUse: {handler: validate_tool_output, params: {pattern: '[a'}}")
    with pytest.raises(DocumentError, match=r"should end in \.jsonl"):
        parse("hooks:\n  PreToolUse: {handler: log_tool_usage, params: {path: config.yaml}}")
    with pytest.raises(DocumentError, match="`schema`, a `file` or a `pattern`"):
        parse("hooks:\n  after_tool_call: {handler: validate_tool_output, params: {tool: read}}")


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ("{pattern: '^(?!error)'}", "params.pattern"),
        ("{schema: {properties: {name: {pattern: '^(?!error)'}}}}", "params.schema"),
        ("{schema: {items: {patternProperties: {'^(?!error)': {}}}}}", "params.schema"),
    ],
)
def test_a_pattern_with_lookahead_is_refused_with_its_line_and_what_to_write_instead(params: str, key: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(f"hooks:\n  after_tool_call:\n    handler: validate_tool_output\n    params: {params}")
    assert (caught.value.line, caught.value.key) == (5, f"hooks.after_tool_call.{key}")
    assert "`^(?!error)` is no regular expression of RE2: invalid perl operator: (?!." in caught.value.message
    assert "It has no lookaround: match what stands around it too" in caught.value.message


def test_a_caller_who_does_not_know_the_parameters_gets_any() -> None:
    recipe = parse("hooks:\n  turn_end: {handler: compact, params: {a: 1}}", Known(KNOWN.handlers))
    assert recipe.hooks["turn_end"].handlers == (NamedHandler("compact", {"a": 1}),)


@pytest.mark.parametrize(
    "form", ["{{handler: {name}, params: {params}}}", "{{handlers: [{{handler: {name}, params: {params}}}]}}"]
)
def test_of_a_parameter_that_is_a_text_nothing_is_made_but_what_is_written(form: str) -> None:
    def params(name: str, written: str, event: str = "turn_end") -> object:
        recipe = parse(f"hooks:\n  {event}: {form.format(name=name, params=written)}")
        return recipe.hooks[event].handlers[0].params

    for word in ("1.10", "12:30", "007", "no", "on", "true", "1_000", "2026-01-02", "5"):
        assert params("append_context", f"{{text: {word}}}", "user_message_send") == {"text": word}
    schema = (
        "{type: object, required: [on, no],"
        " properties: {on: {enum: [no, yes, 12:30, 007, 1, 1.5, true, null]}, y: {const: off}}}"
    )
    assert params("validate_output", f"{{schema: {schema}}}") == {
        "schema": {
            "type": "object",
            "required": ["on", "no"],
            "properties": {
                "on": {"enum": ["no", "yes", "12:30", "007", 1, 1.5, True, None]},
                "y": {"const": "off"},
            },
        }
    }
    assert params("swap_context", "{preserve_system_prompt: true, max_summary_tokens: 4000}") == {
        "preserve_system_prompt": True,
        "max_summary_tokens": 4000,
    }
    for wrong in ("{preserve_system_prompt: no}", "{max_summary_tokens: 1_000}", "{on: 1}"):
        with pytest.raises(DocumentError):
            params("swap_context", wrong)
