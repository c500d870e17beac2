"""Why a model call failed, told from what the provider said, and the sentence for the user.

Owns which failures pass by themselves, and what the user reads. The words in which providers say that a request is too
large are `overflow`'s matter. Pure: knows neither an SDK nor a clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

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
from acp_agent.frozen import frozen
from acp_agent.llm.overflow import exceeds_minute, limit_in, maximum_in, prompt_in
from acp_agent.llm.scrubbing import scrub

FailureKind: TypeAlias = Literal[
    "status", "stream", "no-stream", "dropped", "unanswered", "connect", "untrusted", "silent", "unsendable"
]
"""`status`: an HTTP error. `stream`: an error event in a stream. `no-stream`: a good status, but another kind of body.
`dropped`: the connection or the stream ended too early. `unanswered`: it ended before a byte of the answer. `connect`:
no connection was made. `untrusted`: the server's certificate was refused. `silent`: nothing came for longer than the
read time-out. `unsendable`: what was to be sent is no HTTP."""

Verdict: TypeAlias = Literal["auth", "overflow", "refused", "unreachable", "again"]


@frozen
class Endpoint:
    """Where a provider is, for its error messages.

    :ivar name: the provider's.
    :ivar host: host and port of its API.
    :ivar key_hint: what to check when the key is refused, such as "`ANTHROPIC_API_KEY`".
    :ivar secrets: texts that no message may contain; not shown by `repr`.
    """

    name: str
    host: str
    key_hint: str
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self.host!r})"


class CallFailed(Exception):  # noqa: N818 - not for users: `sentence` makes an error of it
    """One attempt failed.

    :param kind: how.
    :param message: what the provider or the network said.
    :param status: HTTP status, or the one that an error event stands for; None where there is none.
    :param code: the provider's own word for it.
    :param headers: of the answer.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.kind: FailureKind = kind
        self.message = message
        self.status = status
        self.code = code
        self.headers: Mapping[str, str] = headers or {}
        super().__init__(message)


_IMAGE_REFUSALS = (  # `ResponseError` of the openai SDK, as those below
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "invalid_image_mode",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "image_file_too_large",
    "image_file_not_found",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
)
_REFUSALS = (
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
    "content_policy_violation",
    *_IMAGE_REFUSALS,
)
_OF_IMAGE = re.compile(r"(?<![a-z])images?(?![a-z])|\bmulti-?modal\b", re.IGNORECASE)
"""In what the provider says, the names of its API's blocks among them (`image_url`, `input_image`). It may also quote a
prompt there; then a request without images fails again."""
_IMAGE_STATUSES = (400, 404, 415, 422)
"""404: of a router that knows nobody who takes images for the model (OpenRouter)."""

STATUS_OF_CODE: dict[str, int] = {
    **dict.fromkeys(_REFUSALS, 400),
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "server_is_overloaded": 503,
    "service_unavailable": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "vector_store_timeout": 504,
    "overloaded_error": 529,
    "overloaded": 529,
}
"""What the word in an error event would have been as an HTTP status."""

_TOKEN_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded"})

_KEY_CODES = frozenset({"invalid_api_key", "authentication_error", "API_KEY_INVALID", "UNAUTHENTICATED"})
_KEY_REFUSED = re.compile(
    r"(?:no|(?:incorrect|invalid|missing|expired)(?: or (?:incorrect|invalid|missing|expired))?)"
    r" (?:api[ -]?key|authorization header)(?=[.,:;]| (?:was |is |has been )?(?:provided|supplied|given|found)\b|$)"
    r"|api[ -]key (?:is |was |has )?(?:not (?:valid|found|provided)|invalid|incorrect|expired|missing)\b",
    re.IGNORECASE,
)

_PASSING_STATUSES = frozenset({408, 409, 429})
_MAX_DETAIL = 600


def verdict(failure: CallFailed) -> Verdict:
    """What follows from a failure."""
    if failure.kind == "connect":
        return "unreachable"
    if failure.kind in ("dropped", "unanswered"):
        return "again"
    if failure.kind in ("untrusted", "silent", "unsendable", "no-stream"):
        return "refused"
    if overflow_limit(failure) is not None:
        return "overflow"
    status = failure.status
    if _refuses_key(failure):
        return "auth"
    if failure.code in ("insufficient_quota", "billing_error") or exceeds_minute(failure.message):
        return "refused"
    return "again" if status is None or status in _PASSING_STATUSES or status >= 500 else "refused"


def _refuses_key(failure: CallFailed) -> bool:
    """Whether the key was refused; Gemini and xAI do that with the status of a request that is wrong in itself.

    There the code tells, or how the message begins: further in, it may quote what was prompted.
    """
    if failure.status != 400:
        return failure.status in (401, 403)
    return failure.code in _KEY_CODES or _KEY_REFUSED.match(failure.message) is not None


def unexplained(failure: CallFailed) -> bool:
    """Whether it came in a stream with a word that nobody knows, so that it may pass or not."""
    return failure.kind == "stream" and failure.status is None


def lasting(failure: CallFailed) -> bool:
    """Whether the same question would be refused again, as by a gateway that does not know it."""
    return failure.kind == "status" and verdict(failure) == "refused"


def overflow_limit(failure: CallFailed) -> OverflowLimit | None:
    """What the request had too much of; None where the failure is another one."""
    status, message = failure.status, failure.message
    if failure.kind not in ("status", "stream"):
        return None
    if failure.code in _TOKEN_CODES:
        return "tokens"
    if status not in (400, 413, 422, 500, None) or exceeds_minute(message):
        return None
    if limit := limit_in(message):
        return limit
    return "bytes" if status == 413 or failure.code == "request_too_large" else None


def reason(failure: CallFailed) -> str:
    """The failure in a few words, for "trying again because …"."""
    match failure.kind:
        case "connect":
            return "it cannot be reached"
        case "dropped":
            return "the connection was lost"
        case "unanswered":
            return "it closed the connection without a word"
        case "untrusted":
            return "its certificate is not trusted"
        case "silent":
            return "it fell silent"
        case _:
            if failure.status == 429:
                return "the rate limit is reached"
            if failure.status in (503, 529):
                return "it is overloaded"
            return f"it answered with status {failure.status}" if failure.status else "it reported an error"


def logged(failure: CallFailed, secrets: tuple[str, ...]) -> str:
    """The failure in a line for the log.

    What the provider said is left out, since it may quote the prompt; what the network said is not.

    :param secrets: texts that must not be in it.
    """
    identifier = next((failure.headers[name] for name in _REQUEST_IDS if name in failure.headers), "")
    words = [
        failure.kind if failure.status is None else f"{failure.kind} {failure.status}",
        f"code {failure.code}" if _WORD.fullmatch(failure.code) else "",
        f"request {identifier}" if _WORD.fullmatch(identifier) else "",
        failure.message if failure.kind in _NETWORK else "",
    ]
    return " ".join(scrub(", ".join(word for word in words if word), secrets).split())


_REQUEST_IDS = ("request-id", "x-request-id")
_WORD = re.compile(r"[\w.:+/=-]{1,128}", re.ASCII)
_NETWORK: frozenset[FailureKind] = frozenset({"dropped", "unanswered", "connect", "untrusted", "silent"})


def error_of(failure: CallFailed, endpoint: Endpoint, *, shown: bool, waited: float | None = None) -> ModelError:
    """The exception for the user, once nothing more is tried.

    :param shown: whether part of the answer was already yielded.
    :param waited: seconds that the provider wants us to wait, where that is longer than we do.
    """
    kind = verdict(failure)
    detail = _detail(failure, endpoint)
    who = f"{endpoint.name} ({endpoint.host})"
    if kind == "auth":
        return ModelAuthError(
            f"{who} refused the key (status {failure.status}): check {endpoint.key_hint}.{detail}", partial=shown
        )
    if kind == "overflow":
        limit = overflow_limit(failure) or "tokens"
        return ContextOverflowError(
            f"The conversation {_TOO_MUCH[limit]}, says {who}.{detail}",
            partial=shown,
            limit=limit,
            maximum=maximum_in(failure.message) if limit == "tokens" else None,
            prompt=prompt_in(failure.message) if limit == "tokens" else None,
        )
    if shown:
        return ModelStreamError(
            f"The answer broke off, because {reason(failure)} ({who})."
            f" The part that arrived is kept; prompt again to go on.{detail}",
            partial=True,
        )
    if kind == "unreachable":
        return ModelUnavailableError(
            f"{who} cannot be reached. Check the network, the proxy settings and the provider's base URL,"
            f" and that the server is running.{detail}"
        )
    if failure.kind == "untrusted":
        return ModelUnavailableError(
            f"{who} cannot be reached: its certificate is not trusted. If it is one of your own, or a proxy's that"
            " stands between, set SSL_CERT_FILE to a PEM file of the certificates to trust, and start the agent again."
            f"{detail}"
        )
    if failure.kind == "silent":
        return ModelUnavailableError(
            f"{who} accepted the request and then sent nothing. Prompt again, or choose another model.{detail}"
        )
    if failure.kind == "unsendable":
        return ModelRequestError(
            f"The request to {who} cannot be sent: check {endpoint.key_hint} and the provider's headers for odd"
            f" characters.{detail}"
        )
    if failure.kind == "no-stream":
        return ModelRequestError(
            f"{who} answered, but not with the stream of events that it was asked for. Check the provider's kind and"
            f" base URL, and whether a proxy or a login page answers in its place.{detail}"
        )
    if exceeds_minute(failure.message):
        return ModelRequestError(
            f"{who} refused the request: with the answer that it asks for, it is larger than what your account may use"
            " in a minute, so waiting does not help. Set `max_output_tokens` or `context_window` in config.yaml to less"
            f" than that, or choose another model.{detail}"
        )
    if kind == "refused":
        status = f" (status {failure.status})" if failure.status else ""
        of_image = failure.code in _IMAGE_REFUSALS or (
            failure.status in _IMAGE_STATUSES and _OF_IMAGE.search(failure.message) is not None
        )
        return (ImageRefusedError if of_image else ModelRequestError)(f"{who} refused the request{status}.{detail}")
    if waited is not None:
        return ModelUnavailableError(
            f"{who} does not answer now, because {reason(failure)}; it asks to wait {waited:.0f} seconds."
            f" Prompt again after that, or choose another model.{detail}"
        )
    return ModelUnavailableError(
        f"{who} did not answer, because {reason(failure)}, also when tried again."
        f" Prompt again in a while, or choose another model.{detail}"
    )


_TOO_MUCH: dict[OverflowLimit, str] = {
    "tokens": "is larger than the model's context window",
    "images": "holds more or larger images than one request may",
    "bytes": "holds more data than one request may, most of it likely images",
}


def _detail(failure: CallFailed, endpoint: Endpoint) -> str:
    text = " ".join(scrub(failure.message, endpoint.secrets).split())
    if not text:
        return ""
    return f" It said: {text if len(text) <= _MAX_DETAIL else text[:_MAX_DETAIL] + ' …'}"
