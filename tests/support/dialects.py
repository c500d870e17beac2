"""Which path of the model server speaks which dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from support import dialect_anthropic, dialect_openai
from support.replies import Event, Reply

GOOGLE_PATH = "/v1beta/openai"
Refusal = tuple[int, Any]
"""Status and body."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one path says.

    :ivar events: the stream of a reply; its arguments are the reply, the request's JSON
        and the number of the call.
    :ivar whole: the same without a stream.
    :ivar error: the body of an HTTP error, from status and message.
    :ivar error_event: an error in a stream, from its type and the number of the call.
    :ivar overflow: the refusal of a prompt, from its tokens and the most that are
        taken.
    :ivar problem: why a request's compactions are refused, from its JSON and the header
        `anthropic-beta`.
    """

    events: Callable[[Reply, Any, int], Iterator[Event]]
    whole: Callable[[Reply, Any, int], dict[str, Any]]
    error: Callable[[int, str], Any]
    error_event: Callable[[str, int], Event]
    overflow: Callable[[int, int], Refusal]
    problem: Callable[[Any, str], Refusal | None] = lambda body, betas: None


ANTHROPIC = Dialect(
    dialect_anthropic.events,
    dialect_anthropic.whole,
    dialect_anthropic.error,
    dialect_anthropic.error_event,
    dialect_anthropic.overflow,
    dialect_anthropic.problem,
)
RESPONSES = Dialect(
    dialect_openai.responses_events,
    dialect_openai.responses_whole,
    dialect_openai.error,
    dialect_openai.responses_error_event,
    dialect_openai.responses_overflow,
    dialect_openai.responses_problem,
)
COMPACT = replace(
    RESPONSES, whole=dialect_openai.compacted, problem=dialect_openai.compact_problem
)
CHAT = Dialect(
    dialect_openai.chat_events,
    dialect_openai.chat_whole,
    dialect_openai.error,
    dialect_openai.chat_error_event,
    dialect_openai.chat_overflow,
)
GOOGLE = replace(
    CHAT, error=dialect_openai.google_error, overflow=dialect_openai.google_overflow
)
CALLS = {
    "/v1/messages": ANTHROPIC,
    "/v1/responses": RESPONSES,
    "/v1/responses/compact": COMPACT,
    "/v1/chat/completions": CHAT,
    f"{GOOGLE_PATH}/chat/completions": GOOGLE,
}
