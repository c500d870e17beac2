"""Messages of users, models and tools, made of parts.

They are independent of any wire format. `llm` translates them for providers and
`server` for editors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from typing_extensions import TypeAliasType

from acp_agent.frozen import frozen
from acp_agent.visible import hidden_in

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None
    )
else:  # pydantic supports a recursive type only with a name, and pyright only as a plain alias
    JsonValue = TypeAliasType(
        "JsonValue",
        str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None,
    )
JsonObject: TypeAlias = dict[str, JsonValue]

StopReason: TypeAlias = Literal[
    "end_turn",
    "tool_use",
    "max_tokens",
    "refusal",
    "context_overflow",
    "pause_turn",
    "cancelled",
    "interrupted",
]
"""Why a model's answer ended. The first six come from providers; `cancelled` (by the
user) and `interrupted` (by a lost connection or a killed process) mark an incomplete
answer.
"""


@frozen
class Text:
    """Plain text or Markdown.

    :ivar phase: OpenAI's phase of the text, `commentary` or `final_answer`, which must
        be sent back; empty if unknown.
    """

    text: str
    phase: str = ""
    type: Literal["text"] = "text"


@frozen
class Stored:
    """A reference to bytes that the store keeps once, outside the logs that refer to
    them.

    :ivar sha256: hexadecimal SHA-256 of the bytes, which identifies them in the store.
    :ivar size: number of bytes.
    :ivar text: whether the bytes are UTF-8 without a zero byte, so that a model can get
        them as text.
    :ivar of_text: whether the bytes were a text in an event. The text is restored when
        the log is read.
    """

    sha256: str
    size: int
    text: bool = False
    of_text: bool = False


Data: TypeAlias = str | Stored
"""Bytes in base64, or a reference to them."""


def data_length(data: Data | None) -> int:
    """Return the length of the base64 form, in characters."""
    if isinstance(data, Stored):
        return (data.size + 2) // 3 * 4
    return len(data or "")


@frozen
class Image:
    """An image. `uri` is its address in the editor."""

    data: Data
    mime_type: str
    uri: str | None = None
    type: Literal["image"] = "image"


@frozen
class Audio:
    """Audio, such as speech."""

    data: Data
    mime_type: str
    type: Literal["audio"] = "audio"


@frozen
class ResourceLink:
    """A file or page that the user pointed at without sending its contents."""

    uri: str
    name: str
    mime_type: str | None = None
    description: str | None = None
    size: int | None = None
    title: str | None = None
    type: Literal["resource_link"] = "resource_link"


@frozen
class Resource:
    """A file embedded in the prompt, as `text` or `blob`."""

    uri: str
    text: str | None = None
    blob: Data | None = None
    mime_type: str | None = None
    type: Literal["resource"] = "resource"


@frozen
class Bound:
    """Identifies the conversation in which a piece of reasoning was created, by hex
    digests; see `llm/binding.py`.

    :ivar head: digest of the system prompt and the tools.
    :ivar before: digest of all messages before the piece, and of the earlier parts of
        its own answer.
    :ivar said: like `before`, but only of the content from the user, the model and the
        tools.
    :ivar previous: digest of the previous piece of reasoning in the request; empty if
        there was none.
    """

    head: str
    before: str
    said: str
    previous: str = ""


@frozen
class CompactedBlock:
    """The result of a provider's own compaction of the messages before it.

    A context contains at most one, in its first message. `data` is the provider's form,
    which goes back to the same provider unchanged and before everything else. Other
    providers get `text`.

    :ivar at: digests of the request that asked for the compaction. Later messages are
        checked against them. None in logs of earlier versions, and if the model keeps
        no reasoning through a compaction.
    """

    provider: str
    data: JsonObject
    text: str
    at: Bound | None = None
    type: Literal["compacted"] = "compacted"


@frozen
class Thinking:
    """A model's reasoning.

    `data` is the provider's own form (a signature, an encrypted item), which is sent
    back unchanged, and only to the same provider.

    :ivar bound: the conversation in which it is valid; None in logs of earlier
        versions, and if the provider does not bind reasoning to a conversation.
    """

    text: str
    provider: str = ""
    data: JsonObject = field(default_factory=dict[str, JsonValue])
    bound: Bound | None = None
    type: Literal["thinking"] = "thinking"


def name_of(thinking: Thinking) -> str:
    """Return a name for a piece of reasoning: a digest of the data by which the
    provider identifies it.
    """
    from hashlib import blake2b  # loads OpenSSL

    data = thinking.data
    known = (
        data.get("signature") or data.get("encrypted_content") or data.get("data") or ""
    )
    return blake2b(
        str(known).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


@frozen
class ToolCall:
    """A tool call that the model requests.

    The agent assigns `id`, which is unique in the session. If the arguments were not a
    JSON object, `invalid` is their raw text and `arguments` is empty.

    :ivar provider_id: the provider's ID of the call, which is sent back to that
        provider. Empty if the provider sent none, or one that the session already has.
    :ivar raw: the arguments as the model wrote them, if the provider compares their
        text and it differs from their compact JSON; otherwise empty.
    """

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict[str, JsonValue])
    invalid: str | None = None
    provider_id: str = ""
    raw: str = field(default="", compare=False)
    type: Literal["tool_call"] = "tool_call"


def call_digest(call: ToolCall) -> str:
    """Return a digest of a call's tool and arguments. The call's ID and the order of
    its arguments do not change the digest.
    """
    import json
    from hashlib import blake2b  # loads OpenSSL

    try:
        arguments = json.dumps(call.arguments, sort_keys=True)
    except RecursionError:
        arguments = ""
    text = "\0".join((call.name, call.invalid or arguments))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


UserPart: TypeAlias = Text | Image | Audio | ResourceLink | Resource | CompactedBlock
AssistantPart: TypeAlias = Text | Thinking | ToolCall
ResultPart: TypeAlias = Text | Image


@frozen
class Usage:
    """Tokens of one model request, as counted by the provider. The three kinds of input
    do not overlap. Negative counts from the provider become zero.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """US dollars, if the model's price is known."""

    def __post_init__(self) -> None:
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
        ):
            if getattr(self, name) < 0:
                object.__setattr__(self, name, 0)

    @property
    def prompt_tokens(self) -> int:
        """Return the tokens of the whole request, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """Return the tokens in the window after the answer: the `used` of an editor's
        context meter.
        """
        return self.prompt_tokens + self.output_tokens


@frozen
class UserMessage:
    """A message from the user, or a text in its place, such as a recipe's text or a
    summary.
    """

    id: str
    parts: tuple[UserPart, ...]
    role: Literal["user"] = "user"


@frozen
class RecipePrompt(UserMessage):
    """A recipe's text, which the model gets in place of the command that the user
    typed.

    A prompt that a compaction keeps, shortens or restores stays a `RecipePrompt`.

    :ivar typed: the parts that the user typed, without the contents of attachments,
        which are in `parts`.
    """

    typed: tuple[UserPart, ...] = ()


@frozen
class ToolDefinition:
    """A tool as the model sees it. `input_schema` is a JSON Schema of type object."""

    name: str
    description: str
    input_schema: JsonObject


@frozen
class Section:
    """A part of the system prompt that changes as a whole: an instruction file, named
    by its path, or a fact.
    """

    name: str
    text: str


@frozen
class Amendment(UserMessage):
    """Tells the model that the conversation's surroundings have changed: the system
    prompt, the tools or the reasoning level.

    The beginning of a request must stay the same, since the provider's cache and the
    reasoning of earlier answers depend on it. So a change is appended to the messages.
    `parts` contains the sections as the model reads them. The adapters send the tools
    and the reasoning level in the provider's own form, if it has one.

    :ivar sections: changed sections of the system prompt; a removed section has an
        empty text.
    :ivar added: tools that the model has from now on. A tool replaces an earlier one of
        the same name.
    :ivar removed: names of tools that the model no longer has.
    :ivar thought_level: the reasoning level from now on; None if it has not changed.
    """

    sections: tuple[Section, ...] = ()
    added: tuple[ToolDefinition, ...] = ()
    removed: tuple[str, ...] = ()
    thought_level: str | None = None


@frozen
class AssistantMessage:
    """One answer of a model, complete or cut off (see `stop_reason`).

    :ivar model: `provider/model`; empty if unknown.
    :ivar doubtful: whether `usage` contradicts earlier counts and so does not give the
        size of the context.
    :ivar estimated: whether `usage` is an estimate, since the provider reported no count
        for this answer.
    """

    id: str
    parts: tuple[AssistantPart, ...]
    model: str = ""
    stop_reason: StopReason = "end_turn"
    usage: Usage | None = None
    role: Literal["assistant"] = "assistant"
    doubtful: bool = False
    estimated: bool = False

    @property
    def counted(self) -> Usage | None:
        """Return the usage, or None if it does not give the size of the context."""
        return None if self.doubtful else self.usage

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the answer, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def text(self) -> str:
        """Return the visible text of all parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@frozen
class ToolResult:
    """The result of one tool call, as the model reads it."""

    call_id: str
    parts: tuple[ResultPart, ...]
    is_error: bool = False
    role: Literal["tool"] = "tool"

    @property
    def text(self) -> str:
        """Return the text of all parts, one a line."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


Message: TypeAlias = (
    UserMessage | RecipePrompt | Amendment | AssistantMessage | ToolResult
)
# `RecipePrompt` and `Amendment` are listed so that pydantic reads and writes their
# fields. Pydantic chooses the class that has most of the fields in the JSON.


@frozen
class Entry:
    """A message with its place in the log. A summary has the seq of its swap, and
    precedes the messages that were kept.

    :ivar note: whether the agent, and not the user, wrote the message.
    :ivar shortened: whether the log contains a longer version.
    """

    seq: int
    message: Message
    summary: bool = False
    note: bool = False
    shortened: bool = False

    @property
    def typed(self) -> tuple[UserPart, ...]:
        """Return the parts that the user typed: the command for a recipe, nothing for a
        summary or a note.
        """
        if self.summary or self.note or not isinstance(self.message, UserMessage):
            return ()
        return (
            self.message.typed
            if isinstance(self.message, RecipePrompt)
            else self.message.parts
        )


def texts_in(part: UserPart | AssistantPart) -> Iterator[str]:
    """Yield all texts of a part: its URI, name, title, description and text."""
    for name in ("uri", "name", "title", "description", "text"):
        if text := getattr(part, name, None):
            yield text


def words_in(part: UserPart) -> str:
    """Return the text of a prompt's part, or a file's address as one word; empty for
    other parts.
    """
    match part:
        case Text():
            return part.text
        case ResourceLink() | Resource():
            return address_of(part)
        case _:
            return ""


def address_of(part: ResourceLink | Resource) -> str:
    """Return the address of a file as one word, percent-encoded as in RFC 3986.

    Editors also send plain file names. Without the encoding, a name with spaces or line
    breaks could look like text from the user.
    """
    uri = part.uri
    if uri.isascii() and uri.isprintable() and " " not in uri:
        return uri
    unsafe = {each for each in uri if each.isspace()} | {*hidden_in(uri)}
    return "".join(
        quote(each, errors="surrogatepass") if each in unsafe else each for each in uri
    )


def new_id(prefix: str) -> str:
    """Return a new unique ID such as `msg_6f9c…`. Every provider and editor accepts
    this form.
    """
    return f"{prefix}_{os.urandom(16).hex()}"
