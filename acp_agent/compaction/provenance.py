"""The check of a summary against what it was made from: what it states that the source does not contain.

Flagged are paths, identifiers, numbers, addresses and quotes that stand nowhere in the source, and sentences on what
the user said that no message of the user is behind. It asks no model; what is done with the flags is the caller's
choice: `mark` them, ask once with `mend_request`, or reject the summary.

Limits: a piece is looked up, not understood. A number that stands anywhere in the source passes whatever it counts,
unless it is an exit status or a small count of results of tests; that there were none is believed where any result says
that all went well; and prose without any piece is not checked.

Citations of the log's entries are `[#12]` and `[#12-#20]`, by their seq.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterator

from acp_agent.compaction.claims import claims, is_supported
from acp_agent.compaction.provenance_flags import Closed, Flag, FlagKind, Unmarked, mark, mend_request, unmark
from acp_agent.compaction.provenance_names import is_coded
from acp_agent.compaction.provenance_pieces import CITATION, Layout, Piece, pieces
from acp_agent.compaction.provenance_source import Source

__all__ = ["Flag", "Source", "check", "cited", "mark", "mend_request", "unknown_citations", "unmark"]


def check(summary: str, source: Source) -> tuple[Flag, ...]:
    """What a summary states and its source does not, in order and without overlaps.

    A sentence on the user without a message behind it is one flag, and so is a quote, whatever else in it is not found.

    :param summary: Markdown; marks of an earlier check are not seen.
    """
    unmarked = Unmarked.of(summary)
    found = sorted(_unsupported(unmarked.text, source))
    flags: list[Flag] = []
    for first, last, kind in found:
        start, end = unmarked.marked(first, last)
        flags.append(Flag(kind, summary[start:end], start, end))
    return tuple(flags)


def cited(summary: str) -> tuple[int, ...]:
    """The seqs that a summary cites outside code, each once, as they come; of a range both ends."""
    layout = Layout.of(summary)
    code = _Spans([(start, end) for start, end, _, _ in layout.code])
    code.add([(block.start, block.end) for block in layout.blocks if block.kind == "fence"])
    seqs = (
        int(digits)
        for match in CITATION.finditer(summary)
        if not code.meets(*match.span())
        for digits in re.findall(r"\d+", match[0])
    )
    return tuple(dict.fromkeys(seqs))


def unknown_citations(summary: str, seqs: Container[int]) -> tuple[int, ...]:
    """The seqs that a summary cites and that do not exist.

    :param seqs: of the entries that may be cited.
    """
    return tuple(seq for seq in cited(summary) if seq not in seqs)


class _Spans:
    """Spans that do not overlap one another, asked whether another one meets them."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._spans = sorted(spans)

    def add(self, spans: list[tuple[int, int]]) -> None:
        self._spans = sorted([*self._spans, *(span for span in spans if not self.meets(*span))])

    def meets(self, start: int, end: int) -> bool:
        index = bisect_left(self._spans, (end, end))
        return index > 0 and self._spans[index - 1][1] > start


def _unsupported(text: str, source: Source) -> Iterator[tuple[int, int, FlagKind]]:
    layout = Layout.of(text)
    closed = Closed(text, layout)
    taken: list[tuple[int, int]] = []
    for block in layout.blocks:
        if block.kind != "text":
            continue
        for claim in claims(text, block.start, block.end, closed):
            if not is_supported(claim, source):
                taken.append((claim.start, claim.end))
                yield claim.start, claim.end, "user_claim"
    covered = _Spans(taken)
    found = list(pieces(text, layout))
    quotes = [piece for piece in found if piece.kind == "quote" and not piece.code]
    for quote in quotes:
        if not covered.meets(quote.start, quote.end) and not source.has_quote(quote.value):
            yield quote.start, quote.end, "quote"
    # What a quote contains was looked up with it.
    covered.add([(quote.start, quote.end) for quote in quotes])
    for piece in found:
        if (piece.kind != "quote" or piece.code) and not covered.meets(piece.start, piece.end):
            yield from _failing(piece, source)


def _failing(piece: Piece, source: Source) -> Iterator[tuple[int, int, FlagKind]]:
    if _stands(piece, source):
        return
    failing = [found for part in piece.parts for found in _failing(part, source)]
    if piece.kind == "quote" and piece.parts:
        yield from failing
    elif failing or not piece.parts:
        yield piece.start, piece.end, piece.kind


def _stands(piece: Piece, source: Source) -> bool:
    if piece.parts:
        return source.has_phrase(piece.value) or (piece.kind == "number" and source.has_number(piece.value))
    match piece.kind:
        case "path":
            return source.has_path(piece.value)
        case "identifier":
            return source.has_name(piece.value) or (is_coded(piece.value) and source.has_quote(piece.value))
        case "number" if piece.counts:
            return source.has_count(piece.value, piece.counts) or (piece.value == "0" and source.has_none(piece.counts))
        case "number":
            return source.has_number(piece.value)
        case "url":
            return source.has_url(piece.value)
        case "quote":
            return source.has_phrase(piece.value) if piece.code else source.has_quote(piece.value)
