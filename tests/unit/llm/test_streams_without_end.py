"""Streams that lack the final event or are empty, and answers that are not streamed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.errors import (
    ContextOverflowError,
    ModelError,
    ModelStreamError,
    ModelUnavailableError,
    RequestRefusedError,
)
from acp_agent.llm.provider import Answered, ModelEvent, Refused, Retrying
from support.adapters import (
    BEGINNING,
    DIALECTS,
    ENDING,
    adapter,
    encoded,
    outcome,
    request,
)
from support.http_server import Exchange, Request, http_server

DONE = b"data: [DONE]\n\n"
COUNTED: dict[str, Any] = {
    "choices": [],
    "usage": {"prompt_tokens": 9, "completion_tokens": 5},
}


async def play(
    dialect: str, answer: Callable[[Request], bytes | Any]
) -> tuple[list[ModelEvent], ModelError | None, list[Any]]:
    """Return an adapter's events and error for a server's answers, and the bodies of
    its requests.

    :param answer: returns the bytes of a stream, the body of an answer with status 400,
        or a list that holds the body of an answer with status 200.
    """
    asked: list[Any] = []

    async def app(exchange: Exchange) -> None:
        asked.append(exchange.request.body)
        body = answer(exchange.request)
        if isinstance(body, bytes):
            await exchange.start()
            if body:
                await exchange.send(body)
            await exchange.end()
        else:
            status, content = (200, body[0]) if isinstance(body, list) else (400, body)
            await exchange.respond(status, content)

    async with http_server(app) as url:
        return *await outcome(adapter(dialect, url), request()), asked


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def call(arguments: str) -> dict[str, Any]:
    return {"index": 0, "id": "c", "function": {"name": "read", "arguments": arguments}}


NO_ARGUMENTS = {"name": "read", "arguments": None}
WHOLE: dict[str, tuple[list[dict[str, Any]], bytes, m.AssistantPart]] = {
    "text, then tokens": ([chunk(content="Hi"), COUNTED], b"", m.Text("Hi")),
    "text, then tokens and the word": (
        [chunk(content="Hi"), COUNTED],
        DONE,
        m.Text("Hi"),
    ),
    "text, then the word": ([chunk(content="Hi")], DONE, m.Text("Hi")),
    "a call, then tokens": (
        [chunk(tool_calls=[call('{"path":"a"}')]), COUNTED],
        b"",
        m.ToolCall("c", "read", {"path": "a"}),
    ),
    "a call, then the word": (
        [chunk(tool_calls=[call('{"path":"a"}')])],
        DONE,
        m.ToolCall("c", "read", {"path": "a"}),
    ),
    "a call without arguments, then tokens": (
        [chunk(tool_calls=[call("")]), COUNTED],
        DONE,
        m.ToolCall("c", "read"),
    ),
    "a call with empty arguments, then the word": (
        [chunk(tool_calls=[call("")])],
        DONE,
        m.ToolCall("c", "read"),
    ),
    "a call with null for its arguments, then the word": (
        [chunk(tool_calls=[call("") | {"function": NO_ARGUMENTS}])],
        DONE,
        m.ToolCall("c", "read"),
    ),
}


@pytest.mark.parametrize("stream", WHOLE)
async def test_an_answer_without_a_finish_reason_is_whole_if_the_stream_says_that_it_has_ended(
    stream: str,
) -> None:
    events, last, expected = WHOLE[stream]
    seen, error, asked = await play("chat", lambda _: encoded(events) + last)
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (expected,)
    assert seen[-1].stop_reason == (
        "tool_use" if isinstance(expected, m.ToolCall) else "end_turn"
    )
    assert len(asked) == 1


CUT: dict[str, tuple[list[dict[str, Any]], bytes]] = {
    "inside the arguments, then tokens": (
        [chunk(tool_calls=[call('{"path":"a')]), COUNTED],
        DONE,
    ),
    "inside the arguments, then the word": (
        [chunk(tool_calls=[call('{"path":"a')])],
        DONE,
    ),
    "before the arguments": ([chunk(tool_calls=[call("")])], b""),
    "a whole call, and no end": ([chunk(tool_calls=[call('{"path":"a"}')])], b""),
}


@pytest.mark.parametrize("stream", CUT)
async def test_an_answer_that_is_cut_off_is_not_whole_and_not_asked_for_seven_times(
    stream: str,
) -> None:
    events, last = CUT[stream]
    seen, error, asked = await play("chat", lambda _: encoded(events) + last)
    assert [type(event) for event in seen] == [Retrying] * 2
    assert isinstance(error, ModelUnavailableError)
    assert len(asked) == 3


MALFORMED = {
    "single quotes": "{'path': 'a'}",
    "a bare word": '{"path": a}',
    "a bare word, and nothing after it": '{"path": a',
    "text after the object": '{"path": "a"} and more',
    "two objects": '{"path": "a"}{"path": "b"}',
    "a list": '["a"]',
    "a line break in a string": '{"path": "a\n"}',
    "a number that JSON does not allow": '{"path": NaN}',
    "no JSON at all": "path=a",
}
ENDS = {
    "tokens": [COUNTED],
    "nothing": [],
}


def begun_call(dialect: str, arguments: str) -> list[dict[str, Any]]:
    """A stream with one call, in two pieces, without the events that end an answer."""
    first, rest = arguments[:4], arguments[4:]
    match dialect:
        case "anthropic":
            start = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
            pieces = [{"type": "input_json_delta", "partial_json": first}]
            pieces.append({"type": "input_json_delta", "partial_json": rest})
            return [
                BEGINNING["anthropic"][0],
                {"type": "content_block_start", "index": 0, "content_block": start},
                *(
                    {"type": "content_block_delta", "index": 0, "delta": piece}
                    for piece in pieces
                ),
            ]
        case "openai":
            item = {"type": "function_call", "call_id": "c", "name": "read"}
            kind = "response.function_call_arguments.delta"
            return [
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": kind, "output_index": 0, "delta": first},
                {"type": kind, "output_index": 0, "delta": rest},
            ]
        case _:
            more = {"index": 0, "function": {"arguments": rest}}
            return [chunk(tool_calls=[call(first)]), chunk(tool_calls=[more])]


def assert_given_back(
    seen: list[ModelEvent], error: ModelError | None, asked: list[Any], arguments: str
) -> None:
    """Check that a call reached the agent as the model wrote it, after one request."""
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.ToolCall("c", "read", invalid=arguments),)
    assert seen[-1].stop_reason == "tool_use"
    assert len(asked) == 1


@pytest.mark.parametrize("last", [DONE, b""], ids=["the word", "no word"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", MALFORMED)
async def test_a_call_that_no_text_could_complete_is_whole_without_a_finish_reason(
    kind: str, end: str, last: bytes
) -> None:
    arguments = MALFORMED[kind]
    events = [*begun_call("chat", arguments), *ENDS[end]]
    played = await play("chat", lambda _: encoded(events) + last)
    assert_given_back(*played, arguments)


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
@pytest.mark.parametrize("kind", MALFORMED)
async def test_such_a_call_is_whole_in_the_other_apis_without_their_last_event(
    dialect: str, kind: str
) -> None:
    arguments = MALFORMED[kind]
    events = begun_call(dialect, arguments)
    played = await play(dialect, lambda _: encoded(events))
    assert_given_back(*played, arguments)


ANNOUNCED: dict[str, list[dict[str, Any]]] = {
    "an end without a reason": [
        *begun_call("anthropic", "{'path': 'a'}"),
        {"type": "message_stop"},
    ],
    "a reason and no end": [
        *begun_call("anthropic", "{'path': 'a'}"),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ],
}


@pytest.mark.parametrize("kind", ANNOUNCED)
async def test_such_a_call_in_messages_is_whole_with_half_of_an_ending(
    kind: str,
) -> None:
    played = await play("anthropic", lambda _: encoded(ANNOUNCED[kind]))
    assert_given_back(*played, "{'path': 'a'}")


async def test_such_a_call_in_an_item_that_is_done_is_a_whole_answer_of_responses() -> (
    None
):
    item = {"type": "function_call", "call_id": "c", "name": "read"}
    done = {"type": "response.output_item.done", "output_index": 0}
    events = [done | {"item": item | {"arguments": "{'path': 'a'}"}}]
    played = await play("openai", lambda _: encoded(events))
    assert_given_back(*played, "{'path': 'a'}")


def stopped_call(arguments: str) -> list[dict[str, Any]]:
    """A stream of Messages with one call whose block has ended."""
    stop = {"type": "content_block_stop", "index": 0}
    return [*begun_call("anthropic", arguments), stop]


def done_call(arguments: str) -> list[dict[str, Any]]:
    """A stream of Responses with one call whose item is done."""
    item = {"type": "function_call", "call_id": "c", "name": "read"}
    done = {"type": "response.output_item.done", "output_index": 0}
    return [
        *begun_call("openai", arguments),
        done | {"item": item | {"arguments": arguments}},
    ]


STOPPED_TEXT = [*BEGINNING["anthropic"], {"type": "content_block_stop", "index": 0}]
STOP = {"type": "message_stop"}
NULL_REASON = {"type": "message_delta", "delta": {"stop_reason": None}}
GOOD = '{"path": "a"}'
READ = m.ToolCall("c", "read", {"path": "a"})
ENDED: dict[str, tuple[str, list[dict[str, Any]], bytes, m.AssistantPart]] = {
    "text, then an end": ("anthropic", [*STOPPED_TEXT, STOP], b"", m.Text("Hi")),
    "text, then no reason and an end": (
        "anthropic",
        [*STOPPED_TEXT, NULL_REASON, STOP],
        b"",
        m.Text("Hi"),
    ),
    "text, then the word": ("anthropic", STOPPED_TEXT, DONE, m.Text("Hi")),
    "a call, then an end": ("anthropic", [*stopped_call(GOOD), STOP], b"", READ),
    "a call in an open block, then an end": (
        "anthropic",
        [*begun_call("anthropic", GOOD), STOP],
        b"",
        READ,
    ),
    "a call, then no reason and an end": (
        "anthropic",
        [*stopped_call(GOOD), NULL_REASON, STOP],
        b"",
        READ,
    ),
    "a call, then the word": ("anthropic", stopped_call(GOOD), DONE, READ),
    "a call in a block that has ended": ("anthropic", stopped_call(GOOD), b"", READ),
    "a call without arguments in a block that has ended": (
        "anthropic",
        stopped_call(""),
        b"",
        m.ToolCall("c", "read"),
    ),
    "a call in an item that is done": ("openai", done_call(GOOD), b"", READ),
    "a call whose arguments are done": (
        "openai",
        [
            *begun_call("openai", GOOD),
            {
                "type": "response.function_call_arguments.done",
                "output_index": 0,
                "arguments": GOOD,
            },
        ],
        b"",
        READ,
    ),
}


@pytest.mark.parametrize("stream", ENDED)
async def test_an_answer_without_its_last_event_is_whole_if_its_parts_have_ended(
    stream: str,
) -> None:
    dialect, events, last, expected = ENDED[stream]
    seen, error, asked = await play(dialect, lambda _: encoded(events) + last)
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (expected,)
    is_call = isinstance(expected, m.ToolCall)
    assert seen[-1].stop_reason == ("tool_use" if is_call else "end_turn")
    assert len(asked) == 1


async def test_messages_in_one_piece_without_a_reason_to_stop_are_a_whole_answer() -> (
    None
):
    whole = WHOLE_ANSWERS["anthropic"] | {"stop_reason": None}
    seen, error, _ = await play(
        "anthropic", lambda sent: b"" if sent.body.get("stream") else [whole]
    )
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi"), READ)
    assert seen[-1].stop_reason == "tool_use"


NOT_ENDED: dict[str, tuple[str, list[dict[str, Any]], bytes]] = {
    "a call that is cut in a block that has ended": (
        "anthropic",
        [*stopped_call('{"path": "a'), STOP],
        b"",
    ),
    "a call in an open block": ("anthropic", begun_call("anthropic", GOOD), b""),
    "a call in an open block, then the word": (
        "anthropic",
        begun_call("anthropic", GOOD),
        DONE,
    ),
    "a call that has ended, then one that is open": (
        "anthropic",
        [
            *stopped_call(GOOD),
            *(
                event | {"index": 1}
                for event in begun_call("anthropic", GOOD)
                if "index" in event
            ),
        ],
        b"",
    ),
    "a call in an item that is not done": ("openai", begun_call("openai", GOOD), b""),
}


@pytest.mark.parametrize("stream", NOT_ENDED)
async def test_an_answer_with_a_call_that_has_not_ended_is_asked_for_again(
    stream: str,
) -> None:
    dialect, events, last = NOT_ENDED[stream]
    _, error, asked = await play(dialect, lambda _: encoded(events) + last)
    assert isinstance(error, ModelUnavailableError)
    assert len(asked) == 3


async def test_text_of_messages_that_just_ends_after_its_block_is_broken_off() -> None:
    _, error, asked = await play("anthropic", lambda _: encoded(STOPPED_TEXT))
    assert isinstance(error, ModelStreamError)
    assert len(asked) == 1


BEGUN = ['{"path": "a', '{"path', '{"a": tr', '{"a": [1, -', '{"a": "\\u00', '"{']


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("arguments", BEGUN)
async def test_a_call_that_more_text_could_complete_was_cut_off_and_is_asked_for_again(
    dialect: str, arguments: str
) -> None:
    events = begun_call(dialect, arguments)
    _, error, asked = await play(dialect, lambda _: encoded(events))
    assert isinstance(error, ModelUnavailableError)
    assert len(asked) == 3


async def test_a_malformed_call_before_one_that_was_cut_off_does_not_make_the_answer_whole() -> (
    None
):
    second = {"index": 1, "id": "d", "function": {"name": "read", "arguments": '{"pa'}}
    events = [*begun_call("chat", "{'path': 'a'}"), chunk(tool_calls=[second])]
    _, error, asked = await play("chat", lambda _: encoded(events))
    assert isinstance(error, ModelUnavailableError)
    assert len(asked) == 3


async def test_text_that_is_cut_off_without_any_end_is_broken_off() -> None:
    _, error, asked = await play("chat", lambda _: encoded([chunk(content="Hi")]))
    assert isinstance(error, ModelStreamError)
    assert len(asked) == 1


async def test_messages_without_their_last_event_are_whole_once_they_have_a_reason_to_stop() -> (
    None
):
    seen, error, _ = await play(
        "anthropic",
        lambda _: encoded([*BEGINNING["anthropic"], ENDING["anthropic"][0]]),
    )
    assert error is None
    assert isinstance(seen[-1], Answered)


async def test_responses_without_their_last_event_are_whole_if_the_stream_says_that_it_has_ended() -> (
    None
):
    events = [*BEGINNING["openai"], ENDING["openai"][0]]
    seen, error, _ = await play("openai", lambda _: encoded(events) + DONE)
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi"),)


TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is 2048 tokens. However, you requested 9000 tokens (808 in the"
        " messages, 8192 in the completion). Please reduce the length of the messages or completion.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}


EMPTY: dict[str, tuple[str, bytes]] = {
    "tokens and the word": ("chat", encoded([COUNTED]) + DONE),
    "tokens alone": ("chat", encoded([COUNTED])),
    "tokens, and null for the choices": (
        "chat",
        encoded([COUNTED | {"choices": None}]) + DONE,
    ),
    "a role, then tokens": (
        "chat",
        encoded([chunk(role="assistant", content=""), COUNTED]) + DONE,
    ),
    "a role and empty members": (
        "chat",
        encoded([chunk(role="assistant", content=None, tool_calls=[])]),
    ),
    "the word alone": ("chat", DONE),
    "a beginning": ("anthropic", encoded(BEGINNING["anthropic"][:1])),
    "a beginning and an end": (
        "anthropic",
        encoded([BEGINNING["anthropic"][0], {"type": "message_stop"}]),
    ),
    "an announcement": (
        "openai",
        encoded([{"type": "response.created", "response": {"status": "in_progress"}}]),
    ),
}


@pytest.mark.parametrize("stream", EMPTY)
async def test_a_stream_that_holds_nothing_of_an_answer_counts_as_empty(
    stream: str,
) -> None:
    dialect, sent = EMPTY[stream]
    seen, error, asked = await play(
        dialect, lambda request: sent if request.body.get("stream") else TOO_LONG
    )
    assert [type(event) for event in seen] == [Retrying]
    assert isinstance(error, ContextOverflowError)
    assert error.maximum == 2_048
    assert [body.get("stream") for body in asked] == [True, True, None]


async def test_an_answer_that_is_empty_without_a_stream_too_does_not_end_streaming() -> (
    None
):
    nothing = {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ""},
                "finish_reason": "stop",
            }
        ]
    }
    seen, error, _ = await play(
        "chat",
        lambda sent: encoded([COUNTED]) if sent.body.get("stream") else [nothing],
    )
    assert error is None
    assert Refused("stream") not in seen
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == ()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_after_two_empty_streams_the_answer_is_asked_for_in_one_piece_which_tells_what_is_wrong(
    dialect: str,
) -> None:
    seen, error, asked = await play(
        dialect, lambda sent: b"" if sent.body.get("stream") else TOO_LONG
    )
    assert [type(event) for event in seen] == [Retrying]
    assert isinstance(error, ContextOverflowError)
    assert error.maximum == 2_048
    assert [body.get("stream") for body in asked] == [True, True, None]


OWN_WORDS = {"error": {"message": "KV slots exhausted at n_past"}}
UNKNOWN: dict[str, Any] = {
    "a refusal": (400, OWN_WORDS),
    "a failure": (500, OWN_WORDS),
    "an error with status 200": (200, OWN_WORDS),
    "an error that is a text": (200, {"error": "KV slots exhausted at n_past"}),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", UNKNOWN)
async def test_an_error_in_unknown_words_after_empty_streams_names_the_window_and_is_final(
    dialect: str, kind: str
) -> None:
    asked: list[Any] = []
    status, content = UNKNOWN[kind]

    async def app(exchange: Exchange) -> None:
        asked.append(exchange.request.body)
        if exchange.request.body.get("stream"):
            await exchange.start()
            await exchange.end()
        else:
            await exchange.respond(status, content)

    async with http_server(app) as url:
        _, error = await outcome(adapter(dialect, url), request())
    assert isinstance(error, RequestRefusedError)
    assert "KV slots exhausted" in str(error)
    assert "set `context_window` in config.yaml" in str(error)
    assert len(asked) == 3


WHOLE_ANSWERS: dict[str, dict[str, Any]] = {
    "chat": {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hi",
                    "tool_calls": [call('{"path":"a"}')],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5},
    },
    "anthropic": {
        "type": "message",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 5},
    },
    "openai": {
        "object": "response",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
            {
                "type": "function_call",
                "call_id": "c",
                "name": "read",
                "arguments": '{"path":"a"}',
            },
        ],
        "usage": {"input_tokens": 9, "output_tokens": 5},
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_does_not_stream_is_asked_without_a_stream_from_then_on(
    dialect: str,
) -> None:
    refusal = {
        "error": {
            "message": "This model does not support streaming.",
            "param": "stream",
        }
    }
    seen, error, asked = await play(
        dialect,
        lambda sent: refusal if sent.body.get("stream") else [WHOLE_ANSWERS[dialect]],
    )
    assert error is None
    assert seen[0] == Refused("stream")
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi"), m.ToolCall("c", "read", {"path": "a"}))
    assert seen[-1].usage.total_tokens == 14
    assert "".join(getattr(event, "text", "") for event in seen) == "Hi"
    assert len(asked) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_answers_nothing_at_all_is_an_error_that_names_the_window(
    dialect: str,
) -> None:
    _, error, asked = await play(dialect, lambda _: b"")
    assert isinstance(error, RequestRefusedError)
    assert "`context_window` in config.yaml" in str(error)
    assert len(asked) <= 4
    assert json.dumps(asked[0])
