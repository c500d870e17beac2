"""Tool calls as odd servers stream them, in all three APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.llm.adapters.calls import ChatCalls
from acp_agent.llm.parts import arguments_fault, sent_arguments, tool_call
from support.adapters import PROFILE, api, fold_of, request, wire_body

READ = ("read", {"path": "x.txt"})
LIST = ("list", {})
WHOLE = '{"path":"x.txt"}'
TWICE = json.dumps(WHOLE)


def piece(
    arguments: Any = None, name: str | None = None, **fields: Any
) -> dict[str, Any]:
    function: dict[str, Any] = {}
    if arguments is not None:
        function["arguments"] = arguments
    if name is not None:
        function["name"] = name
    return {"function": function, **fields}


CHAT: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "an object": ([piece({"path": "x.txt"}, "read", index=0, id="a")], [READ]),
    "an object without an id": ([piece({"path": "x.txt"}, "read", index=0)], [READ]),
    "an empty object, then text": (
        [piece({}, "read", index=0, id="a"), piece(WHOLE, index=0)],
        [READ],
    ),
    "an empty object as text, then text": (
        [piece("{}", "read", index=0, id="a"), piece(WHOLE, index=0)],
        [READ],
    ),
    "an empty list": ([piece([], "list", index=0, id="a")], [LIST]),
    "null": ([piece(None, "list", index=0, id="a")], [LIST]),
    "JSON within JSON": ([piece(TWICE, "read", index=0, id="a")], [READ]),
    "JSON within JSON within JSON": (
        [piece(json.dumps(TWICE), "read", index=0, id="a")],
        [READ],
    ),
    "JSON within JSON in pieces": (
        [piece(TWICE[:9], "read", index=0, id="a"), piece(TWICE[9:], index=0)],
        [READ],
    ),
    "the name again, no id": (
        [
            piece('{"pa', "read", index=0, id="a"),
            piece('th":"x.txt"}', "read", index=0),
        ],
        [READ],
    ),
    "the name again, an empty id": (
        [
            piece('{"pa', "read", index=0, id="a"),
            piece('th":"x.txt"}', "read", index=0, id=""),
        ],
        [READ],
    ),
    "the name again, null for an id": (
        [
            piece('{"pa', "read", index=0, id="a"),
            piece('th":"x.txt"}', "read", index=0, id=None),
        ],
        [READ],
    ),
    "the name again, empty arguments first": (
        [
            piece("", "read", index=0),
            piece('{"pa', "read", index=0),
            piece('th":"x.txt"}', "read", index=0),
        ],
        [READ],
    ),
    "the name comes late": (
        [piece('{"pa', index=0, id="a"), piece('th":"x.txt"}', "read", index=0)],
        [READ],
    ),
    "the name comes last": (
        [piece(WHOLE, index=0, id="a"), piece("", "read", index=0)],
        [READ],
    ),
    "the name is empty at first": (
        [piece("", "", index=0, id="a"), piece(WHOLE, "read", index=0)],
        [READ],
    ),
    "the id comes late": (
        [piece('{"pa', "read", index=0), piece('th":"x.txt"}', index=0, id="a")],
        [READ],
    ),
    "another id with every piece": (
        [
            piece('{"pa', "read", index=0, id="a"),
            piece('th":"x.txt"}', index=0, id="b"),
        ],
        [READ],
    ),
    "another id with every piece, and the name": (
        [
            piece("", "read", index=0, id="a"),
            piece('{"pa', "read", index=0, id="b"),
            piece('th":"x.txt"}', index=0),
        ],
        [READ],
    ),
    "no index, the id with every piece": (
        [
            piece('{"pa', "read", id="a"),
            piece("{}", "list", id="b"),
            piece('th":"x.txt"}', id="a"),
        ],
        [READ, LIST],
    ),
    "an index that is text": (
        [piece('{"pa', "read", index="0"), piece('th":"x.txt"}', index="0")],
        [READ],
    ),
    "two under one index, with ids": (
        [piece(WHOLE, "read", index=0, id="a"), piece("{}", "list", index=0, id="b")],
        [READ, LIST],
    ),
    "two under one index, in pieces": (
        [
            piece('{"path":', "read", index=0, id="a"),
            piece('"x.txt"}', index=0),
            piece("", "list", index=0, id="b"),
            piece("{}", index=0),
        ],
        [READ, LIST],
    ),
    "two under one index, without ids": (
        [piece(WHOLE, "read", index=0), piece("{}", "list", index=0)],
        [READ, LIST],
    ),
    "two under one index, one id": (
        [
            piece(WHOLE, "read", index=0, id="a"),
            piece('{"path":"y"}', "read", index=0, id="a"),
        ],
        [READ, ("read", {"path": "y"})],
    ),
    "two under one index, the first without arguments": (
        [piece("", "list", index=0), piece(WHOLE, "read", index=0)],
        [LIST, READ],
    ),
    "the whole call again at the end": (
        [
            piece('{"path":', "read", index=0, id="a"),
            piece('"x.txt"}', index=0),
            piece(WHOLE, "read", index=0, id="a"),
        ],
        [READ],
    ),
    "all so far with every piece": (
        [
            piece('{"pa', "read", index=0, id="a"),
            piece('{"path":"x', index=0),
            piece(WHOLE, index=0),
        ],
        [READ],
    ),
    "no function around name and arguments": (
        [{"index": 0, "id": "a", "name": "read", "arguments": WHOLE}],
        [READ],
    ),
}


def calls_of(parts: Any) -> list[Any]:
    calls = [part for part in parts if isinstance(part, m.ToolCall)]
    return [
        (call.name, call.arguments if call.invalid is None else call.invalid)
        for call in calls
    ]


@pytest.mark.parametrize("stream", CHAT)
def test_chat_completions_calls_are_read_however_their_pieces_come(stream: str) -> None:
    pieces, expected = CHAT[stream]
    fold = fold_of("chat")
    for each in pieces:
        list(
            fold.feed(
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"tool_calls": [each]},
                            "finish_reason": None,
                        }
                    ]
                }
            )
        )
    list(
        fold.feed(
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        )
    )
    assert calls_of(fold.answer().parts) == expected


TOOLS = ("read", "read_file", "list", "write", "web__search_web")
FILE = ("read_file", {"path": "x.txt"})
NAMED: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "two pieces": (
        [piece("", "re", index=0, id="a"), piece(WHOLE, "ad", index=0)],
        [READ],
    ),
    "two pieces, the id with both": (
        [piece("", "re", index=0, id="a"), piece(WHOLE, "ad", index=0, id="a")],
        [READ],
    ),
    "two pieces, another id": (
        [piece("", "re", index=0, id="a"), piece(WHOLE, "ad", index=0, id="b")],
        [READ],
    ),
    "two pieces, no index": ([piece("", "re", id="a"), piece(WHOLE, "ad")], [READ]),
    "two pieces beside the arguments": (
        [piece('{"path":', "re", index=0, id="a"), piece('"x.txt"}', "ad", index=0)],
        [READ],
    ),
    "the second piece after the arguments": (
        [piece(WHOLE, "re", index=0, id="a"), piece("", "ad", index=0)],
        [READ],
    ),
    "a character at a time": (
        [
            *(piece("", letter, index=0) for letter in "web__search_web"),
            piece(WHOLE, index=0),
        ],
        [("web__search_web", {"path": "x.txt"})],
    ),
    "a tool that begins as another": (
        [piece("", "read", index=0, id="a"), piece(WHOLE, "_file", index=0)],
        [FILE],
    ),
    "all so far with every piece": (
        [
            piece("", "re", index=0, id="a"),
            piece("", "rea", index=0),
            piece(WHOLE, "read", index=0),
        ],
        [READ],
    ),
    "in pieces, then repeated whole": (
        [
            piece("", "re", index=0, id="a"),
            piece('{"path":', "ad", index=0),
            piece('"x.txt"}', "read", index=0),
        ],
        [READ],
    ),
    "repeated": (
        [
            piece('{"path":', "read", index=0, id="a"),
            piece('"x.txt"}', "read", index=0),
        ],
        [READ],
    ),
    "two calls, each in pieces": (
        [
            piece("", "re", index=0, id="a"),
            piece("", "li", index=1, id="b"),
            piece(WHOLE, "ad", index=0),
            piece("{}", "st", index=1),
        ],
        [READ, LIST],
    ),
    "another tool under the same index": (
        [piece("", "list", index=0), piece(WHOLE, "read", index=0)],
        [LIST, READ],
    ),
    "a tool that was not offered": (
        [piece(WHOLE, "grep", index=0, id="a"), piece("{}", "list", index=0, id="b")],
        [("grep", {"path": "x.txt"}), LIST],
    ),
}


@pytest.mark.parametrize("stream", NAMED)
def test_a_name_in_pieces_is_put_together_by_the_names_of_the_tools_that_were_offered(
    stream: str,
) -> None:
    pieces, expected = NAMED[stream]
    calls = ChatCalls(TOOLS)
    for each in pieces:
        calls.add(each)
    assert [(call.name, call.call().arguments) for call in calls] == expected


def test_the_tools_of_a_request_are_known_to_the_fold_of_its_answer() -> None:
    offered = m.ToolDefinition("read", "Reads.", {"type": "object"})
    chat = api("chat")
    fold = chat.fold(chat.call(request(tools=(offered,)), PROFILE, frozenset(), None))
    for each in NAMED["two pieces"][0]:
        list(
            fold.feed(
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"tool_calls": [each]},
                            "finish_reason": None,
                        }
                    ]
                }
            )
        )
    assert calls_of(fold.answer().parts) == [READ]


LEGACY: dict[str, list[dict[str, Any]]] = {
    "in pieces": [
        {
            "delta": {
                "role": "assistant",
                "function_call": {"name": "read", "arguments": ""},
            }
        },
        {"delta": {"function_call": {"arguments": '{"path":'}}},
        {"delta": {"function_call": {"arguments": '"x.txt"}'}}},
        {"delta": {}, "finish_reason": "function_call"},
    ],
    "whole": [
        {
            "delta": {"function_call": {"name": "read", "arguments": WHOLE}},
            "finish_reason": "function_call",
        }
    ],
    "an object": [
        {"delta": {"function_call": {"name": "read", "arguments": {"path": "x.txt"}}}}
    ],
    "the name with every piece": [
        {"delta": {"function_call": {"name": "read", "arguments": '{"path":'}}},
        {
            "delta": {
                "function_call": {"name": "read", "arguments": '"x.txt"}'},
                "finish_reason": "stop",
            }
        },
    ],
    "not streamed": [
        {
            "message": {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "read", "arguments": WHOLE},
            },
            "finish_reason": "function_call",
        }
    ],
    "beside the same call in the current form": [
        {
            "delta": {
                "function_call": {"name": "read", "arguments": WHOLE},
                "tool_calls": [piece(WHOLE, "read", index=0, id="a")],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "null and empty in the current form": [
        {
            "delta": {
                "function_call": None,
                "tool_calls": [piece(WHOLE, "read", index=0, id="a")],
            }
        },
        {
            "delta": {"function_call": {"name": "", "arguments": ""}},
            "finish_reason": "tool_calls",
        },
    ],
}


@pytest.mark.parametrize("stream", LEGACY)
def test_a_call_in_the_older_form_of_the_api_is_read_once(stream: str) -> None:
    fold = fold_of("chat")
    for choice in LEGACY[stream]:
        list(fold.feed({"choices": [{"index": 0, **choice}]}))
    answer = fold.answer()
    assert calls_of(answer.parts) == [READ]
    assert answer.stop_reason == "tool_use"


def block(index: Any = 0, **fields: Any) -> dict[str, Any]:
    event: dict[str, Any] = {
        "type": "content_block_start",
        "content_block": {"type": "tool_use", **fields},
    }
    return event if index is None else {**event, "index": index}


def more(partial: Any, index: int | None = 0) -> dict[str, Any]:
    event: dict[str, Any] = {
        "type": "content_block_delta",
        "delta": {"type": "input_json_delta", "partial_json": partial},
    }
    return event if index is None else {**event, "index": index}


A = {"id": "a", "name": "read"}
B = {"id": "b", "name": "list"}
MESSAGES: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "input in the start": ([block(**A, input={"path": "x.txt"})], [READ]),
    "input in the start, and an empty delta": (
        [block(**A, input={"path": "x.txt"}), more("")],
        [READ],
    ),
    "input in the start as text": ([block(**A, input=WHOLE)], [READ]),
    "input in the start as text within text": ([block(**A, input=TWICE)], [READ]),
    "input in the start and in deltas": (
        [block(**A, input={"path": "x.txt"}), more(WHOLE)],
        [READ],
    ),
    "input in the start, and an empty object": (
        [block(**A, input={"path": "x.txt"}), more("{}")],
        [READ],
    ),
    "no input": ([block(**A), more(WHOLE)], [READ]),
    "an object as a delta": ([block(**A, input={}), more({"path": "x.txt"})], [READ]),
    "JSON within JSON": ([block(**A, input={}), more(TWICE)], [READ]),
    "an empty object before the text": (
        [block(**A, input={}), more("{}"), more(WHOLE)],
        [READ],
    ),
    "the start twice": (
        [block(**A, input={}), block(**A, input={}), more(WHOLE)],
        [READ],
    ),
    "a whole start twice": (
        [block(**A, input={"path": "x.txt"}), block(**A, input={"path": "x.txt"})],
        [READ],
    ),
    "two whole calls under one index with one id": (
        [
            block(**A, input={"path": "x.txt"}),
            block(**A, input={"path": "y.txt"}),
        ],
        [READ, ("read", {"path": "y.txt"})],
    ),
    "two under one index": (
        [block(**A, input={}), more(WHOLE), block(**B, input={}), more("{}")],
        [READ, LIST],
    ),
    "no index": (
        [
            block(None, **A),
            more('{"path":', None),
            more('"x.txt"}', None),
            block(None, **B),
            more("{}", None),
        ],
        [READ, LIST],
    ),
}


@pytest.mark.parametrize("stream", MESSAGES)
def test_messages_calls_are_read_however_their_pieces_come(stream: str) -> None:
    events, expected = MESSAGES[stream]
    fold = fold_of("anthropic")
    for event in events:
        list(fold.feed(event))
    assert calls_of(fold.answer().parts) == expected


def item(kind: str, index: Any = 0, **fields: Any) -> dict[str, Any]:
    event: dict[str, Any] = {
        "type": f"response.output_item.{kind}",
        "item": {"type": "function_call", **fields},
    }
    return event if index is None else {**event, "output_index": index}


def arguments(kind: str, index: Any = 0, **fields: Any) -> dict[str, Any]:
    event = {"type": f"response.function_call_arguments.{kind}", **fields}
    return event if index is None else {**event, "output_index": index}


ADDED: dict[str, Any] = {"id": "fc_1", "call_id": "a", "name": "read", "arguments": ""}
OTHER: dict[str, Any] = {"id": "fc_2", "call_id": "b", "name": "list", "arguments": ""}
RESPONSES: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "an object when it is done": (
        [
            item("added", **ADDED),
            item("done", **ADDED | {"arguments": {"path": "x.txt"}}),
        ],
        [READ],
    ),
    "an object as a delta": (
        [item("added", **ADDED), arguments("delta", delta={"path": "x.txt"})],
        [READ],
    ),
    "JSON within JSON": ([item("done", **ADDED | {"arguments": TWICE})], [READ]),
    "only the event that they are done": (
        [item("added", **ADDED), arguments("done", arguments=WHOLE)],
        [READ],
    ),
    "the name comes late": (
        [
            item("added", **ADDED | {"name": ""}),
            arguments("done", arguments=WHOLE, name="read"),
        ],
        [READ],
    ),
    "another id at the end": (
        [
            item("added", **ADDED),
            item("done", **ADDED | {"id": "fc_9", "arguments": WHOLE}),
        ],
        [READ],
    ),
    "the done event has no arguments": (
        [
            item("added", **ADDED),
            arguments("delta", delta=WHOLE),
            item("done", **ADDED),
        ],
        [READ],
    ),
    "two under one index": (
        [
            item("added", **ADDED),
            item("done", **ADDED | {"arguments": WHOLE}),
            item("added", **OTHER),
            item("done", **OTHER | {"arguments": "{}"}),
        ],
        [READ, LIST],
    ),
    "two under one index, by their ids": (
        [
            item("added", **ADDED),
            item("added", **OTHER),
            arguments("delta", item_id="fc_1", delta=WHOLE),
            arguments("delta", item_id="fc_2", delta="{}"),
        ],
        [READ, LIST],
    ),
    "no index": (
        [
            item("added", None, **ADDED),
            arguments("delta", None, delta=WHOLE),
            item("done", None, **ADDED),
            item("added", None, **OTHER),
            arguments("delta", None, delta="{}"),
        ],
        [READ, LIST],
    ),
    "no call_id": (
        [item("done", type="function_call", id="fc_1", name="read", arguments=WHOLE)],
        [READ],
    ),
}


@pytest.mark.parametrize("stream", RESPONSES)
def test_responses_calls_are_read_however_their_pieces_come(stream: str) -> None:
    events, expected = RESPONSES[stream]
    fold = fold_of("openai")
    for event in events:
        list(fold.feed(event))
    list(fold.feed({"type": "response.completed", "response": {}}))
    assert calls_of(fold.answer().parts) == expected


BROKEN = '{"path": "a.txt", "content": "no end'


@pytest.mark.parametrize("dialect", ["chat", "openai"])
def test_arguments_that_cannot_be_read_go_back_as_they_came(dialect: str) -> None:
    call = tool_call("c", "write", BROKEN)
    answer = m.AssistantMessage("a1", (call,))
    result = m.ToolResult("c", (m.Text("No."),), is_error=True)
    asked = request(m.UserMessage("u1", (m.Text("Hi"),)), answer, result)
    assert BROKEN in str(wire_body(dialect, asked, PROFILE)).replace("\\\\", "\\")
    assert sent_arguments(call) == BROKEN


def test_the_model_is_told_what_it_has_sent() -> None:
    assert arguments_fault(BROKEN).endswith(f"They were: {BROKEN}")
    assert len(arguments_fault("{" * 5_000)) < 1_500


def test_what_was_encoded_twice_goes_back_as_it_is_meant() -> None:
    assert sent_arguments(tool_call("c", "read", TWICE)) == WHOLE


def test_a_call_that_is_cut_off_is_not_taken_for_one_of_its_pieces() -> None:
    fold = fold_of("chat")
    for text in ('{"edits": [', '{"path": "a.txt"}'):
        list(
            fold.feed(
                {
                    "choices": [
                        {
                            "delta": {
                                "tool_calls": [piece(text, "edit", index=0, id="a")]
                            }
                        }
                    ]
                }
            )
        )
    assert calls_of(fold.answer().parts) == [("edit", '{"edits": [{"path": "a.txt"}')]


OBJECTS = st.dictionaries(
    st.sampled_from(["path", "a", "}"]),
    st.sampled_from(["", "}", '{"', "x\n", "\\"]) | st.integers(),
)
NAMES = st.sampled_from(["read", "list", "write"])


@given(st.lists(st.tuples(NAMES, OBJECTS), min_size=1, max_size=3), st.data())
def test_calls_come_back_whatever_way_they_are_cut_and_whatever_is_repeated(
    meant: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    calls = ChatCalls(TOOLS)
    repeats_name = data.draw(st.booleans())
    repeats_id = data.draw(st.booleans())
    for number, (name, value) in enumerate(meant):
        text = json.dumps(value)
        cut = data.draw(st.integers(1, len(text)))
        if not repeats_name:
            cut_name = data.draw(st.integers(0, len(name) - 1))
            calls.add(
                {"id": f"call_{number}", **piece("", name[:cut_name], index=number)}
            )
            name = name[cut_name:]  # noqa: PLW2901
        for at, part in enumerate(filter(None, (text[:cut], text[cut:]))):
            delta = piece(part, name if at == 0 or repeats_name else None, index=number)
            if at == 0 or repeats_id:
                delta["id"] = f"call_{number}"
            calls.add(delta)
    assert [(call.name, call.call().arguments) for call in calls] == meant


def test_one_call_that_is_not_in_a_list_is_read() -> None:
    fold = fold_of("chat")
    list(
        fold.feed(
            {
                "choices": [
                    {"delta": {"tool_calls": piece(WHOLE, "read", index=0, id="a")}}
                ]
            }
        )
    )
    assert calls_of(fold.answer().parts) == [READ]
