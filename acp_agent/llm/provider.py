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
    :ivar max_output_tokens: upper bound of the answer.
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
    """More of the reasoning that the provider lets us see."""

    text: str


@frozen
class Retrying:
    """The call failed before anything was shown and is tried again.

    :ivar delay: seconds until then; 0 where the request is sent at once without what the provider refused in it.
    """

    reason: str
    delay: float


@frozen
class Answered:
    """The answer is complete; always the last event of a stream that did not raise.

    Tool call ids in `parts` are the provider's own, which may repeat; the turn gives each call an id of ours.

    :ivar compacted: the conversation as the provider compacted it, where it was asked to.
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
        """The word before the slash in `provider/model`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model and yield its answer as it comes; cancelling the iteration ends the call at once, and so does
        closing the generator (see `contextlib.aclosing`).

        :raises ModelAuthError: no key, or a refused one.
        :raises ConfigError: the configuration or the environment describes no connection that can be made.
        :raises ContextOverflowError: the request is larger than the window.
        :raises ModelRequestError: the provider refused the request for another reason.
        :raises ModelUnavailableError: unreachable, overloaded or rate limited over all retries.
        :raises ModelStreamError: the connection was lost after part of the answer had been yielded.
        """
        ...

    def context_window(self, model: str) -> int | None:
        """Return the tokens of the model's window, as far as the provider has said by now; see `learn_window`.

        :raises ConfigError: a script is missing or wrong.
        """
        ...

    async def learn_window(self, model: str) -> None:
        """Ask for the model's window, unless what was said before holds for good. What cannot be asked now can be asked
        again. Takes ten seconds at most, and never raises a `ModelError`."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class NativeCompaction(Protocol):
    """A provider that can compact a conversation itself; ask with `isinstance`."""

    @property
    def keeps_user_messages(self) -> bool:
        """Whether all the user's messages stand word for word in what comes of it, and in what comes of that."""
        ...

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> tuple[CompactedBlock, Usage]:
        """Have the messages of a request summarised; all of them, so that what is to stay verbatim is left out.

        System prompt, tools and thought level should be those of the session's other requests: the cached prefix is
        used then, and the thinking in what stays verbatim remains valid. The last message may be the model's, but no
        call may lack its result.

        :param instructions: the prompt for the summary in place of the provider's own; empty for the provider's own.
            OpenAI takes none, so that they are passed over there.
        :param again: called before the provider is asked once more; what it raises ends the compaction.
        :returns: the block for the first message of the new context, whose `text` is empty where the provider keeps the
            summary encrypted, so that the caller has to put one there; and the tokens of the compaction itself.
        :raises ContextOverflowError: the conversation, or with it the prompt for the summary, does not fit the window.
        :raises ModelRequestError: the model cannot be compacted with, or no summary came of it.
        :raises ModelError: as `Provider.stream` does; failures that pass are tried again.
        """
        ...
