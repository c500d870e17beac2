"""`native`: the provider's own compaction, with a text beside it that any other provider understands."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.frame import frame_summary, layer_of
from acp_agent.compaction.strategies.summary import SummaryStrategy
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.compaction.verify import verify
from acp_agent.conversation.messages import Message, UserMessage
from acp_agent.errors import CompactionError


class NativeStrategy:
    """What the provider makes of the history stands in its place, and is sent back to that provider alone.

    Its block can be neither marked nor mended; only the text beside it is marked, and the receipt names what was
    not found.
    """

    name = "native"

    async def draft(self, task: Task) -> Draft | None:
        """Ask the provider to compact; where its result cannot be read, ask the model for a summary as well.

        :raises CompactionError: the provider has no compaction of its own, or the result is empty.
        :raises ModelError: the provider could not be asked.
        """
        if task.native is None:
            raise CompactionError(
                "The model's provider has no compaction of its own.",
                "The history is unchanged; use the strategy `summary`.",
            )
        cut = task.cut()
        if cut is None:
            return None
        messages = _compactable(cut) if task.native.keeps_user_messages else cut.messages
        compacted = await task.calls.ask_native(
            task.native, replace(task.state.request, messages=messages), task.policy.prompt
        )
        if compacted.block.text.strip():

            async def written(_: str = "") -> str:
                # The provider's block says what it says; only the text beside it could be mended.
                return compacted.block.text.strip()

            verified = await verify(task.state, task.policy, written, written)
            draft = Draft(cut, verified.text, unverified=verified.unverified, missing=verified.missing)
        else:
            summary = await SummaryStrategy().draft(task)
            if summary is None:
                return None
            draft = replace(summary, cut=cut)
        [portable] = frame_summary(draft.summary, recall=task.state.recall)
        return replace(draft, body=(replace(compacted.block, text=portable.text),))


def _compactable(cut: Cut) -> tuple[Message, ...]:
    """What is sent to be compacted where the user's messages come back word for word, and our own are taken for such:
    without what is said again beside the result."""
    stays = {pin.seq for pin in cut.pinned}
    messages: list[Message] = []
    for entry in cut.summarised:
        message = entry.message
        if entry.summary and isinstance(message, UserMessage):
            parts = tuple(part for part in message.parts if layer_of(part) == "summary")
            if parts:
                messages.append(replace(message, parts=parts))
        elif not entry.note and entry.seq not in stays:
            messages.append(message)
    return tuple(messages)
