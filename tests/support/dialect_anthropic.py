"""A `Reply` in the words of Anthropic's Messages API, as anthropic 2.12.0 reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from support.replies import Event, Part, Reply, Usage

COMPACTION_BETA = "compact-2026-09-04"
STATUS_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def events(reply: Reply, request: Any, number: int) -> Iterator[Event]:
    usage = reply.usage_for(request)
    if request.get("compaction"):
        yield from _compaction_events(reply, request, number)
        return
    message = _message(request, number, [], None, _usage(usage, output=1))
    yield _event("message_start", message=message)
    yield _event("ping")
    for index, part in enumerate(reply.parts(number)):
        yield _event(
            "content_block_start", index=index, content_block=_block(part, empty=True)
        )
        for delta in part.deltas:
            yield _event(
                "content_block_delta",
                counts=True,
                index=index,
                delta=_delta(part, delta),
            )
        if part.kind == "thinking":
            signature = {"type": "signature_delta", "signature": _signature(part)}
            yield _event("content_block_delta", index=index, delta=signature)
        yield _event("content_block_stop", index=index)
    delta = {
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "stop_details": _details(reply),
    }
    yield _event("message_delta", delta=delta, usage=_usage(usage, output=usage.output))
    yield _event("message_stop")


def whole(reply: Reply, request: Any, number: int) -> dict[str, Any]:
    usage = reply.usage_for(request)
    if request.get("compaction"):
        stop = _compaction_stop(reply)
        return _message(
            request, number, _compaction_blocks(reply), stop, _compaction_usage(usage)
        )
    blocks = [_block(part, empty=False) for part in reply.parts(number)]
    message = _message(
        request, number, blocks, reply.stop_reason, _usage(usage, output=usage.output)
    )
    return {**message, "stop_details": _details(reply)}


def error(status: int, message: str) -> dict[str, Any]:
    kind = STATUS_TYPES.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_test",
    }


def overflow(tokens: int, most: int) -> tuple[int, Any]:
    return 400, error(400, f"prompt is too long: {tokens} tokens > {most} maximum")


def problem(request: Any, betas: str) -> tuple[int, Any] | None:
    """Status and body for a request that handles compactions as the API does not allow.

    :param betas: the header `anthropic-beta`.
    """
    places = [
        (number, index, block)
        for number, message in enumerate(request.get("messages") or [])
        if isinstance(message.get("content"), list)
        for index, block in enumerate(message["content"])
        if block.get("type") == "compaction"
    ]
    said = code = None
    if request.get("compaction") and COMPACTION_BETA not in betas:
        said = f"The `compaction` parameter requires anthropic-beta: {COMPACTION_BETA}"
    elif request.get("compaction") and (
        unwanted := sorted({"context_management", "stop_sequences"} & set(request))
    ):
        said = f"{unwanted[0]}: cannot be combined with `compaction`"
    elif places and COMPACTION_BETA not in betas:
        number, index, _ = places[0]
        said = f"messages.{number}.content.{index}: 'compaction' is not one of the expected content block types"
    elif len(places) > 1:
        said = "`messages` holds more than one `compaction` block"
        code = "compaction_block_ambiguous"
    elif places and places[0][:2] != (0, 0):
        said = "The `compaction` block must be sent first; remove the messages"
        code = "compaction_block_misplaced"
    elif places and places[0][2] != _compaction_block(str(places[0][2].get("content"))):
        said = "The `compaction` block's `signature` does not verify"
        code = "compaction_signature_invalid"
    if said is None:
        return None
    body = error(400, said)
    body["error"] |= {"details": {"error_code": code}} if code else {}
    return 400, body


def error_event(kind: str, number: int) -> Event:
    return Event(
        "error",
        {"type": "error", "error": {"type": kind, "message": f"{kind} in mid-stream"}},
    )


def model(name: str, window: int | None) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": window,
        "max_tokens": 64_000,
    }


def _compaction_events(reply: Reply, request: Any, number: int) -> Iterator[Event]:
    usage = _usage(Usage(0, 0), output=0)
    yield _event("message_start", message=_message(request, number, [], None, usage))
    yield _event("ping")
    # Arrives whole, but can be cut off like a delta.
    for index, block in enumerate(_compaction_blocks(reply)):
        yield _event(
            "content_block_start", counts=True, index=index, content_block=block
        )
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": _compaction_stop(reply), "stop_sequence": None}
    yield _event(
        "message_delta", delta=delta, usage=_compaction_usage(reply.usage_for(request))
    )
    yield _event("message_stop")


def _compaction_stop(reply: Reply) -> str:
    return "compaction" if _compaction_blocks(reply) else reply.stop_reason


def _compaction_blocks(reply: Reply) -> list[dict[str, Any]]:
    """None comes where the model did not end normally, or not with a text."""
    text = "".join(part.text for part in reply.parts(0) if part.kind == "text")
    return [_compaction_block(text)] if text and reply.stop_reason == "end_turn" else []


def _compaction_block(text: str) -> dict[str, Any]:
    return {
        "type": "compaction",
        "content": text,
        "signature": f"sig-{hashlib.sha256(text.encode()).hexdigest()[:16]}",
    }


def _compaction_usage(usage: Usage) -> dict[str, Any]:
    iteration = {"type": "compaction", **_usage(usage, output=usage.output)}
    return {**_usage(Usage(0, 0), output=0), "iterations": [iteration]}


def _message(
    request: Any,
    number: int,
    content: list[dict[str, Any]],
    stop: str | None,
    usage: dict[str, Any],
) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _usage(usage: Usage, *, output: int) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "output_tokens": output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def _block(part: Part, *, empty: bool) -> dict[str, Any]:
    text = "" if empty else part.text
    if part.kind == "thinking":
        return {
            "type": "thinking",
            "thinking": text,
            "signature": "" if empty else _signature(part),
        }
    if part.kind == "tool":
        return {
            "type": "tool_use",
            "id": part.id,
            "name": part.name,
            "input": json.loads(text) if text else {},
        }
    return {"type": "text", "text": text}


def _signature(part: Part) -> str:
    return part.seal or f"signature-of-{part.id}"


def _delta(part: Part, text: str) -> dict[str, Any]:
    if part.kind == "thinking":
        return {"type": "thinking_delta", "thinking": text}
    if part.kind == "tool":
        return {"type": "input_json_delta", "partial_json": text}
    return {"type": "text_delta", "text": text}


def _details(reply: Reply) -> dict[str, Any] | None:
    if reply.stop_reason != "refusal":
        return None
    return dict(
        reply.stop_details or {"type": "refusal", "category": None, "explanation": None}
    )


def _event(name: str, *, counts: bool = False, **data: Any) -> Event:
    return Event(name, {"type": name, **data}, delta=counts)
