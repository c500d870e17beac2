"""Why a model call failed: reading the provider's error, deciding whether to retry, and the message for the user.

Pure: no SDK, no HTTP client, no clock. The words for requests that are too large are from the documentation of the
servers that docs/models.md names, and from what users report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import get_object, get_objects, get_text
from acp_agent.errors import (
    ContextOverflowError,
    ImageRefusedError,
    ModelAuthError,
    ModelError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
    OverflowLimit,
)
from acp_agent.llm.places import Endpoint
from acp_agent.secrets.text import mask

FailureKind: TypeAlias = Literal["status", "stream", "no-stream", "dropped", "connect", "untrusted", "silent"]
"""`status`: an HTTP error. `stream`: an error event in a stream. `no-stream`: a good status, but another kind of body.
`dropped`: the connection or the stream ended too early. `connect`: no connection was made. `untrusted`: the server's
certificate was refused. `silent`: nothing came for longer than the read time-out."""

_Verdict: TypeAlias = Literal["auth", "overflow", "refused", "unreachable", "again"]


@dataclass(eq=False)
class CallFailed(Exception):  # noqa: N818 - not for users: `error_of` makes an error of it
    """One attempt failed.

    :ivar message: what the provider or the network said.
    :ivar status: HTTP status, or the one that an error event stands for; None where there is none.
    :ivar code: the provider's own word for it.
    :ivar headers: of the answer.
    """

    kind: FailureKind
    message: str
    status: int | None = field(default=None, kw_only=True)
    code: str = field(default="", kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)


_LONGEST_BODY = 20_000
_TEXTS = ("message", "msg", "detail", "error_description", "error")
_NESTED = ("error", "detail", "message", "errors")
_REFUSED = ("invalid", "policy", "mismatch", "auth", "permission", "not_found", "image", "billing", "quota")
"""Parts of the codes of error events that would be a status of 400; any other is an error that passes."""


def read_error(body: str) -> tuple[str, str]:
    """Return message and code in the body of an error, whichever of the servers' shapes it has.

    They are OpenAI's and Anthropic's `{"error": {...}}`, Gemini's list of these, LM Studio's, Ollama's and xAI's
    `{"error": "..."}`, FastAPI's `{"detail": ...}`, vLLM's `{"message": ...}`, and OpenRouter's `metadata.raw` with
    another server's error. A body of an unknown shape is its own message.
    """
    text = body.strip()[:_LONGEST_BODY]
    try:
        message, code = _said(json.loads(body))
    except (ValueError, RecursionError):
        return text, ""
    return (message or text)[:_LONGEST_BODY], code


def _said(value: JsonValue) -> tuple[str, str]:
    match value:
        case str():
            return value.strip(), ""
        case list():
            return next((found for item in value if (found := _said(item))[0]), ("", ""))
        case dict():
            code = _code(value)
            for inner in (value.get(key) for key in _NESTED):
                if isinstance(inner, dict | list) and (found := _said(inner))[0]:
                    return found[0], found[1] or code
            message = next((text for key in _TEXTS if (text := get_text(value, key).strip())), "")
            raw = read_error(get_text(get_object(value, "metadata"), "raw"))[0]
            return ": ".join(filter(None, (message, raw))), code
        case _:
            return "", ""


def _code(error: JsonObject) -> str:
    reasons = (get_text(detail, "reason") for detail in get_objects(error, "details"))  # Google's ErrorInfo
    words = (get_text(error, "code"), *reasons, get_text(error, "type"), get_text(error, "status"))
    return next((word for word in words if word), "")


def stream_error(event: JsonObject) -> CallFailed:
    """Return the failure in an error object of a stream: `{"error": {...}}`, or the fields themselves."""
    error = get_object(event, "error") or event
    code = str(error.get("code") or "") or get_text(error, "type")
    status = int(code) if code.isdecimal() else 400 if any(word in code for word in _REFUSED) else None
    message = get_text(error, "message") or get_text(event, "error") or code
    return CallFailed("stream", message, status=status, code=code)


_TOKEN_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded"})
_KEY_CODES = frozenset({"invalid_api_key", "authentication_error", "API_KEY_INVALID", "UNAUTHENTICATED"})
_KEY_REFUSED = (
    *("api key not valid", "api key expired", "incorrect api key", "invalid api key", "missing api key"),
    *("no api key provided", "missing or invalid authorization header"),
)
_OF_IMAGE = ("image", "multimodal", "multi-modal")
_IMAGE_STATUSES = (400, 404, 415, 422)
"""404: of a router that has no server that takes images for the model (OpenRouter)."""


def verdict(failure: CallFailed) -> _Verdict:
    """Return how to proceed after a failure."""
    match failure.kind:
        case "connect":
            return "unreachable"
        case "dropped":
            return "again"
        case "untrusted" | "silent" | "no-stream":
            return "refused"
        case _:
            pass
    if _overflow_limit(failure) is not None:
        return "overflow"
    status = failure.status
    # Gemini and xAI refuse a key with status 400. Further in, a message may quote what was prompted.
    of_key = failure.code in _KEY_CODES or failure.message.lower().startswith(_KEY_REFUSED)
    if status in (401, 403) or (status == 400 and of_key):
        return "auth"
    if failure.code in ("insufficient_quota", "billing_error") or _exceeds_minute(failure.message):
        return "refused"
    return "again" if status is None or status in (408, 409, 429) or status >= 500 else "refused"


def _overflow_limit(failure: CallFailed) -> OverflowLimit | None:
    """Return what the request had too much of; None where the failure is another one."""
    if failure.code in _TOKEN_CODES:
        return "tokens"
    if failure.status not in (400, 413, 422, 500, None) or _exceeds_minute(failure.message):
        return None
    said = failure.message.lower()
    for limit, words in _WORDS.items():
        if any(word in said for word in words):
            return limit
    return "bytes" if failure.status == 413 or failure.code == "request_too_large" else None


_REASONS: dict[str, str] = {
    "connect": "it cannot be reached",
    "dropped": "the connection was lost",
    "untrusted": "its certificate is not trusted",
    "silent": "it fell silent",
}
"""For failures of the network."""
_LONGEST_DETAIL = 600
_TOO_MUCH: dict[OverflowLimit, str] = {
    "tokens": "is larger than the model's context window",
    "images": "holds more or larger images than one request may",
    "bytes": "holds more data than one request may, most of it likely images",
}
_SENTENCES: dict[str, str] = {
    "connect": (
        " cannot be reached. Check the network, the proxy settings and the provider's base URL, and that the server is"
        " running."
    ),
    "untrusted": (
        " cannot be reached: its certificate is not trusted. If it is one of your own, or a proxy's that stands"
        " between, set SSL_CERT_FILE to a PEM file of the certificates to trust, and start the agent again."
    ),
    "silent": " accepted the request and then sent nothing. Prompt again, or choose another model.",
    "no-stream": (
        " answered, but not with the stream of events that it was asked for. Check the provider's kind and base URL,"
        " and whether a proxy or a login page answers in its place."
    ),
}


def reason(failure: CallFailed) -> str:
    """Return the failure in a few words, for "trying again because …"."""
    if failure.kind in _REASONS:
        return _REASONS[failure.kind]
    if failure.status == 429 or "rate_limit" in failure.code:
        return "the rate limit is reached"
    if failure.status in (503, 529) or "overloaded" in failure.code:
        return "it is overloaded"
    return f"it answered with status {failure.status}" if failure.status else "it reported an error"


def logged(failure: CallFailed, secrets: tuple[str, ...]) -> str:
    """Return the failure in a line for the log.

    What the provider said is left out, since it may quote the prompt; what the network said is not.

    :param secrets: texts that must not be in it.
    """
    identifier = failure.headers.get("request-id") or failure.headers.get("x-request-id")
    words = [
        failure.kind if failure.status is None else f"{failure.kind} {failure.status}",
        f"code {failure.code[:128]}" if failure.code else "",
        f"request {identifier[:128]}" if identifier else "",
        failure.message if failure.kind in _REASONS else "",
    ]
    return " ".join(mask(", ".join(filter(None, words)), secrets).split())


def error_of(
    failure: CallFailed, endpoint: Endpoint, *, shown: bool = False, waited: float | None = None
) -> ModelError:
    """Return the exception for the user, once nothing more is tried.

    :param shown: whether part of the answer was already yielded.
    :param waited: seconds that the provider wants us to wait, where that is longer than we do.
    """
    kind, who = verdict(failure), f"{endpoint.name} ({endpoint.host})"
    said = " ".join(mask(failure.message, endpoint.secrets).split())
    said = said if len(said) <= _LONGEST_DETAIL else said[:_LONGEST_DETAIL] + " …"
    detail = f" It said: {said}" if said else ""
    status = f" (status {failure.status})" if failure.status else ""
    if kind == "auth":
        text = f"{who} refused the key{status}: check {endpoint.key_hint}.{detail}"
        return ModelAuthError(text, partial=shown)
    if kind == "overflow":
        limit = _overflow_limit(failure) or "tokens"
        text, of_tokens = f"The conversation {_TOO_MUCH[limit]}, says {who}.{detail}", limit == "tokens"
        maximum, prompt = (_number(words, failure.message) if of_tokens else None for words in (_MAXIMUM, _PROMPT))
        return ContextOverflowError(text, partial=shown, limit=limit, maximum=maximum, prompt=prompt)
    if shown:
        return ModelStreamError(
            f"The answer broke off, because {reason(failure)} ({who})."
            f" The part that arrived is kept; prompt again to go on.{detail}",
            partial=True,
        )
    if kind == "again":
        if waited is None:
            tried = f"did not answer, because {reason(failure)}, also when tried again. Prompt again in a while"
        else:
            tried = f"does not answer now, because {reason(failure)}; it asks to wait {waited:.0f} seconds."
            tried += " Prompt again after that"
        return ModelUnavailableError(f"{who} {tried}, or choose another model.{detail}")
    if failure.kind in _SENTENCES:
        error = ModelUnavailableError if failure.kind in _REASONS else ModelRequestError
        return error(f"{who}{_SENTENCES[failure.kind]}{detail}")
    if _exceeds_minute(failure.message):
        return ModelRequestError(
            f"{who} refused the request: with the answer that it asks for, it is larger than what your account may use"
            " in a minute, so waiting does not help. Set `max_output_tokens` or `context_window` in config.yaml to less"
            f" than that, or choose another model.{detail}"
        )
    words = f"{failure.code} {failure.message}".lower()
    of_image = failure.status in _IMAGE_STATUSES and any(word in words for word in _OF_IMAGE)
    return (ImageRefusedError if of_image else ModelRequestError)(f"{who} refused the request{status}.{detail}")


_WORDS: dict[OverflowLimit, tuple[str, ...]] = {
    "tokens": (
        "context length",  # OpenAI, vLLM, OpenRouter, LM Studio
        "context window",  # OpenAI, llama.cpp
        "context size",  # llama.cpp
        "context limit",  # Anthropic
        "n_ctx",  # llama.cpp
        "prompt is too long",  # Anthropic
        "input is too long",  # Bedrock behind a gateway
        "prompt too long",  # Ollama
        "input tokens exceed",  # OpenAI
        "input token count",  # Gemini, Vertex
        "maximum model length",  # vLLM
        "tokens) is too long",
        "model token limit",  # Moonshot
        "prompt token count",  # Copilot
        "maximum prompt length",  # xAI
        "maximum allowed input length",
        "tokens in the prompt",  # Cohere
        "too many input tokens",
        "reduce the length of",
    ),
    "images": ("too many images", "too much media", "many-image request", "image(s)", "images, exceed"),
    "bytes": ("request exceeds the maximum", "payload size exceeds", "body too large", "entity too large"),
}
_TOKENS_PER_MINUTE = "tokens per min"  # OpenAI, Groq
_NUMBER = r"(\d[\d,]{2,12}|\d{1,4}(?= ?[km]\b))(?: ?([km])\b)?"
_WINDOW = (
    r"\b(?:context (?:length|window|size)|n_ctx|maximum (?:prompt|(?:allowed )?input|model) length)"
    r"(?: of this model)?(?: =|:)? ?\(?(?:(?:is|of|only) ){0,2}"
)
_COUNTED = r"\b(?:contains|has|resulted in|too long:|token count(?: of| is)?|request|prompt|input(?: length)?)"
_MAXIMUM = (
    rf"> {_NUMBER}",  # as in "210000 tokens > 200000 maximum"
    # As in "context size (4096 tokens)", "exceeds the maximum number of tokens allowed (1048576)", "limit of 8192".
    rf"(?:{_WINDOW}|\btokens allowed \(|\bsupports up to |\blimit(?: is| of|:) ){_NUMBER}",
)
_PROMPT = (
    rf"{_NUMBER} \+ [\d,]+ > ",  # as in "190000 + 20000 > 200000"
    # As in "4066 in your prompt" and "100000 of text input".
    rf"{_NUMBER} (?:tokens )?(?:in|of|from) (?:the |your )?(?:text )?(?:messages|prompt|input)\b",
    # As in "your prompt contains at least 9000 input tokens" and "the request (9210 tokens)".
    rf"{_COUNTED} (?:at least )?\(?(?:length )?{_NUMBER}",
)


def _exceeds_minute(message: str) -> bool:
    """Return whether one request wants more than the account may have in a minute.

    This is not an overflow of the window, since the output limit counts too, however short the prompt is. Neither is it
    a rate limit that passes.
    """
    said = message.lower()
    return "request too large" in said and _TOKENS_PER_MINUTE in said


def _number(sayings: tuple[str, ...], message: str) -> int | None:
    """Return the number of tokens that the words of an overflow have in one of these sayings."""
    # Compiled with the first refusal: an adapter's import, which the first prompt waits for, would take half as long
    # again.
    for saying in sayings:
        if match := re.search(saying, message, re.IGNORECASE):
            number, unit = match.groups()
            return int(number.replace(",", "")) * {"k": 1_000, "m": 1_000_000}.get((unit or "").lower(), 1)
    return None
