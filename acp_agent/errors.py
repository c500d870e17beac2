"""The exceptions that this project raises on purpose.

    AgentError                     a sentence for the person at the editor
    ├── ConfigError                a setting is invalid; names file, line and key
    ├── RecipeError                a recipe is invalid; names file and line
    ├── InvalidParamsError         a request's parameters are invalid           (-32602)
    │   └── PromptTooLargeError    a prompt that is neither sent nor stored
    ├── QueueFullError             too many prompts wait in a session           (-32600)
    ├── SessionNotFoundError       no such session                              (-32002)
    ├── SessionClosedError         the session is stored, but not open          (-32002)
    ├── StorageError               the session store cannot do an operation
    │   └── SessionConflictError   another process appended to the log meanwhile
    ├── CompactionError            no summary was accepted; history is unchanged
    │   ├── NoRoomError            the messages that must stay exceed the window
    │   ├── SummaryOverflowError   the summary request itself does not fit the window
    │   └── CompactionVetoedError  a hook refused the compaction
    ├── HookError                  a hook failed; names it
    ├── ToolError                  goes back to the model as a failed tool call
    │   └── CallRefusedError       not allowed by the mode, a hook or a recipe
    └── ModelError                 the model's answer did not arrive
        ├── ModelAuthError         no key, or a key the provider refused        (-32000)
        ├── ModelUnavailableError  the provider cannot be reached or is overloaded
        ├── ModelRequestError      the provider refused the request itself
        │   ├── RequestRefusedError    because of its content
        │   └── ContextOverflowError   because it is larger than the window, or than another limit
        └── ModelStreamError       the connection was lost after text had been shown

Each message says what happened, where, and what to do next. It is shown unchanged,
except that terminal control characters are replaced, both as a JSON-RPC error's
`message` and in its `data.details`.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from acp_agent.visible import harmless, on_one_line

OverflowLimit: TypeAlias = Literal["tokens", "images", "bytes"]
"""The limit of the provider that a request exceeded."""
Refuser: TypeAlias = Literal["mode", "hook", "recipe"]
"""What can refuse a tool call without asking the user."""


# Messages may quote an untrusted file, and a terminal or an editor may execute control
# sequences in them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class AgentError(Exception):
    """Base class of all errors. `str(error)` is a sentence for the user.

    :ivar code: the JSON-RPC error code for the editor.
    """

    code: int = -32603

    def __str__(self) -> str:
        return harmless(super().__str__())


class _LocatedError(AgentError):
    """A file is invalid.

    :param message: what is wrong, and what would be right.
    :param source: the file or environment variable.
    :param line: line in the file, from 1, if known.
    :param key: dotted path of the key, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        self.source = source
        self.line = line
        self.key = key
        super().__init__(located(message, source=source, line=line, key=key))


class ConfigError(_LocatedError):
    """A configuration file or variable is unreadable or invalid."""


class RecipeError(_LocatedError):
    """A recipe cannot be loaded or rendered."""


class InvalidParamsError(AgentError):
    """A request is well-formed JSON-RPC, but its parameters are invalid."""

    code = -32602


class PromptTooLargeError(InvalidParamsError):
    """A prompt is larger than any model accepts. It is neither sent nor stored."""


class QueueFullError(AgentError):
    """A session accepts no more prompts until one is answered. The waiting prompts are
    not affected.
    """

    code = -32600


class SessionNotFoundError(AgentError):
    """No session has this ID, or it was deleted."""

    code = -32002

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"There is no session {session_id!r}. It may have been deleted; start a new one, or pick one from the list."
        )


class SessionClosedError(AgentError):
    """The session exists, but it must be opened first."""

    code = -32002

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"The session {session_id!r} is closed. Open it with session/resume first."
        )


class StorageError(AgentError):
    """The session store cannot do an operation. The stored data is not affected."""


class SessionConflictError(StorageError):
    """An append expected a different head of the log, since another process has written
    to this session.
    """


class CompactionError(AgentError):
    """A compaction, or one of its strategies, failed. The history is unchanged.

    :param reason: what happened. If a later strategy succeeds, the receipt repeats the
        reason, so it must not mention the history.
    :param advice: the consequence for the user: that the history is unchanged, and what
        to do.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        self.reason = sentence(reason)
        super().__init__(f"{self.reason} {advice}" if advice else reason)


class NoRoomError(CompactionError):
    """The part of a conversation that must be kept does not fit the window.

    :param least: minimum number of tokens that this part takes.
    """

    def __init__(self, reason: str, advice: str = "", *, least: int) -> None:
        self.least = least
        super().__init__(reason, advice)


class SummaryOverflowError(CompactionError):
    """The request for a summary does not fit the model's window.

    :param refusal: the provider's error; None if the request was not sent.
    """

    def __init__(
        self, reason: str, advice: str = "", refusal: ContextOverflowError | None = None
    ) -> None:
        self.refusal = refusal
        super().__init__(reason, advice)


class CompactionVetoedError(CompactionError):
    """A hook vetoed a compaction, which is not a failure of the compaction."""


class HookError(AgentError):
    """A hook cannot be used or failed. The message says what is wrong with it."""


class ToolError(AgentError):
    """A tool call failed in a way that the model should read and react to."""


class CallRefusedError(ToolError):
    """A tool call was not allowed, and the user was not asked.

    :ivar by: what refused it.
    """

    def __init__(self, message: str, *, by: Refuser) -> None:
        super().__init__(message)
        self.by: Refuser = by


class SandboxError(ToolError):
    """A command was not run because the user requires a sandbox and there is none."""


class ModelError(AgentError):
    """A model request failed.

    :param message: sentence for the user.
    :param partial: whether some of the answer had already been shown.
    :ivar may_be_overflow: whether the request may have been too long, because the
        provider gave no reason or one that the agent does not know.
    """

    def __init__(self, message: str, *, partial: bool = False) -> None:
        self.partial = partial
        self.may_be_overflow = False
        super().__init__(message)


class ModelAuthError(ModelError):
    """No key is set, or the provider refused it. This is not retried."""

    code = -32000


class ModelUnavailableError(ModelError):
    """The provider is unreachable, overloaded or rate limited, and all retries failed."""


class ModelRequestError(ModelError):
    """The provider refused the request. Sending it again would not help."""


class CompactionRefusedError(ModelRequestError):
    """The provider refused a request to compact the conversation itself."""


class RequestRefusedError(ModelRequestError):
    """The provider refused the content of the request. A request with different content
    may be answered.
    """


class ContextOverflowError(ModelRequestError):
    """The request exceeds the model's context window, or another limit that a
    compaction may help to meet.

    :param message: sentence for the user.
    :param partial: whether some of the answer had already been shown.
    :param limit: the limit that was exceeded. If it is not tokens, every request with
        the same images is also refused.
    :param maximum: the provider's maximum in tokens, if its error states it.
    :param prompt: the tokens that the provider counted before the answer, if its error
        states them.
    """

    def __init__(
        self,
        message: str,
        *,
        partial: bool = False,
        limit: OverflowLimit = "tokens",
        maximum: int | None = None,
        prompt: int | None = None,
    ) -> None:
        self.limit: OverflowLimit = limit
        self.maximum = maximum
        self.prompt = prompt
        super().__init__(message, partial=partial)


class ModelStreamError(ModelError):
    """The stream was interrupted after part of the answer had been shown."""


def sentence(error: Exception | str) -> str:
    """Return an error's text with final punctuation, so that another sentence may
    follow. Texts from a provider or a hook may lack it.
    """
    text = str(error)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def reason_of(error: AgentError) -> str:
    """Return an error's text for the receipt of a compaction in which a later step
    succeeded. It does not include the statement that the history is unchanged, which is
    no longer true.
    """
    if isinstance(error, CompactionError):
        return error.reason
    cause = error.__cause__
    return str(cause if isinstance(cause, type(error)) else error)


def located(
    message: str,
    *,
    source: str | None = None,
    line: int | None = None,
    key: str | None = None,
) -> str:
    """Prefix a message with its place, in the form that editors make clickable
    (`file:line: key: message`). Control characters, which may come from a file, are
    replaced.
    """
    source = None if source is None else on_one_line(source)
    place = (
        f"{source}:{line}"
        if source and line
        else source or (f"line {line}" if line else None)
    )
    return _CONTROL.sub(
        "\ufffd", ": ".join(part for part in (place, key, message) if part)
    )
