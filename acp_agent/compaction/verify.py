"""Checks whether the names, paths, numbers, addresses, dates and quotations in a
summary are in the conversation, and whether it has the required headings.

The check compares strings, as described in `evidence`. Single digits and plain words
are exempt. Plain words in code spans are checked, since an invented command may consist
of plain words only. The check cannot find wrong requests, decisions or negations in plain
words.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from urllib.parse import unquote

from anyio import to_thread

from acp_agent.compaction.calls import run_with_thread
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.evidence import GROUPED, TOKEN, WHOLES, Evidence
from acp_agent.compaction.facts import LONGEST, RUNS, facts_of_run, key_of
from acp_agent.compaction.frame import missing_sections
from acp_agent.compaction.state import ConversationState
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.conversation.messages import (
    Entry,
    Image,
    Resource,
    ResourceLink,
    ToolCall,
    texts_in,
)
from acp_agent.errors import CompactionError, ModelError
from acp_agent.frozen import frozen

_MARK = " [unverified]"
MAX_REPORTED = 20  # maximum number of flagged pieces in a receipt or an error
_MAX_LISTED = 60
_MAX_LISTED_LENGTH = 300
_QUOTED_WORDS = 3
_SHORTEST_WORD = 3

_log = logging.getLogger(__name__)
_SPAN = re.compile(
    r"(?<!`)`[^`\n]+`(?!`)|(?<!`)``(?!`)(?:[^`\n]|`(?!`))+``(?!`)"
    r"|(?P<quote>(?<!\w)\"(?=\S)[^\"\n]*(?<=\S)\"(?!\w)|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|»[^«»\n]*«)"
    r"|\[[^\[\]\n]*\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|\[[^\[\]\n]*\])"
    r"|<[a-z][a-z+]*:[^\s<>]*>"
)
_REFERENCE = re.compile(r"\[#\d{1,18}(?:[\s,;–-]{1,3}#?\d{1,18})*\](?!\()")
_OPENING = frozenset('(["')
_CLOSING = ".,;:!?)]}*_|>'…“”«»"


@frozen
class _Piece:
    """A piece of a summary to check."""

    kind: str  # a kind of fact, or "quotation"
    text: str
    start: int
    end: int
    place: int  # offset at which to insert a mark that flags the piece


async def verify(
    task: Task,
    cut: Cut,
    write: Callable[[], Awaitable[str]],
    mend: Callable[[str], Awaitable[str]],
) -> Draft:
    """Ask for a summary, check it, and return it as a draft. If it has flaws, it is
    marked, corrected once or rejected, depending on `policy.verify`.

    :param write: asks the model for the summary.
    :param mend: asks the model for a corrected summary.
    :raises CompactionError: if the summary is rejected.
    """
    policy = task.policy
    if policy.verify == "off":
        text = await write()
        return Draft(cut, text, missing=missing_sections(text, policy.sections))

    def prepare() -> Evidence:
        if task.index is not None:
            task.index.complete()  # excerpts are selected next
        return index_of(task.state)

    text, index = await run_with_thread(write, prepare)

    def check(text: str) -> tuple[tuple[_Piece, ...], tuple[str, ...]]:
        return unverified(text, index), missing_sections(text, policy.sections)

    flagged, missing = await to_thread.run_sync(check, text, abandon_on_cancel=True)
    if policy.verify == "mend" and (flagged or missing):
        try:
            mended = await mend(_mend_request(flagged, missing))
            still_flagged, still_missing = await to_thread.run_sync(
                check, mended, abandon_on_cancel=True
            )
            # Discard a correction that lacks more sections than the first summary.
            if mended and len(still_missing) <= len(missing):
                text = mended
                flagged = still_flagged
                missing = still_missing
        except (CompactionError, ModelError) as error:
            _log.info("a summary was not corrected: %s", error)
    reported = tuple(dict.fromkeys(piece.text for piece in flagged))[:MAX_REPORTED]
    if policy.verify == "reject" and (flagged or missing):
        raise _rejection(reported, missing)
    if flagged:
        text = await to_thread.run_sync(mark, text, flagged, abandon_on_cancel=True)
    return Draft(cut, text, unverified=reported, missing=missing)


def _mend_request(flagged: Sequence[_Piece], missing: Sequence[str]) -> str:
    """Return the message that asks the model for a corrected and complete summary."""
    blocks = [
        "Your summary was checked against the conversation and needs corrections."
    ]
    if flagged:
        found = dict.fromkeys(
            f"- {each.kind}: {' '.join(each.text.split())[:_MAX_LISTED_LENGTH]}"
            for each in flagged
        )
        blocks.append(
            "The conversation does not contain the following. Replace each with the exact text from the conversation, "
            "or remove it:"
        )
        blocks.append("\n".join(list(found)[:_MAX_LISTED]))
    if missing:
        blocks.append(
            "These sections are missing or empty. Write each of them; if there is nothing to say in one, "
            'write "None.":'
        )
        blocks.append("\n".join(f"- {name}" for name in missing))
    blocks.append(
        "Answer with only the complete corrected summary, in the same format, and leave everything else unchanged."
    )
    return "\n\n".join(
        [*blocks, "Do not call tools, and do not mention this check or the correction."]
    )


def _rejection(flagged: Sequence[str], missing: Sequence[str]) -> CompactionError:
    names = ", ".join(f"`{piece[:80]}`" for piece in flagged)
    reasons = (
        [f"it mentions things that are not in the conversation ({names})"]
        if flagged
        else []
    )
    reasons += [f"these sections are missing: {', '.join(missing)}"] if missing else []
    hint = "The history is unchanged; try /compact again, or set `verify: mark` in the recipe."
    return CompactionError(f"The summary was rejected: {' and '.join(reasons)}.", hint)


def index_of(state: ConversationState) -> Evidence:
    """Return an index of all texts that a summary of this conversation may cite."""
    earlier = [
        _verified_part(text)
        for entry in state.entries
        if entry.summary
        for text in _texts(entry)
    ]
    texts = [
        state.request.system,
        *earlier,
        *(text for entry in state.originals for text in _texts(entry)),
    ]
    texts += [pin.text for pin in state.memory.pins] + [
        item.content for item in state.plan
    ]
    texts += [state.workspace.cwd, state.workspace.branch, state.workspace.head]
    return Evidence.of(texts)


def _verified_part(summary: str) -> str:
    """Return an earlier summary with its marked pieces blanked out."""
    for piece in pieces(summary):
        if summary.startswith(_MARK, piece.place):
            summary = (
                f"{summary[: piece.start]}{' ' * len(piece.text)}{summary[piece.end :]}"
            )
    return summary


def _texts(entry: Entry) -> Iterator[str]:
    """Yield all texts of an entry, from every speaker."""
    for part in (*entry.message.parts, *entry.typed):
        yield from texts_in(part)
        if isinstance(part, ResourceLink | Resource | Image) and part.uri:
            yield unquote(part.uri)
        if isinstance(part, ToolCall):
            yield f"{part.invalid or ''}\n{json.dumps(part.arguments, ensure_ascii=False)}"


def unverified(text: str, index: Evidence) -> tuple[_Piece, ...]:
    """Return the pieces of a summary that are not in the index, in order and without
    overlaps.
    """
    flagged: list[_Piece] = []
    has = cache(index.has)
    for piece in pieces(text):
        overlaps = bool(flagged) and piece.start < flagged[-1].end
        if not overlaps and not has(piece.kind, piece.text):
            flagged.append(piece)
    return tuple(flagged)


def mark(text: str, flagged: Iterable[_Piece]) -> str:
    """Return the summary with a mark after each flagged piece that does not have one
    yet.
    """
    places = (
        place
        for place in sorted({piece.place for piece in flagged})
        if not text.startswith(_MARK, place)
    )
    return _MARK.join(
        text[start:end] for start, end in pairwise([0, *places, len(text)])
    )


def pieces(text: str) -> list[_Piece]:
    """Return the pieces of a text to check, sorted by start, longer pieces first."""
    spans = list(_SPAN.finditer(text))
    quotes = [
        span
        for span in spans
        if span["quote"] and len(TOKEN.findall(span[0].casefold())) >= _QUOTED_WORDS
    ]
    found = [("quotation", span.start() + 1, span.end() - 1) for span in quotes]
    bare = _REFERENCE.sub(_blank, text)
    found += [("number", *number.span()) for number in GROUPED.finditer(bare)]
    found += [
        (kind, *whole.span())
        for kind, pattern in WHOLES.items()
        for whole in pattern.finditer(bare)
    ]
    for run in RUNS.finditer(GROUPED.sub(_blank, bare)):
        found += _facts(run, _is_code(run, _around(spans, run.end())))
    placed = (
        _Piece(kind, text[start:end], start, end, _place(text, end, spans))
        for kind, start, end in found
    )
    return sorted(placed, key=lambda piece: (piece.start, -piece.end))


def _is_code(run: re.Match[str], span: re.Match[str] | None) -> bool:
    """Return whether a run is code, in which every word is a name. A run is code if it
    is followed by `()` or is in a code span.
    """
    text = run.string
    start = run.start()
    end = run.end()
    if text.startswith("()", end):
        return True
    if span is None or span[0][0] != "`":
        return False
    is_placeholder = text[start - 1 : start] + text[end : end + 1] in ("<>", "{}")
    # In scripts without spaces, a run is a phrase. Next to other words it is prose.
    return not is_placeholder and (run[0].isascii() or len(span[0].split()) == 1)


def _facts(run: re.Match[str], coded: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the outermost facts of a run as kind, start and end.

    :param coded: whether the run is code; see `_is_code`.
    """
    at = run.start()
    key = key_of(run[0])
    found = facts_of_run(run[0])
    whole = bool(found) and found[0][0] == key
    if coded and not whole and len(key) >= _SHORTEST_WORD and not key.isdecimal():
        start = at + run[0].find(key)
        yield "name", start, start + len(key)
        return
    for _, start, end, kind in found[:1] if whole else found:
        yield kind, at + start, at + end
    for small in (
        () if found else re.finditer(r"(?<![\w.~])\d\d(?![\w.])", run[0].rstrip("."))
    ):
        yield "number", at + small.start(), at + small.end()


def _around(spans: Sequence[re.Match[str]], end: int) -> re.Match[str] | None:
    """Return the span that begins before an offset and ends at or after it.

    :param spans: in order and without overlaps.
    """
    at = bisect_left(spans, end, key=lambda span: span.end())
    return spans[at] if at < len(spans) and spans[at].start() < end else None


def _place(text: str, end: int, spans: Sequence[re.Match[str]]) -> int:
    """Return the first offset from `end` on at which a mark can be inserted: outside
    code, links, quotations and words.
    """
    while True:
        if span := _around(spans, end):
            end = span.end()
        rest = "".join(
            takewhile(lambda sign: not sign.isspace(), text[end : end + LONGEST])
        )
        # A mark within a word, or in front of a bracket or quotation mark, would change
        # the text after it.
        rest = rest.rstrip(_CLOSING) if _OPENING.isdisjoint(rest) else rest
        if not rest or len(rest) == LONGEST:
            return end
        end += len(rest)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
