"""Messages of users, models and tools, in parts.

They are independent of any wire form; `llm` translates them for providers and `server` for editors.
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
    JsonValue: TypeAlias = str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None
else:  # pydantic reads a recursive type only by name, and pyright only as a plain alias
    JsonValue = TypeAliasType("JsonValue", str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None)
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
"""Why a model's answer ended. The first six come from providers; `cancelled` (by the user) and `interrupted` (by a lost
connection or a killed process) mark an incomplete answer."""


@frozen
class Text:
    """Plain text, or Markdown.

    :ivar phase: what OpenAI calls it, `commentary` or `final_answer`, which has to be sent back; empty if unknown.
    """

    text: str
    phase: str = ""
    type: Literal["text"] = "text"


@frozen
class Stored:
    """Bytes that the store keeps once, outside of the logs that refer to them.

    :ivar sha256: of the bytes, in hex; by this name they are asked for.
    :ivar size: bytes.
    :ivar text: whether they are UTF-8 without a zero byte, so that a model can be given them as text.
    :ivar of_text: they came as text, which they become again when the log is read.
    """

    sha256: str
    size: int
    text: bool = False
    of_text: bool = False


Data: TypeAlias = str | Stored
"""Bytes in base64, or where they are stored."""


def data_length(data: Data | None) -> int:
    """Return the length of these bytes in base64, in characters."""
    if isinstance(data, Stored):
        return (data.size + 2) // 3 * 4
    return len(data or "")


@frozen
class Image:
    """An image; `uri` says where the editor took it from."""

    data: Data
    mime_type: str
    uri: str | None = None
    type: Literal["image"] = "image"


@frozen
class Audio:
    """A sound, such as something spoken."""

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
    """A file that came along in the prompt: `text`, or `blob`."""

    uri: str
    text: str | None = None
    blob: Data | None = None
    mime_type: str | None = None
    type: Literal["resource"] = "resource"


@frozen
class Bound:
    """The conversation in which a piece of reasoning was created, as hex digests; see `llm/binding.py`.

    :ivar head: of the system prompt and the tools.
    :ivar before: of all messages before the piece, and of the parts of its own answer before it.
    :ivar said: the same of what the user, the model and the tools have said alone.
    :ivar previous: of the piece of reasoning before it in the request; empty if there was none.
    """

    head: str
    before: str
    said: str
    previous: str = ""


@frozen
class CompactedBlock:
    """What a provider's own compaction made of the messages that stood before it.

    Stands in the first message of a context, once. `data` is the provider's form of it, which goes back to the same
    provider unchanged and in front of everything else; every other provider reads `text`.

    :ivar at: digests of the request that asked for it, from which the messages after it are checked; None in logs of
        earlier versions, and if the model keeps no reasoning through a compaction.
    """

    provider: str
    data: JsonObject
    text: str
    at: Bound | None = None
    type: Literal["compacted"] = "compacted"


@frozen
class Thinking:
    """A model's reasoning.

    `data` is the provider's own form of it (a signature, an encrypted item), sent back to the same provider unchanged
    and to no other.

    :ivar bound: the conversation that it is valid in; None in logs of earlier versions, and if the provider binds its
        reasoning to nothing.
    """

    text: str
    provider: str = ""
    data: JsonObject = field(default_factory=dict[str, JsonValue])
    bound: Bound | None = None
    type: Literal["thinking"] = "thinking"


def name_of(thinking: Thinking) -> str:
    """Return a name for a piece of reasoning: the digest of what the provider knows it by."""
    from hashlib import blake2b  # loads OpenSSL

    data = thinking.data
    known = data.get("signature") or data.get("encrypted_content") or data.get("data") or ""
    return blake2b(str(known).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@frozen
class ToolCall:
    """A call that the model asks for.

    `id` is ours and unique in the session, whatever the model sent. `invalid` holds the raw arguments where they were
    no JSON object; `arguments` is empty then.

    :ivar provider_id: the id that the model's provider gave it, which goes back to that provider; empty if it gave
        none, or one that the session has already.
    :ivar raw: the arguments as the model wrote them, if the provider compares their text and their compact JSON is
        another one; empty otherwise.
    """

    id: str
    name: str
    arguments: JsonObject = field(default_factory=dict[str, JsonValue])
    invalid: str | None = None
    provider_id: str = ""
    raw: str = field(default="", compare=False)
    type: Literal["tool_call"] = "tool_call"


UserPart: TypeAlias = Text | Image | Audio | ResourceLink | Resource | CompactedBlock
AssistantPart: TypeAlias = Text | Thinking | ToolCall
ResultPart: TypeAlias = Text | Image


@frozen
class Usage:
    """Tokens of one model call, as the provider counted them. The three kinds of input do not overlap. Negative counts
    from the provider become zero."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """US dollars, where the model's price is known."""

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"):
            if getattr(self, name) < 0:
                object.__setattr__(self, name, 0)

    @property
    def prompt_tokens(self) -> int:
        """Return the tokens of the whole request, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """Return the tokens in the window after the answer: the `used` of an editor's context meter."""
        return self.prompt_tokens + self.output_tokens


@frozen
class UserMessage:
    """What the user said, or what stands in its place (a recipe's text, a summary)."""

    id: str
    parts: tuple[UserPart, ...]
    role: Literal["user"] = "user"


@frozen
class RecipePrompt(UserMessage):
    """A recipe's text, which the model gets in place of what the user typed to run it.

    Goes wherever a message goes: a prompt that a compaction keeps, shortens or brings back stays one.

    :ivar typed: without the contents of what was attached, which are in `parts`.
    """

    typed: tuple[UserPart, ...] = ()


@frozen
class ToolDefinition:
    """A tool as the model sees it; `input_schema` is a JSON Schema of type object."""

    name: str
    description: str
    input_schema: JsonObject


@frozen
class Section:
    """A part of the system prompt that changes as a whole: an instruction file, by its path, or a fact, by its name."""

    name: str
    text: str


@frozen
class Amendment(UserMessage):
    """What has changed around the conversation since its first request, told where it stands.

    A request must not change its beginning: the provider's cache and the reasoning of earlier answers depend on it. So
    a changed instruction file, another tool or another level of reasoning is appended. `parts` has the sections as the
    model reads them; the adapters send tools and level in the provider's own form, if it has one.

    :ivar sections: changed sections of the system prompt; one with an empty text is gone.
    :ivar added: tools that the model has from here on; one of a name that it knows replaces that.
    :ivar removed: names of tools that it no longer has.
    :ivar thought_level: the level of reasoning from here on; None leaves it.
    """

    sections: tuple[Section, ...] = ()
    added: tuple[ToolDefinition, ...] = ()
    removed: tuple[str, ...] = ()
    thought_level: str | None = None


@frozen
class AssistantMessage:
    """One answer of a model, whole or cut off (see `stop_reason`).

    :ivar model: `provider/model`; empty if unknown.
    :ivar doubtful: whether `usage` contradicts earlier counts and so does not give the size of the context.
    """

    id: str
    parts: tuple[AssistantPart, ...]
    model: str = ""
    stop_reason: StopReason = "end_turn"
    usage: Usage | None = None
    role: Literal["assistant"] = "assistant"
    doubtful: bool = False

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
    """What a tool answered to one call, as the model reads it."""

    call_id: str
    parts: tuple[ResultPart, ...]
    is_error: bool = False
    role: Literal["tool"] = "tool"

    @property
    def text(self) -> str:
        """Return the text of all parts, one a line."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


Message: TypeAlias = UserMessage | RecipePrompt | Amendment | AssistantMessage | ToolResult
# `RecipePrompt` and `Amendment` are named so that pydantic reads and writes their fields: it takes the class with most
# fields of the JSON.


@frozen
class Entry:
    """A message in its place in the log; a summary stands at the seq of its swap, before all that it left in place.

    :ivar note: the agent wrote it for the model; the user did not say it.
    :ivar shortened: the log holds more of it.
    """

    seq: int
    message: Message
    summary: bool = False
    note: bool = False
    shortened: bool = False

    @property
    def typed(self) -> tuple[UserPart, ...]:
        """Return the parts that the user typed: of a recipe its command, of a summary or a note nothing."""
        if self.summary or self.note or not isinstance(self.message, UserMessage):
            return ()
        return self.message.typed if isinstance(self.message, RecipePrompt) else self.message.parts


def texts_in(part: UserPart | AssistantPart) -> Iterator[str]:
    """Yield all texts of a part: address, name, title, description, text."""
    for name in ("uri", "name", "title", "description", "text"):
        if text := getattr(part, name, None):
            yield text


def words_in(part: UserPart) -> str:
    """Return the text of a part of a prompt; of a file its address, as one word."""
    match part:
        case Text():
            return part.text
        case ResourceLink() | Resource():
            return address_of(part)
        case _:
            return ""


def address_of(part: ResourceLink | Resource) -> str:
    """Return the address of a file as one word, as a URI is by RFC 3986: editors also send a file's name as it is, and
    what stands in a name, blanks and line ends, must not be read as what the user wrote around it."""
    uri = part.uri
    if uri.isascii() and uri.isprintable() and " " not in uri:
        return uri
    apart = {each for each in uri if each.isspace()} | {*hidden_in(uri)}
    return "".join(quote(each, errors="surrogatepass") if each in apart else each for each in uri)


def new_id(prefix: str) -> str:
    """Return a fresh identifier such as `msg_6f9c…`: unique, and legal as an id with every provider and editor."""
    return f"{prefix}_{os.urandom(16).hex()}"
