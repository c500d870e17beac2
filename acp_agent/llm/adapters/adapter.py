"""`Adapter`, the interface of `ModelClient` to one API: encodes requests as HTTP calls, and folds the answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import ClassVar, Literal, TypeAlias

from acp_agent.conversation.messages import CompactedBlock, JsonObject, UserMessage, UserPart
from acp_agent.frozen import frozen
from acp_agent.llm.errors import CallFailed
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

Omission: TypeAlias = Literal["thinking", "summaries", "compaction"]
"""What of a request can be left out when the API refuses it: thinking of earlier answers, the wish for readable
summaries of it, and the API's own form of a compacted conversation, which is sent as text then."""
Omissions: TypeAlias = frozenset[Omission]
NOTHING: Omissions = frozenset()


class Fold:
    """Collects the events of one answer.

    :ivar complete: whether the event that ends every whole answer was seen.
    :cvar ends_with_done: whether more may come between that event and `[DONE]`.
    """

    ends_with_done: ClassVar[bool] = False
    complete = False

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        """Take one event and return what can be shown of it.

        :raises CallFailed: it is an error.
        :raises ArgumentsTooLongError: a call's arguments are too long.
        """
        raise NotImplementedError

    def answer(self) -> Answered:
        """Return the answer, once `complete` or once a call's arguments were too long."""
        raise NotImplementedError


@frozen
class Call:
    """One HTTP request, and what folds its answer.

    :ivar streams: whether the answer is a stream of events; else it is one JSON object.
    """

    path: str
    body: JsonObject
    fold: Fold
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    streams: bool = True


class Adapter:
    """One API. Its methods take what is known of the model, and the parts that the API has refused.

    :cvar sdk: the SDK that sends its calls.
    :cvar refusals: by what can be left out of a request, words of the errors that refuse it.
    :cvar native_key: the member that marks a conversation which the API itself has compacted; empty where it cannot.
    :cvar keeps_user_messages: see `NativeCompaction`.
    :ivar models_path: where the models are listed, which needs a key and costs nothing.
    :param name: the provider's; what it made itself is sent back to it alone.
    """

    sdk: ClassVar[Literal["anthropic", "openai"]] = "openai"
    refusals: ClassVar[tuple[tuple[Omission, tuple[str, ...]], ...]] = ()
    native_key: ClassVar[str] = ""
    keeps_user_messages: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.models_path = "/models"

    def call(self, request: ModelRequest, profile: ModelProfile, without: Omissions = NOTHING) -> Call:
        """Return the call that asks the model."""
        raise NotImplementedError

    def compaction(self, request: ModelRequest, profile: ModelProfile, without: Omissions, instructions: str) -> Call:
        """Return the call that has the API compact the messages of a request; only where there is a `native_key`."""
        raise NotImplementedError

    def counting(self, request: ModelRequest, profile: ModelProfile, without: Omissions = NOTHING) -> Call | None:
        """Return the call whose answer has the `input_tokens` of a request; None where the API does not count."""
        return None

    def window_path(self, model: str) -> str | None:
        """Return where the API says how large a model's window is; None where it does not."""
        return None

    def window(self, answer: JsonObject, model: str) -> int | None:
        """Return the tokens of a model's window in that answer.

        :raises CallFailed: it is an answer to something else.
        """
        return None

    def refused(self, failure: CallFailed, request: ModelRequest, without: Omissions) -> Omission | None:
        """Return what to leave out of a request that the API refused with status 400, unless it is another error."""
        said = f"{failure.code} {failure.message}".lower()
        for part, words in self.refusals:
            is_sent = part not in without and (part != "compaction" or self.compacted(request, without) is not None)
            if is_sent and any(word in said for word in words):
                return part
        return None

    def compacted(self, request: ModelRequest, without: Omissions) -> CompactedBlock | None:
        """Return what the API itself compacted last and takes back; None where there is nothing of it."""
        blocks = [
            part
            for message in request.messages
            if isinstance(message, UserMessage)
            for part in message.parts
            if isinstance(part, CompactedBlock) and part.provider == self.name and self.native_key in part.data
        ]
        return blocks[-1] if blocks and "compaction" not in without else None


def without_block(message: UserMessage, block: CompactedBlock | None) -> tuple[UserPart, ...] | None:
    """Return the parts of a message but for a block that is sent in another form; None where nothing else is in it."""
    rest = tuple(part for part in message.parts if part is not block)
    return rest if rest or not message.parts else None


def wire_name(name: str) -> str:
    """Return the name of a call as a provider takes it back.

    A model may call a tool by a name that it made up (`functions.read`, an empty one), and every provider refuses a
    history with a name outside of `^[a-zA-Z0-9_-]{1,64}$`. The names of real tools stay as they are.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"
