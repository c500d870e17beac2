"""The exceptions that this project raises on purpose.

    AgentError                     a sentence for the person at the editor
    ├── ConfigError                a setting is wrong; names file, line and key
    ├── RecipeError                a recipe is wrong; names file and line
    ├── InvalidParamsError         a request's parameters make no sense         (-32602)
    │   └── PromptTooLargeError    a prompt that is neither sent nor stored
    ├── QueueFullError             too many prompts wait in a session           (-32600)
    ├── SessionNotFoundError       no such session                              (-32002)
    ├── SessionClosedError         the session is stored, but not open          (-32002)
    ├── StorageError               the session store cannot do what was asked
    │   └── SessionConflictError   another process appended to the log meanwhile
    ├── CompactionError            no summary was accepted; history is unchanged
    │   ├── NoRoomError            what has to stay is too much for the window
    │   ├── SummaryOverflowError   the summary request itself does not fit the window
    │   └── CompactionVetoedError  a hook wants none, or none now
    ├── HookError                  a hook failed; names it
    ├── ToolError                  goes back to the model as a failed tool call
    └── ModelError                 the model's answer did not arrive
        ├── ModelAuthError         no key, or a key the provider refused        (-32000)
        ├── ModelUnavailableError  the provider cannot be reached or is overloaded
        ├── ModelRequestError      the provider refused the request itself
        │   ├── RequestRefusedError    because of what it says
        │   └── ContextOverflowError   because it is larger than the window, or than another limit
        └── ModelStreamError       the connection was lost after text had been shown

The text of every one of them says what happened, where, and what to do next: it is shown as it stands, both
as a JSON-RPC error's `message` and in its `data.details`, but without what a terminal obeys.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from acp_agent.visible import harmless

OverflowLimit: TypeAlias = Literal["tokens", "images", "bytes"]
"""What a request had too many of for the provider."""


# A file may be untrusted, and a terminal or an editor may execute control sequences in it.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class AgentError(Exception):
    """Base of all; `str(error)` is a sentence for the user.

    :ivar code: the JSON-RPC error code that an editor is answered with.
    """

    code: int = -32603

    def __str__(self) -> str:
        return harmless(super().__str__())


class _LocatedError(AgentError):
    """A file says something wrong.

    :param message: what is wrong, and what would be right.
    :param source: the file, or an environment variable.
    :param line: line in the file, from 1, where known.
    :param key: dotted path of the key, where known.
    """

    def __init__(
        self, message: str, *, source: str | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        self.source = source
        self.line = line
        self.key = key
        super().__init__(located(message, source=source, line=line, key=key))


class ConfigError(_LocatedError):
    """A configuration file or variable is unreadable or says something impossible."""


class RecipeError(_LocatedError):
    """A recipe cannot be loaded or rendered."""


class InvalidParamsError(AgentError):
    """A request is well-formed JSON-RPC, but what it asks for is impossible."""

    code = -32602


class PromptTooLargeError(InvalidParamsError):
    """A prompt is larger than any model reads; it is neither sent nor stored."""


class QueueFullError(AgentError):
    """A session takes no more prompts before one is answered; those that wait are unharmed."""

    code = -32600


class SessionNotFoundError(AgentError):
    """No session has this id, or it was deleted."""

    code = -32002

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"There is no session {session_id!r}. It may have been deleted; start a new one or pick one from the list."
        )


class SessionClosedError(AgentError):
    """The session is there, but it has to be opened before it can do anything."""

    code = -32002

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"The session {session_id!r} is closed. Open it with session/resume first.")


class StorageError(AgentError):
    """The session store cannot do what was asked; what it holds is unharmed."""


class SessionConflictError(StorageError):
    """An append expected another head of the log: another process wrote to this session."""


class CompactionError(AgentError):
    """A compaction, or one strategy of it, failed; the history is unchanged.

    :param reason: what happened. If a later strategy succeeds, the receipt repeats it, so it says nothing of the
        history.
    :param advice: what this means for the user: that the history is unchanged, and what to do.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        self.reason = sentence(reason)
        super().__init__(f"{self.reason} {advice}" if advice else reason)


class NoRoomError(CompactionError):
    """What has to stay in a conversation is more than its window holds.

    :param least: tokens that it takes at the least.
    """

    def __init__(self, reason: str, advice: str = "", *, least: int) -> None:
        self.least = least
        super().__init__(reason, advice)


class SummaryOverflowError(CompactionError):
    """The request for a summary does not fit the model's window.

    :param refusal: what the provider said; None where the request was not sent.
    """

    def __init__(self, reason: str, advice: str = "", refusal: ContextOverflowError | None = None) -> None:
        self.refusal = refusal
        super().__init__(reason, advice)


class CompactionVetoedError(CompactionError):
    """A hook vetoed a compaction. Not a failure of the compaction."""


class HookError(AgentError):
    """A hook cannot be used, or did not do what it should; says what is wrong with it."""


class ToolError(AgentError):
    """A tool call failed in a way that the model should read and react to."""


class SandboxError(ToolError):
    """A command does not run, since the user requires a sandbox and there is none."""


class ModelError(AgentError):
    """A model call failed.

    :param message: sentence for the user.
    :param partial: whether some of the answer had already been shown.
    """

    def __init__(self, message: str, *, partial: bool = False) -> None:
        self.partial = partial
        super().__init__(message)


class ModelAuthError(ModelError):
    """No key is set, or the provider refused it. Not retried."""

    code = -32000


class ModelUnavailableError(ModelError):
    """The provider is unreachable, overloaded or rate limited, and stayed so over all retries."""


class ModelRequestError(ModelError):
    """The provider refused the request; sending it again would not help."""


class CompactionRefusedError(ModelRequestError):
    """The provider refused a request to compact the conversation itself."""


class RequestRefusedError(ModelRequestError):
    """The provider refused what the request says; a request that says something else may be answered."""


class ContextOverflowError(ModelRequestError):
    """The request does not fit the model's context window, or another limit that a compaction can bring it under.

    :param message: sentence for the user.
    :param partial: whether some of the answer had already been shown.
    :param limit: what there was too much of. Where it is not tokens, a request with the same images in it is refused
        as well, whatever it asks for.
    :param maximum: tokens that the provider takes, where it says so.
    :param prompt: tokens that it counted before the answer, where it says so.
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
    """The stream broke off after part of the answer had been shown."""


def sentence(error: Exception | str) -> str:
    """Return an error's text so that another sentence may follow: a provider's or a hook's may end without a stop."""
    text = str(error)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def reason_of(error: AgentError) -> str:
    """Return what happened, for the receipt of a compaction that a later step has done: without what an error says of
    the history, which has changed since."""
    if isinstance(error, CompactionError):
        return error.reason
    cause = error.__cause__
    return str(cause if isinstance(cause, type(error)) else error)


def located(message: str, *, source: str | None = None, line: int | None = None, key: str | None = None) -> str:
    """Put the place in front of a message, in the form that editors make clickable (`file:line: key: message`); without
    the control characters that a file may bring into it."""
    place = f"{source}:{line}" if source and line else source or (f"line {line}" if line else None)
    return _CONTROL.sub("\ufffd", ": ".join(part for part in (place, key, message) if part))
