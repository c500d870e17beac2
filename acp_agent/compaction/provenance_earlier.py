"""What an earlier summary still says for sure: all of it but what its own check could not find.

A message of the user that is no longer at hand may be known through a summary alone. What that summary says the user
said, and its check let pass, counts as the user's from then on; what the check marked does not become true by being
repeated, nor do the names and numbers in it.
"""

from __future__ import annotations

import re

from acp_agent.compaction.claims import claims
from acp_agent.compaction.provenance_flags import NO_MESSAGE, UNVERIFIED, Closed, Unmarked
from acp_agent.compaction.provenance_pieces import Layout
from acp_agent.frozen import frozen

_DOUBTFUL = re.compile(
    r"(?:`[^`\n]+`|\"[^\"\n]+\"|“[^“”\n]+”|„[^„“\n]+“|«[^«»\n]+»|(?<!\S)\S+)"
    rf" {re.escape(UNVERIFIED)}"
)


@frozen
class Vouched:
    """What is left of an earlier summary.

    :ivar text: without what it marks.
    :ivar claims: the sentences on what the user said that it does not mark; a name in them may not be verified.
    """

    text: str
    claims: tuple[str, ...]


def vouched(summary: str) -> Vouched:
    """Read an earlier summary, with its marks.

    :param summary: as the check left it; other words around it do no harm.
    """
    unmarked = Unmarked.of(summary)
    layout = Layout.of(unmarked.text)
    closed = Closed(unmarked.text, layout)
    doubted = [place for place, mark in unmarked.marks if NO_MESSAGE in mark]
    kept: list[str] = []
    passed: list[str] = []
    at = 0
    for block in layout.blocks:
        if block.kind != "text":
            continue
        for claim in claims(unmarked.text, block.start, block.end, closed):
            start, end = unmarked.marked(claim.start, claim.end)
            # A mark is put behind the code or the link that a claim ends in.
            place, _, _ = closed.place(claim.end)
            if any(claim.start < one <= place for one in doubted):
                kept.append(summary[at:start])
                at = end
            elif claim.text:  # what the user did not ask for is nothing that the user said
                passed.append(unmarked.text[claim.start : claim.end])
    kept.append(summary[at:])
    return Vouched(without_doubtful("".join(kept)), tuple(passed))


def without_doubtful(summary: str) -> str:
    """A summary without the pieces that it marks as not verified."""
    return _DOUBTFUL.sub(" ", summary)
