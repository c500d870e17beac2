"""Chat Completions, as OpenAI defined it and as compatible servers understand it: local ones, Gemini's, routers.

`chat_fold.py` reads the answers. Request parts that a server refuses are left out of later requests; see `refusals.py`.

Reasoning has no place in OpenAI's own form, so every server has another one. It goes back in the form in which it came,
to the provider that made it; `ReasoningRules.echo` says where more is needed.

Source: the types of the openai SDK 3.54; Gemini's page on OpenAI compatibility for `extra_content`, and on thought
signatures; DeepSeek's and Moonshot's pages on thinking; OpenRouter's on reasoning tokens; Mistral's on reasoning;
Ollama's and LM Studio's API references for the windows of their models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import cast

from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    Audio,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    Thinking,
    ToolResult,
    UserMessage,
    UserPart,
)
from acp_agent.conversation.strict_json import get_object, get_objects, get_text
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.adapters.adapter import (
    Adapter,
    Call,
    Encoded,
    Encoder,
    Features,
    Fold,
    says_something,
    to_json,
    wire_name,
)
from acp_agent.llm.adapters.anthropic import thinking_budget
from acp_agent.llm.adapters.chat_fold import BLOCKS, CONTENT, DETAILS, EXTRA, REASONING, TEXT_KEYS, ChatFold
from acp_agent.llm.binding import Prefix
from acp_agent.llm.parts import (
    arguments_text,
    audio_format,
    base64_of,
    has_raw_arguments,
    image_url,
    sendable_sound,
    sent_arguments,
    user_parts,
)
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refusals import taken_effort, taken_limit
from acp_agent.llm.rules import ReasoningRules, rules_of

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
_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_LEVELS = ("low", "medium", "high")
_CALL_ID_LENGTH = 9
_CALL_ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BETWEEN = "(interrupted)"
"""Text of the placeholder answer between a tool result and a user message, for servers that require one."""
_LOOKS = "I look at the image."
"""Text of the placeholder answer before an image that a tool has read."""
_LOCAL_PATHS = {"ollama": "/api/ps", "lmstudio": "/api/v0/models"}
"""Where local servers say with which windows their models are loaded."""


class ChatAdapter(Adapter):
    """Chat Completions."""

    # None of these words is in the errors of DeepSeek and Moonshot for reasoning that is missing.
    refusals = (
        (
            "echo",
            (
                *(f"{key}' is unsupported" for key in (*TEXT_KEYS, DETAILS)),  # Groq, Cerebras
                "reasoning is not supported",  # Groq
                "extra_forbidden",  # Mistral and others with pydantic
                "extra inputs are not permitted",
                'unknown name "reasoning',  # Google
                "unknown parameter: 'messages[",  # OpenAI
                "additional properties are not allowed ('reasoning",
                "remove the reasoning_content",  # DeepSeek's R1
                "in `thinking` block",  # Anthropic behind a gateway
                "`thinking` or `redacted_thinking` blocks",
            ),
        ),
    )
    members = (
        "max_tokens",
        "max_completion_tokens",
        "stream",
        "stream_options",
        "reasoning_effort",
        "reasoning",
        "thinking",
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
        make = partial(
            _ChatEncoder,
            provider=self.name,
            rules=rules,
            request=request,
            profile=profile,
            refused=refused,
            is_openrouter=self._is_openrouter,
        )
        in_conversation = request.system if "system" in refused else ""
        encoding = (rules, request.model, profile, refused, in_conversation)
        opening, encoder = self.split(request, Encoded(Prefix("")), make, *encoding)
        features = encoder.encoded().features
        messages = encoder.items
        is_marked = rules.family.startswith("claude") and "cache_control" not in refused
        system = _system(request.system, marked=is_marked)
        if is_marked:
            messages = _with_breakpoints(messages)
            features = features.union(("cache_control",))
        if system is not None and "system" not in refused:
            features = features.union(("system",))
            if opening:
                opening = (f"{to_json(system)},".encode(), *opening)
            else:
                messages.insert(0, system)
        body: JsonObject = {"model": request.model, "messages": list[JsonValue](messages)}
        body |= self._limit(request, refused)
        if "stream" not in refused:
            body["stream"] = True
            if "stream_options" not in refused:
                body["stream_options"] = {"include_usage": True}
        if request.tools and "functions" not in refused:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
                }
                for tool in request.tools
            ]
        body |= self._thinking(request, profile, rules, refused, messages)
        return Call("/chat/completions", body, streams="stream" in body, opening=opening, features=features)

    def fold(self) -> Fold:
        return ChatFold(self.name)

    def window_path(self, model: str) -> str | None:
        if self.name in _LOCAL_PATHS:
            return f"{self._root}{_LOCAL_PATHS[self.name]}"
        return None if self._host in _SILENT_HOSTS else "/models"

    def _limit(self, request: ModelRequest, refused: Features) -> JsonObject:
        """Return the answer's token limit, under a name that the server accepts."""
        names: list[Feature] = ["max_tokens", "max_completion_tokens"]
        if self._host == _OFFICIAL_HOST:
            names.reverse()
        for name in names:
            if name not in refused:
                limit = taken_limit(request.max_output_tokens, request.takes.get(name, ""))
                return {name: limit}
        return {}

    def _thinking(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        rules: ReasoningRules,
        refused: Features,
        messages: Sequence[JsonObject],
    ) -> JsonObject:
        """Return the members that control how much the model thinks.

        :param messages: the newest messages.
        """
        level = request.thought_level
        members: JsonObject = {}
        effort = ""
        if level and self._is_openrouter:
            effort = "none" if level == "off" else level
            effort = taken_effort(effort, request.takes.get("reasoning", "")) if profile.thinking != "none" else ""
            if effort and "reasoning" not in refused:
                members["reasoning"] = {"effort": effort}
            effort = ""
        elif rules.family.startswith("claude"):
            effort, thinking = _claude_thinking(request, profile, rules, messages)
            if thinking and "thinking" not in refused:
                members["thinking"] = thinking
        elif level and profile.thinking == "effort":
            effort = profile.least_effort if level == "off" else level
        effort = taken_effort(effort, request.takes.get("reasoning_effort", ""))
        if effort and "reasoning_effort" not in refused:
            members["reasoning_effort"] = effort
        keeps = _KEEPS.get(self._host)
        is_kept = keeps is not None and "echo" not in refused and "thinking" not in refused and level != "off"
        if keeps is not None and is_kept and request.model.startswith(keeps[0]):
            members["thinking"] = keeps[1]
        return members


def _claude_thinking(
    request: ModelRequest, profile: ModelProfile, rules: ReasoningRules, messages: Sequence[JsonObject]
) -> tuple[str, JsonObject]:
    """Return the effort and the `thinking` member for a Claude model behind a gateway.

    LiteLLM passes `thinking` on to the Messages API. It also converts an effort to `thinking`, so only one of the two
    is set.
    """
    level, kind = request.thought_level, profile.thinking
    if kind in ("none", "effort"):
        return "", {}
    if kind == "budget":
        budget = thinking_budget(level, profile, request.max_output_tokens)
        none: JsonObject = {}
        newest = next((each for each in reversed(messages) if each["role"] == "assistant"), none)
        # After a tool call that was made without thinking, the API refuses to continue with thinking.
        is_without = "tool_calls" in newest and BLOCKS not in newest
        return "", {"type": "enabled", "budget_tokens": budget} if budget and not is_without else {}
    if level in _LEVELS:
        return level, {}
    thinks = kind in ("adaptive-default", "adaptive-always")
    if level == "off":
        if rules.off in ("disabled", "between_tools"):
            return "", {"type": rules.off}
        return ("low", {}) if thinks else ("", {})
    return "", {"type": "adaptive", "display": "summarized"} if thinks else {}


def _system(text: str, *, marked: bool) -> JsonObject | None:
    """Return the system prompt as a message, or None if it is blank.

    :param marked: whether to mark the prompt for caching, together with the tools before it.
    """
    if not text.strip():
        return None
    if not marked:
        return {"role": "system", "content": text}
    return {"role": "system", "content": [{"type": "text", "text": text, "cache_control": _BREAKPOINT}]}


def _with_breakpoints(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the messages with cache breakpoints at the end of this request and at the end of the previous one.

    A breakpoint goes on the last user message or tool result before an answer, including the answer to come.
    """
    marked = list(messages)
    left = 2
    for at in range(len(marked) - 1, -1, -1):
        is_last = at + 1 == len(marked) or marked[at + 1]["role"] == "assistant"
        if marked[at]["role"] in ("user", "tool") and is_last:
            marked[at] = {**marked[at], CONTENT: _marked(marked[at][CONTENT])}
            left -= 1
            if not left:
                break
    return marked


def _marked(content: JsonValue) -> JsonValue:
    if isinstance(content, str):
        return [{"type": "text", "text": content, "cache_control": _BREAKPOINT}]
    parts = cast("list[JsonObject]", content)
    return [*parts[:-1], {**parts[-1], "cache_control": _BREAKPOINT}]


class _ChatEncoder(Encoder):
    """Encodes messages for Chat Completions.

    Consecutive user messages become one, since the chat templates of local models expect turns. A result is text here,
    so a tool's images follow all results of the step in a user message of their own.

    :param refused: features that the server does not support.
    """

    def __init__(
        self,
        before: Encoded,
        provider: str,
        rules: ReasoningRules,
        request: ModelRequest,
        profile: ModelProfile,
        *,
        refused: Features,
        is_openrouter: bool,
    ) -> None:
        super().__init__(before, provider, rules, request)
        self._model = request.model
        self._profile = profile
        self._refused = refused
        self._echoes = "echo" not in refused
        self._is_openrouter = is_openrouter
        self._user: list[Text | Image | Audio] = []
        self._system = request.system if "system" in refused and not before.messages else ""
        self._follows_result = False

    def finish(self) -> None:
        """Encode the user message that was held back until the next answer."""
        if self._system.strip():
            self._user.insert(0, Text(self._system))
            self._system = ""
        if not self._user:
            return
        if self._follows_result:
            if "user_after_tool" in self._refused:
                is_image = isinstance(self._user[0], Image)
                self.items.append({"role": "assistant", CONTENT: _LOOKS if is_image else _BETWEEN})
            else:
                self._features = self._features | {"user_after_tool"}
        self.items.append({"role": "user", CONTENT: _content(self._user)})
        self._user = []
        self._follows_result = False

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
        images = [part for part in parts if isinstance(part, Image)]
        text = "\n".join(texts)
        if "functions" in self._refused:
            self._user += [Text(f"[result of the call]\n{text}"), *images]
            return
        call_id = self._call_ids.get(message.call_id, message.call_id)
        self.items.append({"role": "tool", "tool_call_id": call_id, CONTENT: text})
        self._follows_result = True
        self._user += images

    def _add_answer(self, message: AssistantMessage) -> None:
        if not says_something(message):
            return
        self.finish()
        self._follows_result = False
        self._name_calls(message)
        own = self._own(message)
        wire: JsonObject = {"role": "assistant"}
        if message.text.strip():
            wire[CONTENT] = message.text
        calls = self._calls(message, own)
        if calls and "functions" in self._refused:
            asked = [f"[call of {call.name} with {arguments_text(call)}]" for call in message.tool_calls]
            wire[CONTENT] = "\n".join([message.text, *asked]).strip()
        elif calls:
            wire["tool_calls"] = calls
        if self._echoes:
            reasoning = _fragments(own) | self._reasoning(wire, own)
            if reasoning:
                wire |= reasoning
                self._features = self._features | {"echo"}
        self.items.append(wire)

    def _name_calls(self, message: AssistantMessage) -> None:
        super()._name_calls(message)
        wants_short = "call_ids" in self._refused
        names: dict[str, str] = {}
        for own, sent in self._call_ids.items():
            # Mistral's templates require nine letters and digits, and all other servers accept them.
            is_own = sent == own
            names[own] = _short_id(own) if is_own or (wants_short and not _is_short_id(sent)) else sent
        self._call_ids = names
        if any(not _is_short_id(sent) for sent in names.values()):
            self._features = self._features | {"call_ids"}

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
            extra |= get_object(part.data, EXTRA)
        if not extra and self._rules.echo == "thought_signature" and not self._is_openrouter:
            # Gemini checks the first call of each step. Another model made this one, or it lost its signature.
            extra = {"0": _NO_SIGNATURE}
        calls: list[JsonValue] = []
        for index, call in enumerate(message.tool_calls):
            arguments = sent_arguments(call)
            if has_raw_arguments(call):
                if "raw_arguments" in self._refused:
                    arguments = arguments_text(call)
                else:
                    self._features = self._features | {"raw_arguments"}
            function: JsonObject = {"name": wire_name(call.name), "arguments": arguments}
            kept: JsonObject = {EXTRA: extra[str(index)]} if str(index) in extra else {}
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
        if echo == "items" and has_calls and CONTENT in wire:
            return {}  # the chat template of gpt-oss has one place for the two, and fails
        text = "".join(part.text for part in own)
        key = next((key for part in own if (key := get_text(part.data, "key"))), "")
        is_required = echo == "always" or (echo == "calls" and has_calls)
        if key in TEXT_KEYS and any(BLOCKS in part.data for part in own):
            key = ""  # LiteLLM takes the reasoning in `thinking_blocks`
        if key and self._is_openrouter:  # which has `reasoning_details` for the others
            key = REASONING if echo in ("always", "calls") else ""
        if is_required:
            key = key or REASONING
            text = text or ("" if echo == "always" else " ")  # Kimi takes an empty one for a missing one
        if not key:
            return {}
        if key != CONTENT:
            return {key: text}
        thought: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": text}], "closed": True}
        said: list[JsonValue] = [{"type": "text", "text": wire[CONTENT]}] if CONTENT in wire else []
        return {CONTENT: [thought, *said]}


def _fragments(own: Iterable[Thinking]) -> JsonObject:
    """Return the members of an answer that hold its reasoning blocks, as OpenRouter and LiteLLM send them."""
    members: JsonObject = {}
    for kind in (DETAILS, BLOCKS):
        blocks = [block for part in own for block in get_objects(part.data, kind)]
        if kind == BLOCKS:  # `index` belongs to the stream and is not a field of the API
            blocks = [{key: value for key, value in block.items() if key != "index"} for block in blocks]
        if blocks:
            members[kind] = list[JsonValue](blocks)
    return members


def _is_short_id(call_id: str) -> bool:
    return len(call_id) == _CALL_ID_LENGTH and call_id.isascii() and call_id.isalnum()


def _short_id(call_id: str) -> str:
    """Return an id of nine letters and digits, always the same one for the same call id."""
    number = int.from_bytes(blake2b(call_id.encode(), digest_size=8).digest())
    letters: list[str] = []
    for _ in range(_CALL_ID_LENGTH):
        number, digit = divmod(number, len(_CALL_ID_LETTERS))
        letters.append(_CALL_ID_LETTERS[digit])
    return "".join(letters)


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
