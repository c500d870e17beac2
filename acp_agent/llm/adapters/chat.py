"""Chat Completions, as defined by OpenAI and supported by compatible servers: local
servers, Gemini, routers.

`chat_fold.py` reads the answers. Parts of a request that a server refuses are left out
of later requests; see `refusals.py`.

OpenAI's own format has no field for reasoning, so servers use different ones. Reasoning
is sent back in the form in which it arrived, to the provider that created it.
`ReasoningRules.echo` tells whether a provider needs more.

Source: the types of the openai SDK 3.54; Gemini's page on OpenAI compatibility for
`extra_content`, and on thought signatures; DeepSeek's and Moonshot's pages on thinking;
OpenRouter's on reasoning tokens; Mistral's on reasoning; Ollama's and LM Studio's API
references for the windows of their models.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from acp_agent.conversation.messages import (
    JsonObject,
    JsonValue,
)
from acp_agent.conversation.strict_json import get_object, get_objects, get_text
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.adapters.adapter import Adapter
from acp_agent.llm.adapters.anthropic import thinking_budget
from acp_agent.llm.adapters.chat_encoder import ChatEncoder
from acp_agent.llm.adapters.chat_fold import (
    BLOCKS,
    CONTENT,
    DETAILS,
    TEXT_KEYS,
    ChatFold,
)
from acp_agent.llm.adapters.encoding import Encoded, Features, ModelCall, to_json
from acp_agent.llm.adapters.fold import Fold
from acp_agent.llm.binding import Prefix
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refusals import taken_effort, taken_limit
from acp_agent.llm.rules import ReasoningRules

_KIMI_KEEPS: tuple[tuple[str, ...], JsonObject] = (
    ("kimi-k2.6",),
    {"type": "enabled", "keep": "all"},
)
_GLM_KEEPS: tuple[tuple[str, ...], JsonObject] = (
    ("glm-4.7", "glm-5"),
    {"type": "enabled", "clear_thinking": False},
)
_KEEPS = {
    "api.moonshot.ai": _KIMI_KEEPS,
    "api.moonshot.cn": _KIMI_KEEPS,
    "api.z.ai": _GLM_KEEPS,
    "open.bigmodel.cn": _GLM_KEEPS,
}
"""By host: the models that ignore the reasoning of earlier turns unless `thinking` has
this value. These models think by default.
"""
_OFFICIAL_HOST = "api.openai.com"
_SILENT_HOSTS = frozenset({_OFFICIAL_HOST, "generativelanguage.googleapis.com"})
"""Hosts whose lists of models are known to lack windows."""
_BREAKPOINT: JsonValue = {"type": "ephemeral"}
_LEVELS = ("low", "medium", "high")
_LOCAL_PATHS = {"ollama": "/api/ps", "lmstudio": "/api/v0/models"}
"""The paths at which local servers report the windows of loaded models."""


class ChatAdapter(Adapter):
    """Chat Completions."""

    # Errors from DeepSeek and Moonshot about missing reasoning contain none of these
    # phrases.
    refusals = (
        (
            "echo",
            (
                # Groq, Cerebras.
                *(f"{key}' is unsupported" for key in (*TEXT_KEYS, DETAILS)),
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
        self._is_openrouter = (
            endpoint.name == "openrouter"
            or f".{endpoint.host}".endswith(".openrouter.ai")
        )
        if self._is_openrouter:  # OpenRouter lists its models without a key
            self.models_path = "/key"

    def call(
        self,
        request: ModelRequest,
        profile: ModelProfile,
        refused: Features,
        prompt: str | None,
    ) -> ModelCall:
        rules = self.rules(request.model, refused)
        make = partial(
            ChatEncoder,
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
        body: JsonObject = {
            "model": request.model,
            "messages": list[JsonValue](messages),
        }
        body |= self._limit(request, refused)
        if "stream" not in refused:
            body["stream"] = True
            if "stream_options" not in refused:
                body["stream_options"] = {"include_usage": True}
        if request.tools and "functions" not in refused:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.input_schema,
                    },
                }
                for tool in request.tools
            ]
        body |= self._thinking(request, profile, rules, refused, messages)
        return ModelCall(
            "/chat/completions",
            body,
            streams="stream" in body,
            opening=opening,
            features=features,
        )

    def fold(self, call: ModelCall) -> Fold:
        tools = [
            get_text(get_object(tool, "function"), "name")
            for tool in get_objects(call.body, "tools")
        ]
        return ChatFold(self.name, tools)

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
                limit = taken_limit(
                    request.max_output_tokens, request.takes.get(name, "")
                )
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
            effort = (
                taken_effort(effort, request.takes.get("reasoning", ""))
                if profile.thinking != "none"
                else ""
            )
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
        is_kept = (
            keeps is not None
            and "echo" not in refused
            and "thinking" not in refused
            and level != "off"
        )
        if keeps is not None and is_kept and request.model.startswith(keeps[0]):
            members["thinking"] = keeps[1]
        return members


def _claude_thinking(
    request: ModelRequest,
    profile: ModelProfile,
    rules: ReasoningRules,
    messages: Sequence[JsonObject],
) -> tuple[str, JsonObject]:
    """Return the effort and the `thinking` member for a Claude model that is called
    through a gateway.

    LiteLLM passes `thinking` on to the Messages API. It also converts an effort to
    `thinking`, so only one of the two is set.
    """
    level = request.thought_level
    kind = profile.thinking
    if kind in ("none", "effort"):
        return "", {}
    if kind == "budget":
        budget = thinking_budget(level, profile, request.max_output_tokens)
        none: JsonObject = {}
        newest = next(
            (each for each in reversed(messages) if each["role"] == "assistant"), none
        )
        # After a tool call that was made without thinking, the API refuses to continue
        # with thinking.
        is_without = "tool_calls" in newest and BLOCKS not in newest
        return "", {
            "type": "enabled",
            "budget_tokens": budget,
        } if budget and not is_without else {}
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

    :param marked: whether to mark the prompt, and the tools before it, for caching.
    """
    if not text.strip():
        return None
    if not marked:
        return {"role": "system", "content": text}
    return {
        "role": "system",
        "content": [{"type": "text", "text": text, "cache_control": _BREAKPOINT}],
    }


def _with_breakpoints(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the messages with cache breakpoints at the end of this request and of the
    previous one.

    A breakpoint goes on the last user message or tool result before an answer,
    including the upcoming one.
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
