"""What becomes of a summary that says what the conversation does not, or lacks a section: the recipe's `verify`."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable

from anyio import create_task_group, to_thread

from acp_agent.compaction.framing import is_made_afresh
from acp_agent.compaction.ledger import render_ledger
from acp_agent.compaction.provenance import Flag, Source, check, cited, mark, mend_request, unknown_citations
from acp_agent.compaction.provenance_earlier import vouched, without_doubtful
from acp_agent.compaction.provenance_pieces import CITATION
from acp_agent.compaction.sections import missing_sections
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.conversation.messages import CompactedBlock, Text
from acp_agent.errors import CompactionError, ModelError
from acp_agent.frozen import frozen

ALL_FACTS = 1 << 20
MAX_TOLD = 20
"""Flagged pieces that a receipt or an error lists."""

_log = logging.getLogger(__name__)
_INSTRUCTIONS = re.compile(r'(?<![^\n])<instructions file="[^"\n]*">\n(.*?)\n</instructions>(?=\n\n|\Z)', re.DOTALL)


@frozen
class Verified:
    """A summary after its check.

    :ivar unverified: flagged pieces, as they stand in the text.
    :ivar missing: required sections that it lacks.
    """

    text: str
    unverified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def source_of(state: ConversationState) -> Source:
    """All that a summary of this conversation may rest on."""
    memory = state.memory
    user_texts = [pin.text for pin in memory.pins]
    user_texts += [quote.text for quote in (*memory.rules, *memory.requests)]
    plan = [item.content for item in state.plan]
    said = [entry for entry in state.entries if not entry.summary and not entry.note]
    notes = [
        part.text for entry in state.entries if entry.note for part in entry.message.parts if isinstance(part, Text)
    ]
    workspace = [state.workspace.cwd, state.workspace.branch, state.workspace.head]
    facts = render_ledger(memory.ledger, ALL_FACTS, state.workspace.cwd)
    user_texts += instruction_files(state.request.system)
    earlier = [vouched(text) for text in _past(state, recorded=False)]
    # A request may long have left the budget of what is quoted; the summary that told of it was checked against it.
    reported = [claim for one in earlier for claim in one.claims]
    known = [state.request.system, *(one.text for one in earlier), *plan, *notes, *workspace]
    ran = [*_past(state, recorded=True), facts]
    return Source.of(said, extra=known, results=ran, user_texts=user_texts, reported=reported)


def instruction_files(system: str) -> tuple[str, ...]:
    """The project's instruction files in a system prompt, which are the user's word as much as a prompt is; all else in
    it is not.

    :param system: with each file in `<instructions file="...">`, as the session writes it.
    """
    return tuple(match[1] for match in _INSTRUCTIONS.finditer(system))


def known_entries(state: ConversationState) -> set[int]:
    """Numbers that a summary may cite: of entries, and those that were carried over from earlier compactions."""
    memory = state.memory
    known = {entry.seq for entry in state.entries}
    known.update(quote.seq for quote in (*memory.rules, *memory.requests))
    known.update(memory.rules_elsewhere)
    for text in (*_past(state, recorded=False), *_past(state, recorded=True)):
        known.update(cited(without_doubtful(text)))
    return known


def _past(state: ConversationState, *, recorded: bool) -> list[str]:
    """Earlier summaries, with their marks; or what was quoted and recorded beside them."""
    parts = [part for entry in state.entries if entry.summary for part in entry.message.parts]
    return [part.text for part in parts if isinstance(part, Text | CompactedBlock) and is_made_afresh(part) == recorded]


def invented_citations(text: str, known: set[int]) -> tuple[Flag, ...]:
    """The citations of a summary that name an entry which does not exist, in order."""
    unknown = set(unknown_citations(text, known))
    return tuple(
        Flag("citation", match[0], *match.span())
        for match in CITATION.finditer(text)
        if unknown.intersection(cited(match[0]))
    )


async def verify(
    state: ConversationState,
    policy: CompactionPolicy,
    write: Callable[[], Awaitable[str]],
    mend: Callable[[str], Awaitable[str]],
) -> Verified:
    """Have a summary written, check it and do what the policy says.

    :param write: asks the model for it. What it may rest on is read meanwhile, since nobody waits for that then: it
        takes two milliseconds for each thousand tokens of the conversation.
    :param mend: asks the model once for a corrected summary.
    :raises CompactionError: the policy rejects it.
    :raises Exception: what `write` raises.
    """
    if policy.verify == "off":
        text = await write()
        return Verified(text, (), missing_sections(text, policy.sections))
    text, (source, known) = await _written(write, state)

    # Reading the whole conversation and looking up every piece of a long summary take seconds: what goes on meanwhile
    # must not stand still, and the end of the process not wait.
    async def checked(text: str) -> tuple[tuple[Flag, ...], tuple[str, ...]]:
        return await to_thread.run_sync(_checked, text, source, known, policy, abandon_on_cancel=True)

    flags, missing = await checked(text)
    if policy.verify == "mend" and (flags or missing) and (mended := await _mended(mend, mend_request(flags, missing))):
        wrong, lacking = await checked(mended)
        # What lacks more than before is no correction, but an answer of another kind.
        if len(lacking) <= len(missing):
            text, flags, missing = mended, wrong, lacking
    if policy.verify == "reject" and (flags or missing):
        raise CompactionError(
            _rejection(flags, missing),
            "The history is unchanged; try /compact again, or set `verify: mark` in the recipe.",
        )
    pieces = tuple(dict.fromkeys(flag.text for flag in flags))
    marked = await to_thread.run_sync(mark, text, flags, abandon_on_cancel=True)
    return Verified(marked, pieces[:MAX_TOLD], missing)


async def _written(
    write: Callable[[], Awaitable[str]], state: ConversationState
) -> tuple[str, tuple[Source, set[int]]]:
    """A summary and what it is checked against, both made at the same time."""
    text: list[str] = []
    read: list[tuple[Source, set[int]]] = []
    failures: list[Exception] = []

    async def reading() -> None:
        try:
            read.append(await to_thread.run_sync(_known, state, abandon_on_cancel=True))
        except Exception as error:
            failures.append(error)
            tasks.cancel_scope.cancel()

    async with create_task_group() as tasks:
        tasks.start_soon(reading)
        try:
            text.append(await write())
        except Exception as error:  # raised below, outside of the task group
            failures.append(error)
            tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return text[0], read[0]


def _known(state: ConversationState) -> tuple[Source, set[int]]:
    return source_of(state), known_entries(state)


def _checked(
    text: str, source: Source, known: set[int], policy: CompactionPolicy
) -> tuple[tuple[Flag, ...], tuple[str, ...]]:
    """What the conversation does not say of what this says, and the sections that it lacks."""
    return (*check(text, source), *invented_citations(text, known)), missing_sections(text, policy.sections)


async def _mended(mend: Callable[[str], Awaitable[str]], request: str) -> str:
    """The corrected summary; empty where none came: the one that there is may be used all the same, marked."""
    try:
        return await mend(request)
    except (CompactionError, ModelError) as error:
        _log.info("a summary was not mended: %s", error)
        return ""


def _rejection(flags: tuple[Flag, ...], missing: tuple[str, ...]) -> str:
    reasons: list[str] = []
    if flags:
        told = ", ".join(f"`{flag.text[:80]}`" for flag in flags[:MAX_TOLD])
        reasons.append(f"it says what the conversation does not contain ({told})")
    if missing:
        reasons.append(f"it lacks the sections {', '.join(missing)}")
    return f"The summary was rejected: {' and '.join(reasons)}."
