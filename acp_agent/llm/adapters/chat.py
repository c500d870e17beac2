"""Chat Completions, as OpenAI defined it and as compatible servers understand it: local ones, Gemini's, routers.

Lenient in what it reads: servers send whole tool calls at once, without an index, with empty or repeated ids, and end
with `stop` although there are calls. Strict in one thing: an answer without a `finish_reason` is not whole, as routers
close broken streams with `[DONE]` too.

Reasoning has no place in OpenAI's own form, so every server has another one. It goes back in the form in which it came,
to the provider that made it; `ReasoningRules.echo` says where more is needed.

Source: the types of the openai SDK 3.54; Gemini's page on OpenAI compatibility for `extra_content`, and on thought
signatures; DeepSeek's and Moonshot's pages on thinking; OpenRouter's on reasoning tokens; Mistral's on reasoning;
Ollama's and LM Studio's API references for the windows of their models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import StringIO

from acp_agent.conversation.messages import (
    Amendment,
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
    Encoded,
    Encoder,
    Features,
    Fold,
    build_answer,
    openai_usage,
    says_something,
    to_json,
    wire_name,
)
from acp_agent.llm.binding import Prefix
from acp_agent.llm.errors import stream_error
from acp_agent.llm.parts import (
    audio_format,
    base64_of,
    check_arguments,
    image_url,
    sendable_sound,
    sent_arguments,
    tool_call,
    user_parts,
)
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta
from acp_agent.llm.rules import ReasoningRules, rules_of

_CONTENT = "content"
_DETAILS = "reasoning_details"
_EXTRA = "extra_content"
_REASONING = "reasoning_content"
_TEXT_KEYS = (_REASONING, "reasoning")
"""Members that hold reasoning as text. vLLM, Ollama and Cerebras have the second one, and most others the first."""
_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Entries of `reasoning_details` that come in fragments, and the member that grows. All others come whole."""
_NO_SIGNATURE: JsonObject = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Stands for the signature of a call that has none. Of the two values that Google documents, the one that Vertex takes
as well."""
_KIMI_KEEPS: tuple[tuple[str, ...], JsonObject] = (("kimi-k2.6",), {"type": "enabled", "keep": "all"})
_GLM_KEEPS: tuple[tuple[str, ...], JsonObject] = (("glm-4.7", "glm-5"), {"type": "enabled", "clear_thinking": False})
_KEEPS = {
    "api.moonshot.ai": _KIMI_KEEPS,
    "api.moonshot.cn": _KIMI_KEEPS,
    "api.z.ai": _GLM_KEEPS,
    "open.bigmodel.cn": _GLM_KEEPS,
}
"""By host: models that ignore the reasoning of earlier turns unless `thinking` says this. They think by default."""
_OFFICIAL_HOST = "api.openai.com"
_SILENT_HOSTS = frozenset({_OFFICIAL_HOST, "generativelanguage.googleapis.com"})
"""Whose lists of models are known to have no windows."""
_LOCAL_PATHS = {"ollama": "/api/ps", "lmstudio": "/api/v0/models"}
"""Where local servers say with which windows their models are loaded."""


class ChatAdapter(Adapter):
    """Chat Completions."""

    # None of these words is in the errors of DeepSeek and Moonshot for reasoning that is missing.
    refusals = (
        (
            "echo",
            (
                *(f"{key}' is unsupported" for key in (*_TEXT_KEYS, _DETAILS)),  # Groq, Cerebras
                "reasoning is not supported",  # Groq
                "extra_forbidden",  # Mistral and others with pydantic
                "extra inputs are not permitted",
                'unknown name "reasoning',  # Google
                "unknown parameter: 'messages[",  # OpenAI
                "additional properties are not allowed ('reasoning",
                "remove the reasoning_content",  # DeepSeek's R1
            ),
        ),
    )

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._host = endpoint.host
        self._root = (endpoint.base_url or "").rstrip("/").removesuffix("/v1")
        self._is_openrouter = endpoint.name == "openrouter" or f".{endpoint.host}".endswith(".openrouter.ai")
        if self._is_openrouter:  # whose models are listed for anybody
            self.models_path = "/key"

    def call(self, request: ModelRequest, profile: ModelProfile, refused: Features, prompt: str | None) -> Call:
        rules = self.rules(request.model, refused)
        echoes = "echo" not in refused
        make = partial(
            _ChatEncoder,
            provider=self.name,
            rules=rules,
            request=request,
            profile=profile,
            echoes=echoes,
            is_openrouter=self._is_openrouter,
        )
        opening, encoder = self.split(request, Encoded(Prefix("")), make, rules, request.model, profile, echoes)
        features = encoder.encoded().features
        messages = encoder.items
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
        keeps = _KEEPS.get(self._host)
        if keeps is not None and echoes and level != "off" and request.model.startswith(keeps[0]):
            body["thinking"] = keeps[1]
        return Call("/chat/completions", body, opening=opening, features=features)

    def fold(self) -> Fold:
        return _ChatFold(self.name)

    def window_path(self, model: str) -> str | None:
        if self.name in _LOCAL_PATHS:
            return f"{self._root}{_LOCAL_PATHS[self.name]}"
        return None if self._host in _SILENT_HOSTS else "/models"


class _ChatEncoder(Encoder):
    """Encodes messages for Chat Completions.

    Consecutive user messages become one, since the chat templates of local models expect turns. A result is text here,
    so a tool's images follow all results of the step in a user message of their own.

    :param echoes: whether reasoning is sent back.
    """

    def __init__(
        self,
        before: Encoded,
        provider: str,
        rules: ReasoningRules,
        request: ModelRequest,
        profile: ModelProfile,
        *,
        echoes: bool,
        is_openrouter: bool,
    ) -> None:
        super().__init__(before, provider, rules, request)
        self._model = request.model
        self._profile = profile
        self._echoes = echoes
        self._is_openrouter = is_openrouter
        self._user: list[Text | Image | Audio] = []

    def finish(self) -> None:
        """Encode the user message that was held back until the next answer."""
        if self._user:
            self.items.append({"role": "user", "content": _content(self._user)})
            self._user = []

    def _add(self, message: Message) -> None:
        match message:
            case AssistantMessage():
                self._add_answer(message)
            case ToolResult():
                self._add_result(message)
            case Amendment(parts=()):
                pass  # tools and level are sent at top level
            case UserMessage():
                self._add_user(message)

    def _add_user(self, message: UserMessage) -> None:
        rest: list[UserPart] = []
        for part in message.parts:
            sound = _sound(part) if self._profile.audio else None
            if sound is None:
                rest.append(part)
            else:
                self._user.append(sound)
        if rest or not message.parts:
            self._user += user_parts(rest, images=self._profile.images)

    def _add_result(self, message: ToolResult) -> None:
        parts = user_parts(message.parts, images=self._profile.images)
        texts = [part.text for part in parts if isinstance(part, Text)] or ["(see the image below)"]
        call_id = self._call_ids.get(message.call_id, message.call_id)
        self.items.append({"role": "tool", "tool_call_id": call_id, "content": "\n".join(texts)})
        self._user += [part for part in parts if isinstance(part, Image)]

    def _add_answer(self, message: AssistantMessage) -> None:
        if not says_something(message):
            return
        self.finish()
        self._name_calls(message)
        own = self._own(message)
        wire: JsonObject = {"role": "assistant"}
        if message.text.strip():
            wire[_CONTENT] = message.text
        calls = self._calls(message, own)
        if calls:
            wire["tool_calls"] = calls
        if self._echoes:
            reasoning = _details(own) | self._reasoning(wire, own)
            if reasoning:
                wire |= reasoning
                self._features = self._features | {"echo"}
        self.items.append(wire)

    def _own(self, message: AssistantMessage) -> list[Thinking]:
        """Return the reasoning of an answer that the model can read.

        A router has models of many makers under one name, each with signatures of its own, and the maker stands before
        the slash in a model's id.
        """
        model = message.model.partition("/")[2] or self._model
        has_same_maker = model.rpartition("/")[0] == self._model.rpartition("/")[0]
        if not has_same_maker or not self._rules.can_read(rules_of(model).family):
            return []
        return [part for part in message.parts if isinstance(part, Thinking) and part.provider == self._provider]

    def _calls(self, message: AssistantMessage, own: Sequence[Thinking]) -> list[JsonValue]:
        extra: JsonObject = {}
        for part in own:
            extra |= get_object(part.data, _EXTRA)
        if not extra and self._rules.echo == "thought_signature" and not self._is_openrouter:
            # Gemini checks the first call of each step. Another model made this one, or it lost its signature.
            extra = {"0": _NO_SIGNATURE}
        calls: list[JsonValue] = []
        for index, call in enumerate(message.tool_calls):
            function: JsonObject = {"name": wire_name(call.name), "arguments": sent_arguments(call)}
            kept: JsonObject = {_EXTRA: extra[str(index)]} if str(index) in extra else {}
            calls.append({"id": self._call_ids[call.id], "type": "function", "function": function, **kept})
        return calls

    def _reasoning(self, wire: JsonObject, own: Sequence[Thinking]) -> JsonObject:
        """Return the members of an answer that hold its reasoning as text.

        :param wire: the answer without it.
        """
        echo = self._rules.echo
        if echo in ("none", "thought_signature"):
            return {}
        has_calls = "tool_calls" in wire
        if echo == "items" and has_calls and _CONTENT in wire:
            return {}  # the chat template of gpt-oss has one place for the two, and fails
        text = "".join(part.text for part in own)
        key = next((key for part in own if (key := get_text(part.data, "key"))), "")
        is_required = echo == "always" or (echo == "calls" and has_calls)
        if key and self._is_openrouter:  # which has `reasoning_details` for the others
            key = _REASONING if echo in ("always", "calls") else ""
        if is_required:
            key = key or _REASONING
            text = text or ("" if echo == "always" else " ")  # Kimi takes an empty one for a missing one
        if not key:
            return {}
        if key != _CONTENT:
            return {key: text}
        thought: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": text}], "closed": True}
        said: list[JsonValue] = [{"type": "text", "text": wire[_CONTENT]}] if _CONTENT in wire else []
        return {_CONTENT: [thought, *said]}


def _details(own: Iterable[Thinking]) -> JsonObject:
    """Return the member of an answer that holds its reasoning in OpenRouter's form, if it came in that."""
    details: list[JsonValue] = []
    for part in own:
        details += get_objects(part.data, _DETAILS)
    return {_DETAILS: details} if details else {}


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


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: StringIO = field(default_factory=StringIO)
    extra: JsonObject = field(default_factory=dict[str, JsonValue])


class _Detail:
    """An entry of OpenRouter's `reasoning_details`, which comes in fragments.

    The fragments have to be merged, since a model's maker refuses a signature without the text that it signs.

    :param fragment: the first one.
    """

    def __init__(self, fragment: JsonObject) -> None:
        self._members = dict(fragment)
        self._growing = _GROWING.get(get_text(fragment, "type"), "")
        self._text = StringIO()
        self._text.write(get_text(fragment, self._growing))

    def add(self, fragment: JsonObject) -> bool:
        """Add a fragment, and return whether it belongs to this entry."""
        members = self._members
        if not self._growing or fragment.get("type") != members["type"] or members.get("signature"):
            return False
        for key in ("index", "id"):
            known = members.get(key)
            if known is not None and fragment.get(key, known) not in (known, None):
                return False
        self._text.write(get_text(fragment, self._growing))
        for key, value in fragment.items():
            if members.get(key) is None:
                members[key] = value
        return True

    def merged(self) -> JsonObject:
        """Return the entry as far as it came."""
        text = self._text.getvalue()
        return {**self._members, self._growing: text} if text else self._members


class _ChatFold(Fold):
    """Folds the chunks of one stream into deltas and the answer."""

    ends_with_done = True

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._key = ""
        self._details: list[_Detail] = []
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
            if thought := self._thought(delta):
                self._thinking.append(thought)
                deltas.append(ThinkingDelta(thought))
            refusal = get_text(delta, "refusal")
            text = get_text(delta, _CONTENT) or "".join(_chunk_texts(delta, "text")) or refusal
            if text:
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
        data: JsonObject = {}
        if self._key:
            data["key"] = self._key
        if self._details:
            data[_DETAILS] = [detail.merged() for detail in self._details]
        if extra:
            data[_EXTRA] = extra
        if self._thinking or data:
            parts.append(Thinking("".join(self._thinking), self._provider, data))
        if text := "".join(self._text):
            parts.append(Text(text))
        parts += [tool_call(call.id, call.name, call.arguments.getvalue()) for call in self._calls]
        return build_answer(parts, self._finish, self._counted())

    def _thought(self, delta: JsonObject) -> str:
        """Take the reasoning in a delta, note the key under which it goes back, and return its text."""
        fragments = get_objects(delta, _DETAILS)
        for fragment in fragments:
            if not self._details or not self._details[-1].add(fragment):
                self._details.append(_Detail(fragment))
        for key in _TEXT_KEYS:
            if thought := get_text(delta, key):
                self._key = self._key or key
                return thought
        if thought := "".join(_chunk_texts(delta, "thinking")):
            self._key = self._key or _CONTENT
            return thought
        # OpenRouter says it a second time as `reasoning`; servers that imitate it may not.
        return "".join(get_text(each, _GROWING.get(get_text(each, "type"), "")) for each in fragments)

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


def _chunk_texts(delta: JsonObject, kind: str) -> Iterable[str]:
    """Yield the texts of one kind in a content that is a list, as Mistral's reasoning models send it.

    :param kind: `thinking`, whose chunks hold chunks of text themselves, or `text`.
    """
    for chunk in get_objects(delta, _CONTENT):
        if chunk.get("type") != kind:
            continue
        if kind == "text":
            yield get_text(chunk, "text")
        else:
            for inner in get_objects(chunk, "thinking"):
                yield get_text(inner, "text")
