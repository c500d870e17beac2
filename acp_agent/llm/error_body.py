"""What a server says in the body of an error, whichever of the many shapes it has.

Owns the shapes: OpenAI's and Anthropic's `{"error": {…}}`, Gemini's list of these, LM Studio's, Ollama's and xAI's
`{"error": "…"}`, FastAPI's `{"detail": …}`, vLLM's `{"message": …}`, routers that hand on another server's error as
text, plain text and pages. Pure: knows neither statuses nor what follows from a failure.
"""

from __future__ import annotations

import json
import re

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen
from acp_agent.llm.json_access import get_object, get_objects, get_text

_MOST = 20_000
"""Characters that are looked at; what a server has to say is shorter."""

_DEEPEST = 4
_TEXTS = ("message", "Message", "msg", "detail", "error_description", "error")
_NESTED = ("error", "detail", "message", "errors")
_TITLE = re.compile(r"<title[^<>]*>([^<]*)</title>", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]*>")


@frozen
class ErrorBody:
    """What a server said.

    :ivar message: in a sentence; empty where the body is.
    :ivar code: its own word for it; empty where it has none.
    """

    message: str
    code: str = ""


def read_error(body: str) -> ErrorBody:
    """Find message and code in the body of an answer.

    A body of a shape that nobody knows is its own message, so that nothing of what was said is lost.
    """
    text = body.strip()
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return ErrorBody(_plain(text))
    found = _found(value, 0)
    return ErrorBody((found.message or text)[:_MOST], found.code)


def _found(value: JsonValue, depth: int) -> ErrorBody:
    if isinstance(value, str):
        return ErrorBody(value.strip())
    if depth > _DEEPEST:
        return ErrorBody("")
    if isinstance(value, list):
        found = [_found(item, depth + 1) for item in value]
        messages = dict.fromkeys(item.message for item in found if item.message)
        return ErrorBody("; ".join(messages), next((item.code for item in found if item.code), ""))
    if not isinstance(value, dict):
        return ErrorBody("")
    inner = next((value[key] for key in _NESTED if isinstance(value.get(key), dict | list) and value[key]), None)
    if inner is not None and (found := _found(inner, depth + 1)).message:
        return ErrorBody(found.message, found.code or _code(value))
    message = next((text for key in _TEXTS if (text := get_text(value, key).strip())), "")
    if place := value.get("loc"):  # FastAPI: where in the request; what stood there is beside it, and left out
        message = f"{'.'.join(map(str, place)) if isinstance(place, list) else place}: {message}"
    if handed_on := get_text(get_object(value, "metadata"), "raw"):  # OpenRouter
        beneath = read_error(handed_on)
        message = f"{message}: {beneath.message}" if message else beneath.message
    return ErrorBody(message, _code(value))


def _code(error: JsonObject) -> str:
    reasons = (get_text(detail, "reason") for detail in get_objects(error, "details"))  # Google's ErrorInfo
    words = (get_text(error, "code"), *reasons, *(get_text(error, key) for key in ("type", "status")))
    return next((word for word in words if word), "")


def _plain(text: str) -> str:
    """Text as it stands; of a page its title, else its words."""
    if text.startswith("<"):
        title = _TITLE.search(text[:_MOST])
        text = " ".join(title[1].split() if title else _MARKUP.sub(" ", text[:_MOST]).split())
    return text[:_MOST]
