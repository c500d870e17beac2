"""The interface of model providers: the request, the events of a streamed answer, and
the `Provider` Protocol.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from acp_agent.conversation.messages import (
    AssistantPart,
    CompactedBlock,
    Message,
    StopReason,
    ToolDefinition,
    Usage,
)
from acp_agent.conversation.surroundings import Feature, Surroundings
from acp_agent.frozen import frozen
from acp_agent.llm.places import Parallel
from acp_agent.llm.rules import ReasoningRules

Cause: TypeAlias = Literal["surroundings", "conversation", "unknown"]
"""What has changed since a piece of reasoning was created: the system prompt or the
tools, or the messages before it. `unknown`: the agent does not know the conversation in
which it was created.
"""


@frozen
class ModelRequest:
    """One model call.

    :ivar model: the provider's own id for the model, without the provider's name.
    :ivar system: the system prompt.
    :ivar messages: a valid history: every call has its result, and the last message is
        not from the model.
    :ivar tools: the tools that the model currently has.
    :ivar max_output_tokens: the token limit for the answer.
    :ivar thought_level: the current level: `off`, `low`, `medium` or `high`; if empty,
        the provider decides.
    :ivar conversation_id: a stable id of the session, for providers that route their
        cache by it.
    :ivar declared: the tools and the thought level at the beginning of the session's
        requests. If they differ from the current ones, `messages` contains the
        amendments. None for a request outside a session.
    :ivar unbound: the number of messages at the beginning whose reasoning is sent only
        if it has a binding.
    :ivar refused: the features that the provider has refused in this session; they are
        not sent.
    :ivar takes: the values that the provider accepts for features that it otherwise
        refuses; see `FeatureRefused`.
    :ivar refused_images: SHA-256 digests of the images that the provider has refused;
        they are not sent.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int = 8192
    thought_level: str = ""
    conversation_id: str = ""
    declared: Surroundings | None = None
    unbound: int = 0
    refused: frozenset[Feature] = frozenset()
    takes: Mapping[Feature, str] = field(default_factory=dict[Feature, str])
    refused_images: frozenset[str] = frozenset()


@frozen
class TextDelta:
    """The next piece of the visible answer."""

    text: str


@frozen
class ThinkingDelta:
    """The next piece of the visible reasoning."""

    text: str


@frozen
class Retrying:
    """The call failed before any part of the answer was yielded, and will be retried.

    :ivar delay: seconds until the retry.
    """

    reason: str
    delay: float


@frozen
class AskedAgain:
    """The provider refused the request and is called again at once, without the part
    that it appears to have refused.

    :ivar usage: the usage of the provider's answer, if it did not answer as requested.
    """

    usage: Usage | None = None


@frozen
class Refused:
    """The provider refused a part of the request and is called again at once without
    it.

    :ivar takes: see `FeatureRefused`. If it is not empty, the part is sent again with
        one of these values.
    :ivar lasting: whether this holds for other conversations with the model too.
    """

    feature: Feature
    takes: str = ""
    lasting: bool = True


@frozen
class ImagesLeftOut:
    """The provider refused the request with its images and answers the request without
    them.

    :ivar first: index of the first message whose images were left out.
    :ivar takes_none: whether the provider said that the model accepts no images at all.
    """

    first: int
    takes_none: bool = False


@frozen
class ReasoningRefused:
    """The provider refused reasoning that the agent considered valid. The reasoning is
    never sent again.

    :ivar messages: ids of the answers that the reasoning belongs to.
    :ivar pieces: the names of the pieces of reasoning; see `messages.name_of`.
    :ivar said: the provider's error message, for the log.
    """

    messages: tuple[str, ...]
    pieces: tuple[str, ...]
    said: str


@frozen
class RefusedTools:
    """The provider refused tools of the request, by name or by position, and accepted
    the request without them.
    """

    tools: tuple[str, ...]


@frozen
class Remembered:
    """The parts that a request left out because the provider refused them earlier, in
    this or another session.

    :ivar refused: the features that were left out.
    :ivar takes: the values that were sent in place of others, by feature; see
        `FeatureRefused`.
    :ivar tools: the names of the tools that were left out.
    :ivar images: whether images were left out.
    """

    refused: frozenset[Feature] = frozenset()
    takes: Mapping[Feature, str] = field(default_factory=dict[Feature, str])
    tools: tuple[str, ...] = ()
    images: bool = False


@frozen
class Withheld:
    """Reasoning that a request left out.

    :ivar message_id: the id of the answer that the reasoning belongs to.
    """

    message_id: str
    cause: Cause


@frozen
class Answered:
    """The answer is complete; the last event of every stream that does not raise.

    Tool call ids in `parts` are the provider's own and may repeat. The turn assigns
    each call a unique id.

    :ivar compacted: the compacted conversation, if the request was for a compaction.
    :ivar withheld: reasoning of earlier answers that the request left out, since it was
        not valid in the request.
    :ivar explanation: the provider's reason for a refusal, as a sentence or a word;
        empty if the provider gives no reason.
    :ivar estimated: whether `usage` is an estimate, since the provider reported no
        usage or an impossible one.
    """

    parts: tuple[AssistantPart, ...]
    stop_reason: StopReason
    usage: Usage
    compacted: CompactedBlock | None = None
    withheld: tuple[Withheld, ...] = ()
    explanation: str = ""
    estimated: bool = False


Refusal: TypeAlias = Refused | ReasoningRefused | RefusedTools
"""A part of a request that the provider does not accept and that is not sent again."""
Adaptation: TypeAlias = Retrying | AskedAgain | Refusal | ImagesLeftOut | Remembered
"""A reason why a request is sent again, unchanged or in another form."""
ModelEvent: TypeAlias = TextDelta | ThinkingDelta | Adaptation | Answered


class Provider(Protocol):
    """A model provider."""

    @property
    def name(self) -> str:
        """Return the name before the slash in `provider/model`."""
        ...

    @property
    def parallel(self) -> Parallel:
        """Return how many requests the server answers at once, if known."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the model's answer as they arrive.

        Cancelling the iteration or closing the generator (see `contextlib.aclosing`)
        ends the call at once.

        :raises ModelAuthError: if there is no key, or the key is refused.
        :raises ConfigError: if the configuration or the environment describes a
            connection that cannot work.
        :raises ContextOverflowError: if the request is larger than the window.
        :raises ModelRequestError: if the provider refused the request for another
            reason.
        :raises ModelUnavailableError: if the provider was unreachable, overloaded or
            rate limited in all attempts.
        :raises ModelStreamError: if the connection was lost after part of the answer
            had been yielded.
        """
        ...

    def context_window(self, model: str) -> int | None:
        """Return the size of the model's context window in tokens, as last learned by
        `learn_window`; None if unknown.

        :raises ConfigError: if a script is missing or invalid.
        """
        ...

    def rules(self, model: str) -> ReasoningRules:
        """Return how the provider treats reasoning from this model's earlier answers."""
        ...

    def reasoning_sent(self, request: ModelRequest) -> frozenset[str]:
        """Return the ids of the answers whose reasoning a request would include."""
        ...

    def is_window_settled(self, model: str) -> bool:
        """Return whether the model's window is final, so that asking again is
        pointless.
        """
        ...

    async def learn_window(self, model: str, *, lost: bool = False) -> None:
        """Ask the provider for the model's window, unless an earlier answer is final.

        Takes at most ten seconds. A `ModelError` is ignored, and the next call asks
        again.

        :param lost: whether part of a request appears to have been lost. If so, and a
            server on this machine or network does not report its window at the usual
            path, the paths of Ollama and LM Studio are tried as well.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class NativeCompaction(Protocol):
    """A provider that can compact a conversation itself; check with `isinstance`."""

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Retrying | AskedAgain | Refusal], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        """Summarise all messages of a request. The caller leaves out the messages that
        should stay verbatim.

        The system prompt, the tools and the thought level should be the same as in the
        session's other requests, so that the cached prefix is used. The verbatim
        messages keep their reasoning, if the model's rules say so, provided that
        nothing is inserted between the block and these messages. The last message may
        be from the model, but every call must have its result.

        :param instructions: the summary prompt; empty for the provider's own. OpenAI's
            API does not support instructions, so they are ignored there.
        :param note: called with each retry and each refusal. If it raises an exception,
            the compaction ends.
        :returns: the block for the first message of the new context, and the usage of
            the compaction itself. The block's `text` is empty if the provider encrypts
            the summary.
        :raises ContextOverflowError: if the conversation, alone or with the summary
            prompt, does not fit the window.
        :raises ModelRequestError: if the model does not support compaction, or returned
            no summary.
        :raises ModelError: like `Provider.stream`; transient failures are retried.
        """
        ...
