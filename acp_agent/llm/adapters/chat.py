"""Chat Completions, as OpenAI defined it and as compatible servers understand it: local ones, Gemini's, routers.

Lenient in what it reads: servers send whole tool calls at once, without an index, with empty or repeated ids, and end
with `stop` although there are calls. Strict in one thing: an answer without a `finish_reason` is not whole, as routers
close broken streams with `[DONE]` too. Source: the types of the openai SDK 3.54; Gemini's page on OpenAI compatibility
for `extra_content`; Ollama's and LM Studio's API references for the windows of their models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import StringIO

from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Audio,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    Thinking,
    ToolResult,
    Usage,
    UserMessage,
    UserPart,
)
from acp_agent.conversation.strict_json import MAX_COUNT, get_object, get_objects, get_text
from acp_agent.llm.adapters.adapter import (
    Adapter,
    Call,
    Fold,
    Omissions,
    build_answer,
    openai_usage,
    to_json,
    wire_name,
)
from acp_agent.llm.errors import stream_error
from acp_agent.llm.parts import (
    arguments_text,
    audio_format,
    base64_of,
    check_arguments,
    image_url,
    sendable_sound,
    tool_call,
    user_parts,
)
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta

_EXTRA = "extra_content"
_OFFICIAL_HOST = "api.openai.com"
_SILENT_HOSTS = frozenset({_OFFICIAL_HOST, "generativelanguage.googleapis.com"})
"""Whose lists of models are known to have no windows."""
_LOCAL_PATHS = {"ollama": "/api/ps", "lmstudio": "/api/v0/models"}
"""Where local servers say with which windows their models are loaded."""


class ChatAdapter(Adapter):
    """Chat Completions."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._host = endpoint.host
        self._root = (endpoint.base_url or "").rstrip("/").removesuffix("/v1")
        self._is_openrouter = endpoint.name == "openrouter"
        if self._is_openrouter:  # whose models are listed for anybody
            self.models_path = "/key"

    def call(self, request: ModelRequest, profile: ModelProfile, omissions: Omissions, prompt: str | None) -> Call:
        encode = partial(_wire_messages, provider=self.name, profile=profile)
        opening, messages = self.split(request, encode, profile.images, profile.audio)
        if request.system.strip():
            system: JsonObject = {"role": "system", "content": request.system}
            if opening:
                opening = (f"{to_json(system)},".encode(), *opening)
            else:
                messages.insert(0, system)
        body: JsonObject = {
            "model": request.model,
            "messages": list[JsonValue](messages),
            "max_completion_tokens" if self._host == _OFFICIAL_HOST else "max_tokens": request.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
                }
                for tool in request.tools
            ]
        level = request.thought_level
        if level and self._is_openrouter and profile.thinking != "none":
            body["reasoning"] = {"effort": "none" if level == "off" else level}
        elif level and profile.thinking == "effort":
            body["reasoning_effort"] = profile.least_effort if level == "off" else level
        return Call("/chat/completions", body, opening=opening)

    def fold(self) -> Fold:
        return _ChatFold(self.name)

    def window_path(self, model: str) -> str | None:
        if self.name in _LOCAL_PATHS:
            return f"{self._root}{_LOCAL_PATHS[self.name]}"
        return None if self._host in _SILENT_HOSTS else "/models"


def _wire_messages(messages: Iterable[Message], provider: str, profile: ModelProfile) -> list[JsonObject]:
    """Return the messages in their words.

    Neighbouring user messages become one, since chat templates of local models want turns. A tool's images follow all
    results in a user message of their own, since a result is text here.

    :param provider: what it attached to its own calls goes back to it.
    """
    wire: list[JsonObject] = []
    user: list[Text | Image | Audio] = []

    def say() -> None:
        if user:
            wire.append({"role": "user", "content": _content(user)})
            user.clear()

    for message in messages:
        match message:
            case UserMessage():
                heard = [(part, _sound(part) if profile.audio else None) for part in message.parts]
                user += [sound for _, sound in heard if sound is not None]
                rest = [part for part, sound in heard if sound is None]
                user += user_parts(rest, images=profile.images) if rest or not heard else ()
            case AssistantMessage():
                if (answer := _answer(message, provider)) is not None:
                    say()
                    wire.append(answer)
            case ToolResult():
                parts = user_parts(message.parts, images=profile.images)
                texts = [part.text for part in parts if isinstance(part, Text)] or ["(see the image below)"]
                wire.append({"role": "tool", "tool_call_id": message.call_id, "content": "\n".join(texts)})
                user += [part for part in parts if isinstance(part, Image)]
    say()
    return wire


def _sound(part: UserPart) -> Audio | None:
    sound = sendable_sound(part)
    return sound if sound is not None and isinstance(sound.data, str) else None


def _content(parts: Sequence[Text | Image | Audio]) -> JsonValue:
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n\n".join(texts) if len(texts) == len(parts) else [_block(part) for part in parts]


def _block(part: Text | Image | Audio) -> JsonValue:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": image_url(part)}}
        case Audio():
            sound: JsonObject = {"data": base64_of(part), "format": audio_format(part.mime_type)}
            return {"type": "input_audio", "input_audio": sound}


def _answer(message: AssistantMessage, provider: str) -> JsonObject | None:
    extra: JsonObject = {}
    for part in message.parts:
        if isinstance(part, Thinking) and part.provider == provider:
            extra |= get_object(part.data, _EXTRA)
    wire: JsonObject = {"role": "assistant"}
    if message.text.strip():
        wire["content"] = message.text
    calls: list[JsonValue] = []
    for index, call in enumerate(message.tool_calls):
        function: JsonObject = {"name": wire_name(call.name), "arguments": arguments_text(call)}
        kept: JsonObject = {_EXTRA: extra[str(index)]} if str(index) in extra else {}
        calls.append({"id": call.id, "type": "function", "function": function, **kept})
    if calls:
        wire["tool_calls"] = calls
    return wire if len(wire) > 1 else None


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: StringIO = field(default_factory=StringIO)
    extra: JsonObject = field(default_factory=dict[str, JsonValue])


class _ChatFold(Fold):
    """Folds the chunks of one stream into deltas and the answer."""

    ends_with_done = True

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[JsonValue, _Call] = {}
        self._finish = ""
        self._usage: JsonObject = {}

    def feed(self, event: JsonObject) -> Iterable[TextDelta | ThinkingDelta]:
        if event.get("error"):
            raise stream_error(event)
        self._usage = get_object(event, "usage") or self._usage
        deltas: list[TextDelta | ThinkingDelta] = []
        for choice in get_objects(event, "choices")[:1]:
            delta = get_object(choice, "delta")
            if thought := get_text(delta, "reasoning_content") or get_text(delta, "reasoning"):
                self._thinking.append(thought)
                deltas.append(ThinkingDelta(thought))
            refusal = get_text(delta, "refusal")
            if text := get_text(delta, "content") or refusal:
                self._text.append(text)
                deltas.append(TextDelta(text))
            for call in get_objects(delta, "tool_calls"):
                self._extend(call)
            if refusal:
                self._finish = "refusal"
            if finish := get_text(choice, "finish_reason"):
                self._finish = self._finish or finish
                self.complete = True
                if finish == "error":
                    raise stream_error(get_object(choice, "error") or {"message": "the provider reported an error"})
        return deltas

    def answer(self) -> Answered:
        extra: JsonObject = {str(index): call.extra for index, call in enumerate(self._calls) if call.extra}
        parts: list[AssistantPart] = []
        if self._thinking or extra:
            data: JsonObject = {_EXTRA: extra} if extra else {}
            parts.append(Thinking("".join(self._thinking), self._provider, data))
        if text := "".join(self._text):
            parts.append(Text(text))
        parts += [tool_call(call.id, call.name, call.arguments.getvalue()) for call in self._calls]
        return build_answer(parts, self._finish, self._counted())

    def _extend(self, delta: JsonObject) -> None:
        function, index = get_object(delta, "function"), delta.get("index")
        call_id, name = get_text(delta, "id"), get_text(function, "name")
        call = self._by_index.get(index) if isinstance(index, int) else (self._calls[-1] if self._calls else None)
        if call is None or (name and (not call_id or call_id != call.id)):  # some name it with every piece
            call = _Call(call_id, name)
            self._calls.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name
        call.extra = get_object(delta, _EXTRA) or call.extra
        call.arguments.write(get_text(function, "arguments"))
        check_arguments(call.arguments.tell())

    def _counted(self) -> Usage:
        price = self._usage.get("cost")  # OpenRouter's
        cost = None
        if isinstance(price, int | float) and not isinstance(price, bool) and 0 <= price < MAX_COUNT:
            cost = float(price)
        return openai_usage(self._usage, "prompt", "completion", cost)
