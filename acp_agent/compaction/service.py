"""`CompactionService`: from a context and a prompt to an accepted summary.

It plans the cut, asks the model over the live prefix (same system prompt, same tools, same messages, one message more,
so that the provider's cache is hit), and accepts only a summary that is whole, not empty and worth it. Its model call
is handed in; what comes of the result is the caller's business, who owns the log.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeAlias

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.cuts import Cut, plan_cut
from acp_agent.compaction.estimate import estimate_message, estimate_messages, estimate_prefix, used_tokens
from acp_agent.compaction.framing import frame_summary, summary_request
from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    new_id,
)
from acp_agent.errors import CompactionError, ContextOverflowError, ModelError, ModelStreamError
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta

ModelCall: TypeAlias = Callable[[ModelRequest], AsyncGenerator[ModelEvent, None]]

MAX_TOOL_REFUSALS = 2
SHORT_HISTORY_TOKENS = 1_000
"""A history shorter than this may be replaced by a summary that is a little longer: somebody who asks for it by hand in
a young session wants the swap, and the framing alone is longer than two short messages."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What one compaction is about to do.

    :ivar request: the live request that the next step would send.
    :ivar cut: what is replaced and what stays.
    :ivar budget: of the model that writes the summary.
    :ivar tokens_before: tokens of the context now.
    :ivar calibration: tokens as the provider counts them for each token of our estimate.
    """

    request: ModelRequest
    cut: Cut
    budget: TokenBudget
    tokens_before: int
    calibration: float


@dataclass(frozen=True, slots=True)
class Summary:
    """An accepted summary.

    :ivar text: as the user reads it.
    :ivar sent: as the model reads it.
    :ivar tokens_after: tokens of the new context.
    """

    text: str
    sent: tuple[Text, ...]
    tokens_after: int


class CompactionService:
    """Compacts any context with any model; holds no state of its own."""

    def plan(self, context: Context, request: ModelRequest, budget: TokenBudget) -> CompactionPlan | None:
        """Choose what to replace; None where nothing may be.

        :param request: the live request for this context, as the next step would send it.
        """
        prefix = estimate_prefix(request.system, request.tools)
        used = used_tokens(context, prefix)
        calibration = used / max(1, prefix + estimate_messages(context.messages))
        # Where the provider counts more than we do, the tail must not be larger than it says either.
        cut = plan_cut(context, int(budget.tail / max(1.0, calibration)))
        if cut is None:
            return None
        return CompactionPlan(request, cut, budget, used, calibration)

    async def summarise(
        self,
        plan: CompactionPlan,
        prompt: str,
        call: ModelCall,
        show: Callable[[str], Awaitable[None]],
        *,
        by_hand: bool,
    ) -> Summary:
        """Ask the model for the summary and decide whether it may take the place of what it summarises.

        :param prompt: the rendered recipe.
        :param call: the model call.
        :param show: told the summary's text as it streams.
        :param by_hand: whether a person asked for it (see `SHORT_HISTORY_TOKENS`).
        :raises CompactionError: the summary is empty, was cut off, or is not smaller than what it replaces.
        :raises ModelError: the model could not be asked.
        """
        first_kept = plan.cut.kept[0].message if plan.cut.kept else None
        asked = UserMessage(new_id("msg"), (summary_request(prompt, first_kept),))
        messages: tuple[Message, ...] = (*plan.request.messages, asked)
        used = plan.tokens_before + round(estimate_message(asked) * max(1.0, plan.calibration))
        request = replace(plan.request, max_output_tokens=plan.budget.output(used, plan.request.max_output_tokens))
        for _ in range(MAX_TOOL_REFUSALS + 1):
            answer = await _ask(replace(request, messages=messages), call, show)
            message = _with_own_ids(answer, plan.request.model)
            if not message.tool_calls:
                return self._accepted(plan, message, by_hand=by_hand)
            messages = (*messages, message, *(_refusal(call.id) for call in message.tool_calls))
        raise CompactionError(
            "The model kept calling tools instead of writing a summary. The history is unchanged; try /compact again, "
            "or with another model."
        )

    def _accepted(self, plan: CompactionPlan, message: AssistantMessage, *, by_hand: bool) -> Summary:
        text = message.text.strip()
        if message.stop_reason == "refusal":
            raise CompactionError("The model refused to write a summary. The history is unchanged.")
        if message.stop_reason != "end_turn":
            raise CompactionError(
                "The summary was cut off before its end (the model's output limit was reached), so it was not used. "
                "The history is unchanged; try /compact again and ask for a shorter summary."
            )
        if not text:
            raise CompactionError("The model answered with an empty summary. The history is unchanged; try again.")
        replaced = estimate_messages(entry.message for entry in plan.cut.summarised)
        stays = sum(estimate_message(pin.message) for pin in plan.cut.pinned)
        sent = frame_summary(text)
        size = estimate_message(UserMessage("", sent)) + stays
        if size >= replaced and not (by_hand and size < SHORT_HISTORY_TOKENS):
            raise CompactionError(
                f"The summary (about {size} tokens) would not be smaller than what it replaces (about {replaced} "
                "tokens), so it was not used. The history is unchanged."
            )
        kept = estimate_messages(entry.message for entry in plan.cut.kept)
        after = estimate_prefix(plan.request.system, plan.request.tools) + size + kept
        return Summary(text, sent, round(after * plan.calibration))


async def _ask(request: ModelRequest, call: ModelCall, show: Callable[[str], Awaitable[None]]) -> Answered:
    try:
        async with aclosing(call(request)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    await show(event.text)
                elif isinstance(event, Answered):
                    return event
    except ContextOverflowError as error:
        raise CompactionError(
            "The conversation does not fit the model's context window any more, so the model cannot summarise it "
            "either. The history is unchanged; choose a model with a larger window, or start a new session."
        ) from error
    except ModelStreamError as error:
        raise CompactionError(
            "The summary broke off before its end (the connection was lost, or the model failed), so it was not used. "
            "The history is unchanged; try /compact again."
        ) from error
    except ModelError as error:
        raise type(error)(f"No summary was written, and the history is unchanged. {error}") from error
    raise CompactionError("The model's answer ended without an end. The history is unchanged; try again.")


def _with_own_ids(answer: Answered, model: str) -> AssistantMessage:
    parts = tuple(replace(part, id=new_id("call")) if isinstance(part, ToolCall) else part for part in answer.parts)
    return AssistantMessage(new_id("msg"), parts, model, answer.stop_reason, answer.usage)


def _refusal(call_id: str) -> ToolResult:
    return ToolResult(call_id, (Text("No tools may run now. Write the summary as plain text."),), is_error=True)
