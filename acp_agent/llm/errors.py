"""Handles failed model calls: reads the provider's error, classifies it, and turns it
into an error for the user.

`CallFailed` is one failed attempt; `read_error` and `stream_error` parse the provider's
response. `classify` returns the category of a failure. The client retries some
categories, and `error_of` turns any failure into the user's error. The phrases come
from the documentation of the servers listed in docs/models.md, and from users' reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from acp_agent.conversation.messages import JsonObject, JsonValue, Usage
from acp_agent.conversation.strict_json import get_object, get_objects, get_text
from acp_agent.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
    OverflowLimit,
    RequestRefusedError,
    sentence,
)
from acp_agent.llm.places import BUILT_IN, GIVEN_KEY, Endpoint
from acp_agent.secrets.text import mask

_EndpointFailure: TypeAlias = Literal["no-stream", "connect", "untrusted", "silent"]
FailureKind: TypeAlias = (
    Literal["status", "stream", "dropped", "ignored"] | _EndpointFailure
)
"""`status`: an HTTP error. `stream`: an error event in a stream. `no-stream`: a success
status, but the body is not a stream. `dropped`: the connection or the stream ended too
early. `ignored`: an answer, but not of the requested kind; if it is incomplete, its
code says why. `connect`: no connection was made. `untrusted`: the server's certificate
was refused. `silent`: nothing arrived within the read time-out.
"""

Came: TypeAlias = Literal["nothing", "status", "events"]
"""How much of an answer had arrived: nothing, only a success status (possibly with
token counts), or events.
"""

Category: TypeAlias = (
    Literal["auth", "quota-per-minute", "transient", "rejected"]
    | OverflowLimit
    | _EndpointFailure
)
"""`auth`: the key was refused. An `OverflowLimit`: the request exceeds that limit.
`quota-per-minute`: the request alone exceeds the account's tokens per minute.
`transient`: the same request may succeed later. `rejected`: it will not. For an
endpoint that is unreachable or broken, the category is the kind of failure.
"""


@dataclass(eq=False)
class CallFailed(Exception):  # noqa: N818 - not for users: `error_of` makes their error
    """One attempt failed.

    :ivar message: the error text from the provider or the network.
    :ivar status: the HTTP status, or the status that an error event implies; None if
        there is none.
    :ivar code: the provider's error code.
    :ivar headers: the headers of the response.
    :ivar named: members of the request that the error names, such as `max_tokens` or
        `tools.0.name`.
    :ivar came: how much of the answer had arrived.
    :ivar path: the path of the request; empty if unknown.
    :ivar body: the beginning of the error's body, which may name a part of the request
        that the message does not.
    :ivar usage: the usage of an answer of the wrong kind; None if the server did not
        report it.
    """

    kind: FailureKind
    message: str
    status: int | None = field(default=None, kw_only=True)
    code: str = field(default="", kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    named: tuple[str, ...] = field(default=(), kw_only=True)
    came: Came = field(default="nothing", kw_only=True)
    path: str = field(default="", kw_only=True)
    body: str = field(default="", kw_only=True, repr=False)
    usage: Usage | None = field(default=None, kw_only=True)


MAX_BODY = 20_000
_MESSAGE_KEYS = ("message", "msg", "detail", "error_description", "error")
_NESTED_KEYS = ("error", "detail", "message", "errors")
_REQUEST_CODES = (
    "invalid",
    "policy",
    "mismatch",
    "auth",
    "permission",
    "not_found",
    "image",
    "billing",
    "quota",
)
"""Substrings of an error event's code that imply status 400. Events with any other code
are transient.
"""


def read_error(body: str) -> tuple[str, str]:
    """Return the message and code in the body of an error response. Its shape depends
    on the server.

    OpenAI and Anthropic send `{"error": {...}}`, Gemini a list of these, LM Studio,
    Ollama and xAI `{"error": "..."}`, FastAPI `{"detail": ...}`, vLLM `{"message":
    ...}`, and OpenRouter `metadata.raw` with another server's error. If the shape is
    unknown, the body itself is the message.
    """
    text = body.strip()[:MAX_BODY]
    try:
        message, code = _message_and_code(json.loads(body))
    except (ValueError, RecursionError):
        return text, ""
    return (message or text)[:MAX_BODY], code


def _message_and_code(value: JsonValue) -> tuple[str, str]:
    match value:
        case str():
            return value.strip(), ""
        case list():
            return next(
                (found for item in value if (found := _message_and_code(item))[0]),
                ("", ""),
            )
        case dict():
            # Google's ErrorInfo.
            reasons = (
                get_text(detail, "reason") for detail in get_objects(value, "details")
            )
            codes = (
                get_text(value, "code"),
                *reasons,
                get_text(value, "type"),
                get_text(value, "status"),
            )
            code = next(filter(None, codes), "")
            for inner in map(value.get, _NESTED_KEYS):
                if (
                    isinstance(inner, dict | list)
                    and (found := _message_and_code(inner))[0]
                ):
                    return found[0], found[1] or code
            message = next(
                (
                    text
                    for key in _MESSAGE_KEYS
                    if (text := get_text(value, key).strip())
                ),
                "",
            )
            raw = read_error(get_text(get_object(value, "metadata"), "raw"))[0]
            return ": ".join(filter(None, (message, raw))), code
        case _:
            return "", ""


def names_in_error(body: str) -> tuple[str, ...]:
    """Return the members of the request that the body of an error response names.

    OpenAI names them in `param`. FastAPI servers and Mistral send pydantic's `loc`.
    """
    try:
        waiting: list[JsonValue] = [json.loads(body)] if len(body) <= MAX_BODY else []
    except (ValueError, RecursionError):
        return ()
    names: list[str] = []
    while waiting:
        match waiting.pop(0):
            case dict() as members:
                loc = members.get("loc")
                if isinstance(loc, list):
                    path = ".".join(str(each) for each in loc)
                    names.append(path.removeprefix("body."))
                if param := get_text(members, "param"):
                    names.append(param)
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case str() as text if text.lstrip().startswith(("{", "[")):
                names += names_in_error(text)  # a nested error from another server
            case _:
                pass
    return tuple(dict.fromkeys(names))


def stream_error(event: JsonObject) -> CallFailed:
    """Return the failure in an error event of a stream: `{"error": {...}}`, or the
    error's fields themselves.
    """
    error = get_object(event, "error") or event
    code = str(error.get("code") or "") or get_text(error, "type")
    status = (
        int(code)
        if code.isdecimal()
        else 400
        if any(word in code for word in _REQUEST_CODES)
        else None
    )
    message = get_text(error, "message") or get_text(event, "error") or code
    return CallFailed("stream", message, status=status, code=code)


_OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
    }
)
_OVERFLOW_STATUSES = (400, 413, 422, 500, None)
_OVERFLOW_PHRASES: dict[OverflowLimit, tuple[str, ...]] = {
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
        "prompt exceeds max length",  # Z.ai
        "range of input length should be",  # Alibaba's DashScope
        "`inputs` tokens + `max_new_tokens` must be",  # Hugging Face's TGI
        "maximum sequence length",
        "max_seq_len",
        "reduce the length of",
    ),
    "images": (
        "too many images",
        "too much media",
        "many-image request",
        "image(s)",
        "images, exceed",
    ),
    "bytes": (
        "request exceeds the maximum",
        "payload size exceeds",
        "body too large",
        "entity too large",
    ),
}
_KEY_CODES = frozenset(
    {"invalid_api_key", "authentication_error", "API_KEY_INVALID", "UNAUTHENTICATED"}
)
_KEY_PHRASES = (
    *(
        "api key not valid",
        "api key expired",
        "incorrect api key",
        "invalid api key",
        "missing api key",
    ),
    *("no api key provided", "missing or invalid authorization header"),
)
_BILLING_CODES = ("insufficient_quota", "billing_error")
_TOKENS_PER_MINUTE = "tokens per min"  # OpenAI, Groq
_FINAL_PHRASES = (
    # Llama.cpp's server, status 500.
    *(
        "jinja exception",
        "chat template",
        "requires --jinja",
        "not support tools",
    ),
    "unexpected endpoint or method",  # LM Studio, status 200
)
_NO_SUCH_PATH = (
    *(
        "not found",
        "invalid url",
        "unexpected endpoint",
        "unknown request url",
        "unrecognized request url",
    ),
    *(
        "cannot post",
        "no route",
        "no matching",
        "method not allowed",
        "no static resource",
    ),
)
_MAX_BARE = 200
"""Maximum length of an error that only says that the path does not exist."""


def classify(failure: CallFailed) -> Category:
    """Return the category of a failure."""
    match failure.kind:
        case "connect" | "untrusted" | "silent" | "no-stream" as kind:
            return kind
        case "dropped":
            return "transient"
        case "ignored":
            return "rejected"
        case "status" | "stream":
            pass
    status = failure.status
    code = failure.code
    message = failure.message.lower()
    # This is not a context overflow, since the output limit counts too, and not a
    # temporary rate limit.
    exceeds_minute = "request too large" in message and _TOKENS_PER_MINUTE in message
    if code in _OVERFLOW_CODES:
        return "tokens"
    if status in _OVERFLOW_STATUSES and not exceeds_minute:
        for limit, phrases in _OVERFLOW_PHRASES.items():
            if any(phrase in message for phrase in phrases):
                return limit
        if status == 413 or code == "request_too_large":
            return "bytes"
    # Gemini and xAI refuse a key with status 400. Only the beginning is compared: the
    # rest may quote the prompt.
    if status in (401, 403) or (
        status == 400 and (code in _KEY_CODES or message.startswith(_KEY_PHRASES))
    ):
        return "auth"
    if exceeds_minute:
        return "quota-per-minute"
    passes = status is None or status in (408, 409, 429) or status >= 500
    is_final = code in _BILLING_CODES or any(
        phrase in message for phrase in _FINAL_PHRASES
    )
    return "transient" if passes and not is_final else "rejected"


_MAX_DETAIL = 600
_LIMITS: dict[OverflowLimit, str] = {
    "tokens": "is larger than the model's context window",
    "images": "has more or larger images than one request may contain",
    "bytes": "has more data than one request may contain, most of it probably images",
}
_SENTENCES: dict[_EndpointFailure, str] = {
    "connect": (
        " cannot be reached. Check the network, the proxy settings and the provider's base URL, and that the server is"
        " running."
    ),
    "untrusted": (
        " cannot be reached: its certificate is not trusted. If the certificate is your own, or belongs to a proxy in"
        " between, set SSL_CERT_FILE to a PEM file of the certificates to trust, and restart the agent."
    ),
    "silent": " accepted the request and then sent nothing. Prompt again, or choose another model.",
    "no-stream": (
        " answered, but not with the requested event stream. Check the provider's kind and base URL,"
        " and whether a proxy or a login page answered instead."
    ),
}
_IMAGE_WORDS = (
    *(
        "image",
        "multimodal",
        "multi-modal",
        "vision",
        "picture",
        "content type",
        "photo",
        "pixel",
        "clip model",
    ),
    *(
        "webp",
        "png",
        "jpeg",
        "gif",
        "mmproj",
        "content must be a string",
        "expected a string",
        "media",
    ),
    *(
        "text-only",
        "text only",
        "only text",
        "modality",
        "modalities",
        "attachment",
        "visual",
    ),
)
_CONTENT_STATUSES = (400, 413, 415, 422, 500, 501)
"""Statuses that mean a request was refused for its content, not for its sender or path.
"""
_NOT_FOUND = 404
_IMAGE_STATUSES = (400, _NOT_FOUND, 415, 422)
"""404 comes from OpenRouter if none of the model's servers accepts images."""
SERVER_STATUSES = (500, 501)
"""Statuses from servers that fail on unsupported input instead of refusing it."""


def may_be_image(failure: CallFailed, *, is_repeated: bool) -> bool:
    """Return whether a request with an image may have been refused because of the
    image.

    Some servers name the image and others do not, so every refusal that names no other
    cause counts.

    :param is_repeated: whether the same request has already failed with the same
        status.
    """
    words = f"{failure.code} {failure.message}".lower()
    is_named = any(word in words for word in _IMAGE_WORDS)
    if failure.status in SERVER_STATUSES:
        return classify(failure) in ("transient", "rejected") and (
            is_named or is_repeated
        )
    if failure.status not in _IMAGE_STATUSES or classify(failure) != "rejected":
        return False
    return is_named or failure.status != _NOT_FOUND


_KIND = r"(?:image|vision|picture|visual|multi-?modal|media)s?(?: (?:input|content|part|understanding)s?)?"
_NO_IMAGES = (
    rf"\bnot (?:support|accept|handle|have) (?:any )?{_KIND}(?: yet)?(?:$|[.,;:!)\n]| (?:for|by|in|with|and|or)\b)"
    rf"|\b{_KIND} (?:is |are )?not (?:supported|implemented|enabled|available|accepted)"
    r"|\b(?:text-only|text only|only (?:supports? )?['\"`]?text['\"`]?\b)|\bmmproj\b"
    r"|no endpoints found that support image"
)


def takes_no_images(failure: CallFailed) -> bool:
    """Return whether an error says that the model accepts no images at all, rather than
    refusing only this one.
    """
    return re.search(_NO_IMAGES, failure.message, re.IGNORECASE) is not None


_KNOWN_CAUSES = ("overloaded", "rate_limit", "rate limit", "quota", "billing")
_MAY_EXCEED = (
    "Some servers do this if the conversation exceeds their context window: set `context_window` in config.yaml to the"
    " server's window, or start the server with a larger one."
)


def may_be_overflow(failure: CallFailed) -> bool:
    """Return whether a request may have been too long. This is possible if the provider
    sent an error with a text unknown to the agent, or only empty streams.
    """
    if failure.kind == "dropped":
        return failure.came == "status"
    if failure.kind not in ("status", "stream"):
        return False
    if failure.status not in _OVERFLOW_STATUSES or _is_wrong_path(failure):
        return False
    said = f"{failure.code} {failure.message}".lower()
    is_known = any(cause in said for cause in _KNOWN_CAUSES)
    return classify(failure) in ("transient", "rejected") and not is_known


def error_of(
    failure: CallFailed,
    endpoint: Endpoint,
    *,
    model: str = "",
    partial: bool = False,
    retry_after: float | None = None,
    after_empty: bool = False,
) -> ModelError:
    """Return the error for the user after the last attempt.

    :param model: the provider's id of the model that was called; empty if no model was
        called.
    :param partial: whether part of the answer was already yielded.
    :param retry_after: the delay in seconds that the provider asks for, if it is longer
        than the agent will wait.
    :param after_empty: whether the provider sent empty streams for the same request, so
        that the request was repeated without streaming.
    """
    error = _error_of(
        failure,
        endpoint,
        model=model,
        partial=partial,
        retry_after=retry_after,
        after_empty=after_empty,
    )
    error.may_be_overflow = may_be_overflow(failure) and not partial
    return error


def _error_of(
    failure: CallFailed,
    endpoint: Endpoint,
    *,
    model: str,
    partial: bool,
    retry_after: float | None,
    after_empty: bool,
) -> ModelError:
    provider = f"{endpoint.name} ({endpoint.host})"
    status = f" (status {failure.status})" if failure.status else ""
    message = " ".join(mask(failure.message, endpoint.secrets).split())
    message = message if len(message) <= _MAX_DETAIL else message[:_MAX_DETAIL] + " …"
    detail = f" It said: {sentence(message)}" if message else ""
    match classify(failure):
        case _ if (
            after_empty
            and not partial
            and failure.kind != "dropped"
            and may_be_overflow(failure)
        ):
            return RequestRefusedError(
                f"{provider} answered with an empty stream and, when asked again without streaming, with an"
                f" error{status}.{detail} {_MAY_EXCEED}"
            )
        case "rejected" if _is_wrong_path(failure):
            return ModelRequestError(
                f"{provider} {_wrong_path(failure, endpoint)}{detail}"
            )
        case "auth":
            revoked = (
                ", since it was revoked or has expired"
                if _REVOKED.search(failure.message)
                else ""
            )
            text = f"{provider} refused the key{status}{revoked}: check {endpoint.key_hint}.{detail}"
            return ModelAuthError(
                text + _key_advice(endpoint, revoked), partial=partial
            )
        case "tokens" | "images" | "bytes" as limit:
            patterns = (
                (_MAXIMUM_PATTERNS, _PROMPT_PATTERNS) if limit == "tokens" else ((), ())
            )
            maximum, prompt = (_token_count(each, failure.message) for each in patterns)
            text = f"The conversation {_LIMITS[limit]}, says {provider}.{detail}"
            return ContextOverflowError(
                text, partial=partial, limit=limit, maximum=maximum, prompt=prompt
            )
        case _ if partial:
            return ModelStreamError(
                f"The answer broke off, because {reason(failure)} ({provider})."
                f" The part that arrived is kept; prompt again to continue.{detail}",
                partial=True,
            )
        case "transient" if failure.kind == "dropped" and failure.came == "status":
            return RequestRefusedError(
                f"{provider} answered with status 200 and no content, even after retries. {_MAY_EXCEED}"
            )
        case "transient":
            text = f"did not answer, because {reason(failure)}, even after retries. Try again later"
            if retry_after is not None:
                text = f"is not answering, because {reason(failure)}; it asks you to wait {retry_after:.0f} seconds."
                text += " Try again after that"
            return ModelUnavailableError(
                f"{provider} {text}, or choose another model.{detail}"
            )
        case "no-stream" as kind:
            return ModelRequestError(f"{provider}{_SENTENCES[kind]}{detail}")
        case "connect" | "untrusted" | "silent" as kind:
            return ModelUnavailableError(f"{provider}{_SENTENCES[kind]}{detail}")
        case "quota-per-minute":
            return ModelRequestError(
                f"{provider} refused the request: its input and maximum output together exceed your account's tokens"
                " per minute, so waiting does not help. Set `max_output_tokens` or `context_window` in"
                f" config.yaml to a smaller value, or choose another model.{detail}"
            )
        case "rejected":
            is_content = (
                failure.status in _CONTENT_STATUSES
                and failure.code not in _BILLING_CODES
            )
            error = RequestRefusedError if is_content else ModelRequestError
            return error(
                f"{provider} refused the request{status}.{detail}{_model_advice(failure, endpoint, model)}"
            )


_REVOKED = re.compile(
    r"\b(?:revoked|disabled|deactivated|deleted|expired|no longer (?:valid|active))\b",
    re.IGNORECASE,
)
"""Matches words that providers use for a key that was once valid."""


def _key_advice(endpoint: Endpoint, revoked: str) -> str:
    """Return advice about a refused key; empty if no key was sent, or if the key is
    only being checked.
    """
    if not (endpoint.key or endpoint.token) or endpoint.key_hint == GIVEN_KEY:
        return ""
    why = "" if revoked else " The key may be mistyped or revoked."
    return f"{why} `acp-agent login {endpoint.name}` checks a key and stores it."


def _model_advice(failure: CallFailed, endpoint: Endpoint, model: str) -> str:
    """Return advice about the model's name, if the provider says that it does not have
    the model.
    """
    says_so = "model" in failure.message.lower() or "model" in (failure.code or "")
    if not (model and says_so and failure.status == _NOT_FOUND):
        return ""
    name = endpoint.name
    near = get_close_matches(
        model, BUILT_IN[name].offered if name in BUILT_IN else (), n=1
    )
    advice = (
        f"did you mean `{name}/{near[0]}`?"
        if near
        else "`acp-agent models` lists the known models."
    )
    return f" Check the name {name}/{model}: {advice}"


def _is_wrong_path(failure: CallFailed) -> bool:
    """Return whether an error says that the request's path does not exist. Such an
    error does not mention a model.
    """
    said = failure.message.strip().lower()
    if "unexpected endpoint or method" in said:
        return True
    if failure.status not in (404, 405):
        return False
    is_bare = (
        len(said) <= _MAX_BARE
        and "model" not in said
        and any(words in said for words in _NO_SUCH_PATH)
    )
    return not said or said.startswith("<") or is_bare


def _wrong_path(failure: CallFailed, endpoint: Endpoint) -> str:
    """Return the path that was requested and the most likely fix, as the rest of a
    sentence that begins with the provider's name.
    """
    base = urlsplit(endpoint.base_url or "").path.rstrip("/")
    tried = mask(base + failure.path.partition("?")[0], endpoint.secrets)
    said = (
        f"does not serve {tried} (status {failure.status or 200})."
        if failure.path
        else "does not serve this path."
    )
    has_version = base.rpartition("/")[2] in ("v1", "v1beta", "openai")
    if endpoint.kind == "anthropic":
        mend = (
            "Remove `/v1` from its end."
            if has_version
            else "Check whether the server supports Anthropic's Messages API."
        )
    elif base.endswith(("/chat/completions", "/responses")):
        mend = "Remove everything after `/v1`."
    elif not has_version:
        mend = "Most servers expect `/v1` at its end."
    elif endpoint.kind == "openai-responses":
        mend = (
            "If the server does not support the Responses API, set `kind: openai-chat`."
        )
    else:
        mend = "Check its path."
    return f"{said} Check `providers.{endpoint.name}.base_url` in config.yaml. {mend}"


_NUMBER = r"(\d[\d,]{2,12}|\d{1,4}(?= ?[km]\b))(?: ?([km])\b)?"
_WINDOW = (
    r"\b(?:context (?:length|window|size)|n_ctx|maximum (?:prompt|(?:allowed )?input|model|sequence) length)"
    r"(?: of this model)?(?: =|:)? ?\(?(?:(?:is|of|only) ){0,2}"
)
_COUNTED = r"\b(?:contains|has|resulted in|too long:|token count(?: of| is)?|request|prompt|input(?: length)?)"
_MAXIMUM_PATTERNS = (
    rf"> {_NUMBER}",  # as in "210000 tokens > 200000 maximum"
    # As in "context size (4096 tokens)", "exceeds the maximum number of tokens allowed
    # (1048576)", "limit of 8192".
    rf"(?:{_WINDOW}|\btokens allowed \(?|\bsupports up to |\blimit(?: is| of|:) ){_NUMBER}",
    rf"{_NUMBER} maximum context length",  # Mistral
    rf"(?:input length should be \[\d+, |\bmust be <= |\bmax_seq_len(?: of|:)? ){_NUMBER}",
)
_PROMPT_PATTERNS = (
    rf"{_NUMBER} \+ [\d,]+ > ",  # as in "190000 + 20000 > 200000"
    # As in "4066 in your prompt" and "100000 of text input".
    rf"{_NUMBER} (?:tokens )?(?:in|of|from) (?:the |your )?(?:text )?(?:messages|prompt|input)\b",
    # As in "your prompt contains at least 9000 input tokens" and "the request (9210
    # tokens)".
    rf"{_COUNTED} (?:at least )?\(?(?:length )?{_NUMBER}",
    rf"(?:\bkeep the first |\brequested tokens \(|\bgiven: ){_NUMBER}",  # LM Studio; llama-cpp-python; TGI
)


def _token_count(patterns: tuple[str, ...], message: str) -> int | None:
    """Return the number of tokens in an overflow error, taken from the first pattern
    that matches.
    """
    # The patterns are compiled at the first refusal. Compiling them at import would
    # slow down the adapter's import by half, and the first prompt waits for that
    # import.
    for pattern in patterns:
        if match := re.search(pattern, message, re.IGNORECASE):
            number, unit = match.groups()
            return int(number.replace(",", "")) * {"k": 1_000, "m": 1_000_000}.get(
                (unit or "").lower(), 1
            )
    return None


_REASONS: dict[str, str] = {
    "connect": "it cannot be reached",
    "dropped": "the connection was lost",
    "untrusted": "its certificate is not trusted",
    "silent": "it stopped responding",
}
"""Reasons for network failures."""


def reason(failure: CallFailed) -> str:
    """Return the reason for a failure in a few words, for "trying again because …"."""
    if failure.kind in _REASONS:
        return _REASONS[failure.kind]
    if failure.status == 429 or "rate_limit" in failure.code:
        return "its rate limit was reached"
    if failure.status in (503, 529) or "overloaded" in failure.code:
        return "it is overloaded"
    return (
        f"it answered with status {failure.status}"
        if failure.status
        else "it reported an error"
    )


def log_line(failure: CallFailed, secrets: tuple[str, ...]) -> str:
    """Return the failure as one line for the log.

    A provider's message is left out, since it may quote the prompt. A network error's
    message is logged.

    :param secrets: texts to mask.
    """
    identifier = failure.headers.get("request-id") or failure.headers.get(
        "x-request-id"
    )
    words = [
        failure.kind if failure.status is None else f"{failure.kind} {failure.status}",
        f"code {failure.code[:128]}" if failure.code else "",
        f"request {identifier[:128]}" if identifier else "",
        failure.message if failure.kind in _REASONS else "",
    ]
    return " ".join(mask(", ".join(filter(None, words)), secrets).split())
