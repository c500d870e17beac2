"""From a strategy's draft to the conversation as it goes on: with what no compaction may lose beside the summary.

The ledger and the words of languages are loaded with the first compaction: an agent that starts does not wait for them.
"""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.estimate import estimate_message, estimate_messages, estimate_prefix
from acp_agent.compaction.framing import frame
from acp_agent.compaction.held import beside, held_requests, with_requests
from acp_agent.compaction.pinned import RULES_SHARE, remember, render_pinned, rules_size
from acp_agent.compaction.shortening import apply_rewrites
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Carried, Draft
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import Receipt, Rewritten
from acp_agent.conversation.memory import Ledger, Memory
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, UserMessage, UserPart, new_id

NO_LEDGER = ("truncate",)
"""Strategies whose users do not want the facts."""
LEAST_CARRIED = 250
"""Tokens for the user's words that there are however little is replaced."""


def assembled(
    state: ConversationState,
    policy: CompactionPolicy,
    draft: Draft,
    strategy: str,
    carried: Carried | None = None,
) -> CompactedState:
    """The conversation with this draft in it.

    :param carried: what was carried over when the same was asked with this policy before; to put it together reads all
        of the conversation.
    """
    rewritten = tuple({rewrite.seq: Rewritten(rewrite.seq, rewrite.message) for rewrite in draft.rewritten}.values())
    if draft.cut is None:
        # Now, since a result that gives way takes its exit status with it.
        memory = replace(state.memory, ledger=_facts(state))
        entries = apply_rewrites(state.entries, draft.rewritten)
        return _result(state, draft, strategy, entries, (), 0, memory, rewritten)
    kept = draft.cut.kept
    memory = carried.memory if carried and carried.cut == draft.cut else remembered(state, policy, draft)
    held = held_requests(draft.body, memory)
    sent = sent_parts(state, policy, draft, memory, strategy, held)
    boundary = draft.cut.summarised[-1].seq
    summary = Entry(boundary, UserMessage(new_id("msg"), sent), summary=True)
    pinned = tuple(Entry(pin.seq, pin.message) for pin in draft.cut.pinned)
    entries = (summary, *apply_rewrites((*pinned, *kept), draft.rewritten))
    result = _result(state, draft, strategy, entries, sent, boundary, memory, rewritten)
    return replace(result, held=held)


def remembered(state: ConversationState, policy: CompactionPolicy, draft: Draft) -> Memory:
    """The memory with what this draft takes away."""
    assert draft.cut is not None
    said = tuple(entry for entry in draft.cut.summarised if not entry.note)
    kept = (*(Entry(pin.seq, pin.message) for pin in draft.cut.pinned), *draft.cut.kept)
    # In a young session what is carried over must not be as large as what leaves; but what was carried over once as a
    # rule does not have to go because little has been said since.
    replaced, requests = replaced_tokens(draft), policy.request_tokens(state.budget)
    rules = max(replaced // 2, rules_size(state.memory), LEAST_CARRIED)
    rules = min(int(max(requests, state.budget.tail) * RULES_SHARE), rules)
    requests = min(requests, max(replaced // 3, LEAST_CARRIED))
    memory = remember(state.memory, said, kept, requests, rules, recall=state.recall)
    users = [part.text for entry in state.entries for part in entry.typed if isinstance(part, Text)]
    from acp_agent.compaction.language import language_of

    return replace(memory, ledger=_facts(state), language=language_of(users) or memory.language)


def _facts(state: ConversationState) -> Ledger:
    """The facts of the whole conversation, the tail's as well: a test that ran before an edit in there is out of date.
    Entries that are known already do not count twice."""
    from acp_agent.compaction.ledger import refresh_ledger, update_ledger

    workspace = state.workspace
    ledger = update_ledger(state.memory.ledger, state.entries, state.files, workspace.cwd)
    return refresh_ledger(ledger, workspace.digests, workspace.branch, workspace.head)


def sent_parts(
    state: ConversationState,
    policy: CompactionPolicy,
    draft: Draft,
    memory: Memory,
    strategy: str,
    held: frozenset[int],
) -> tuple[UserPart, ...]:
    """The layers that stand in the place of what leaves.

    :param held: see `CompactedState.held`.
    """
    facts = ""
    if strategy not in NO_LEDGER:
        from acp_agent.compaction.ledger import render_ledger

        room = min(policy.ledger_tokens(state.budget), replaced_tokens(draft) // 4)
        facts = render_ledger(memory.ledger, room, state.workspace.cwd)
    carried = beside(memory, held)
    pinned = render_pinned(
        carried, mode=state.mode, grants=state.allowed(state.grants), plan=state.plan, recall=state.recall
    )
    body = with_requests(draft.body, memory, held, recall=state.recall)
    return (*body, *frame(pinned, "" if draft.body else draft.summary, facts, recall=state.recall))


def _result(
    state: ConversationState,
    draft: Draft,
    strategy: str,
    entries: tuple[Entry, ...],
    sent: tuple[UserPart, ...],
    boundary: int,
    memory: Memory,
    rewritten: tuple[Rewritten, ...],
) -> CompactedState:
    prefix = estimate_prefix(state.request.system, state.request.tools)
    after = prefix + estimate_messages(entry.message for entry in entries)
    pinned = draft.cut.pinned if draft.cut else ()
    kept = len(draft.cut.kept) if draft.cut else len(state.entries)
    return CompactedState(
        entries=entries,
        strategy=strategy,
        summary=draft.summary,
        sent=sent,
        boundary=boundary,
        pinned=pinned,
        rewritten=rewritten,
        memory=memory,
        files={} if sent else _still_seen(state, rewritten),
        tokens_before=state.budget.used,
        tokens_after=round(after * state.calibration),
        receipt=Receipt(
            summarised=len(draft.summarised) - len(pinned),
            kept=kept + len(pinned) - len(rewritten),
            rewritten=len(rewritten),
            unverified=draft.unverified,
            missing=draft.missing,
            notes=draft.notes,
        ),
    )


def _still_seen(state: ConversationState, rewritten: tuple[Rewritten, ...]) -> dict[str, str | None]:
    """The file versions that the model still sees: not those whose contents stood in a result that gave way."""
    gone = {rewrite.seq for rewrite in rewritten}
    paths: dict[str, str] = {}
    hidden: set[str] = set()
    for entry in state.entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            paths |= {call.id: _path(call, state.workspace.cwd) for call in message.tool_calls}
        elif not isinstance(message, UserMessage):
            path = paths.get(message.call_id, "")
            if entry.seq in gone:
                hidden.add(path)
            else:
                hidden.discard(path)
    return {path: digest for path, digest in state.files.items() if path not in hidden}


def _path(call: ToolCall, cwd: str) -> str:
    path = call.arguments.get("path")
    if not isinstance(path, str):
        return ""
    return path if path.startswith("/") else f"{cwd}/{path}"


def replaced_tokens(draft: Draft) -> int:
    """Estimate of what leaves, without what is pinned."""
    if draft.cut is None:
        return 0
    stays = sum(estimate_message(pin.message) for pin in draft.cut.pinned)
    return estimate_messages(entry.message for entry in draft.cut.summarised) - stays
