"""The check of reasoning items in OpenAI's Responses API, and the seals it relies on.

Pages of developers.openai.com/api/docs/guides: keep-prefix-unchanged for what counts,
compaction for windows and kept items, reasoning for the items; the SDK's types for
`input_transformations`. From GPT-6.2 on an item that does not fit its new prefix is
removed without an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from support.binding.pieces import (
    Difference,
    Mismatch,
    Piece,
    PromptCache,
    first_difference,
    piece,
    reasoning_piece,
)
from support.binding.records import RejectedError, Violation
from support.binding.settings import Binding
from support.dialect_openai import TRIGGER, misplaced_trigger, triggers
from support.replies import Part, Reply, Usage

PREFIX = "prefix_mismatch"
MODEL = "model_mismatch"
ORGANIZATION = "organization_mismatch"
CHECKED = re.compile(r"gpt-(6\.[2-9]|[7-9]|\d\d)")
"""Models that compare what stands before a reasoning item, and take instructions for
one turn only.
"""
NOT_COMPARED = ("id", "status", "created_by", "prompt_cache_breakpoint")
ANSWERS = (
    "function_call",
    "custom_tool_call",
    "compaction",
    "web_search_call",
    "local_shell_call",
)
"""Items, beside the assistant's messages, that a reasoning item may precede."""
NO_EFFORT = ("none", "minimal")


def is_checked(model: str) -> bool:
    return CHECKED.match(model.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True)
class Thought:
    """A reasoning item that was sent back.

    :ivar before: how many pieces stand before it.
    """

    item: Mapping[str, Any]
    path: str
    before: int

    @property
    def id(self) -> str:
        return str(self.item.get("id"))

    @property
    def content(self) -> str:
        return str(self.item.get("encrypted_content"))


@dataclass(frozen=True, slots=True)
class Seal:
    """What the encrypted content of a reasoning item stands for.

    :ivar head: the parts of the request that count, by name.
    """

    model: str
    organization: str
    head: Mapping[str, Piece]
    pieces: tuple[Piece, ...]


class ResponsesRequest:
    """The compared form of a request.

    :ivar head: tools in order, text format, effort if it counts, and the instructions
        of models before GPT-6.2; empty for `/responses/compact`, which takes none of
        these.
    :ivar pieces: all input items but reasoning, in order.
    :ivar windows: how many pieces stand before each compaction item.
    :ivar triggers: whether it asks for a compaction by its last item, which is no part
        of what is compared or cached.
    """

    def __init__(
        self, body: Mapping[str, Any], *, effort_binds: bool, compacts: bool
    ) -> None:
        self.body = body
        self.model = str(body.get("model"))
        self.compacts = compacts
        self.triggers = triggers(body)
        given = body.get("input") or []
        self.items: list[Mapping[str, Any]] = (
            [{"role": "user", "content": given}] if isinstance(given, str) else given
        )
        self.pieces: list[Piece] = []
        self.thoughts: list[Thought] = []
        self.windows: list[int] = []
        self.head: dict[str, Piece] = {} if compacts else self._head(effort_binds)
        for index, item in enumerate(self.items):
            path = f"input[{index}]"
            kind = kind_of(item)
            if kind == "reasoning":
                self.thoughts.append(Thought(item, path, len(self.pieces)))
            elif kind == "compaction":
                self.windows.append(len(self.pieces))
                self.pieces.append(
                    piece(["compaction", item.get("encrypted_content")], path)
                )
            elif kind != TRIGGER:
                self.pieces.append(piece(canonical_item(item), path))

    def _head(self, effort_binds: bool) -> dict[str, Piece]:
        head = {
            "tools": self.body.get("tools") or [],
            "text.format": (self.body.get("text") or {}).get("format")
            or {"type": "text"},
        }
        if effort_binds:
            head["reasoning.effort"] = (self.body.get("reasoning") or {}).get("effort")
        if not is_checked(self.model):
            head["instructions"] = self.body.get("instructions") or ""
        return {name: piece(value, name) for name, value in head.items()}


class ResponsesChecks:
    """All seals that the server gave out, and the judgement of requests by them."""

    def __init__(
        self, binding: Binding, cache: PromptCache, violations: list[Violation]
    ) -> None:
        self.binding = binding
        self.violations = violations
        self._cache = cache
        self._seals: dict[str, Seal] = {}
        self._windows: set[str] = set()
        self._picked: str | None = None

    def examine(
        self, body: Mapping[str, Any], call: int, *, compacts: bool
    ) -> ExaminedResponses:
        """Judge a request to `/responses`, or to `/responses/compact`.

        :raises RejectedError: if it is refused.
        """
        request = ResponsesRequest(
            body, effort_binds=self.binding.effort_binds, compacts=compacts
        )
        self._check_effort(request)
        self._check_items(request, call)
        entries = self._judge_all(request, call)
        removed = {entry["id"] for entry in entries}
        kept = [thought for thought in request.thoughts if thought.id not in removed]
        cached = self._cache.add(
            call,
            request.model,
            self._cached_pieces(request, kept),
            self._uncached(request),
        )
        usage = Usage(input=cached.fresh, output=0, cache_read=cached.read)
        reported = entries if self.binding.reports and not compacts else None
        return ExaminedResponses(self, request, reported, usage)

    def seal(self, seal: Seal) -> str:
        content = f"reasoning-{len(self._seals) + 1}-{token_hex(8)}"
        self._seals[content] = seal
        return content

    def window(self) -> str:
        content = f"window-{len(self._windows) + 1}-{token_hex(8)}"
        self._windows.add(content)
        return content

    def _check_effort(self, request: ResponsesRequest) -> None:
        """GPT-6.2 refuses to reason less than `low` (latest-model), in the request and
        in an item.
        """
        if not is_checked(request.model):
            return
        for options in (
            request.body,
            *(
                item
                for item in request.items
                if kind_of(item) == "configuration_update"
            ),
        ):
            effort = (options.get("reasoning") or {}).get("effort")
            if effort in NO_EFFORT:
                said = f"Unsupported value: '{effort}' is not supported with the '{request.model}' model."
                raise RejectedError(
                    said, code="unsupported_value", param="reasoning.effort"
                )

    def _check_items(self, request: ResponsesRequest, call: int) -> None:
        """Refuse items that the server did not make, reasoning that nothing follows
        (reasoning), and a trigger in the wrong place (the API's specification).
        """
        if said := misplaced_trigger(request.body):
            raise RejectedError(said, param="input")
        for index, item in enumerate(request.items):
            kind = kind_of(item)
            content = str(item.get("encrypted_content"))
            known = self._seals if kind == "reasoning" else self._windows
            refused = kind == "compaction" and self.binding.refuse_compaction
            if kind in ("reasoning", "compaction") and (
                content not in known or refused
            ):
                said = f"The encrypted content for item {item.get('id')} could not be verified."
                violation = None
                if kind == "reasoning":
                    violation = Violation(
                        call,
                        "responses",
                        request.model,
                        said,
                        str(item.get("id")),
                        "invalid",
                        "refused",
                    )
                raise RejectedError(
                    said,
                    code="invalid_encrypted_content",
                    param="input",
                    violation=violation,
                )
            if kind == "reasoning" and not _is_answer(request.items[index + 1 :]):
                said = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
                raise RejectedError(said, param="input")
        _check_calls(request)

    def _judge_all(self, request: ResponsesRequest, call: int) -> list[dict[str, Any]]:
        """Return the entries for `input_transformations`."""
        entries: list[dict[str, Any]] = []
        if self.binding.drop_more and self._picked is None and request.thoughts:
            self._picked = request.thoughts[-1].content
        for thought in request.thoughts:
            mismatch = self._mismatch(request, thought, self._seals[thought.content])
            if (
                mismatch is None
                and self.binding.drop_more
                and thought.content == self._picked
            ):
                mismatch = Mismatch(
                    PREFIX, Difference("reasoning", thought.path, "nothing differs")
                )
            if mismatch is None:
                continue
            words = mismatch.difference.words
            self.violations.append(
                Violation(
                    call,
                    "responses",
                    request.model,
                    words,
                    thought.id,
                    mismatch.reason,
                    "dropped",
                )
            )
            reason = self.binding.other_reason or mismatch.reason
            entries.append(
                {
                    "id": thought.id,
                    "type": "reasoning",
                    "action": "removed",
                    "reason": reason,
                }
            )
        return entries

    def _mismatch(
        self, request: ResponsesRequest, thought: Thought, seal: Seal
    ) -> Mismatch | None:
        """Return why an item is removed. Items of models before GPT-6.2 have no record
        of their prefix.
        """
        if not is_checked(seal.model):
            return None
        if seal.organization != self.binding.organization:
            words = f"organization: made by {seal.organization}, sent by {self.binding.organization}"
            return Mismatch(
                ORGANIZATION, Difference("organization", thought.path, words)
            )
        if not is_checked(request.model):
            words = f"model: {request.model} does not read {seal.model}"
            return Mismatch(MODEL, Difference("model", thought.path, words))
        difference = self._difference(request, thought, seal)
        return Mismatch(PREFIX, difference) if difference else None

    def _difference(
        self, request: ResponsesRequest, thought: Thought, seal: Seal
    ) -> Difference | None:
        """Return what differs before an item from when it was made; None if nothing
        does.
        """
        for name, before in seal.head.items() if not request.compacts else ():
            now = request.head.get(name)
            if now is None or now.digest != before.digest:
                shown = now.shown if now else "nothing"
                return Difference(name, name, f"{name}: was {before.shown}, is {shown}")
        current = request.pieces[: thought.before]
        windows = [index for index in request.windows if index < thought.before]
        if not windows:
            return first_difference("input", seal.pieces, current)
        window = current[windows[-1]]
        tail = current[windows[-1] + 1 :]
        digests = [each.digest for each in seal.pieces]
        if window.digest in digests:
            return first_difference(
                "input", seal.pieces[digests.index(window.digest) + 1 :], tail
            )
        return self._kept_difference(seal, tail)

    def _kept_difference(self, seal: Seal, tail: Sequence[Piece]) -> Difference | None:
        """Check an item that is kept after a later compaction (keep-prefix-unchanged,
        "Use OpenAI compaction").

        What the compaction replaced does not count. What stands between it and the item
        has to be the end of what stood before the item when it was made, unless
        `insertion_binds` is off; the guide does not say that it has to.
        """
        if not self.binding.insertion_binds:
            return None
        ending = seal.pieces[max(0, len(seal.pieces) - len(tail)) :] if tail else ()
        return first_difference("input", ending, tail)

    def _cached_pieces(
        self, request: ResponsesRequest, kept: Sequence[Thought]
    ) -> list[Piece]:
        head = request.head or {}
        pieces = list(head.values())
        for index, each in enumerate([*request.pieces, None]):
            pieces += [
                reasoning_piece(one.content, one.path)
                for one in kept
                if one.before == index
            ]
            pieces += [each] if each is not None else []
        return pieces

    def _uncached(self, request: ResponsesRequest) -> int:
        """From GPT-6.2 on the API puts the instructions after the input and never reads
        them from the cache.
        """
        return (
            len(request.body.get("instructions") or "")
            if is_checked(request.model)
            else 0
        )


@dataclass(slots=True)
class ExaminedResponses:
    """A request that passed, and what its answer needs.

    :ivar reported: `input_transformations`; None leaves them out.
    :ivar windows: the encrypted content of the compactions in the answer, by their ids.
    """

    checks: ResponsesChecks
    request: ResponsesRequest
    reported: list[dict[str, Any]] | None
    usage: Usage
    windows: dict[str, str] = field(default_factory=dict[str, str])

    def sealed(self, reply: Reply, number: int) -> Reply:
        """Return the reply as the API would give it: with sealed reasoning and usage.

        The summary of the reasoning is sent if the request asks for it (reasoning,
        "Reasoning summaries").
        """
        thinks = self.checks.binding.thinks
        if self.request.compacts or (self.request.triggers and reply.compactions):
            reply = replace(reply, thinking="", thoughts=(), between=())
        elif thinks and not (reply.thinking or reply.thoughts or reply.between):
            reply = replace(reply, thinking=thinks)
        wanted = (self.request.body.get("reasoning") or {}).get("summary")
        reply = replace(reply, shown=reply.shown and bool(wanted))
        if reply.usage is None:
            output = reply.usage_for(self.request.body).output
            reply = replace(reply, usage=replace(self.usage, output=output))
        return replace(reply, seals=self._seals(reply.parts(number)))

    def reported_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """Add to an answer, or to an event of one, what the check has to say, and seal
        its compaction item.
        """
        if "output" in data:
            data = {
                **data,
                "output": [self._sealed_item(item) for item in data["output"]],
            }
        if "item" in data:
            data = {**data, "item": self._sealed_item(data["item"])}
        if "response" in data:
            output = [self._sealed_item(item) for item in data["response"]["output"]]
            data = {**data, "response": {**data["response"], "output": output}}
        if self.reported is None:
            return data
        if data.get("object") == "response":
            return {**data, "input_transformations": self.reported}
        if "response" in data:
            return {
                **data,
                "response": {
                    **data["response"],
                    "input_transformations": self.reported,
                },
            }
        return data

    def _sealed_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["type"] != "compaction" or not item["encrypted_content"]:
            return item
        if item["id"] not in self.windows:
            self.windows[item["id"]] = self.checks.window()
        return {**item, "encrypted_content": self.windows[item["id"]]}

    def _seals(self, parts: Sequence[Part]) -> dict[str, str]:
        """Seal the reasoning of an answer; each item is bound to the items before it in
        the same answer too.
        """
        seals: dict[str, str] = {}
        before = list(self.request.pieces)
        for part in parts:
            if part.kind == "thinking":
                organization = self.checks.binding.organization
                seal = Seal(
                    self.request.model, organization, self.request.head, tuple(before)
                )
                seals[part.id] = self.checks.seal(seal)
            else:
                before.append(piece(canonical_item(_sent_back(part)), "answer"))
        return seals


def kind_of(item: Mapping[str, Any]) -> str:
    return str(item.get("type") or "message")


def canonical_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the compared form of an item, without ids of items and what the API adds
    to its own.
    """
    plain = {name: value for name, value in item.items() if name not in NOT_COMPARED}
    plain["type"] = kind_of(item)
    if plain["type"] == "message":
        content = plain.get("content") or []
        parts = (
            [{"type": "input_text", "text": content}]
            if isinstance(content, str)
            else content
        )
        plain["content"] = [_canonical_part(part) for part in parts]
    return plain


def _canonical_part(part: Mapping[str, Any]) -> dict[str, Any]:
    plain = {
        name: value
        for name, value in part.items()
        if name not in ("annotations", "logprobs")
    }
    if plain.get("type") in ("input_text", "output_text"):
        plain["type"] = "text"
    return plain


def _sent_back(part: Part) -> dict[str, Any]:
    """Return an item of an answer as a client sends it back."""
    if part.kind == "tool":
        return {
            "type": "function_call",
            "call_id": part.id,
            "name": part.name,
            "arguments": part.text,
        }
    return {"role": "assistant", "content": part.text}


def _is_answer(following: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether the first item that is no reasoning is one that a model makes."""
    for item in following:
        kind = kind_of(item)
        if kind != "reasoning":
            return kind in ANSWERS or (
                kind == "message" and item.get("role") == "assistant"
            )
    return False


def _check_calls(request: ResponsesRequest) -> None:
    """Check that each call has an output, and each output a call (function-calling)."""
    calls = {
        str(item.get("call_id"))
        for item in request.items
        if kind_of(item) == "function_call"
    }
    outputs = {
        str(item.get("call_id"))
        for item in request.items
        if kind_of(item) == "function_call_output"
    }
    if missing := sorted(calls - outputs):
        raise RejectedError(
            f"No tool output found for function call {missing[0]}.", param="input"
        )
    if unknown := sorted(outputs - calls):
        raise RejectedError(
            f"No tool call found for function call output with call_id {unknown[0]}.",
            param="input",
        )
