"""The check of thinking in Anthropic Messages, and the signatures it relies on.

Pages of platform.claude.com/docs/en/build-with-claude: preserved-thinking for the
prefix check, the models and the accounts; compaction-thinking-blocks for turns kept
after a compaction block; the SDK's types for `input_transformations`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from support.binding.claude import (
    ALWAYS_ENFORCED,
    BINDING_BETA,
    BOUND_TO_ACCOUNT,
    INLINE_TOOLS_BETA,
    PRESERVING,
    reads,
)
from support.binding.messages_answer import ExaminedMessages
from support.binding.messages_form import MessagesRequest, Thought
from support.binding.messages_rules import (
    EXTRA,
    check_compaction_place,
    check_compaction_request,
    check_messages,
    check_start_of_turn,
    check_system_messages,
    check_thinking,
)
from support.binding.messages_seals import MessagesSeals, Seal
from support.binding.pieces import (
    Difference,
    Mismatch,
    Piece,
    PromptCache,
    first_difference,
    piece,
    reasoning_piece,
    tools_difference,
)
from support.binding.records import Outcome, RejectedError, Violation
from support.binding.settings import Binding
from support.replies import Usage

PREFIX = "prefix_binding_mismatch"
MODEL = "model_binding_mismatch"
ORGANIZATION = "organization_binding_mismatch"


class MessagesChecks:
    """All signatures that the server gave out, and the judgement of requests by them."""

    def __init__(
        self, binding: Binding, cache: PromptCache, violations: list[Violation]
    ) -> None:
        self.binding = binding
        self.violations = violations
        self._cache = cache
        self._seals = MessagesSeals()
        self._picked: str | None = None

    def examine(
        self, body: Mapping[str, Any], betas: Collection[str], call: int
    ) -> ExaminedMessages:
        """Judge a request.

        :raises RejectedError: if it is refused.
        """
        request = MessagesRequest(body)
        entries, chain = self._judge_all(request, betas, call)
        cached = self._cache.add(
            call, request.model, self._cached_pieces(request, entries)
        )
        usage = Usage(
            input=1, output=0, cache_read=cached.read, cache_write=cached.fresh - 1
        )
        reported = entries if BINDING_BETA in betas and self.binding.reports else None
        return ExaminedMessages(
            self.binding,
            self._seals,
            request,
            chain,
            reported,
            usage,
            INLINE_TOOLS_BETA in betas,
        )

    def count(self, body: Mapping[str, Any], betas: Collection[str]) -> None:
        """Judge a count of tokens, which runs the same check and ignores `compaction`
        (token-counting).
        """
        self._judge_all(MessagesRequest(body), betas, 0)

    def _judge_all(
        self, request: MessagesRequest, betas: Collection[str], call: int
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the entries for `input_transformations`, and the signatures of the
        blocks that are read, in order.

        Blocks of models without preserved thinking are read too, but have no place in
        the chain of signatures.
        """
        self._check_rules(request, betas, counting=call == 0)
        self._check_summary(request)
        entries: list[dict[str, Any]] = []
        violations: list[Violation] = []
        chain: list[str] = []
        spare = self._spare(request)
        dropped: tuple[int, int] | None = None
        for thought in request.thoughts:
            seal = self._known(thought, request, call)
            mismatch = self._mismatch(request, thought, seal, chain)
            if mismatch is None and dropped == (thought.place[0], thought.place[1] - 1):
                # A drop takes the thinking blocks directly after it in the turn along
                # (SDK, `thinking_dropped`).
                mismatch = unforeseen(
                    thought, "thinking: the block before it in the turn was dropped"
                )
            if mismatch is None and thought.signature == spare:
                mismatch = unforeseen(thought, "nothing differs")
            outcome = self._outcome(
                request, mismatch, spared=thought.signature == spare
            )
            if mismatch is not None:
                words = mismatch.difference.words
                violation = Violation(
                    call,
                    "messages",
                    request.model,
                    words,
                    thought.path,
                    mismatch.reason,
                    outcome,
                )
                if outcome == "refused":
                    raise RejectedError(
                        mismatch_message(thought, mismatch.difference, betas),
                        violation=violation,
                    )
                violations.append(violation)
                entries.append(self._entry(thought, mismatch, outcome))
                if outcome == "dropped" and mismatch.reason == PREFIX:
                    dropped = thought.place
            if outcome == "allowed" and {request.model, seal.model} <= PRESERVING:
                chain.append(thought.signature)
        self.violations += violations
        return entries, chain

    def _check_rules(
        self, request: MessagesRequest, betas: Collection[str], *, counting: bool
    ) -> None:
        if self.binding.refuse_header == "header" and BINDING_BETA in betas:
            raise RejectedError(
                f"Unexpected value(s) `{BINDING_BETA}` for the `anthropic-beta` header."
            )
        if (
            self.binding.refuse_header == "field"
            and request.thinking.get("block_binding") is not None
        ):
            raise RejectedError(
                f"thinking.{request.thinking.get('type')}.block_binding: {EXTRA}"
            )
        check_thinking(request, betas)
        check_compaction_place(request, betas)
        if not counting:
            check_compaction_request(request, betas)
            check_messages(request)
        check_system_messages(request, betas)
        check_start_of_turn(request)

    def _check_summary(self, request: MessagesRequest) -> None:
        """Check that a compaction block is as it was made (compaction-on-demand,
        "Errors").
        """
        sent = request.summary
        if sent is None:
            return
        made = self._seals.summary(sent)
        if made is None or self.binding.refuse_compaction:
            raise RejectedError(
                "messages.0.content.0: Invalid `signature` in `compaction` block",
                code="compaction_signature_invalid",
            )
        plain = {
            name: value
            for name, value in sent.items()
            if name != "cache_control" and value is not None
        }
        if plain != made.block:
            raise RejectedError(
                "messages.0.content.0: the content of the `compaction` block does not match its `signature`",
                code="compaction_content_mismatch",
            )

    def _known(self, thought: Thought, request: MessagesRequest, call: int) -> Seal:
        """Return what a signature stands for; one that was not given out is refused,
        whatever the settings say.
        """
        seal = self._seals.thought(thought.signature)
        kind = thought.block.get("type")
        if seal is None:
            words = f"Invalid `signature` in `{kind}` block"
        elif (
            self.binding.text_binds
            and kind == "thinking"
            and thought.block.get("thinking") != seal.text
        ):
            words = f"`{kind}` blocks cannot be modified; send them as they were in the response"
        else:
            return seal
        violation = Violation(
            call, "messages", request.model, words, thought.path, "invalid", "refused"
        )
        raise RejectedError(f"{thought.path}: {words}", violation=violation)

    def _mismatch(
        self,
        request: MessagesRequest,
        thought: Thought,
        seal: Seal,
        chain: Sequence[str],
    ) -> Mismatch | None:
        """Return why the model may not read a block, in the order in which the API
        gives reasons (SDK).
        """
        if (
            seal.model in BOUND_TO_ACCOUNT
            and seal.organization != self.binding.organization
        ):
            words = f"organization: made by {seal.organization}, sent by {self.binding.organization}"
            return Mismatch(
                ORGANIZATION, Difference("organization", thought.path, words)
            )
        if not reads(request.model, seal.model):
            words = f"model: {request.model} does not read {seal.model}"
            return Mismatch(MODEL, Difference("model", thought.path, words))
        if not {request.model, seal.model} <= PRESERVING:
            return None  # a block of an older model has no record of its conversation, and an older reader no check
        difference = self._difference(request, thought, seal, chain)
        return Mismatch(PREFIX, difference) if difference else None

    def _difference(
        self,
        request: MessagesRequest,
        thought: Thought,
        seal: Seal,
        chain: Sequence[str],
    ) -> Difference | None:
        """Return what differs before a block from when it was made; None if nothing
        does.
        """
        now = self._seals.unfolded(request.pieces[: thought.before])
        return (
            first_difference("system", seal.system, request.system)
            or tools_difference(seal.tools, request.tools_in_force(now))
            or self._kept_difference(request, seal)
            or first_difference("messages", self._seals.unfolded(seal.pieces), now)
            or self._chain_difference(thought, seal, chain)
        )

    def _kept_difference(
        self, request: MessagesRequest, seal: Seal
    ) -> Difference | None:
        """Check the conditions for a turn that is kept after a later compaction
        (compaction-thinking-blocks).
        """
        if request.summary is None:
            return None
        summary = self._seals.summary(request.summary)
        assert summary is not None, "the block was checked before"
        if summary.marker.digest in {each.digest for each in seal.pieces}:
            return None  # made after this compaction

        def because(words: str) -> Difference:
            return Difference(
                "compaction", "messages.0.content.0", f"compaction: {words}"
            )

        if summary.model not in PRESERVING:
            return because(
                f"it ran on {summary.model}, which has no preserved thinking"
            )
        if difference := first_difference("system", summary.system, request.system):
            return because(f"it had another system prompt: {difference.words}")
        if difference := tools_difference(summary.tools, request.tools):
            return because(f"it had other tools: {difference.words}")
        if request.kept_role() in (summary.last_role, "system"):
            return because(
                f"the first kept message ({request.kept_role()}) is merged into the last summarized one"
            )
        return None

    def _chain_difference(
        self, thought: Thought, seal: Seal, chain: Sequence[str]
    ) -> Difference | None:
        """Check that the thinking block before it is the one that was there: what is
        kept is one unbroken run.

        Blocks may be missing at the front. Of those that are there, the ones count that
        the block's model could read.
        """
        known = [signature for signature in chain if self._reads(seal.model, signature)]
        if not known or known[-1] == seal.predecessor:
            return None
        return Difference(
            "thinking",
            thought.path,
            "thinking: the block before this one is not the one that was there",
        )

    def _reads(self, reader: str, signature: str) -> bool:
        seal = self._seals.thought(signature)
        return seal is not None and reads(reader, seal.model)

    def _outcome(
        self, request: MessagesRequest, mismatch: Mismatch | None, *, spared: bool
    ) -> Outcome:
        """Decide what becomes of a block (preserved-thinking, "When the API enforces
        the check").

        :param spared: the block is dropped in any case, by `Binding.drop_more`.
        """
        if mismatch is None:
            return "allowed"
        if mismatch.reason != PREFIX or spared:
            return "dropped"
        if self.binding.always_error:
            return "refused"
        controls = request.thinking.get("block_binding") or {}
        behavior = controls.get("prefix_mismatch_behavior") or self.binding.behavior
        if (
            behavior is None
            and self.binding.account == "old"
            and request.model not in ALWAYS_ENFORCED
        ):
            return "allowed"
        return "dropped" if behavior == "drop_block" else "refused"

    def _spare(self, request: MessagesRequest) -> str | None:
        """Return the signature that `Binding.drop_more` drops: the last one of the
        first request that has any.
        """
        if not self.binding.drop_more:
            return None
        if self._picked is None and request.thoughts:
            self._picked = request.thoughts[-1].signature
        return self._picked

    def _entry(
        self, thought: Thought, mismatch: Mismatch, outcome: Outcome
    ) -> dict[str, Any]:
        if outcome == "allowed":
            return {
                "type": "thinking_mismatch_allowed",
                "path": thought.path,
                "reason": mismatch.reason,
            }
        reason = self.binding.other_reason or mismatch.reason
        return {"type": "thinking_dropped", "path": thought.path, "reason": reason}

    def _cached_pieces(
        self, request: MessagesRequest, entries: Sequence[Mapping[str, Any]]
    ) -> list[Piece]:
        """Return what is rendered, in order: tools, system, messages with the thinking
        that is read (prompt-caching).

        The effort of the whole request counts from the start (effort, "Change effort
        mid-conversation").
        """
        dropped = {
            entry["path"] for entry in entries if entry["type"] == "thinking_dropped"
        }
        effort = piece(
            (request.body.get("output_config") or {}).get("effort"),
            "output_config.effort",
        )
        pieces = [effort, *request.tools.values(), *request.system]
        thoughts = [
            thought for thought in request.thoughts if thought.path not in dropped
        ]
        for index, each in enumerate([*request.pieces, None]):
            pieces += [
                reasoning_piece(one.signature, one.path)
                for one in thoughts
                if one.before == index
            ]
            pieces += [each] if each is not None else []
        return pieces


def unforeseen(thought: Thought, words: str) -> Mismatch:
    return Mismatch(PREFIX, Difference("thinking", thought.path, words))


def mismatch_message(
    thought: Thought, difference: Difference, betas: Collection[str]
) -> str:
    """Return the text of the 400 (preserved-thinking, "What the API does with an
    invalid block").
    """
    said = (
        f"{thought.path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    if BINDING_BETA not in betas:
        said += f" That setting requires the `{BINDING_BETA}` value in the `anthropic-beta` header."
    match difference.kind:
        case "system":
            said += " The `system` prompt differs from when the block was produced."
        case "tools":
            said += " The `tools` list differs from when the block was produced."
        case "messages":
            said += f" Content before this block differs from when it was created, first at `{difference.path}`."
    return said
