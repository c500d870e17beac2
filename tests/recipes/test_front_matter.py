"""What stands in a recipe's file."""

from __future__ import annotations

import hashlib
import keyword
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from acp_agent.config.document import DocumentError
from acp_agent.recipes import Argument, HookBinding, Known, NamedHandler, Recipe, render
from acp_agent.recipes.front_matter import parse_recipe, split

HANDLERS = {"turn_end": ["swap_context", "append_context"], "agent_stop": ["export_markdown"]}
TOOLS = ("read", "write", "grep")
KNOWN = Known(HANDLERS, TOOLS, {"squash": ("turn_end", "swap_context")})


def parse(text: str, name: str = "note") -> Recipe:
    return parse_recipe(text, name=name, source=Path("/r/note.md"), origin="user", known=KNOWN)


LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=10).filter(
    lambda line: line.rstrip() != "---"
)
FENCES = st.sampled_from(["---", "--- ", "---\t"])
ENDS = st.sampled_from(["\n", "\r\n"])


@settings(deadline=None)
@given(st.lists(LINE, max_size=5), st.lists(LINE | FENCES, max_size=5), FENCES, FENCES, ENDS)
def test_a_file_is_cut_at_its_fences_and_the_body_knows_its_line(
    matter: list[str], body: list[str], first: str, second: str, end: str
) -> None:
    parts = split(end.join([first, *matter, second, *body]))
    assert parts.front_matter == "\n".join(matter)
    assert parts.body == "\n".join(body)
    assert parts.body_line == len(matter) + 3


@settings(deadline=None)
@given(st.lists(LINE, min_size=1, max_size=5), st.lists(LINE | FENCES, max_size=5), ENDS)
def test_a_file_whose_first_line_is_no_fence_is_all_body(head: list[str], rest: list[str], end: str) -> None:
    parts = split(end.join([*head, *rest]))
    assert (parts.front_matter, parts.body, parts.body_line) == (None, "\n".join([*head, *rest]), 1)


def test_front_matter_without_an_end_is_an_error_in_its_first_line() -> None:
    with pytest.raises(DocumentError, match="no closing ---") as caught:
        split("---\nname: x\n")
    assert caught.value.line == 1


def test_every_key_arrives_in_the_recipe() -> None:
    text = """\
---
name: note
description: >
  Writes
  a note
allowed_tools: [read, grep]
allowed_commands: ["git log*"]
arguments:
  topic: {description: What about, required: true}
  length: {default: 5}
  loud:
defaults: {loud: true, place: here}
hooks:
  turn_end: {handler: swap_context, once: true}
  agent_stop: {handler: export_markdown}
---
Write about {{ topic }}.
"""
    assert parse(text) == Recipe(
        name="note",
        description="Writes a note",
        body="Write about {{ topic }}.\n",
        body_line=17,
        source=Path("/r/note.md"),
        origin="user",
        digest=hashlib.sha256(text.encode()).hexdigest(),
        allowed_tools=("read", "grep"),
        allowed_commands=("git log*",),
        arguments=(
            Argument("topic", "What about", None, True),
            Argument("length", default="5"),
            Argument("loud", default="true"),
            Argument("place", default="here"),
        ),
        hooks={
            "turn_end": HookBinding((NamedHandler("swap_context"),), once=True),
            "agent_stop": HookBinding((NamedHandler("export_markdown"),)),
        },
    )


AS_WRITTEN = ["1.10", "12:30", "007", "no", "on", "True", "1_000", "0x1F", "2026-01-02", "1e3", ".5", "=", "<<", "-0"]


@pytest.mark.parametrize("written", AS_WRITTEN)
def test_a_text_is_kept_as_it_is_written(written: str) -> None:
    arguments = f"arguments: {{a: {{default: {written}, description: {written}}}, b: }}\ndefaults:\n  b: {written}"
    recipe = parse(
        f"---\nversion: {written}\ndescription: {written}\nallowed_commands: [{written}]\n{arguments}\n---\nx"
    )
    assert (recipe.version, recipe.description, recipe.allowed_commands) == (written, written, (written,))
    assert recipe.arguments == (Argument("a", written, written), Argument("b", "", written))
    assert parse("---\narguments: {a: {default: ~}, b: {default: }}\n---\nx").arguments == (
        Argument("a"),
        Argument("b"),
    )


@pytest.mark.parametrize(
    "text", ["# Say hello\n\nto all\n", "---\n---\n# Say hello\n", "---\n# nothing\n---\n\nSay hello\n"]
)
def test_a_recipe_may_say_nothing_about_itself(text: str) -> None:
    recipe = parse(text)
    assert (recipe.description, recipe.allowed_tools, recipe.allowed_commands) == ("Say hello", None, None)
    assert (recipe.arguments, recipe.hooks) == ((), {})


def test_a_description_taken_from_a_long_first_line_is_cut() -> None:
    description = parse("word " * 100).description
    assert len(description) == 100
    assert description.endswith("word…")


def test_no_tools_and_all_tools_are_told_apart() -> None:
    assert parse("---\nallowed_tools: []\n---\nx").allowed_tools == ()
    assert parse("---\nname: note\n---\nx").allowed_tools is None


@pytest.mark.parametrize(
    ("matter", "line", "key", "words"),
    [
        ("description: x\nallowed_tool: []", 3, "allowed_tool", "unknown key; did you mean `allowed_tools`?"),
        ("zebra: 1", 2, "zebra", "unknown key; known here: name, description,"),
        ("allowed_tools:", 2, "allowed_tools", "is empty; write [] for none at all"),
        ("\nallowed_commands: null", 3, "allowed_commands", "is empty; write [] for none at all"),
        ("allowed_tools: read", 2, "allowed_tools", "should be a list, such as [one, two]"),
        ("allowed_tools:\n  - read\n  - 5", 4, "allowed_tools.1", "should be a valid string"),
        ("allowed_tools: [raed]", 2, "allowed_tools.0", "there is no tool 'raed'; did you mean `read`?"),
        ("allowed_tools:\n- read\n- zebra", 4, "allowed_tools.1", "'zebra'; known are: grep, read, write"),
        ("name: other", 2, "name", "says 'other', but the file is note.md"),
        ("description: [a]", 2, "description", "should be a valid string"),
        ("arguments:\n  instructions: {}", 3, "arguments.instructions", "stands for the rest of the command line"),
        ("defaults:\n  arguments: x", 3, "defaults.arguments", "stands for the rest of the command line"),
        ("arguments:\n  'true': {}", 3, "arguments.true", "has a meaning of its own in a template"),
        ("defaults:\n  x: 1\n  self: x", 4, "defaults.self", "has a meaning of its own in a template"),
        ("arguments:\n  a-b: {}", 3, "arguments.a-b", "letters, digits and underscores alone"),
        ("arguments:\n  a:\n    requierd: true", 4, "arguments.a.requierd", "did you mean `required`?"),
        ("arguments:\n  a: {default: [1]}", 3, "arguments.a.default", "should be a valid string"),
        ("arguments: {a: {default: 1}}\ndefaults:\n  a: 2", 4, "defaults.a", "has a default under `arguments` too"),
        ("hooks:\n  turn_ended: {handler: swap_context}", 3, "hooks.turn_ended", "did you mean `turn_end`?"),
        ("hooks:\n  x: {handler: y}", 3, "hooks.x", "no such event; known are: agent_stop, turn_end"),
        ("hooks:\n  turn_end:\n    handler: swap", 4, "hooks.turn_end.handler", "no handler 'swap' for this event"),
        ("hooks:\n  agent_stop: {handler: swap_context}", 3, "hooks.agent_stop.handler", "known are: export_markdown"),
        ("hooks:\n  turn_end: {once: true}", 3, "hooks.turn_end", "says neither `handler` nor `handlers`"),
        ("hooks:\n  turn_end:\n    handler: swap_context\n    once: often", 5, "hooks.turn_end.once", "valid boolean"),
        ("hooks:\n  turn_end: swap_context", 3, "hooks.turn_end", "should be `key: value` lines of its own"),
        ("name: [", 2, None, "is not valid YAML"),
        ("- name", 2, None, "should be `key: value` lines"),
        ("name: note\nname: note", 3, "name", "is set twice, first in line 2"),
    ],
)
def test_a_mistake_is_named_with_its_line_in_the_file(matter: str, line: int, key: str | None, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(f"---\n{matter}\n---\nbody\n")
    assert words in caught.value.message
    assert (caught.value.line, caught.value.key) == (line, key)


@settings(deadline=None)
@given(
    st.sampled_from(
        [*keyword.kwlist, "true", "none", "self", "loop", "macro", "block", "super", "caller", "range", "_"]
    )
    | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
)
def test_an_argument_of_any_name_that_is_taken_is_what_the_template_says(name: str) -> None:
    front = f"---\narguments:\n  '{name}':\n---\n"
    body = f"{{{{ {name} }}}} {{% if {name} == 'x y' %}}same{{% endif %}}"
    body += f"{{% for each_one in [1] %}} {{{{ {name} }}}}{{% endfor %}}"
    try:
        recipe = parse(front + body)
    except DocumentError:
        reject()
    assert render(recipe, {name: "x y"}, "") == "x y same x y"


def test_a_caller_who_does_not_know_the_tools_gets_any_name() -> None:
    known = Known(HANDLERS)
    recipe = parse_recipe(
        "---\nallowed_tools: [zebra]\n---\nx", name="note", source=Path("note.md"), origin="user", known=known
    )
    assert recipe.allowed_tools == ("zebra",)


@pytest.mark.parametrize(
    ("matter", "line"),
    [
        ("", 1),
        ("---\ndescription: x\n---\n", 1),
        ("---\ndescription: x\nhooks: {}\n---\n", 3),
        ("---\nhooks:\n  turn_end: {handler: append_context}\n---\n", 2),
        ("---\nhooks:\n  agent_stop: {handler: export_markdown}\n---\n", 2),
    ],
)
def test_a_recipe_of_a_name_that_has_a_duty_must_keep_its_hook(matter: str, line: int) -> None:
    with pytest.raises(DocumentError, match=r"must have `turn_end: \{handler: swap_context\}`") as caught:
        parse(f"{matter}body\n", "squash")
    assert (caught.value.line, caught.value.key) == (line, "hooks")
    assert parse(f"{matter}body\n", "note").body == "body\n"
    kept = parse("---\nhooks:\n  turn_end: {handler: swap_context}\n---\nbody\n", "squash")
    assert kept.hooks == {"turn_end": HookBinding((NamedHandler("swap_context"),))}


@pytest.mark.parametrize(("text", "line"), [("", 1), ("---\nname: note\n---\n \n", 4), ("\n\n", 1)])
def test_a_recipe_without_text_is_an_error(text: str, line: int) -> None:
    with pytest.raises(DocumentError, match="has no text below its front matter") as caught:
        parse(text)
    assert caught.value.line == line
