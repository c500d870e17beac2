"""What stands in the place of what is left out: the line that says how much it was and where all of it can be read.

A text keeps its beginning and its end, with that line in its middle, and of what the user said the rules besides. Knows
no budget, and not which texts have to be cut.
"""

from __future__ import annotations

from functools import lru_cache

from acp_agent.conversation.messages import Image, Resource
from acp_agent.frozen import frozen
from acp_agent.llm.parts import address

SHORTEST_PIECE = 192
"""Characters to which a text is cut at most: the line about what is missing, and a little of both ends."""
HEAD_SHARE = 2 / 3
SNAP_SHARE = 1 / 4
"""Of a head or tail, given up so that it ends at the end of a line."""
_RULES = "\n\n[Rules that stand in the part that was left out:]\n"


@frozen
class LeftOut:
    """Says what is missing from an entry of the log.

    :ivar seq: of the entry.
    :ivar recall: whether the model has the `recall` tool to read it with.
    """

    seq: int
    recall: bool

    @property
    def where(self) -> str:
        """Where the whole of it is; empty where the model cannot get at it."""
        return f"; `recall` reads entry #{self.seq} in full" if self.recall else ""

    def middle(self, text: str) -> str:
        """The line in place of this text."""
        lines = text.count("\n")
        counted = f" ({lines:,} lines)" if lines else ""
        return f"[... {len(text):,} characters{counted} left out{self.where} ...]"

    def image(self, part: Image | Resource) -> str:
        """The line in place of an image."""
        named = f" {address(part.uri)[:80]}" if part.uri else ""
        return f"[image{named} left out{self.where}]"

    def sound(self) -> str:
        """The line in place of a sound."""
        return f"[sound left out{self.where}]"

    def file(self, part: Resource) -> str:
        """The line in place of a binary file."""
        return f"[file {address(part.uri)[:80]} left out{self.where}]"


def cut_middle(text: str, limit: int, left_out: LeftOut) -> str:
    """A text of at most so many characters, its middle replaced by a line about it; as it is where that is no gain.

    :param limit: at least `SHORTEST_PIECE`.
    """
    if len(text) <= limit:
        return text
    room = limit - len(left_out.middle(text)) - 2
    head = text[: max(0, int(room * HEAD_SHARE))]
    tail = text[len(text) - max(0, room - len(head)) :]
    end = head.rfind("\n") + 1
    if end > len(head) * (1 - SNAP_SHARE):
        head = head[:end]
    begin = tail.find("\n") + 1
    if 0 < begin < len(tail) * SNAP_SHARE:
        tail = tail[begin:]
    line = left_out.middle(text[len(head) : len(text) - len(tail)])
    shorter = "\n".join(piece for piece in (head.removesuffix("\n"), line, tail) if piece)
    return shorter if len(shorter) < len(text) else text


def cut_said(text: str, limit: int, left_out: LeftOut, typed: str | None = None) -> str:
    """`cut_middle` for what the user said: rules that they state in the middle stay, word for word.

    :param typed: what of the text the user typed; all of it where not given.
    """
    if len(text) <= limit:
        return text
    rules = _rules(text) if typed is None else [rule for rule in _rules(typed) if rule in text]
    reserve = min(limit // 2, sum(len(rule) + 3 for rule in rules) + len(_RULES))
    shorter = cut_middle(text, limit - reserve if rules else limit, left_out)
    kept: list[str] = []
    room = reserve - len(_RULES)
    for rule in rules:
        if rule not in shorter and room >= len(rule) + 3:
            kept.append(f"- {rule}")
            room -= len(rule) + 3
    return f"{shorter}{_RULES}" + "\n".join(kept) if kept else shorter


@lru_cache(maxsize=16)
def _rules(text: str) -> tuple[str, ...]:
    from acp_agent.compaction.rules import stated_rules

    return stated_rules(text)
