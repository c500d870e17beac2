"""The interface of model providers: the request, the events of a streamed answer, and the `Provider` Protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, TypeAlias, runtime_checkable

from acp_agent.conversation.messages import (
    AssistantPart,
    CompactedBlock,
    JsonObject,
    Message,
    StopReason,
    Usage,
)
from acp_agent.frozen import frozen


@frozen
class ToolDefinition:
    """A tool as the model sees it; `input_schema` is a JSON Schema of type object."""

    name: str
    description: str
    input_schema: JsonObject


@frozen
class ModelRequest:
    """One model call.

    :ivar model: the provider's own id of the model, without the provider's name.
    :ivar system: the system prompt.
    :ivar messages: legal history: every call has its result, the last message is not the model's.
    :ivar tools: sent in this order, always the same in a session, so that the provider's prompt cache is hit.
    :ivar max_output_tokens: limit of the answer.
    :ivar thought_level: `off`, `low`, `medium` or `high`; the empty string leaves it to the provider.
    :ivar conversation_id: stable id of the session, for providers that route their cache by it.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int = 8192
    thought_level: str = ""
    conversation_id: str = ""


@frozen
class TextDelta:
    """More of the visible answer."""

    text: str


@frozen
class ThinkingDelta:
    """More of the visible reasoning."""

    text: str


@frozen
class Retrying:
    """The call failed before any part of the answer was yielded, and is retried.

    :ivar delay: seconds until then; 0 where the request is sent at once without the part that the provider refused.
    """

    reason: str
    delay: float


@frozen
class Answered:
    """The answer is complete; the last event of every stream that does not raise.

    Tool call ids in `parts` are the provider's own, which may repeat; the turn gives each call an id of ours.

    :ivar compacted: the compacted conversation, if the request was for a compaction.
    """

    parts: tuple[AssistantPart, ...]
    stop_reason: StopReason
    usage: Usage
    compacted: CompactedBlock | None = None


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | Retrying | Answered


class Provider(Protocol):
    """A model provider."""

    @property
    def name(self) -> str:
        """Return the name before the slash in `provider/model`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the model's answer as they arrive.

        Cancelling the iteration ends the call at once, and so does closing the generator (see `contextlib.aclosing`).

        :raises ModelAuthError: no key, or a refused one.
        :raises ConfigError: the configuration or the environment describes a connection that cannot be made.
        :raises ContextOverflowError: the request is larger than the window.
        :raises ModelRequestError: the provider refused the request for another reason.
        :raises ModelUnavailableError: unreachable, overloaded or rate limited over all retries.
        :raises ModelStreamError: the connection was lost after part of the answer had been yielded.
        """
        ...

    def context_window(self, model: str) -> int | None:
        """Return the tokens of the model's window as `learn_window` last learned it; None if it is unknown.

        :raises ConfigError: a script is missing or wrong.
        """
        ...

    async def learn_window(self, model: str) -> None:
        """Ask the provider for the model's window, unless an earlier answer is final; takes ten seconds at most.
        A `ModelError` is ignored, and the next call asks again."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class NativeCompaction(Protocol):
    """A provider that can compact a conversation itself; check with `isinstance`."""

    @property
    def keeps_user_messages(self) -> bool:
        """Return whether a compaction, and each further one, keeps all messages of the user word for word."""
        ...

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> tuple[CompactedBlock, Usage]:
        """Summarise all messages of a request; the caller leaves out those that are to stay verbatim.

        System prompt, tools and thought level should be those of the session's other requests, so that the cached
        prefix is used and the thinking in the verbatim messages remains valid. The last message may be the model's, but
        every call must have its result.

        :param instructions: the prompt for the summary; empty for the provider's own. OpenAI's API takes none, and they
            are ignored there.
        :param again: called before each retry; an exception that it raises ends the compaction.
        :returns: the block for the first message of the new context, and the tokens of the compaction itself. The
            block's `text` is empty where the provider encrypts the summary; the caller has to add one then.
        :raises ContextOverflowError: the conversation, or with it the prompt for the summary, does not fit the window.
        :raises ModelRequestError: the model does not support compaction, or returned no summary.
        :raises ModelError: as `Provider.stream` does; transient failures are retried.
        """
        ...
