"""Finds the part of a request that a server refused, from the text of its error.

Servers that imitate an API support only part of it. A refused part is left out, or sent
with a value that the error names, and the request is sent again. The session keeps what
was learned about the model. A part is identified by its name in the error or, if the
error does not name it, by phrases that servers use to refuse it.

Sources: the error texts in the source of vLLM, llama.cpp's server, llama-cpp-python,
Ollama, LiteLLM and mistral-common; the errors of OpenAI, Mistral, Groq, DeepSeek,
Fireworks and OpenRouter, as reported by their users; the chat templates in llama.cpp's
repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import get_object, get_text
from acp_agent.conversation.surroundings import Feature
from acp_agent.frozen import frozen
from acp_agent.llm.errors import SERVER_STATUSES, CallFailed, classify

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The levels of reasoning effort, in ascending order."""
LIMITS: tuple[Feature, ...] = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
)
"""Members that limit an answer. An error may name the largest accepted value."""
_STATUSES = (400, 404, 415, 422)
_LEAST_LIMIT = 256
"""Minimum tokens of an answer's limit. A smaller number in an error is not such a
limit.
"""
_NUMBER = re.compile(
    r"(?<![\w.-])\d{1,3}(?:,\d{3})+(?!\w|\.\d)|(?<![\w.-])\d+(?!\w|\.\d|,\d)"
)
_REFUSES = (
    "not support",
    "unsupported",
    "not allowed",
    "not permitted",
    "not available",
    "not recognized",
    "not implemented",
    "unrecognized",
    "unknown",
    "unexpected",
    "extra_forbidden",
    "extra inputs",
    "extra fields",
    "no such",
    "must be",
    "should be",
    "invalid",
    "too large",
    "too high",
    "at most",
    "maximum",
    "exceeds",
    "not enabled",
    "remove",
)
"""Phrases of errors that refuse the member they name, rather than merely mention it."""
_COMMON: frozenset[Feature] = frozenset(
    ("stream", "reasoning", "thinking", "include", "store")
)
"""Members whose names are ordinary words. Such a name counts only in quotes or at the
start of an error.
"""
_WORDS: tuple[tuple[Feature, tuple[str, ...]], ...] = (
    (
        "functions",
        (
            "not support tools",
            "not support tool",
            "support tool use",
            "tools are not supported",
            "support tools",
            "tool use is not supported",
            "tool calling is not supported",
            "tool calls are not supported",
            "not support function",
            "function calling is not",
            "functions are not supported",
            "tools is not supported",
            "tool choice requires --enable-auto-tool-choice",
            "tools param requires --jinja",
            "requires --jinja",
            "parameters: ['tools'",
            "unsupported parameter: 'tools'",
            "unsupported parameter: tools",
            "unrecognized request argument supplied: tools",
            "unknown field: tools",
            'unknown name "tools"',
        ),
    ),
    (
        "call_ids",
        (
            "tool call id",
            "tool_call_id",
            "tool call ids",
            "tool_call.id",
            "length of 9",
            "9 alphanumeric",
            "alphanumeric strings with length 9",
        ),
    ),
    (
        "user_after_tool",
        (
            "after role 'tool'",
            'after role "tool"',
            "after role tool",
            "role.tool",
            "roles.tool",
            "roles must alternate",
            "role must alternate",
            "alternate user and assistant",
            "alternate user/assistant",
            "after a tool message",
            "unexpected role 'user'",
            "invalid_request_message_order",
        ),
    ),
    (
        "system",
        (
            "system role not supported",
            "system role is not supported",
            "role 'system' is not",
            "system messages are not",
        ),
    ),
    (
        "thinking",
        (
            "thinking is not supported",
            "not support thinking",
            "not support adaptive thinking",
            "not support extended",
        ),
    ),
    (
        "cache_control",
        ("cache_control",),
    ),
    (
        "include",
        (
            "encrypted content is not supported",
            "encrypted_content is not supported",
        ),
    ),
    (
        "stream",
        (
            "support streaming",
            "streaming is not",
            "streaming not",
            "stream is not supported",
            "stream=true",
        ),
    ),
    (
        "raw_arguments",
        (
            "arguments",
            "unmarshal",
            "json",
            "delimiter",
            "unterminated string",
            "failed to parse",
            "expecting",
            "function call",
            "tool call",
        ),
    ),
)
"""Phrases that refuse parts which are not members, or parts whose errors do not always
name the member.
"""
_EFFORT = re.compile(r"(?:reasoning|output_config)\.effort|output_config")
_CALL_IDS = re.compile(r"length (?:of )?9|\b9\b.{0,20}alphanumeric|a-z, a-z, 0-9")


@frozen
class RefusedPart:
    """A part of a request that a server refused.

    :ivar takes: see `FeatureRefused`.
    """

    feature: Feature
    takes: str = ""


def refused_part(
    failure: CallFailed,
    sent: Mapping[Feature, JsonValue],
    required: Iterable[Feature] = (),
) -> RefusedPart | None:
    """Return the part of a request that the server refused; None if it refused
    something else.

    :param sent: the optional parts of the request. Parts that are members come with
        their values.
    :param required: the parts that can have another value but cannot be left out.
    """
    if not _may_be_refusal(failure, sent):
        return None
    said = f"{failure.code} {failure.message}".lower()
    for feature in _named(failure, said, sent):
        takes = _taken(feature, said, sent[feature])
        if takes or feature not in required:
            return RefusedPart(feature, takes)
    for feature, words in _WORDS:
        if feature in sent and _is_meant(feature, words, said):
            return RefusedPart(feature)
    return None


def _may_be_refusal(failure: CallFailed, sent: Mapping[Feature, JsonValue]) -> bool:
    if failure.status in _STATUSES:
        return classify(failure) == "rejected"
    if failure.status not in SERVER_STATUSES:
        return False
    said = failure.message.lower()
    return "raw_arguments" in sent or any(
        word in said for word in ("support", "jinja", "template", "role")
    )


def _named(
    failure: CallFailed, said: str, sent: Mapping[Feature, JsonValue]
) -> list[Feature]:
    """Return the members that an error names, the most likely first."""
    refuses = (
        any(word in failure.message.lower() for word in _REFUSES)
        or "unsupported" in failure.code.lower()
    )
    names = [_EFFORT.sub("reasoning_effort", name.lower()) for name in failure.named]
    said = _EFFORT.sub("reasoning_effort", said)
    by_place: list[tuple[int, Feature]] = []
    for feature, value in sent.items():
        if value is None:
            continue  # not a member
        is_named = any(
            name == feature or name.startswith(f"{feature}.") for name in names
        )
        written = feature.replace("_", "_?")  # xAI and the AI SDK write reasoningEffort
        pattern = (
            rf"['\"`]{feature}['\"`]|^\S* ?{feature}[:.]"
            if feature in _COMMON
            else rf"(?<![\w.]){written}(?![\w])"
        )
        found = re.search(pattern, said)
        if is_named:
            by_place.append((-1, feature))
        elif found is not None and refuses:
            by_place.append((found.start(), feature))
    return [feature for _, feature in sorted(by_place)]


def _taken(feature: Feature, said: str, value: JsonValue) -> str:
    """Return the values that the server accepts for a member, if its error names them."""
    if feature in LIMITS and isinstance(value, int):
        numbers = [int(found[0].replace(",", "")) for found in _NUMBER.finditer(said)]
        smaller = [number for number in numbers if _LEAST_LIMIT <= number < value]
        return str(max(smaller)) if smaller else ""
    if feature in ("reasoning_effort", "reasoning"):
        effort = get_text(value, "effort") if isinstance(value, dict) else value
        words = [
            word
            for word in EFFORTS
            if word != effort and re.search(rf"['\"`]{word}['\"`]", said)
        ]
        return " ".join(words)
    return ""


def _is_meant(feature: Feature, words: tuple[str, ...], said: str) -> bool:
    if feature == "call_ids":
        return (
            any(word in said for word in words) and _CALL_IDS.search(said) is not None
        )
    return any(word in said for word in words)


def taken_limit(wanted: int, takes: str) -> int:
    """Return the limit for an answer, reduced to one that the server accepts.

    :param takes: see `FeatureRefused`.
    """
    return min(wanted, int(takes)) if takes.isdecimal() else wanted


def taken_effort(wanted: str, takes: str) -> str:
    """Return the accepted effort nearest to the wanted effort; empty if none is near
    enough.

    :param takes: see `FeatureRefused`; empty if the server accepts all.
    """
    known = [word for word in takes.split() if word in EFFORTS]
    if not known or wanted in known or wanted not in EFFORTS:
        return wanted
    others = [word for word in known if (word == "none") == (wanted == "none")] or (
        known if wanted == "none" else []
    )
    place = EFFORTS.index(wanted)
    return min(others, key=lambda word: abs(EFFORTS.index(word) - place), default="")


def optional_members(
    body: JsonObject, names: Iterable[Feature]
) -> dict[Feature, JsonValue]:
    """Return the members of a request that can be left out, with their values.

    The effort in `reasoning` or `output_config` is returned as `reasoning_effort`.
    """
    found: dict[Feature, JsonValue] = {}
    for name in names:
        if name in body:
            found[name] = body[name]
    effort = ""
    for member in ("reasoning", "output_config"):
        effort = effort or get_text(get_object(body, member), "effort")
    if effort and "reasoning_effort" in names:
        found["reasoning_effort"] = effort
    return found
