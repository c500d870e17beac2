"""What providers with Chat Completions want back of their reasoning. Each has its own
rule; `Binding.chat` names it.

DeepSeek (api-docs.deepseek.com/guides/thinking_mode): an assistant message with calls
has to carry `reasoning_content`, even an empty one, unless thinking is off. Kimi
(platform.moonshot.ai, thinking models): such a message has to be as the model made it.
Gemini (ai.google.dev/gemini-api/docs/thought-signatures): the first call of each step
of the current turn has to carry its signature, or one of the documented stand-ins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

from support.binding.pieces import Piece, PromptCache, canonical, piece
from support.binding.records import RejectedError, Violation
from support.binding.settings import Binding
from support.replies import Part, Reply, Usage

STAND_INS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Gemini's dummies for calls that it did not make."""


class ChatChecks:
    """What the server gave out, and the judgement of requests by it."""

    def __init__(
        self, binding: Binding, cache: PromptCache, violations: list[Violation]
    ) -> None:
        self.binding = binding
        self.violations = violations
        self._cache = cache
        self._made: dict[str, Mapping[str, Any]] = {}
        self._signatures: set[str] = set()

    def examine(self, body: Mapping[str, Any], call: int) -> ExaminedChat:
        """Judge a request.

        :raises RejectedError: if it is refused.
        """
        messages: list[Mapping[str, Any]] = list(body.get("messages") or [])
        thinks = (body.get("thinking") or {}).get("type") != "disabled"
        match self.binding.chat:
            case "deepseek" if thinks:
                self._check_deepseek(body, messages, call)
            case "kimi" if thinks:
                self._check_kimi(body, messages, call)
            case "gemini":
                self._check_gemini(body, messages, call)
        model = str(body.get("model"))
        cached = self._cache.add(call, model, _cached_pieces(body, messages))
        return ExaminedChat(
            self,
            body,
            thinks,
            Usage(input=cached.fresh, output=0, cache_read=cached.read),
        )

    def made(self, id: str, message: Mapping[str, Any]) -> None:
        self._made[id] = message

    def sign(self) -> str:
        signature = f"thought-{len(self._signatures) + 1}-{token_hex(8)}"
        self._signatures.add(signature)
        return signature

    def _check_deepseek(
        self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], call: int
    ) -> None:
        for index, message in enumerate(messages):
            if message.get("tool_calls") and not isinstance(
                message.get("reasoning_content"), str
            ):
                said = "The `reasoning_content` in the thinking mode must be passed back to the API."
                self._reject(said, body, index, call)

    def _check_kimi(
        self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], call: int
    ) -> None:
        for index, message in enumerate(messages):
            if not message.get("tool_calls"):
                continue
            if not isinstance(message.get("reasoning_content"), str):
                missing = "reasoning_content is missing in assistant tool call message"
                self._reject(
                    f"thinking is enabled but {missing} at index {index}",
                    body,
                    index,
                    call,
                )
            made = self._made.get(str(message["tool_calls"][0].get("id")))
            if made is None or made != _compared(message):
                self._reject(
                    f"the assistant tool call message at index {index} was changed",
                    body,
                    index,
                    call,
                )

    def _check_gemini(
        self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], call: int
    ) -> None:
        prompts = [
            index
            for index, message in enumerate(messages)
            if message.get("role") == "user"
        ]
        start = prompts[-1] if prompts else 0
        for index, message in enumerate(messages):
            if index < start or not message.get("tool_calls"):
                continue
            first = message["tool_calls"][0]
            google = (first.get("extra_content") or {}).get("google") or {}
            signature = google.get("thought_signature")
            if signature is None:
                name = (first.get("function") or {}).get("name")
                said = "Function call is missing a thought_signature in functionCall parts."
                more = f"Additional data, function call `default_api:{name}`, position {index + 1}."
                self._reject(f"{said} {more}", body, index, call)
            if signature not in self._signatures and signature not in STAND_INS:
                self._reject("Corrupted thought signature.", body, index, call)

    def _reject(
        self, said: str, body: Mapping[str, Any], index: int, call: int
    ) -> None:
        path = f"messages.{index}"
        violation = Violation(
            call, "chat", str(body.get("model")), said, path, "invalid", "refused"
        )
        raise RejectedError(said, code="invalid_request_error", violation=violation)


@dataclass(slots=True)
class ExaminedChat:
    """A request that passed, and what its answer needs."""

    checks: ChatChecks
    body: Mapping[str, Any]
    thinks: bool
    usage: Usage

    def sealed(self, reply: Reply, number: int) -> Reply:
        """Return the reply with thinking if the provider sends it, signed calls, and
        usage.
        """
        provider = self.checks.binding.chat
        thinks = self.checks.binding.thinks
        if provider in ("deepseek", "kimi"):
            if not self.thinks:
                reply = replace(reply, thinking="", thoughts=(), between=())
            elif thinks and not (reply.thinking or reply.thoughts or reply.between):
                reply = replace(reply, thinking=thinks)
        if reply.usage is None:
            output = reply.usage_for(self.body).output
            reply = replace(reply, usage=replace(self.usage, output=output))
        parts = reply.parts(number)
        calls = [part for part in parts if part.kind == "tool"]
        if calls:
            self.checks.made(calls[0].id, _made(parts))
        if calls and provider == "gemini":
            reply = replace(reply, seals={calls[0].id: self.checks.sign()})
        return reply

    def reported_in(self, data: dict[str, Any]) -> dict[str, Any]:
        return data


def _compared(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what of an assistant message has to come back as it was."""
    content = message.get("content") or ""
    text = (
        content
        if isinstance(content, str)
        else "".join(str(part.get("text", "")) for part in content)
    )
    calls = [
        {
            "id": call.get("id"),
            "name": (call.get("function") or {}).get("name"),
            "arguments": (call.get("function") or {}).get("arguments"),
        }
        for call in message.get("tool_calls") or []
    ]
    return {
        "content": text,
        "reasoning_content": message.get("reasoning_content"),
        "calls": calls,
    }


def _made(parts: Sequence[Part]) -> Mapping[str, Any]:
    """Return an answer in the same form."""
    thinking = "".join(part.text for part in parts if part.kind == "thinking")
    text = "".join(part.text for part in parts if part.kind == "text")
    calls = [
        {"id": part.id, "name": part.name, "arguments": part.text}
        for part in parts
        if part.kind == "tool"
    ]
    return {"content": text, "reasoning_content": thinking, "calls": calls}


def _cached_pieces(
    body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]
) -> list[Piece]:
    tools = [
        piece(tool, f"tools.{index}")
        for index, tool in enumerate(body.get("tools") or [])
    ]
    return tools + [
        piece(canonical(message), f"messages.{index}")
        for index, message in enumerate(messages)
    ]
