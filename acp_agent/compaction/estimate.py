"""Token counts of a context: the provider's last count, plus an estimate of the
messages since.

The estimate is four characters per token, which is off by up to a third in both
directions. The provider's counts calibrate it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import assert_never

from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    CompactedBlock,
    Data,
    Entry,
    Image,
    Message,
    Resource,
    ResourceLink,
    Stored,
    Text,
    Thinking,
    ToolCall,
    UserPart,
    data_length,
)
from acp_agent.frozen import frozen
from acp_agent.llm.parts import is_picture
from acp_agent.llm.provider import ToolDefinition

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1_600
"""Tokens of a full-size image, as counted by the large providers."""
SOUND_TOKENS = 20
"""Tokens of the line that models get in place of a sound."""
LARGEST_IMAGE = 7_000_000
"""Maximum number of base64 characters of an image in a request. Larger stored images
are scaled down before they are sent.
"""
MESSAGE_TOKENS = 4
"""Tokens for the role and separators of one message."""
UNSURE_SHARE = 0.05
"""The estimate of newer messages is calibrated only if they take more than this share
of the provider's last count.
"""
LEAST_GROWTH = 1_000
"""Minimum estimated tokens between two counts of a provider to calibrate the estimate
with them.
"""
MAX_CALIBRATION = 4.0
"""Maximum calibration. No script has a higher ratio of tokens to characters."""
DOUBT = 4 / 3
"""Assumed ratio of the provider's count to our estimate if a provider refuses a request
without stating its count.
"""


def estimate_text(text: str) -> int:
    """Return the tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Return the tokens of one message with all its parts."""
    return MESSAGE_TOKENS + sum(estimate_part(part) for part in message.parts)


def estimate_messages(messages: Iterable[Message]) -> int:
    """Return the tokens of several messages."""
    return sum(estimate_message(message) for message in messages)


def estimate_kept(entries: Sequence[Entry], exempt: Container[int], rate: float) -> int:
    """Return the tokens of consecutive entries that are kept with their reasoning, in
    tokens of our estimate.

    Providers count more tokens for reasoning than its visible part has. The growth of
    the provider's counts between two answers shows how many tokens the entries take.

    :param exempt: sequence numbers of entries that are not counted.
    :param rate: ratio of the provider's count to our estimate.
    """
    total = 0
    between = 0  # estimated tokens since the last counted answer, without exempt ones
    left_out = 0  # estimated tokens of the exempt entries
    last: int | None = None
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage) and message.counted is not None:
            count = message.counted.prompt_tokens
            growth = 0 if last is None else round((count - last) / rate)
            total += max(between, growth - left_out)
            between = 0
            left_out = 0
            last = count
        if entry.seq in exempt:
            left_out += estimate_message(message)
        else:
            between += estimate_message(message)
    return total + between


def estimate_prefix(system: str, tools: Sequence[ToolDefinition]) -> int:
    """Return the tokens of the system prompt and the tools."""
    return estimate_text(system) + estimate_tools(tools)


def estimate_tools(tools: Iterable[ToolDefinition]) -> int:
    """Return the tokens of the tool definitions."""
    schemas = sum(
        len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema))
        for tool in tools
    )
    return -(-schemas // CHARACTERS_PER_TOKEN)


class RunningEstimate:
    """Estimates of a conversation that grows at its end. Each entry is estimated only
    once, on first use.

    If a conversation does not continue the last one, such as after a compaction, it is
    estimated from the beginning.
    """

    def __init__(self) -> None:
        self._entries: tuple[Entry, ...] = ()
        # Item n is the estimate of the first n entries.
        self._tokens = [0]
        self._words = [0]
        # The indices of entries that a provider has counted, and the counts.
        self._counted: list[tuple[int, int]] = []

    def tokens(
        self, entries: tuple[Entry, ...], start: int = 0, end: int | None = None
    ) -> int:
        """Return the tokens of entries of a conversation.

        :param entries: all entries of the conversation.
        :param start: index of the first entry to count.
        :param end: index after the last one; the end of the conversation if None.
        """
        self._follow(entries)
        return self._tokens[len(entries) if end is None else end] - self._tokens[start]

    def words(self, entries: tuple[Entry, ...]) -> int:
        """Return the tokens of text, tool calls and tool results, not counting images
        and reasoning, which some providers do not read.
        """
        self._follow(entries)
        return self._words[len(entries)]

    def growth(self, entries: tuple[Entry, ...], start: int) -> tuple[int, int]:
        """Return how many tokens the conversation grew between the provider's first and
        last count, by the provider's counts and by our estimate.

        :param start: index of the first entry to consider.
        """
        self._follow(entries)
        first = bisect_left(self._counted, (start, 0))
        last = bisect_left(self._counted, (len(entries), 0)) - 1
        if first >= last:
            return 0, 0
        (begin, before) = self._counted[first]
        (end, after) = self._counted[last]
        return after - before, self._tokens[end] - self._tokens[begin]

    def _follow(self, entries: tuple[Entry, ...]) -> None:
        if entries is self._entries:
            return
        known = len(self._entries)
        # Tuples compare items by identity first, so known entries are not examined.
        if len(entries) < known and self._entries[: len(entries)] == entries:
            return
        if entries[:known] != self._entries:
            known = 0
            del self._tokens[1:]
            del self._words[1:]
            self._counted.clear()
        for index in range(known, len(entries)):
            self._add(index, entries[index].message)
        self._entries = entries

    def _add(self, index: int, message: Message) -> None:
        tokens = MESSAGE_TOKENS
        words = 0
        for part in message.parts:
            size = estimate_part(part)
            tokens += size
            if isinstance(part, Text | ToolCall):
                words += size
        self._tokens.append(self._tokens[-1] + tokens)
        self._words.append(self._words[-1] + words)
        if isinstance(message, AssistantMessage) and message.counted is not None:
            self._counted.append((index, message.counted.prompt_tokens))


def used_tokens(
    context: Context,
    prefix: int,
    rate: float = 1.0,
    estimate: RunningEstimate | None = None,
) -> int:
    """Return the tokens that the context takes now.

    :param prefix: tokens of the system prompt and the tools. They are added if the
        provider has not counted them yet.
    :param rate: ratio of the provider's count to our estimate, used if `calibration`
        cannot determine it.
    :param estimate: the estimate of the same conversation so far, if there is one, to
        save time.
    """
    entries = context.entries
    estimate = estimate or RunningEstimate()
    if not context.baseline:
        return round((prefix + estimate.tokens(entries)) * rate) if entries else 0
    since = estimate.tokens(entries, _first_after(context.baseline_seq, entries))
    if since > context.baseline * UNSURE_SHARE:
        since = round(since * calibration(context, rate, estimate))
    used = context.baseline + since
    if context.usage is None and rate > 1:
        # After a compaction the baseline is also an estimate, and may have been made
        # before the rate was known.
        used = max(used, round((prefix + estimate.tokens(entries)) * rate))
    return used


def calibration(
    context: Context, rate: float = 1.0, estimate: RunningEstimate | None = None
) -> float:
    """Return the ratio of the provider's count to the estimate, from the growth of both
    since the last compaction.

    :param rate: the result if there are too few counts.
    :param estimate: see `used_tokens`.
    :returns: at least 1. A conversation that is overestimated is only compacted early,
        but a request that is underestimated is refused.
    """
    start = _first_after(context.revision, context.entries)
    counted, estimated = (estimate or RunningEstimate()).growth(context.entries, start)
    if estimated < LEAST_GROWTH:
        return rate
    return min(MAX_CALIBRATION, max(1.0, counted / estimated))


def _first_after(seq: int, entries: tuple[Entry, ...]) -> int:
    """Return the index of the first entry that was added after the event with this seq.

    Entries before it may be out of order: a compaction puts its summary before the
    messages that it keeps.
    """
    return bisect_left(entries, True, key=lambda entry: entry.seq > seq)


@frozen
class Sizes:
    """The sizes of messages in a request besides tokens.

    :ivar bytes: see `request_bytes`, without known sizes of stored images.
    """

    images: int = 0
    bytes: int = 0

    def plus(self, messages: Sequence[Message]) -> Sizes:
        """Return the sizes with those of further messages."""
        return Sizes(
            self.images + count_images(messages), self.bytes + request_bytes(messages)
        )


def count_images(messages: Iterable[Message]) -> int:
    """Return the number of images in all messages, including tool results."""
    return sum(is_picture(part) for message in messages for part in message.parts)


def request_bytes(
    messages: Iterable[Message], sent: Mapping[str, int] | None = None
) -> int:
    """Return the approximate bytes of these messages in a request.

    :param sent: known base64 lengths of stored images in requests, by SHA-256.
    """
    return sum(
        _bytes(part, sent or {}) for message in messages for part in message.parts
    )


def estimate_part(part: UserPart | AssistantPart) -> int:
    """Return the tokens of one part of a message."""
    match part:
        case Text():
            return estimate_text(part.text)
        case Image():
            return IMAGE_TOKENS
        case Resource():
            sent = len(part.uri) + _sent_length(part)
            return (
                IMAGE_TOKENS if is_picture(part) else -(-sent // CHARACTERS_PER_TOKEN)
            )
        case Audio():
            return SOUND_TOKENS
        case ResourceLink():
            return estimate_text(part.uri) + estimate_text(part.name)
        case CompactedBlock():
            # The provider gets only one of the two.
            return max(estimate_text(part.text), estimate_text(json.dumps(part.data)))
        case Thinking():
            # The provider's own form is sent back if there is one. Some providers also
            # get the text.
            return estimate_text(part.text) + (
                estimate_text(json.dumps(part.data)) if part.data else 0
            )
        case ToolCall():
            return estimate_text(part.name) + estimate_text(
                part.invalid or json.dumps(part.arguments)
            )
        case _:
            assert_never(part)


def _sent_length(part: Resource) -> int:
    """Return how many characters of a file's contents are sent. This is 0 for a stored
    binary file, since only its name is sent.
    """
    if isinstance(part.blob, Stored):
        return part.blob.size if part.blob.text else 0
    return len(part.text or part.blob or "")


def _bytes(part: UserPart | AssistantPart, sent: Mapping[str, int]) -> int:
    match part:
        case Image():
            return _picture_bytes(part.data, sent)
        case Resource(blob=blob) if blob is not None and is_picture(part):
            return _picture_bytes(blob, sent)
        case _:
            return estimate_part(part) * CHARACTERS_PER_TOKEN


def _picture_bytes(data: Data, sent: Mapping[str, int]) -> int:
    known = sent.get(data.sha256) if isinstance(data, Stored) else None
    return min(data_length(data), LARGEST_IMAGE) if known is None else known
