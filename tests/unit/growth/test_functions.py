"""Every function that reads what a model, a tool, a server or a repository wrote takes
a time that is linear in it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_agent.cli.chat import completion
from acp_agent.cli.chat.markdown import MarkdownText
from acp_agent.cli.chat.plain import PlainText
from acp_agent.cli.chat.view import _rows
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.compaction import answers, facts, verify
from acp_agent.compaction.excerpts.rules import stated_rules
from acp_agent.config import document
from acp_agent.conversation import strict_json
from acp_agent.conversation.messages import JsonObject, JsonValue, Text
from acp_agent.conversation.views import Diff
from acp_agent.json_bounds import has_too_many_values
from acp_agent.llm import errors
from acp_agent.llm.adapters.stream import Decoder
from acp_agent.mcp.elicitation import _unlinked
from acp_agent.mcp.schemas.normalise import input_schema, is_too_large
from acp_agent.patterns import compile_pattern, is_portable, wildcard_expression
from acp_agent.recipes import arguments, claude_commands
from acp_agent.recipes.parser import split
from acp_agent.secrets.asked import asks_for_secret
from acp_agent.secrets.messages import masked
from acp_agent.secrets.stream import StreamMask
from acp_agent.secrets.text import mask, mask_broken_json
from acp_agent.server.content import without_repeats
from acp_agent.server.v2.diffs import patch
from acp_agent.session import titles
from acp_agent.session.commands import command_words
from acp_agent.tools.matching import misses, near
from acp_agent.tools.matching.replace import Editing, notation_of
from acp_agent.tools.search.matches import Matches
from acp_agent.tools.search.wildcards import _together
from acp_agent.tools.shell import guarded, syntax
from acp_agent.tools.shell.named_files import named_files
from acp_agent.tools.shell.screen import ShownOutput
from acp_agent.tools.text import one_line, without_escapes
from support.growth import PUMPS, grows_too_fast, repeated

_SIZE = 1_500
_SECRETS = ["hunter2hunter3"]
_SLOW = frozenset(
    {
        "the files of a command line",
        "a replacement of what looks alike",
        "places that look alike",
        "a question for a secret",
        "tools of a command's file",
    }
)
"""Take milliseconds for each text, so that fewer are tried."""


def _in_pieces(feed: Callable[[str], object], text: str, length: int = 7) -> None:
    for at in range(0, len(text), length):
        feed(text[at : at + length])


def _stream_mask(text: str) -> None:
    stream = StreamMask(_SECRETS)
    _in_pieces(stream.feed, text)
    stream.flush()


def _wrap(text: str) -> None:
    shown = PlainText()
    _in_pieces(lambda piece: shown.feed(piece, 80), text)
    shown.finish(80)


def _render(text: str) -> None:
    shown = MarkdownText()
    _in_pieces(lambda piece: shown.feed(piece, 80), text)
    shown.finish(80)


def _screen(text: str) -> None:
    shown = ShownOutput(16_000)
    _in_pieces(shown.add, text, 50)
    shown.finish()


def _server_events(text: str) -> None:
    decoder = Decoder()
    _in_pieces(
        lambda piece: decoder.feed(piece.encode("utf-8", "surrogatepass")),
        f"data: {text}",
        100,
    )
    decoder.end()


def _edit(old: str) -> Callable[[str], None]:
    return lambda text: Editing(text).replace(
        old, "b", everywhere=True, name="old_text"
    )


def _grep(text: str) -> None:
    pattern = compile_pattern("b", multiline=True, within_lines=True)
    for _ in Matches(pattern, pattern, 3, is_ascii=False).add(
        "a", io.BytesIO(text.encode("utf-8", "replace"))
    ):
        pass


READERS: Mapping[str, Callable[[str], object]] = {
    "a command line": syntax.parse,
    "the files of a command line": lambda text: named_files(
        f"rm {text}", Path("/nowhere")
    ),
    "complaints of a command": lambda text: (
        guarded.split_placeholders(f"rm: cannot remove '{text}", [Path("/nowhere")]),
        guarded.unchanged_files(text),
    ),
    "what a terminal shows": _screen,
    "control characters": notation_of,
    "one line": one_line,
    "escape sequences": without_escapes,
    "an edit": _edit("a"),
    "an edit of what looks alike": _edit("“"),
    "places that look alike": lambda text: near.near_places(
        f"\u2010{text}", "\u2010" + text[:3], 10**9
    ),
    "a replacement of what looks alike": lambda text: near.carried(
        text, text, text[::-1]
    ),
    "characters that combine": near.clusters,
    "why a text is not found": lambda text: misses.explained(text, f"{text[1:]}b"),
    "lines that match": _grep,
    "secrets": lambda text: mask(text, _SECRETS),
    "secrets in broken JSON": lambda text: mask_broken_json(text, _SECRETS),
    "secrets in JSON": lambda text: masked(
        {"args": [text], "env": {text: text}}, _SECRETS
    ),
    "secrets in a stream": _stream_mask,
    "a text for a terminal": safe_for({"A_TOKEN": "hunter2hunter2"}),
    "prose in pieces": _wrap,
    "Markdown in pieces": _render,
    "rows of an output": _rows,
    "a mention": completion._MENTION.search,
    "a word to complete": completion._WORD.search,
    "a portable pattern": is_portable,
    "a wildcard": wildcard_expression,
    "a wildcard or its literal": lambda text: wildcard_expression(
        text, or_literal=True
    ),
    "JSON": strict_json.parse_object,
    "JSON that is strict": strict_json.parse_json,
    "values of JSON": lambda text: has_too_many_values(
        text.encode("utf-8", "surrogatepass"), length=10
    ),
    "events of a server": _server_events,
    "an error of a provider": errors.read_error,
    "names in an error": errors.names_in_error,
    "a schema's texts": lambda text: input_schema(
        {"properties": {"a": {"pattern": text, "description": text}}}
    ),
    "a link in a form": _unlinked,
    "a question for a secret": asks_for_secret,
    "YAML": lambda text: document.parse_mappings(f"a: {text}"),
    "YAML of several": document.parse_mappings,
    "front matter": split,
    "arguments of a recipe": lambda text: arguments.split_arguments(
        "it", ["a"], f'a="{text}'
    ),
    "placeholders": lambda text: arguments.fill(text, "a b"),
    "keys of a command's file": claude_commands._keys,
    "tools of a command's file": lambda text: claude_commands._allowed(
        [text], Path("a"), claude_commands.Known({})
    ),
    "an answer with a summary": lambda text: answers.summary_in(text, ["A"]),
    "thinking before a summary": lambda text: answers.summary_in(
        f"<think>{text}", ["A"]
    ),
    "facts": lambda text: [
        facts.facts_of_run.__wrapped__(run) for run in facts.RUNS.findall(text)
    ],
    "units": lambda text: [*facts.units(text)],
    "what a summary says": lambda text: verify.mark(text, verify.pieces(text)),
    "rules of the user": stated_rules,
    "a prompt that repeats others": lambda text: without_repeats((Text(text),), ["a"]),
    "a prompt that may be a command": lambda text: command_words((Text(f"/a{text}"),)),
    "a title": lambda text: titles.words_of((Text(f"<a>{text}"),)),
    "a patch": lambda text: patch(
        Diff("/a", text, text[len(text) // 3 :] + text[: len(text) // 3])
    ),
    "ignore rules": lambda text: [*_together(text.split("\n"))],
}


@pytest.mark.parametrize("name", READERS)
def test_a_text_that_repeats_any_delimiter_takes_a_time_that_is_linear(
    name: str,
) -> None:
    for pump in PUMPS[::4] if name in _SLOW else PUMPS:
        told = grows_too_fast(READERS[name], repeated(pump), _SIZE)
        assert not told, f"{pump!r}: {told}"


def _refer(count: int) -> JsonObject:
    return {
        "properties": {
            f"p{number}": {"$ref": f"#/x/{number}/a"} for number in range(count)
        },
        "x": {str(number): {"a": {"type": "string"}} for number in range(count)},
    }


def _chain(count: int) -> JsonObject:
    definitions: JsonObject = {
        f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(count)
    }
    return {
        "$defs": definitions,
        "properties": {f"p{number}": {"$ref": "#/$defs/d0"} for number in range(count)},
    }


def _double(count: int) -> JsonObject:
    definitions: JsonObject = {}
    for number in range(count):
        next_one: JsonObject = {"$ref": f"#/$defs/d{number + 1}"}
        definitions[f"d{number}"] = {
            "anyOf": [next_one, next_one],
            "properties": {f"q{number}": {}},
        }
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


SCHEMAS: Mapping[str, Callable[[int], Any]] = {
    "references with one name": _refer,
    "chains of references": _chain,
    "references that double": _double,
    "alternatives of one property": lambda count: {
        "anyOf": [{"properties": {"a": {"const": number}}} for number in range(count)]
    },
    "choices": lambda count: {"properties": {"a": {"enum": [*range(count)]}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_of_a_server_takes_a_time_that_is_linear(name: str) -> None:
    assert not grows_too_fast(input_schema, SCHEMAS[name], 100)


def test_a_schema_that_is_huge_is_known_before_it_is_rewritten() -> None:
    values: list[JsonValue] = [0] * 10_000
    assert is_too_large({"enum": values * 3})
    assert not is_too_large({"enum": values})


def test_a_line_of_a_hundred_kilobytes_or_a_thousand_commands_is_not_understood() -> (
    None
):
    for line in (")" * 100_000, "(" * 7_000, "a && " * 5_000 + "a", "a" * 100_000):
        assert syntax.parse(line).commands == ()
    assert len(syntax.parse("a && " * 1_000 + "a").commands) == 1_001


def test_an_edit_that_would_take_gigabytes_is_refused() -> None:
    editing = Editing("a" * 90_000)
    with pytest.raises(Exception, match="too much for one edit"):
        editing.replace("a", "b" * 10_000, everywhere=True, name="old_text")
    with pytest.raises(Exception, match="too much for one edit"):
        Editing("a" * 200_000).replace("a", "b", everywhere=True, name="old_text")
