"""Digests of a conversation: the same however it is encoded, and another one behind
anything that has changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.conversation.surroundings import Surroundings
from acp_agent.llm.adapters.adapter import Adapter
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.adapters.encoding import ModelCall
from acp_agent.llm.adapters.responses import ResponsesAdapter
from acp_agent.llm.binding import Prefix, head_of
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from support.reasoning import thoughts

both_apis = pytest.mark.parametrize("dialect", ["anthropic", "openai"])
PROFILE = ModelProfile(thinking="adaptive")
NAMES = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.2-sol"}
TOOLS = tuple(
    m.ToolDefinition(name, f"Does {name}.", {"type": "object", "properties": {}})
    for name in ("look", "zap")
)
WORDS = st.sampled_from(["Go on", "a", " b ", "Grün 🌱", "two\nlines", "x" * 200])


def api(dialect: str) -> Adapter:
    kind = {"anthropic": AnthropicAdapter, "openai": ResponsesAdapter}[dialect]
    return kind(
        Endpoint(
            dialect,
            "anthropic" if dialect == "anthropic" else "openai-responses",
            "http://localhost",
        )
    )


@dataclass
class Talk:
    """A conversation as a session has it: each answer is bound to the request that it
    answers.
    """

    dialect: str
    adapter: Adapter
    messages: tuple[m.Message, ...] = ()
    count: int = 0
    whole: bool = True

    def request(self, **more: Any) -> ModelRequest:
        values = {"conversation_id": "sess_1" if self.whole else "", **more}
        return ModelRequest(
            NAMES[self.dialect], "Be brief.", self.messages, TOOLS, **values
        )

    def call(self, **more: Any) -> ModelCall:
        return self.adapter.call(self.request(**more), PROFILE, frozenset(), None)

    def say(self, text: str) -> None:
        self.messages += (m.UserMessage(self.new("u"), (m.Text(text),)),)

    def answer(self, kinds: Sequence[str], word: str) -> None:
        """An answer of these parts, and results of its calls."""
        call = self.call()
        assert call.end is not None
        rules = self.adapter.rules(NAMES[self.dialect])
        parts = self.adapter.bind(
            [self.part(kind, word) for kind in kinds], call.end.prefix, rules
        )
        model = f"{self.dialect}/{NAMES[self.dialect]}"
        message = m.AssistantMessage(self.new("a"), parts, model)
        own = tuple(
            replace(part, id=self.new("call"), provider_id=part.id)
            if isinstance(part, m.ToolCall)
            else part
            for part in parts
        )
        message = replace(message, parts=own)
        results = tuple(
            m.ToolResult(each.id, (m.Text(word or "-"),)) for each in message.tool_calls
        )
        self.messages += (message, *results)

    def part(self, kind: str, word: str) -> m.AssistantPart:
        number = self.new("p")
        match kind:
            case "thought" if self.dialect == "anthropic":
                return m.Thinking(
                    word,
                    self.dialect,
                    {"type": "thinking", "signature": f"sealed-{number}"},
                )
            case "thought":
                sealed: m.JsonObject = {
                    "type": "reasoning",
                    "id": f"rs_{number}",
                    "encrypted_content": f"sealed-{number}",
                }
                return m.Thinking(word, self.dialect, {**sealed, "summary": []})
            case "text":
                return m.Text(word)
            case _:
                return m.ToolCall(f"theirs_{number}", "look", {"path": word, "n": 1})

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"

    def made(self) -> list[str]:
        """All reasoning that was made, by its seal, in order."""
        return [
            seal(part.data) for part in self.parts() if isinstance(part, m.Thinking)
        ]

    def parts(self) -> list[m.AssistantPart]:
        return [
            part
            for each in self.messages
            if isinstance(each, m.AssistantMessage)
            for part in each.parts
        ]


def seal(block: Any) -> str:
    return str(block.get("signature") or block.get("encrypted_content"))


def sent(call: ModelCall) -> list[str]:

    return [seal(block) for block in thoughts(json.loads(call.content))]


def unbound(message: m.Message) -> m.Message:
    """Return the message as earlier versions stored it."""
    if not isinstance(message, m.AssistantMessage):
        return message
    parts = (
        replace(part, bound=None) if isinstance(part, m.Thinking) else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


ANSWERS = st.tuples(
    st.lists(st.sampled_from(["thought", "text", "call"]), max_size=4).map(
        lambda kinds: ["thought", *kinds]
    ),
    WORDS,
)
TURNS = st.lists(
    st.tuples(WORDS, st.lists(ANSWERS, max_size=3), WORDS), min_size=1, max_size=4
)


def talked(dialect: str, turns: Sequence[Any], *, whole: bool = True) -> Talk:
    """Turns of a prompt, steps, and an answer; a step without a call goes on without a
    prompt, as after a pause.
    """
    talk = Talk(dialect, api(dialect), whole=whole)
    for prompt, steps, last in turns:
        talk.say(prompt)
        for kinds, word in steps:
            talk.answer([*kinds, "call"], word)
        talk.answer(["thought", "text"], last)
    talk.say("And now?")
    return talk


@both_apis
@given(turns=TURNS)
def test_what_an_answer_is_bound_to_is_what_every_later_request_finds_there(
    dialect: str, turns: Any
) -> None:
    talk = talked(dialect, turns)
    call = talk.call()
    assert call.end is not None
    assert call.end.withheld == ()
    assert sent(call) == talk.made()


@both_apis
@given(turns=TURNS, data=st.data())
def test_a_conversation_that_is_encoded_in_pieces_has_the_digests_and_the_reasoning_of_the_whole(
    dialect: str, turns: Any, data: st.DataObject
) -> None:
    talk = talked(dialect, turns)
    ends = [
        at
        for at in range(1, len(talk.messages))
        if isinstance(talk.messages[at - 1], m.UserMessage)
    ]
    pieces = api(dialect)
    for at in sorted(data.draw(st.sets(st.sampled_from(ends), max_size=4))):
        pieces.call(_upto(talk, at), PROFILE, frozenset(), None)
    in_pieces = pieces.call(talk.request(), PROFILE, frozenset(), None)
    at_once = api(dialect).call(
        talk.request(conversation_id=""), PROFILE, frozenset(), None
    )
    assert in_pieces.end is not None
    assert at_once.end is not None
    assert in_pieces.end.prefix == at_once.end.prefix
    assert in_pieces.end.withheld == at_once.end.withheld
    assert sent(in_pieces) == sent(at_once)


def _upto(talk: Talk, at: int) -> ModelRequest:
    return replace(talk.request(), messages=talk.messages[:at])


@both_apis
@given(turns=TURNS, data=st.data())
def test_a_change_of_one_part_withholds_exactly_the_reasoning_behind_it(
    dialect: str, turns: Any, data: st.DataObject
) -> None:
    talk = talked(dialect, turns)
    places = [
        (at, index)
        for at, message in enumerate(talk.messages[:-1])
        for index, part in enumerate(message.parts)
        if isinstance(part, m.ToolCall)
        or (isinstance(part, m.Text) and part.text.strip())
    ]
    at, index = data.draw(st.sampled_from(places))
    changed = talk.messages[at]
    before = [
        seal(part.data)
        for each in talk.messages[:at]
        for part in each.parts
        if isinstance(part, m.Thinking)
    ]
    before += [
        seal(part.data)
        for part in changed.parts[:index]
        if isinstance(part, m.Thinking)
    ]
    part = changed.parts[index]
    other = (
        replace(part, text=f"{part.text}!")
        if isinstance(part, m.Text)
        else replace(part, arguments={"path": "?"})
    )
    edited: Any = replace(
        changed, parts=(*changed.parts[:index], other, *changed.parts[index + 1 :])
    )
    request = replace(
        talk.request(), messages=(*talk.messages[:at], edited, *talk.messages[at + 1 :])
    )
    call = api(dialect).call(request, PROFILE, frozenset(), None)
    assert call.end is not None
    assert sent(call) == before
    assert {each.cause for each in call.end.withheld} <= {"conversation"}
    assert len(call.end.withheld) == len(talk.made()) - len(before)


@both_apis
@pytest.mark.parametrize("change", ["system", "tools"])
def test_another_beginning_withholds_all_reasoning(dialect: str, change: str) -> None:
    talk = talked(dialect, [("Hi", [], "Fine."), ("Hi", [(["thought"], "a")], "Fine.")])
    other = {"system": {"system": "Be long."}, "tools": {"tools": TOOLS[:1]}}[change]
    call = api(dialect).call(
        replace(talk.request(), **other), PROFILE, frozenset(), None
    )
    assert call.end is not None
    assert sent(call) == []
    assert len(call.end.withheld) == 3


@both_apis
def test_reasoning_that_was_left_out_in_the_middle_takes_along_what_was_made_behind_it(
    dialect: str,
) -> None:
    talk = talked(dialect, [("Hi", [], "Fine.")] * 4)
    made = talk.made()
    at = [
        index
        for index, each in enumerate(talk.messages)
        if isinstance(each, m.AssistantMessage)
    ][1]
    gone = replace(talk.messages[at], parts=(m.Text("Fine."),))
    messages = (*talk.messages[:at], gone, *talk.messages[at + 1 :])
    call = api(dialect).call(
        replace(talk.request(), messages=messages), PROFILE, frozenset(), None
    )
    assert sent(call) == made[:1]


def test_the_order_of_tools_and_of_members_and_white_space_at_the_ends_of_a_system_prompt_do_not_count() -> (
    None
):
    one: m.JsonObject = {"name": "a", "description": "A."}
    two: m.JsonObject = {"description": "B.", "name": "b"}
    assert head_of("Be brief.", [one, two]) == head_of(
        " Be brief.\n", [dict(reversed(two.items())), one]
    )
    assert head_of("Be brief.", [one]) != head_of("Be brief.", [two])
    assert head_of("Be  brief.", [one]) != head_of("Be brief.", [one])


def test_the_role_of_a_part_counts_and_the_order_of_its_members_does_not() -> None:
    start = Prefix("h")
    part: m.JsonObject = {"type": "text", "text": "x"}
    assert start.after("user", part) == start.after(
        "user", {"text": "x", "type": "text"}
    )
    assert start.after("user", part) != start.after("assistant", part)


@pytest.mark.parametrize(
    ("dialect", "older", "newer", "data"),
    [
        (
            "openai",
            "gpt-6-luna",
            "gpt-6.2-sol",
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed"},
        ),
        (
            "anthropic",
            "claude-sonnet-5",
            "claude-sonnet-5-5",
            {"type": "thinking", "signature": "sealed"},
        ),
    ],
)
def test_what_an_older_model_thought_is_sent_to_a_newer_one_that_is_told_of_changes_in_another_way(
    dialect: str, older: str, newer: str, data: m.JsonObject
) -> None:
    adapter = api(dialect)
    level = m.Amendment("u2", (), thought_level="high")
    prompt = m.UserMessage("u1", (m.Text("Go on"),))
    asked = ModelRequest(
        older, "Be brief.", (prompt, level), declared=Surroundings(tools=())
    )
    profile = ModelProfile(thinking="effort")
    call = adapter.call(asked, profile, frozenset(), None)
    assert call.end is not None
    said = (m.Thinking("Hm.", adapter.name, data), m.Text("Fine."))
    bound = adapter.bind(said, call.end.prefix, adapter.rules(older))
    answer = m.AssistantMessage("a1", bound, f"{adapter.name}/{older}")
    later = replace(
        asked,
        model=newer,
        messages=(prompt, level, answer, m.UserMessage("u3", (m.Text("And?"),))),
    )
    assert [
        each.message_id for each in adapter.places(later, profile, frozenset())
    ] == ["a1"]


@both_apis
def test_what_stays_after_a_compaction_of_the_provider_is_bound_to_what_it_compacted(
    dialect: str,
) -> None:
    rules = api(dialect).rules(NAMES[dialect])
    beginning = (
        Prefix(head_of("Be brief.", ()))
        .after("user", {"text": "one"})
        .after("assistant", {"text": "two"})
    )
    at = beginning.bound(rules)
    behind = beginning.after("user", {"text": "three"})
    kept = m.Thinking(
        "Hm.", dialect, {"signature": "sealed"}, bound=behind.bound(rules)
    )
    compacted = (
        Prefix(beginning.head)
        .after_compaction({"content": "A summary."}, at)
        .after("user", {"text": "three"})
    )
    assert compacted.mismatch(kept, rules, rules) is None
    elsewhere = Prefix(head_of("Be long.", ())).after_compaction(
        {"content": "A summary."}, at
    )
    assert (
        elsewhere.after("user", {"text": "three"}).mismatch(kept, rules, rules)
        == "surroundings"
    )
    without = (
        Prefix(beginning.head)
        .after_compaction({"content": "A summary."}, None)
        .after("user", {"text": "three"})
    )
    assert without.mismatch(kept, rules, rules) == "conversation"


def test_two_models_of_which_only_one_reads_the_other_lose_nothing_by_taking_turns() -> (
    None
):
    adapter = api("anthropic")
    names = ("claude-sonnet-5-5", "claude-opus-5-5")
    messages: tuple[m.Message, ...] = ()
    for number in range(6):
        name = names[number % 2]
        messages += (m.UserMessage(f"u{number}", (m.Text("Go on"),)),)
        request = ModelRequest(name, "Be brief.", messages, TOOLS)
        call = adapter.call(request, PROFILE, frozenset(), None)
        assert call.end is not None
        thought = m.Thinking(
            "Hm.", "anthropic", {"type": "thinking", "signature": f"sealed-{number}"}
        )
        parts = adapter.bind(
            (thought, m.Text("Fine.")), call.end.prefix, adapter.rules(name)
        )
        messages += (m.AssistantMessage(f"a{number}", parts, f"anthropic/{name}"),)
    messages += (m.UserMessage("u6", (m.Text("And?"),)),)
    sent = {
        name: len(
            adapter.places(
                ModelRequest(name, "Be brief.", messages, TOOLS), PROFILE, frozenset()
            )
        )
        for name in names
    }
    assert sent == {"claude-sonnet-5-5": 3, "claude-opus-5-5": 6}


def test_reasoning_that_does_not_know_its_conversation_is_withheld_as_soon_as_that_has_changed() -> (
    None
):
    talk = talked("anthropic", [("Go on", [], "Fine.")] * 4)
    talk.messages = tuple(map(unbound, talk.messages))
    assert len(sent(talk.call(unbound=0))) == 4
    assert len(sent(talk.call(unbound=4))) == 2
    assert len(sent(talk.call(unbound=0))) == 4
