"""Messages as JSON and back, in the form of Anthropic's Messages API, which hooks and their authors know.

Owns what makes messages from outside a conversation: roles, contents, and calls with their results. A content that is
text alone is written as a string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Image,
    JsonObject,
    JsonValue,
    Message,
    ResultPart,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
    new_id,
)
from acp_agent.errors import HookError
from acp_agent.llm.arguments import arguments_of
from acp_agent.llm.parts import result_parts, user_parts

_STORED = "sha256:"


def as_json(message: Message) -> JsonObject:
    """A message as `{"role", "content"}`; a tool's result is the user's."""
    blocks = blocks_of(message)
    only = blocks[0] if len(blocks) == 1 else {}
    content: JsonValue = only["text"] if only.get("type") == "text" else [*blocks]
    return {"role": "assistant" if isinstance(message, AssistantMessage) else "user", "content": content}


def blocks_of(message: Message) -> list[JsonObject]:
    """A message's content as blocks. What an editor attached is in them as models read it."""
    match message:
        case UserMessage():
            return [_block(part) for part in user_parts(message.parts, images=True, stored=True)]
        case ToolResult():
            content: list[JsonValue] = [_block(part) for part in result_parts(message.parts, images=True, stored=True)]
            return [
                {
                    "type": "tool_result",
                    "tool_use_id": message.call_id,
                    "content": message.text if len(content) == 1 and message.text else content,
                    "is_error": message.is_error,
                }
            ]
        case AssistantMessage():
            return [_block(part) for part in message.parts]


def _block(part: Text | Image | Thinking | ToolCall) -> JsonObject:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return {"type": "image", "source": _source(part)}
        case Thinking():
            return {"type": "thinking", "thinking": part.text}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_of(part)}


def _source(image: Image) -> JsonObject:
    """Where the bytes are: in here, or where they are stored, as in the API's form for files."""
    if isinstance(image.data, Stored):
        name = f"{_STORED}{image.data.sha256}"
        return {"type": "file", "file_id": name, "media_type": image.mime_type, "size": image.data.size}
    return {"type": "base64", "media_type": image.mime_type, "data": image.data}


# --- and back ---

KINDS = ("text", "image", "thinking", "redacted_thinking", "tool_use", "tool_result")
"""Types of blocks."""


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Text(_Form):
    type: Literal["text"]
    text: str


class _Source(_Form):
    type: Literal["base64"]
    media_type: str
    data: str


class _File(_Form):
    type: Literal["file"]
    file_id: Annotated[str, Field(pattern=f"^{_STORED}[0-9a-f]{{64}}$")]
    media_type: str
    size: Annotated[int, Field(ge=0)]


class _Image(_Form):
    type: Literal["image"]
    source: Annotated[_Source | _File, Field(discriminator="type")]


class _Thinking(_Form):
    type: Literal["thinking", "redacted_thinking"]


class _ToolUse(_Form):
    type: Literal["tool_use"]
    id: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    input: dict[str, JsonValue]


def _as_blocks(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


class _ToolResult(_Form):
    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[
        list[Annotated[_Text | _Image, Field(discriminator="type")]], BeforeValidator(_as_blocks), Field(min_length=1)
    ]
    is_error: bool = False


_Block: TypeAlias = Annotated[_Text | _Image | _Thinking | _ToolUse | _ToolResult, Field(discriminator="type")]


class MessageForm(_Form):
    """One message of a hook's."""

    role: Literal["user", "assistant"]
    content: Annotated[list[_Block], BeforeValidator(_as_blocks), Field(min_length=1)]


def conversation(forms: Sequence[MessageForm], key: str) -> tuple[Message, ...]:
    """The messages that a hook gives for a whole conversation. Thinking is left out: no provider takes it from others.

    :param key: where they stand in its answer.
    :raises HookError: no model could be sent them; says which, and why.
    """
    messages: list[Message] = []
    waiting: dict[str, None] = {}
    known: set[str] = set()
    for index, form in enumerate(forms):
        place = f"{key}.{index}"
        if not messages and form.role != "user":
            raise HookError(f"{place}: the first message should be the user's.")
        added = _of_assistant(form, place) if form.role == "assistant" else _of_user(form, place, waiting)
        if waiting and not (added and all(isinstance(message, ToolResult) for message in added)):
            raise HookError(f"{place}: the call {next(iter(waiting))!r} before it has no result.")
        for message in added:
            for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
                if call.id in known:
                    raise HookError(f"{place}: there is a call {call.id!r} already.")
                known.add(call.id)
                waiting[call.id] = None
        messages += added
    if waiting:
        raise HookError(f"{key}: the call {next(iter(waiting))!r} has no result.")
    if not messages:
        raise HookError(f"{key}: there should be at least one message.")
    return tuple(messages)


def _of_assistant(form: MessageForm, place: str) -> list[Message]:
    parts: list[AssistantPart] = []
    for block in form.content:
        match block:
            case _Text() if block.text.strip():
                parts.append(Text(block.text))
            case _ToolUse():
                parts.append(ToolCall(block.id, block.name, block.input))
            case _Text() | _Thinking():
                pass
            case _:
                raise HookError(f"{place}: an answer of the assistant has no {block.type}.")
    if not parts:
        raise HookError(f"{place}: it says nothing.")
    calls = any(isinstance(part, ToolCall) for part in parts)
    return [AssistantMessage(new_id("msg"), tuple(parts), stop_reason="tool_use" if calls else "end_turn")]


def _of_user(form: MessageForm, place: str, waiting: dict[str, None]) -> list[Message]:
    """The results in a message, and what else is in it; takes the calls that are answered from those that wait."""
    results: list[Message] = []
    parts: list[UserPart] = []
    for block in form.content:
        match block:
            case _Text() if block.text.strip():
                parts.append(Text(block.text))
            case _Image():
                parts.append(_image(block))
            case _ToolResult():
                if block.tool_use_id not in waiting:
                    raise HookError(f"{place}: no call before it waits for the result of {block.tool_use_id!r}.")
                del waiting[block.tool_use_id]
                results.append(ToolResult(block.tool_use_id, tuple(_result(block.content)), block.is_error))
            case _Text() | _Thinking():
                pass
            case _ToolUse():
                raise HookError(f"{place}: a message of the user has no tool_use.")
    if not results and not parts:
        raise HookError(f"{place}: it says nothing.")
    return [*results, UserMessage(new_id("msg"), tuple(parts))] if parts else results


def _result(blocks: Iterable[_Text | _Image]) -> Iterable[ResultPart]:
    return (Text(block.text) if isinstance(block, _Text) else _image(block) for block in blocks)


def _image(block: _Image) -> Image:
    source = block.source
    if isinstance(source, _File):
        return Image(Stored(source.file_id.removeprefix(_STORED), source.size), source.media_type)
    return Image(source.data, source.media_type)
