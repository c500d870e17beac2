"""`summary`: the model writes it, over the live request's own prefix.

Same system prompt, same tools, same messages, one message more: so the provider's cache is hit, and the summary costs
little more than its own words.
"""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.estimate import estimate_message
from acp_agent.compaction.framing import summary_request
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.compaction.verifying import verify
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    new_id,
)
from acp_agent.errors import CompactionError, SummaryOverflowError
from acp_agent.llm.provider import Answered, ModelRequest

MAX_TOOL_REFUSALS = 2
_THINKS = ("low", "medium", "high")
_CUT_OFF = ("max_tokens", "context_overflow", "refusal")


class SummaryStrategy:
    """A summary in the model's words of everything before the tail."""

    name = "summary"

    async def draft(self, task: Task) -> Draft | None:
        """Ask the model.

        :raises SummaryOverflowError: the conversation does not fit the model that is asked.
        :raises CompactionError: the summary is empty, was cut off, refused or rejected.
        :raises ModelError: the model could not be asked.
        """
        cut = task.cut()
        if cut is None:
            return None
        if task.policy.written is not None:
            return Draft(cut, task.policy.written)
        first_kept = cut.kept[0].message if cut.kept else None
        text = summary_request(task.policy.prompt, first_kept, cut.summarised)
        asked = UserMessage(new_id("msg"), (text,))
        dialogue = _Dialogue(task, (*task.state.request.messages, asked), estimate_message(asked))
        verified = await verify(task.state, task.policy, dialogue.ask, dialogue.mend)
        return Draft(cut, verified.text, unverified=verified.unverified, missing=verified.missing)


class _Dialogue:
    """The summary request, and what has to be said after it."""

    def __init__(self, task: Task, messages: tuple[Message, ...], added_tokens: int) -> None:
        self._task = task
        self._messages = messages
        state = task.state
        used = state.budget.used + round(added_tokens * max(1.0, state.calibration))
        if used > task.window:
            size = "" if state.guessed and task.writer is None else f" ({task.window:,})"
            raise SummaryOverflowError(
                f"The conversation (about {used:,} tokens) does not fit the window of the model that is to summarise "
                f"it{size}, so it cannot be summarised in one piece.",
                "The history is unchanged.",
            )
        limit, thinks = task.max_output_tokens, state.request.thought_level in _THINKS
        if task.policy.summary is not None and not thinks:
            # Thoughts count as output as well; and where they are given a share of it, another bound would be another
            # way to think, for which the provider's cache holds nothing.
            limit = min(limit, task.policy.summary)
        output = replace(state.budget, window=task.window).output(used, limit)
        live = state.request.max_output_tokens
        if thinks and task.writer is None and used + live <= task.window:
            # The same for a bound that is smaller by what is asked here; what is added may take from the margin.
            output = live
        model = task.writer.model if task.writer else state.request.model
        self._request: ModelRequest = replace(state.request, model=model, max_output_tokens=output)

    async def ask(self, *, shown: bool = True) -> str:
        """The summary's text.

        :param shown: whether the user watches it being written.
        """
        for _ in range(MAX_TOOL_REFUSALS + 1):
            answer = await self._task.calls.ask(replace(self._request, messages=self._messages), shown=shown)
            message = _with_own_ids(answer, self._request.model)
            self._messages = (*self._messages, message)
            if not message.tool_calls or message.stop_reason in _CUT_OFF:
                return whole_text(message)
            self._messages = (*self._messages, *(_refusal(call.id) for call in message.tool_calls))
        raise CompactionError(
            "The model kept calling tools instead of writing a summary.",
            "The history is unchanged; try /compact again, or with another model.",
        )

    async def mend(self, request: str) -> str:
        """The summary once more, after what was wrong with it was said. The user has watched the first one, and is
        shown what became of it at the end."""
        self._messages = (*self._messages, UserMessage(new_id("msg"), (Text(request),)))
        return await self.ask(shown=False)


def whole_text(message: AssistantMessage) -> str:
    """The text of a summary that is whole.

    :raises CompactionError: it is empty, was cut off, or the model refused.
    """
    text = message.text.strip()
    if message.stop_reason == "refusal":
        raise CompactionError("The model refused to write a summary.", "The history is unchanged.")
    if message.stop_reason != "end_turn":
        raise CompactionError(
            "The summary was cut off before its end (the model's output limit was reached), so it was not used.",
            "The history is unchanged; try /compact again and ask for a shorter summary.",
        )
    if not text:
        raise CompactionError("The model answered with an empty summary.", "The history is unchanged; try again.")
    return text


def _with_own_ids(answer: Answered, model: str) -> AssistantMessage:
    parts = tuple(replace(part, id=new_id("call")) if isinstance(part, ToolCall) else part for part in answer.parts)
    return AssistantMessage(new_id("msg"), parts, model, answer.stop_reason, answer.usage)


def _refusal(call_id: str) -> ToolResult:
    return ToolResult(call_id, (Text("No tools may run now. Write the summary as plain text."),), is_error=True)
