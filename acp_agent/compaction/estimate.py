"""Token counts of a context: the provider's last count, plus an estimate of the messages since.

Four characters per token is off by up to a third in both directions; the provider's counts calibrate it.
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
from acp_agent.llm.parts import is_picture, sound_of
from acp_agent.llm.provider import ToolDefinition

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1_600
"""Tokens that the large providers charge for a full-size image."""
AUDIO_CHARACTERS_PER_TOKEN = 640
"""Characters of base64, at the provider that counts most, for MP3; WAV takes fewer tokens."""
LARGEST_IMAGE = 7_000_000
"""Most characters of base64 of an image as it is sent, however large the stored one is."""
MESSAGE_TOKENS = 4
"""Role and separators of one message."""
UNSURE_SHARE = 0.05
"""Share of a provider's count; if the newer messages take less, their calibration would change nothing."""
LEAST_GROWTH = 1_000
"""Estimated tokens between two counts of a provider, below which they do not calibrate the estimate."""
MAX_CALIBRATION = 4.0
"""Above the ratio of any script."""
DOUBT = 4 / 3
"""Assumed tokens by the provider's count for each token of our estimate, if a refusal states no count."""


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
    """Return the tokens of consecutive entries that stay with their reasoning, in tokens of our estimate.

    Providers count more for reasoning than can be seen of it. Between two answers, the growth of the provider's counts
    says what the entries take.

    :param exempt: seqs of the entries that do not count.
    :param rate: the provider's tokens for each estimated one.
    """
    total = 0
    between = 0  # estimated tokens since the last counted answer, without exempt ones
    left_out = 0  # those of the exempt ones
    last: int | None = None
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage) and message.counted is not None:
            count = message.counted.prompt_tokens
            growth = 0 if last is None else round((count - last) / rate)
            total += max(between, growth - left_out)
            between, left_out, last = 0, 0, count
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
    schemas = sum(len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema)) for tool in tools)
    return -(-schemas // CHARACTERS_PER_TOKEN)


class RunningEstimate:
    """Estimates of a conversation that grows at its end: each entry is looked at once, when it is first asked for.

    A conversation that does not continue the last one, such as one after a compaction, is looked at anew.
    """

    def __init__(self) -> None:
        self._entries: tuple[Entry, ...] = ()
        # Item n is the estimate of the first n entries.
        self._tokens = [0]
        self._words = [0]
        # The indices of entries that a provider has counted, and the counts.
        self._counted: list[tuple[int, int]] = []

    def tokens(self, entries: tuple[Entry, ...], start: int = 0, end: int | None = None) -> int:
        """Return the tokens of the entries of a conversation.

        :param entries: all entries of the conversation.
        :param start: index of the first entry to count.
        :param end: index after the last one; the end of the conversation if None.
        """
        self._follow(entries)
        return self._tokens[len(entries) if end is None else end] - self._tokens[start]

    def words(self, entries: tuple[Entry, ...]) -> int:
        """Return the tokens of text, tool calls and tool results alone, which every provider reads and counts."""
        self._follow(entries)
        return self._words[len(entries)]

    def growth(self, entries: tuple[Entry, ...], start: int) -> tuple[int, int]:
        """Return the growth in tokens between the first and the last provider count from this index on, as counted by
        the provider and as estimated by us."""
        self._follow(entries)
        first = bisect_left(self._counted, (start, 0))
        last = bisect_left(self._counted, (len(entries), 0)) - 1
        if first >= last:
            return 0, 0
        (begin, before), (end, after) = self._counted[first], self._counted[last]
        return after - before, self._tokens[end] - self._tokens[begin]

    def _follow(self, entries: tuple[Entry, ...]) -> None:
        if entries is self._entries:
            return
        known = len(self._entries)
        # Tuples compare by identity first, so that known entries are not looked into.
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


def used_tokens(context: Context, prefix: int, rate: float = 1.0, estimate: RunningEstimate | None = None) -> int:
    """Return the tokens that the context takes now.

    :param prefix: tokens of the system prompt and the tools, which are added if no provider has counted them yet.
    :param rate: the provider's tokens for each estimated one, where `calibration` cannot determine it.
    :param estimate: the estimate of the same conversation so far, which saves looking at all of it again.
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
        # After a compaction the baseline is an estimate too, from before the rate was known.
        used = max(used, round((prefix + estimate.tokens(entries)) * rate))
    return used


def calibration(context: Context, rate: float = 1.0, estimate: RunningEstimate | None = None) -> float:
    """Return the provider's tokens for each estimated one, by the growth of its counts since the last compaction.

    :param rate: the result if the counts are too few.
    :param estimate: see `used_tokens`.
    :returns: at least 1: an underestimated request is refused, an overestimated one only compacted early.
    """
    start = _first_after(context.revision, context.entries)
    counted, estimated = (estimate or RunningEstimate()).growth(context.entries, start)
    if estimated < LEAST_GROWTH:
        return rate
    return min(MAX_CALIBRATION, max(1.0, counted / estimated))


def _first_after(seq: int, entries: tuple[Entry, ...]) -> int:
    """Return the index of the first entry that was added after the event with this seq.

    Entries may be in another order before it: a compaction puts its summary before what it keeps.
    """
    return bisect_left(entries, True, key=lambda entry: entry.seq > seq)


@frozen
class Sizes:
    """What messages take in a request besides tokens.

    :ivar bytes: see `request_bytes`, where nothing is known of stored images.
    """

    images: int = 0
    bytes: int = 0

    def plus(self, messages: Sequence[Message]) -> Sizes:
        """Return the sizes with those of further messages."""
        return Sizes(self.images + count_images(messages), self.bytes + request_bytes(messages))


def count_images(messages: Iterable[Message]) -> int:
    """Return the images in all messages, those in results of tools included."""
    return sum(is_picture(part) for message in messages for part in message.parts)


def request_bytes(messages: Iterable[Message], sent: Mapping[str, int] | None = None) -> int:
    """Return the approximate bytes of these messages in a request.

    :param sent: characters of base64 of stored images as they are sent, by SHA-256, where known.
    """
    return sum(_bytes(part, sent or {}) for message in messages for part in message.parts)


def estimate_part(part: UserPart | AssistantPart) -> int:
    """Return the tokens of one part of a message."""
    match part:
        case Text():
            return estimate_text(part.text)
        case Image():
            return IMAGE_TOKENS
        case Resource():
            sent = len(part.uri) + _sent_length(part)
            return IMAGE_TOKENS if is_picture(part) else -(-sent // CHARACTERS_PER_TOKEN)
        case Audio():
            return -(-data_length(part.data) // AUDIO_CHARACTERS_PER_TOKEN)
        case ResourceLink():
            return estimate_text(part.uri) + estimate_text(part.name)
        case CompactedBlock():
            # The provider gets one of the two.
            return max(estimate_text(part.text), estimate_text(json.dumps(part.data)))
        case Thinking():
            # The provider's own form is sent back where there is one; some providers get the text as well.
            return estimate_text(part.text) + (estimate_text(json.dumps(part.data)) if part.data else 0)
        case ToolCall():
            return estimate_text(part.name) + estimate_text(part.invalid or json.dumps(part.arguments))
        case _:
            assert_never(part)


def _sent_length(part: Resource) -> int:
    """Return the characters of a file that are sent; of stored binary files only the name is."""
    if isinstance(part.blob, Stored):
        return part.blob.size if part.blob.text else 0
    return len(part.text or part.blob or "")


def _bytes(part: UserPart | AssistantPart, sent: Mapping[str, int]) -> int:
    match part:
        case Image():
            return _picture_bytes(part.data, sent)
        case Audio():
            return data_length(part.data)
        case Resource(blob=blob) if blob is not None and is_picture(part):
            return _picture_bytes(blob, sent)
        case Resource(blob=blob) if blob is not None and sound_of(part) is not None:
            return data_length(blob)
        case _:
            return estimate_part(part) * CHARACTERS_PER_TOKEN


def _picture_bytes(data: Data, sent: Mapping[str, int]) -> int:
    known = sent.get(data.sha256) if isinstance(data, Stored) else None
    return min(data_length(data), LARGEST_IMAGE) if known is None else known
