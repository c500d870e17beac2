"""The strategies that call a model: with `summary` the model writes a summary, and
`native` is the provider's own compaction.

The summary request is the live request plus one message. System prompt, tools and
earlier messages stay the same, so the request hits the provider's cache, and the
summary costs little more than its own output tokens.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from anyio import to_thread

from acp_agent.compaction.answers import least_characters, summary_in
from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import (
    DOUBT,
    MAX_CALIBRATION,
    estimate_message,
    estimate_messages,
    estimate_part,
    estimate_text,
)
from acp_agent.compaction.frame import (
    frame_summary,
    layer_of,
    summary_request,
)
from acp_agent.compaction.layers import (
    REPLACED_SHARE,
    check_worth,
    fill,
    planned_cut,
    replaced_tokens,
    unanswered,
)
from acp_agent.compaction.relevance import check_relevance
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.compaction.verify import verify
from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    CompactedBlock,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    new_id,
)
from acp_agent.conversation.strict_json import get_objects
from acp_agent.errors import (
    CompactionError,
    CompactionRefusedError,
    ContextOverflowError,
    SummaryOverflowError,
)
from acp_agent.llm.provider import Answered, ModelRequest

MAX_TOOL_REFUSALS = 2
EXPECTED_SUMMARY = 1_500
"""Tokens of a typical summary."""
SUMMARY_SHARE = 0.4
"""Maximum share of the size that a summary may take. This limit only matters if the
size is small.
"""
WORDS_PER_TOKEN = 0.6
SMALLER = 0.9
"""Maximum size of the next request, as a share of the refused one."""
_NO_TOOLS = "No tools may run now. Write the summary as plain text."
_THINKS = ("low", "medium", "high")
_CUT_OFF = ("max_tokens", "context_overflow", "refusal")
ENCRYPTED = (
    "Compacted by {provider}. Only its models can read the summary. Your messages, the newest messages and excerpts "
    "from all others are kept word for word. The session's log keeps everything."
)


class SummaryStrategy:
    """Asks the model for a summary of everything before the tail."""

    name = "summary"

    async def draft(self, task: Task) -> Draft | None:
        """Return a draft with a summary, or None if there is nothing to replace.

        :raises CompactionError: if the summary is empty, cut off, refused or rejected,
            or would not be worthwhile.
        :raises ModelError: if the model could not be called.
        """
        prepared = await to_thread.run_sync(_prepared, task, abandon_on_cancel=True)
        if prepared is None:
            return None
        cut, dialogue = prepared
        if dialogue is None:
            return Draft(cut, task.policy.written or "")
        return await verify(task, cut, dialogue.ask, dialogue.mend)


def _prepared(task: Task) -> tuple[Cut, _Dialogue | None] | None:
    """Return the cut and the dialogue that asks for a summary. The dialogue is None if
    the summary is already written. Return None if there is nothing to replace.

    :raises CompactionError: if no summary would be worthwhile.
    """
    cut = task.cut()
    if cut is None:
        return None
    if task.policy.written is not None:
        return cut, None
    check_worth(task.state, cut)
    first_kept = cut.kept[0].message if cut.kept else None
    text = summary_request(_with_bound(task), first_kept, cut.summarised)
    return cut, _Dialogue(
        task,
        UserMessage(new_id("msg"), (text,)),
        cut,
    )


def is_worth_asking(task: Task, strategy: str) -> bool:
    """Return whether a summary, or the provider's compaction, has anything to replace.

    :param strategy: `summary` or `native`.
    :raises CompactionError: if there is something to replace, but a summary of it would
        not be worthwhile.
    """
    cut = task.cut(keep_reasoning=strategy == "native")
    if cut is not None and strategy == "summary":
        check_worth(task.state, cut)
    return cut is not None


def _with_bound(task: Task) -> str:
    """Return the prompt, with a word limit if the size is too small for a typical
    summary.
    """
    max_tokens = int(task.size * SUMMARY_SHARE)
    if max_tokens >= EXPECTED_SUMMARY:
        return task.policy.prompt
    words = max(50, int(max_tokens * WORDS_PER_TOKEN) // 50 * 50)
    return f"{task.policy.prompt}\n\nThere is little room: write at most {words} words."


def _shortened(task: Task, max_tokens: int) -> tuple[Message, ...]:
    """Return a shorter form of a conversation that is too large for the summarising
    model: its earlier summary, excerpts and the newest messages.

    :param max_tokens: maximum estimated tokens of the messages.
    """
    state = task.state
    exempt = estimate_messages(entry.message for entry in unanswered(state))
    cut = planned_cut(state, max_tokens - exempt, leave_tail=False)
    if cut is None or max_tokens <= exempt:
        raise SummaryOverflowError(
            f"The prompt of the running turn and its newest step (about {exempt:,} tokens) do not fit the window of "
            "the model that writes the summary.",
            "The history is unchanged; choose a model with a larger window for summaries.",
        )
    earlier = tuple(
        part
        for entry in state.entries
        if entry.summary and isinstance(entry.message, UserMessage)
        for part in entry.message.parts
        if layer_of(part) == "summary"
    )
    layers = fill(state, cut, max_tokens - exempt, body=earlier, index=task.index)
    return (
        UserMessage(new_id("msg"), layers.parts),
        *(entry.message for entry in cut.retained),
    )


class _Dialogue:
    """The dialogue with the model that writes the summary.

    If the provider refuses a request as too long, the request is shortened according to
    the numbers in the refusal and sent once more.

    :param prompt: the message that asks for the summary.
    :param cut: the cut whose messages the summary replaces.
    """

    def __init__(self, task: Task, prompt: UserMessage, cut: Cut) -> None:
        self._least = least_characters(replaced_tokens(cut))
        self._replaced = cut.summarised
        self._task = task
        self._prompt = prompt
        self._rounds: tuple[Message, ...] = ()  # the messages after the prompt
        self._was_refused = False
        state = task.state
        used = state.budget.used + round(estimate_message(prompt) * state.rate)
        self._request = state.request
        self._most_output = task.max_output_tokens
        self._fit(task.window, used, state.rate)

    def _fit(
        self, window: int, used: int, rate: float, most: int | None = None
    ) -> None:
        """Build a request that fits: with the whole conversation if there is room for
        it, otherwise with a shorter form.

        :param window: the model's window in tokens.
        :param used: tokens of a request with the whole conversation, as the provider
            counts them.
        :param rate: ratio of the provider's count to our estimate.
        :param most: maximum estimated tokens of the request; None if only the window
            limits it.
        """
        task = self._task
        state = self._task.state
        messages = state.request.messages
        budget = replace(state.budget, window=window)
        others = state.prefix + estimate_messages((self._prompt, *self._rounds))
        room = int(budget.limit / rate) if used > budget.limit else None
        if most is not None:
            room = most if room is None else min(room, most)
        if room is not None:
            messages = _shortened(task, room - others)
            used = round((others + estimate_messages(messages)) * rate)
        model = task.writer.model if task.writer else state.request.model
        self._request = replace(
            state.request,
            model=model,
            messages=(*messages, self._prompt),
            max_output_tokens=self._output_limit(budget, used),
        )

    def _output_limit(self, budget: TokenBudget, used: int) -> int:
        """Return the maximum number of tokens of the answer.

        :param used: tokens of the request.
        """
        task = self._task
        live = self._task.state.request
        limit = self._most_output
        thinks = live.thought_level in _THINKS
        if task.policy.summary is not None and not thinks:
            # Thinking also counts as output. If its budget is a share of the output
            # limit, another limit would change the request's thinking options and miss
            # the provider's cache.
            limit = min(limit, task.policy.summary)
        if (
            thinks
            and task.writer is None
            and used + live.max_output_tokens <= budget.window
        ):
            # Keep the limit of the live request for the same reason, although the
            # summary prompt may take tokens from the margin.
            return live.max_output_tokens
        return budget.output(used, limit)

    async def ask(self, *, shown: bool = True) -> str:
        """Send the request and return the summary's text.

        :param shown: whether the text is streamed to the user.
        :raises CompactionError: if the answer is not a usable summary.
        :raises ModelError: if the model could not be called.
        """
        for _ in range(MAX_TOOL_REFUSALS + 1):
            answer = await self._answer(shown=shown)
            message = _with_own_ids(answer, self._request.model)
            self._rounds = (*self._rounds, message)
            if not message.tool_calls or message.stop_reason in _CUT_OFF:
                return await self._summary_in(_whole_text(message))
            self._rounds = (
                *self._rounds,
                *(
                    ToolResult(call.id, (Text(_NO_TOOLS),), is_error=True)
                    for call in message.tool_calls
                ),
            )
        raise CompactionError(
            "The model kept calling tools instead of writing a summary.",
            "The history is unchanged; try /compact again, or with another model.",
        )

    async def _summary_in(self, answer: str) -> str:
        """Return the summary in an answer.

        :raises CompactionError: if the answer is not a summary of the conversation.
        """
        policy = self._task.policy
        summary = summary_in(answer, policy.sections, self._least)
        check = partial(
            check_relevance,
            summary,
            self._replaced,
            instructions=policy.prompt,
            least=self._least,
            sections=policy.sections,
        )
        await to_thread.run_sync(check, abandon_on_cancel=True)
        return summary

    async def _answer(self, *, shown: bool) -> Answered:
        calls = self._task.calls
        try:
            return await calls.ask(self._whole_request, shown=shown)
        except SummaryOverflowError as error:
            if (
                self._was_refused
                or error.refusal is None
                or error.refusal.limit != "tokens"
            ):
                raise
            self._was_refused = True
            self._make_smaller(error.refusal)
            return await calls.ask(self._whole_request, shown=shown)

    @property
    def _whole_request(self) -> ModelRequest:
        return replace(self._request, messages=(*self._request.messages, *self._rounds))

    def _make_smaller(self, refusal: ContextOverflowError) -> None:
        """Shorten the refused request according to the numbers in the refusal, or by a
        tenth.

        :raises SummaryOverflowError: if the parts that cannot be omitted are too long.
        """
        task = self._task
        request = self._whole_request
        # Shortening frees tokens, but the answer must not get longer than requested.
        self._most_output = min(self._most_output, request.max_output_tokens)
        estimate = task.state.prefix + estimate_messages(request.messages)
        ours = round(estimate * task.state.rate)
        counted = refusal.prompt or max(ours, round(estimate * DOUBT))
        if refusal.maximum is None:
            self._fit(
                task.window, counted, task.state.rate, most=int(estimate * SMALLER)
            )
            return
        rate = min(MAX_CALIBRATION, max(1.0, counted / estimate))
        fits = counted <= replace(task.state.budget, window=refusal.maximum).limit
        if fits:  # only the requested answer was too long
            limit = self._output_limit(
                replace(task.state.budget, window=refusal.maximum), counted
            )
            self._request = replace(self._request, max_output_tokens=limit)
        else:
            self._fit(refusal.maximum, counted, rate, most=int(estimate * SMALLER))

    async def mend(self, request: str) -> str:
        """Ask for a corrected summary and return it. The correction is not streamed,
        since the user has seen the first summary and will see the result.

        :param request: the message that lists the flaws.
        """
        self._rounds = (*self._rounds, UserMessage(new_id("msg"), (Text(request),)))
        return await self.ask(shown=False)


def _whole_text(message: AssistantMessage) -> str:
    """Return the text of a complete summary.

    :raises CompactionError: if it is empty or was cut off, or the model refused.
    """
    text = message.text.strip()
    if message.stop_reason == "refusal":
        raise CompactionError(
            "The model refused to write a summary.", "The history is unchanged."
        )
    if message.stop_reason != "end_turn":
        raise CompactionError(
            "The summary was cut off at the model's output limit, so it was not used.",
            "The history is unchanged; try /compact again and ask for a shorter summary.",
        )
    if not text:
        raise CompactionError(
            "The model answered with an empty summary.",
            "The history is unchanged; try /compact again.",
        )
    return text


def _with_own_ids(answer: Answered, model: str) -> AssistantMessage:
    parts = tuple(
        replace(part, id=new_id("call")) if isinstance(part, ToolCall) else part
        for part in answer.parts
    )
    return AssistantMessage(
        new_id("msg"), parts, model, answer.stop_reason, answer.usage
    )


class NativeStrategy:
    """Replaces the history with the provider's own compaction, which is sent back only
    to that provider.

    The provider's block cannot be marked or corrected. Its text for other providers is
    marked, and the receipt lists the pieces that were not found.
    """

    name = "native"

    async def draft(self, task: Task) -> Draft | None:
        """Ask the provider to compact, and return its result as a draft, or None if
        there is nothing to replace.

        :raises CompactionError: if the provider has no compaction of its own, or if the
            result is unusable or would not be worthwhile.
        :raises ModelError: if the provider could not be called.
        """
        if task.native is None:
            raise CompactionError(
                "The model's provider has no compaction of its own.",
                "The history is unchanged; use the strategy `summary`.",
            )
        cut = await to_thread.run_sync(
            partial(task.cut, keep_reasoning=True), abandon_on_cancel=True
        )
        if cut is None:
            return None
        if task.policy.keeps_prompts:
            _check_prompts(cut)
        # Send the beginning of the last request unchanged, so that the provider's
        # result can replace it.
        request = replace(task.state.request, messages=cut.messages)
        try:
            block = await task.calls.ask_native(
                task.native, request, task.policy.prompt
            )
        except CompactionRefusedError as error:
            raise CompactionRefusedError(
                f"The provider's own compaction was refused. {error}"
            ) from error
        if not block.text.strip():
            portable = replace(block, text=_for_others(block))
            return Draft(
                cut, ENCRYPTED.format(provider=block.provider), body=(portable,)
            )

        async def written(_: str = "") -> str:
            # The provider's block cannot be changed, so do not ask for a correction.
            return block.text.strip()

        draft = await verify(task, cut, written, written)
        [portable] = frame_summary(draft.summary, recall=task.state.recall)
        return replace(draft, body=(replace(block, text=portable.text),))


def _check_prompts(cut: Cut) -> None:
    """Check that a compaction that keeps all of the user's text saves enough.

    :raises CompactionError: if the user wrote most of the text before the cut.
    """
    kept = sum(_kept_tokens(message) for message in cut.messages)
    replaced = replaced_tokens(cut)
    if kept > replaced * REPLACED_SHARE:
        raise CompactionError(
            "The provider's own compaction keeps all that you have said, which is most of the conversation (about "
            f"{kept:,} of {replaced:,} tokens), so it was not used.",
            "The history is unchanged; use the strategy `summary`.",
        )


def _kept_tokens(message: Message) -> int:
    """Return the tokens of the user's text in a message, including the user's text in a
    compacted block.
    """
    if not isinstance(message, UserMessage) or isinstance(message, Amendment):
        return 0
    tokens = 0
    for part in message.parts:
        if isinstance(part, CompactedBlock):
            items = get_objects(part.data, "items")
            said = [item for item in items if "encrypted_content" not in item]
            tokens += estimate_text(json.dumps(said))
        else:
            tokens += estimate_part(part)
    return tokens


def _for_others(block: CompactedBlock) -> str:
    """Return the text for other providers' models, which cannot read the encrypted
    summary.
    """
    return (
        f"[The earlier part of this conversation was compacted by {block.provider}, and only its models can read the "
        "summary. Excerpts from that part follow later in this conversation.]"
    )
