"""The messages of a conversation in the form of Chat Completions.

Source: see `chat.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    Thinking,
    ToolResult,
    UserMessage,
)
from acp_agent.conversation.strict_json import get_object, get_objects, get_text
from acp_agent.llm.adapters.chat_fold import (
    BLOCKS,
    CONTENT,
    DETAILS,
    EXTRA,
    REASONING,
    TEXT_KEYS,
)
from acp_agent.llm.adapters.encoding import (
    Encoded,
    Encoder,
    Features,
    says_something,
    wire_name,
)
from acp_agent.llm.parts import (
    arguments_text,
    has_raw_arguments,
    image_url,
    sent_arguments,
    user_parts,
)
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.rules import ReasoningRules, rules_of

_NO_SIGNATURE: JsonObject = {
    "google": {"thought_signature": "skip_thought_signature_validator"}
}
"""Replaces a missing signature of a call. Google documents two such values; Vertex
accepts this one too.
"""
_CALL_ID_LENGTH = 9
_CALL_ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BETWEEN = "(interrupted)"
"""Text of the placeholder answer between a tool result and a user message, for servers
that require an answer there.
"""
_LOOKS = "I look at the image."
"""Text of the placeholder answer before an image that a tool has returned."""


class ChatEncoder(Encoder):
    """Encodes messages for Chat Completions.

    Consecutive user messages are merged, since the chat templates of local models
    expect user and assistant to alternate. Tool results can only be text here, so a
    tool's images follow all results of the step in a separate user message.

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
        self._user: list[Text | Image] = []
        self._system = (
            request.system if "system" in refused and not before.messages else ""
        )
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
                self.items.append(
                    {"role": "assistant", CONTENT: _LOOKS if is_image else _BETWEEN}
                )
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
        self._user += user_parts(message.parts, images=self._profile.images)

    def _add_result(self, message: ToolResult) -> None:
        parts = user_parts(message.parts, images=self._profile.images)
        texts = [part.text for part in parts if isinstance(part, Text)] or [
            "(see the image below)"
        ]
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
            asked = [
                f"[call of {call.name} with {arguments_text(call)}]"
                for call in message.tool_calls
            ]
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
            # Mistral's templates require nine letters and digits, and all other servers
            # accept such ids.
            is_own = sent == own
            names[own] = (
                _short_id(own)
                if is_own or (wants_short and not _is_short_id(sent))
                else sent
            )
        self._call_ids = names
        if any(not _is_short_id(sent) for sent in names.values()):
            self._features = self._features | {"call_ids"}

    def _own(self, message: AssistantMessage) -> list[Thinking]:
        """Return the reasoning of an answer that the model can read.

        A router offers models from many vendors, each with its own signatures. The
        vendor is the part of the model's id before the slash.
        """
        model = message.model.partition("/")[2] or self._model
        has_same_maker = model.rpartition("/")[0] == self._model.rpartition("/")[0]
        if not has_same_maker or not self._rules.can_read(rules_of(model).family):
            return []
        return [
            part
            for part in message.parts
            if isinstance(part, Thinking) and part.provider == self._provider
        ]

    def _calls(
        self, message: AssistantMessage, own: Sequence[Thinking]
    ) -> list[JsonValue]:
        extra: JsonObject = {}
        for part in own:
            extra |= get_object(part.data, EXTRA)
        if (
            not extra
            and self._rules.echo == "thought_signature"
            and not self._is_openrouter
        ):
            # Gemini checks the first call of each step. This call was made by another
            # model, or its signature was lost.
            extra = {"0": _NO_SIGNATURE}
        calls: list[JsonValue] = []
        for index, call in enumerate(message.tool_calls):
            arguments = sent_arguments(call)
            if has_raw_arguments(call):
                if "raw_arguments" in self._refused:
                    arguments = arguments_text(call)
                else:
                    self._features = self._features | {"raw_arguments"}
            function: JsonObject = {
                "name": wire_name(call.name),
                "arguments": arguments,
            }
            kept: JsonObject = {EXTRA: extra[str(index)]} if str(index) in extra else {}
            calls.append(
                {
                    "id": self._call_ids[call.id],
                    "type": "function",
                    "function": function,
                    **kept,
                }
            )
        return calls

    def _reasoning(self, wire: JsonObject, own: Sequence[Thinking]) -> JsonObject:
        """Return the members of an answer that hold its reasoning as text.

        :param wire: the answer without the reasoning.
        """
        echo = self._rules.echo
        if echo in ("none", "thought_signature"):
            return {}
        has_calls = "tool_calls" in wire
        if echo == "items" and has_calls and CONTENT in wire:
            return {}  # gpt-oss's template has one place for both, and fails
        text = "".join(part.text for part in own)
        key = next((key for part in own if (key := get_text(part.data, "key"))), "")
        is_required = echo == "always" or (echo == "calls" and has_calls)
        if key in TEXT_KEYS and any(BLOCKS in part.data for part in own):
            key = ""  # LiteLLM accepts the reasoning in `thinking_blocks`
        # Other models use OpenRouter's `reasoning_details`.
        if key and self._is_openrouter:
            key = REASONING if echo in ("always", "calls") else ""
        if is_required:
            key = key or REASONING
            # Kimi treats an empty text as missing.
            text = text or ("" if echo == "always" else " ")
        if not key:
            return {}
        if key != CONTENT:
            return {key: text}
        thought: JsonObject = {
            "type": "thinking",
            "thinking": [{"type": "text", "text": text}],
            "closed": True,
        }
        said: list[JsonValue] = (
            [{"type": "text", "text": wire[CONTENT]}] if CONTENT in wire else []
        )
        return {CONTENT: [thought, *said]}


def _fragments(own: Iterable[Thinking]) -> JsonObject:
    """Return the members of an answer that hold its reasoning blocks, in the form that
    OpenRouter and LiteLLM send.
    """
    members: JsonObject = {}
    for kind in (DETAILS, BLOCKS):
        blocks = [block for part in own for block in get_objects(part.data, kind)]
        # `index` occurs only in streams and is not a field of requests.
        if kind == BLOCKS:
            blocks = [
                {key: value for key, value in block.items() if key != "index"}
                for block in blocks
            ]
        if blocks:
            members[kind] = list[JsonValue](blocks)
    return members


def _is_short_id(call_id: str) -> bool:
    return len(call_id) == _CALL_ID_LENGTH and call_id.isascii() and call_id.isalnum()


def _short_id(call_id: str) -> str:
    """Return an id of nine letters and digits. The same call id always gets the same
    short id.
    """
    number = int.from_bytes(blake2b(call_id.encode(), digest_size=8).digest())
    letters: list[str] = []
    for _ in range(_CALL_ID_LENGTH):
        number, digit = divmod(number, len(_CALL_ID_LETTERS))
        letters.append(_CALL_ID_LETTERS[digit])
    return "".join(letters)


def _content(parts: Sequence[Text | Image]) -> JsonValue:
    texts = [part.text for part in parts if isinstance(part, Text)]
    return (
        "\n\n".join(texts)
        if len(texts) == len(parts)
        else [_block(part) for part in parts]
    )


def _block(part: Text | Image) -> JsonValue:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": image_url(part)}}
