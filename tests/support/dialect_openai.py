"""A `Reply` in the words of OpenAI's Responses API and of Chat Completions, as openai
3.54.0 reads them.

Thinking becomes a reasoning summary in Responses and `reasoning_content` (which
compatible servers send) in Chat.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from support.replies import Event, Part, Reply, Usage

CREATED = 1_767_225_600
SEAL = "sealed-"
TRIGGER = "compaction_trigger"
INCOMPLETE = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "content_filter": "content_filter",
}
FINISH = {
    "end_turn": "stop",
    "refusal": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
}
STATUS_TYPES = {
    401: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}
STATUS_CODES = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
}


def error(status: int, message: str) -> dict[str, Any]:
    kind = STATUS_TYPES.get(status, "invalid_request_error")
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": None,
            "code": STATUS_CODES.get(status),
        }
    }


def google_error(status: int, message: str) -> list[dict[str, Any]]:
    """The same as Gemini's servers send it: in a list, with their own words for
    statuses.
    """
    word = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
    }
    return [
        {
            "error": {
                "code": status,
                "message": message,
                "status": word.get(status, "INTERNAL"),
            }
        }
    ]


def responses_overflow(tokens: int, most: int) -> tuple[int, Any]:
    body = error(
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    )
    body["error"] |= {"param": "input", "code": "context_length_exceeded"}
    return 400, body


def chat_overflow(tokens: int, most: int) -> tuple[int, Any]:
    said = f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."
    body = error(400, f"{said} Please reduce the length of the messages.")
    body["error"] |= {"param": "messages", "code": "context_length_exceeded"}
    return 400, body


def google_overflow(tokens: int, most: int) -> tuple[int, Any]:
    said = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."
    return 400, google_error(400, said)


def model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "test"}


def responses_events(reply: Reply, request: Any, number: int) -> Iterator[Event]:
    for sequence, (name, data, delta) in enumerate(_responses(reply, request, number)):
        yield Event(name, {"type": name, "sequence_number": sequence, **data}, delta)


def responses_whole(reply: Reply, request: Any, number: int) -> dict[str, Any]:
    items = (
        _compactions(reply, number)
        if _compacts(reply, request)
        else _items(reply, number)
    )
    reason = INCOMPLETE.get(reply.stop_reason)
    usage = _responses_usage(reply.usage_for(request))
    response = _response(
        request, number, "incomplete" if reason else "completed", items, usage
    )
    return {**response, "incomplete_details": {"reason": reason} if reason else None}


def compacted(reply: Reply, request: Any, number: int) -> dict[str, Any]:
    """The answer to `POST /v1/responses/compact`: the user's messages, and the reply's
    text as if it were encrypted.

    A reply without text leaves the compaction out.
    """
    text = "".join(part.text for part in reply.parts(number) if part.kind == "text")
    given = request.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    output = [
        {
            "type": "message",
            "id": f"msg_{number}_{index}",
            "status": "completed",
            **item,
            "content": _given(item),
        }
        for index, item in enumerate(items)
        if item.get("role") == "user"
    ]
    if text:
        output.append(
            {
                "id": f"cmp_{number}",
                "type": "compaction",
                "encrypted_content": _seal(text),
            }
        )
    return {
        "id": f"resp_{number}",
        "object": "response.compaction",
        "created_at": CREATED,
        "output": output,
        "usage": _responses_usage(reply.usage_for(request)),
    }


def triggers(request: Any) -> bool:
    """Say whether a request asks for a compaction by its last item."""
    given = request.get("input") or []
    return isinstance(given, list) and bool(given) and given[-1].get("type") == TRIGGER


def _compacts(reply: Reply, request: Any) -> bool:
    return triggers(request) and reply.compactions > 0


def _compactions(reply: Reply, number: int) -> list[dict[str, Any]]:
    """The reply's text as if it were encrypted, without what the model thought; nothing
    if it has no text.
    """
    text = "".join(part.text for part in reply.parts(number) if part.kind == "text")
    ids = [
        f"cmp_{number}",
        *(f"cmp_{number}_{index}" for index in range(1, reply.compactions)),
    ]
    return [
        {"id": id, "type": "compaction", "encrypted_content": _seal(text)}
        for id in ids
        if text
    ]


def _items(reply: Reply, number: int) -> list[dict[str, Any]]:
    return [_item(part, reply, done=True) for part in reply.parts(number)]


def misplaced_trigger(request: Any) -> str:
    """Why the triggers of a request are refused; empty if they are not.

    Source: the SDK's `CompactionTrigger`, which has no other member and must be the
    final item.
    """
    given = request.get("input") or []
    found = (
        [item for item in given if item.get("type") == TRIGGER]
        if isinstance(given, list)
        else []
    )
    if len(found) > 1 or (found and found[0] is not given[-1]):
        return f"The '{TRIGGER}' item must be the final input item."
    if found and found[0] != {"type": TRIGGER}:
        return f"Unknown parameter: 'input[{len(given) - 1}].{min(set(found[0]) - {'type'})}'."
    return ""


def responses_problem(request: Any, betas: str) -> tuple[int, Any] | None:
    """Status and body for a request with a compaction in it that was not made here, or
    a trigger in the wrong place.
    """
    given = request.get("input") or []
    if said := misplaced_trigger(request):
        return 400, error(400, said)
    for item in given if isinstance(given, list) else []:
        if item.get("type") == "compaction" and not str(
            item.get("encrypted_content")
        ).startswith(SEAL):
            body = error(
                400,
                f"The encrypted content for item {item.get('id')} could not be verified.",
            )
            body["error"] |= {"param": "input", "code": "invalid_encrypted_content"}
            return 400, body
    return None


def compact_problem(request: Any, betas: str) -> tuple[int, Any] | None:
    """The same for `POST /v1/responses/compact`, and for parameters that it does not
    have.
    """
    known = {
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "prompt_cache_key",
        "service_tier",
    }
    if unknown := sorted(set(request) - known):
        body = error(400, f"Unknown parameter: '{unknown[0]}'.")
        body["error"] |= {"param": unknown[0], "code": "unknown_parameter"}
        return 400, body
    if triggers(request):
        return 400, error(400, f"Invalid value: '{TRIGGER}'.")
    return responses_problem(request, betas)


def _given(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return (
        [{"type": "input_text", "text": content}]
        if isinstance(content, str)
        else content
    )


def _seal(text: str) -> str:
    return SEAL + base64.b64encode(text.encode()).decode()


def responses_error_event(kind: str, number: int) -> Event:
    data = {
        "type": "error",
        "sequence_number": 9_999,
        "code": kind,
        "message": f"{kind} in mid-stream",
        "param": None,
    }
    return Event("error", data)


def _responses(
    reply: Reply, request: Any, number: int
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    begun = _response(request, number, "in_progress", [], None)
    yield "response.created", {"response": begun}, False
    yield "response.in_progress", {"response": begun}, False
    compactions = _compactions(reply, number) if _compacts(reply, request) else []
    for index, item in enumerate(compactions):
        yield (
            "response.output_item.added",
            {"output_index": index, "item": {**item, "encrypted_content": ""}},
            True,
        )
        yield "response.output_item.done", {"output_index": index, "item": item}, True
    for index, part in enumerate(
        [] if _compacts(reply, request) else reply.parts(number)
    ):
        place = {"output_index": index, "item_id": _item_id(part)}
        item = {"output_index": index}
        yield (
            "response.output_item.added",
            {**item, "item": _item(part, reply, done=False)},
            False,
        )
        if part.kind == "tool":
            name = "response.function_call_arguments"
            for delta in part.deltas:
                yield f"{name}.delta", {**place, "delta": delta}, True
            yield (
                f"{name}.done",
                {**place, "arguments": part.text, "name": part.name},
                False,
            )
        elif part.kind == "thinking":
            if part.deltas:
                yield from _responses_summary(part, {**place, "summary_index": 0})
        else:
            yield from _responses_text(part, reply, {**place, "content_index": 0})
        yield (
            "response.output_item.done",
            {**item, "item": _item(part, reply, done=True)},
            False,
        )
    response = responses_whole(reply, request, number)
    yield f"response.{response['status']}", {"response": response}, False


def _responses_summary(
    part: Part, place: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    name = "response.reasoning_summary"
    yield (
        f"{name}_part.added",
        {**place, "part": {"type": "summary_text", "text": ""}},
        False,
    )
    for delta in part.deltas:
        yield f"{name}_text.delta", {**place, "delta": delta}, True
    yield f"{name}_text.done", {**place, "text": part.text}, False
    yield (
        f"{name}_part.done",
        {**place, "part": {"type": "summary_text", "text": part.text}},
        False,
    )


def _responses_text(
    part: Part, reply: Reply, place: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    refused = reply.stop_reason == "refusal"
    yield "response.content_part.added", {**place, "part": _content("", refused)}, False
    for delta in part.deltas:
        if refused:
            yield "response.refusal.delta", {**place, "delta": delta}, True
        else:
            yield (
                "response.output_text.delta",
                {**place, "delta": delta, "logprobs": []},
                True,
            )
    if refused:
        yield "response.refusal.done", {**place, "refusal": part.text}, False
    else:
        yield (
            "response.output_text.done",
            {**place, "text": part.text, "logprobs": []},
            False,
        )
    yield (
        "response.content_part.done",
        {**place, "part": _content(part.text, refused)},
        False,
    )


def _response(
    request: Any,
    number: int,
    status: str,
    output: list[dict[str, Any]],
    usage: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": request.get("model"),
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": usage,
    }


def _responses_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.output,
    }


def _item_id(part: Part) -> str:
    return f"fc_{part.id}" if part.kind == "tool" else part.id


def _item(part: Part, reply: Reply, *, done: bool) -> dict[str, Any]:
    text = part.text if done else ""
    status = "completed" if done else "in_progress"
    if part.kind == "tool":
        call = {
            "type": "function_call",
            "id": _item_id(part),
            "call_id": part.id,
            "name": part.name,
        }
        return {**call, "arguments": text, "status": status}
    if part.kind == "thinking":
        summary = (
            [{"type": "summary_text", "text": text}] if done and part.deltas else []
        )
        # The API sends it whole with the finished item only.
        sealed = part.seal if done else part.seal[:4]
        content = sealed or f"sealed-{part.id}"
        return {
            "type": "reasoning",
            "id": part.id,
            "summary": summary,
            "encrypted_content": content,
        }
    content = [_content(text, reply.stop_reason == "refusal")] if done else []
    return {
        "type": "message",
        "id": part.id,
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _content(text: str, refused: bool) -> dict[str, Any]:
    if refused:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def chat_events(reply: Reply, request: Any, number: int) -> Iterator[Event]:
    yield _chunk(request, number, {"role": "assistant", "content": ""})
    tools = 0
    for part in reply.parts(number):
        if part.kind == "tool":
            call = {"index": tools, **_chat_call(part, "")}
            yield _chunk(request, number, {"tool_calls": [call]})
        for delta in part.deltas:
            yield _chunk(
                request, number, _chat_delta(part, delta, tools, reply), counts=True
            )
        tools += part.kind == "tool"
    yield _chunk(request, number, {}, finish=FINISH[reply.stop_reason])
    if (request.get("stream_options") or {}).get("include_usage"):
        yield Event(
            None,
            {
                **_chat(request, number, ".chunk"),
                "choices": [],
                "usage": _chat_usage(reply, request),
            },
        )
    yield Event(None, "[DONE]")


def chat_whole(reply: Reply, request: Any, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    for part in reply.parts(number):
        if part.kind == "tool":
            message.setdefault("tool_calls", []).append(_chat_call(part, part.text))
        else:
            for name, text in _chat_delta(part, part.text, 0, reply).items():
                message[name] = (message.get(name) or "") + text
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": FINISH[reply.stop_reason],
        "logprobs": None,
    }
    return {
        **_chat(request, number, ""),
        "choices": [choice],
        "usage": _chat_usage(reply, request),
    }


def chat_error_event(kind: str, number: int) -> Event:
    return Event(
        None,
        {
            "error": {
                "message": f"{kind} in mid-stream",
                "type": kind,
                "param": None,
                "code": kind,
            }
        },
    )


def _chat(request: Any, number: int, suffix: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": f"chat.completion{suffix}",
        "created": CREATED,
        "model": request.get("model"),
    }


def _chunk(
    request: Any,
    number: int,
    delta: dict[str, Any],
    *,
    finish: str | None = None,
    counts: bool = False,
) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return Event(
        None, {**_chat(request, number, ".chunk"), "choices": [choice]}, counts
    )


def _chat_delta(part: Part, text: str, tool: int, reply: Reply) -> dict[str, Any]:
    if part.kind == "tool":
        return {"tool_calls": [{"index": tool, "function": {"arguments": text}}]}
    if part.kind == "thinking":
        return {"reasoning_content": text}
    return {"refusal" if reply.stop_reason == "refusal" else "content": text}


def _chat_call(part: Part, arguments: str) -> dict[str, Any]:
    call = {
        "id": part.id,
        "type": "function",
        "function": {"name": part.name, "arguments": arguments},
    }
    if part.seal:
        call["extra_content"] = {"google": {"thought_signature": part.seal}}
    return call


def _chat_usage(reply: Reply, request: Any) -> dict[str, Any]:
    usage = reply.usage_for(request)
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
    }
