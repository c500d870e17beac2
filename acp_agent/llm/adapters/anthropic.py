"""Encodes requests for Anthropic's Messages API. `messages_fold.py` reads the answers.

Source: the types of the anthropic SDK 2.12, and the pages on prompt caching, thinking,
preserved thinking, streaming, on-demand compaction and context windows of
platform.claude.com.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import cast

from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    CompactedBlock,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from acp_agent.conversation.strict_json import get_objects
from acp_agent.llm.adapters.adapter import Adapter, first_level, first_tools
from acp_agent.llm.adapters.encoding import (
    Encoded,
    Encoder,
    Features,
    ModelCall,
    ReasoningPlace,
    says_something,
    wire_name,
)
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.adapters.messages_fold import MessagesFold
from acp_agent.llm.binding import Prefix, head_of
from acp_agent.llm.parts import arguments_of, base64_of, user_parts
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refusals import taken_limit
from acp_agent.llm.rules import ReasoningRules

_BETAS = "anthropic-beta"
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_COMPACTION_BETA = "compact-2026-09-04"
_EFFORT_BETA = "mid-conversation-output-config-2026-07-01"
_TOOLS_BETA = {
    "value": "inline-tools-2026-09-15",
    "reference": "mid-conversation-tool-changes-2026-07-01",
}
_MAX_INSTRUCTIONS = 16_384
"""Maximum length of a prompt for the provider's compaction."""
_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
_LEAST_BUDGET = 1_024
# One eighth of the window is left over once a context fills the usable window.
_BUDGET_SHARE = 8
_EFFORTS = {"": "high", "off": "low"}
"""The effort to return to for a level without an effort of its own: the API's default,
or the lowest effort for `off`.
"""


class AnthropicAdapter(Adapter):
    """The Messages API."""

    sdk = "anthropic"
    refusals = (
        ("controls", ("block_binding", _BINDING_BETA)),
        ("effort", ("output_config", "role 'system'", 'role "system"', _EFFORT_BETA)),
        (
            "tools",
            (
                "tool_addition",
                "tool_removal",
                "role 'system'",
                'role "system"',
                *_TOOLS_BETA.values(),
            ),
        ),
        ("compaction", ("compaction",)),
    )
    vague_refusals = ("invalid beta", "unsupported beta", "anthropic-beta")
    members = ("max_tokens", "thinking", "reasoning_effort", "stream")
    required = ("max_tokens",)
    native_key = "type"
    _place = re.compile(r"messages\.\d+\.content\.\d+")

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.models_path = "/v1/models"
        self._betas = [
            value for name, value in endpoint.headers.items() if name.lower() == _BETAS
        ]

    def call(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        refused: Features,
        prompt: str | None,
    ) -> ModelCall:
        rules = self.rules(request.model, refused)
        most = taken_limit(
            request.max_output_tokens, request.takes.get("max_tokens", "")
        )
        body: JsonObject = {"model": request.model, "max_tokens": most}
        is_marked = "cache_control" not in refused
        mark: JsonObject = {"cache_control": _BREAKPOINT} if is_marked else {}
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system, **mark}]
        tools = _tools(request, rules)
        opening, encoder = self._encode(request, profile, rules, tools)
        if tools and "functions" not in refused:
            marked = [*tools[:-1], {**tools[-1], **mark}]
            # A deferred tool is not in the cached prefix.
            body["tools"] = list[JsonValue](
                tools if "defer_loading" in tools[-1] else marked
            )
        messages = _with_breakpoints(encoder.items) if is_marked else encoder.items
        body["messages"] = list[JsonValue](messages)
        options = _thinking_options(request, profile, rules, messages)
        if "thinking" in refused:
            options = {}
        if "reasoning_effort" in refused:
            options.pop("output_config", None)
        body |= options
        streams = "stream" not in refused
        if streams:
            body["stream"] = True
        if prompt is not None:
            instructions: JsonObject = (
                {"instructions": prompt[:_MAX_INSTRUCTIONS]} if prompt.strip() else {}
            )
            body["compaction"] = {"type": "summarize"} | instructions
        end = encoder.encoded()
        features = end.features
        if rules.controls:
            features = features.union(("controls",))
        betas = _betas_for(
            features if prompt is None else features.union(("compaction",)), rules
        )
        if is_marked:
            features = features.union(("cache_control",))
        if not betas:
            return ModelCall(
                "/v1/messages",
                body,
                streams=streams,
                opening=opening,
                end=end,
                features=features,
            )
        # Repeat the configured betas, since this header replaces the configured one.
        headers = {_BETAS: ",".join([*self._betas, *betas])}
        path = "/v1/messages?beta=true"
        return ModelCall(
            path,
            body,
            headers,
            streams=streams,
            opening=opening,
            end=end,
            features=features,
        )

    def fold(self, call: ModelCall) -> Fold:
        del call
        return MessagesFold(self.name)

    def window_path(self, model: str) -> str | None:
        return f"/v1/models/{model}"

    def answer_part(self, part: Text | ToolCall) -> JsonObject:
        return _block(part) if isinstance(part, Text) else _call_block(part, part.id)

    def _refuses_reasoning(self, said: str) -> bool:
        return "thinking`" in said and (
            "signature" in said or "cannot be modified" in said
        )

    def places(
        self, request: ModelRequest, profile: ModelProfile, refused: Features
    ) -> list[ReasoningPlace]:
        rules = self.rules(request.model, refused)
        encoder = self._start(request, profile, rules, _tools(request, rules))
        encoder.add(request.messages)
        encoder.finish()
        return encoder.places

    def _encode(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        rules: ReasoningRules,
        tools: Sequence[JsonObject],
    ) -> tuple[tuple[bytes, ...], Encoder]:
        """Return the older messages as JSON, and the encoder that holds the rest.

        A request and its continuation are equal up to the end of the shorter one,
        except for the positions of the `cache_control` marks: one on the last tool, one
        on the system prompt, two on the newest user messages.
        """
        start = self._start(request, profile, rules, tools)
        make = partial(
            self._encoder, request=request, images=profile.images, rules=rules
        )
        return self.split(request, start.encoded(), make, rules, profile.images)

    def _start(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        rules: ReasoningRules,
        tools: Sequence[JsonObject],
    ) -> Encoder:
        if rules.tools == "reference":
            head = head_of(
                request.system, (tool for tool in tools if "defer_loading" not in tool)
            )
        else:
            head = self.head(request.system, first_tools(request, rules), _tool)
        prefix = Prefix(head)
        return self._encoder(
            Encoded(prefix), request=request, images=profile.images, rules=rules
        )

    def _encoder(
        self,
        before: Encoded,
        *,
        request: ModelRequest,
        images: bool,
        rules: ReasoningRules,
    ) -> Encoder:
        return _MessagesEncoder(
            before,
            self.name,
            rules,
            request,
            self.native_block(request, rules),
            images=images,
        )


def _betas_for(features: Features, rules: ReasoningRules) -> list[str]:
    """Return the beta headers that these features need."""
    betas: list[str] = []
    if "controls" in features:
        betas.append(_BINDING_BETA)
    if "tools" in features:
        betas.append(_TOOLS_BETA[rules.tools])
    if "effort" in features:
        betas.append(_EFFORT_BETA)
    if "compaction" in features:
        betas.append(_COMPACTION_BETA)
    return betas


def _tools(request: ModelRequest, rules: ReasoningRules) -> list[JsonObject]:
    """Return the tools at the beginning of a request.

    Tools that are added by reference later come last and are deferred until then. A
    changed tool cannot be added by reference, so its definition is replaced, even
    though that invalidates reasoning.
    """
    tools = {tool.name: _tool(tool) for tool in first_tools(request, rules)}
    if rules.tools == "reference":
        first = set(tools)
        for message in request.messages:
            for tool in message.added if isinstance(message, Amendment) else ():
                deferred: JsonObject = (
                    {} if tool.name in first else {"defer_loading": True}
                )
                tools[tool.name] = {**_tool(tool), **deferred}
    return list(tools.values())


def _tool(tool: ToolDefinition) -> JsonObject:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    }


class _MessagesEncoder(Encoder):
    """Encodes messages in Anthropic's form: user and assistant messages alternate, and
    results come first in user messages.

    :param compacted: a block in the API's own form. The API expects it first, in an
        assistant message.
    """

    def __init__(
        self,
        before: Encoded,
        provider: str,
        rules: ReasoningRules,
        request: ModelRequest,
        compacted: CompactedBlock | None,
        *,
        images: bool,
    ) -> None:
        super().__init__(before, provider, rules, request)
        self._images = images
        self._compacted = compacted
        self._changes: list[JsonValue] = []
        self._effort = ""
        self._ends_in_compaction = False

    def finish(self) -> None:
        """Encode the pending changes as a system message, which must come directly
        before an answer or at the end.
        """
        if self._changes or self._effort:
            message: JsonObject = {"role": "system", "content": self._changes}
            if self._effort:
                # According to the API's documentation, a change of effort alone is a
                # message without content, but some compatible servers refuse that.
                told = Text(f"The reasoning effort is {self._effort} from here on.")
                message = {
                    "role": "system",
                    "content": [*self._changes, _block(told)],
                    "output_config": {"effort": self._effort},
                }
            self.items.append(message)
            self._prefix = self._prefix.after("system", message)
            self._changes = []
            self._effort = ""

    def _add(self, message: Message) -> None:
        if not self._messages and self._compacted is not None:
            self._add_compacted(self._compacted)
        match message:
            case AssistantMessage():
                self._add_answer(message)
            case ToolResult():
                content: list[JsonValue] = [
                    _block(part)
                    for part in user_parts(message.parts, images=self._images)
                ]
                error: JsonObject = {"is_error": True} if message.is_error else {}
                call_id = self._call_ids.get(message.call_id, message.call_id)
                self._append(
                    "user",
                    {
                        "type": "tool_result",
                        "tool_use_id": call_id,
                        "content": content,
                        **error,
                    },
                )
            case Amendment():
                if message.parts:
                    self._add_user(message)
                self._amend(message)
            case UserMessage():
                self._add_user(message)

    def _add_compacted(self, block: CompactedBlock) -> None:
        self.items.append({"role": "assistant", "content": [dict(block.data)]})
        self._ends_in_compaction = True
        self._prefix = self._prefix.after_compaction(block.data, block.at)
        changed = (
            bool(get_objects(block.data, "tool_changes"))
            and self._rules.tools != "plain"
        )
        self._features = self._features | (
            {"compaction", "tools"} if changed else {"compaction"}
        )

    def _add_user(self, message: UserMessage) -> None:
        parts = [part for part in message.parts if part is not self._compacted]
        if parts or not message.parts:
            for part in user_parts(parts, images=self._images):
                self._append("user", _block(part))

    def _add_answer(self, message: AssistantMessage) -> None:
        if not says_something(message):
            return
        self.finish()
        self._name_calls(message)
        for part in message.parts:
            match part:
                case Text() if part.text.strip():
                    self._append("assistant", _block(part))
                case ToolCall():
                    self._append(
                        "assistant", _call_block(part, self._call_ids[part.id])
                    )
                case Thinking(data={"type": "thinking" | "redacted_thinking"}) if (
                    self._is_sent(part, message)
                ):
                    shown: JsonObject = (
                        {"thinking": part.text}
                        if part.data["type"] == "thinking"
                        else {}
                    )
                    path = self._append(
                        "assistant", {**part.data, **shown}, compared=False
                    )
                    self._note_place(path, part, message)
                case _:
                    pass

    def _append(self, role: str, block: JsonObject, *, compared: bool = True) -> str:
        """Append a block to the newest message, or to a new one if the role differs;
        return the block's path.

        :param compared: whether later reasoning is bound to the block, as it is to all
            blocks except reasoning.
        """
        content: list[JsonValue] = []
        if (
            self.items
            and self.items[-1]["role"] == role
            and not self._ends_in_compaction
        ):
            content = cast("list[JsonValue]", self.items[-1]["content"])
        else:
            self.items.append({"role": role, "content": content})
        self._ends_in_compaction = False
        content.append(block)
        if compared:
            self._prefix = self._prefix.after(role, block)
        return f"messages.{len(self.items) - 1}.content.{len(content) - 1}"

    def _amend(self, message: Amendment) -> None:
        if self._rules.tools in ("value", "reference"):
            for name in message.removed:
                tool: JsonObject = {"type": "tool_reference", "name": name}
                self._changes.append({"type": "tool_removal", "tool": tool})
            for added in message.added:
                tool = {"type": "tool_reference", "name": added.name}
                if self._rules.tools == "value":
                    tool = {"type": "tool_definition", "definition": _tool(added)}
                self._changes.append({"type": "tool_addition", "tool": tool})
            if message.added or message.removed:
                self._features = self._features | {"tools"}
        if self._rules.effort == "message" and message.thought_level is not None:
            self._effort = _EFFORTS.get(message.thought_level, message.thought_level)
            self._features = self._features | {"effort"}


def _with_breakpoints(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the messages with cache marks on the two newest user messages: this
    request's and the previous one's.
    """
    marked = list(messages)
    users = [at for at, message in enumerate(marked) if message["role"] == "user"]
    for at in users[-2:]:
        content = cast("list[JsonObject]", marked[at]["content"])
        last: JsonObject = {**content[-1], "cache_control": _BREAKPOINT}
        marked[at] = {**marked[at], "content": [*content[:-1], last]}
    return marked


def _block(part: Text | Image) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": part.mime_type,
            "data": base64_of(part),
        },
    }


def _call_block(call: ToolCall, call_id: str) -> JsonObject:
    return {
        "type": "tool_use",
        "id": call_id,
        "name": wire_name(call.name),
        "input": arguments_of(call),
    }


def _thinking_options(
    request: ModelRequest,
    profile: ModelProfile,
    rules: ReasoningRules,
    messages: Sequence[JsonObject],
) -> JsonObject:
    """Return `thinking` and `output_config` for a thought level; empty if the model
    decides.

    `display` requests a readable summary, since newer models otherwise do not show
    their thinking. Sampling parameters are never sent, since thinking forbids them and
    newer models refuse them.
    """
    level = request.thought_level
    kind = profile.thinking
    if kind == "budget":
        budget = thinking_budget(level, profile, request.max_output_tokens)
        thinking: JsonObject = {"type": "enabled", "budget_tokens": budget}
        return (
            {"thinking": thinking}
            if budget and not _calls_without_thinking(messages)
            else {}
        )
    if kind in ("none", "effort") or (kind == "adaptive" and level not in _BUDGETS):
        return {}
    if level == "off" and rules.off in ("disabled", "between_tools"):
        return {"thinking": {"type": rules.off}}
    first = first_level(request, rules)
    effort: JsonObject = (
        {"output_config": {"effort": "low" if first == "off" else first}}
        if first
        else {}
    )
    controls: JsonObject = (
        {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        if rules.controls
        else {}
    )
    return {
        "thinking": {"type": "adaptive", "display": "summarized", **controls},
        **effort,
    }


def thinking_budget(level: str, profile: ModelProfile, max_output_tokens: int) -> int:
    """Return the thinking budget of a level in tokens, or 0 if thinking is off or the
    budget does not fit.

    A different budget invalidates the provider's cache of the messages, so each level
    has one budget.

    :param max_output_tokens: the token limit of the answer, including thinking.
    """
    budget = min(
        _BUDGETS.get(level, 0),
        profile.max_output_tokens // 2,
        profile.context_window // _BUDGET_SHARE,
    )
    fits = budget >= _LEAST_BUDGET and budget * 3 <= max_output_tokens * 2
    return budget if fits else 0


def _calls_without_thinking(messages: Sequence[JsonObject]) -> bool:
    """Return whether the newest answer has calls, but its thinking was left out.

    The API refuses to continue such an answer with a thinking budget.
    """
    newest = next(
        (message for message in reversed(messages) if message["role"] == "assistant"),
        None,
    )
    blocks = get_objects(newest or {}, "content")
    calls = any(block.get("type") == "tool_use" for block in blocks)
    return calls and blocks[0].get("type") not in ("thinking", "redacted_thinking")
