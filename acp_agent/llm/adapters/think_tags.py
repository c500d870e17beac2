"""`ThinkTags`: extracts reasoning that a server has left in the text of an answer.

Models such as Qwen3, DeepSeek-R1 and Magistral write their reasoning between two tags
before the answer. A server without a parser for them sends the tags as text.
"""

from __future__ import annotations

from typing import Literal

from acp_agent.llm.thinking_marks import THINKING_MARKS

_TAGS = {start: end for marks in THINKING_MARKS for start, end in marks.tags.items()}
"""The end tag for each start tag."""
_LONGEST = max(map(len, _TAGS))


class ThinkTags:
    """Splits the text of one answer into reasoning and answer, piece by piece.

    Only an answer that begins with a start tag has reasoning.
    """

    def __init__(self) -> None:
        self._place: Literal["start", "reasoning", "gap", "answer"] = "start"
        self._held = ""
        """Text that may be the beginning of a tag."""
        self._end = ""
        self._start = ""
        self._reasoning: list[str] = []

    def add(self, text: str) -> tuple[str, str]:
        """Return the reasoning and the part of the answer that are certain after this
        piece of text.
        """
        if self._place == "answer":
            return "", text
        held = self._held + text
        self._held = ""
        if self._place == "start":
            begin = held.lstrip()
            start = next((tag for tag in _TAGS if begin.startswith(tag)), None)
            if start is None:
                if len(begin) < _LONGEST and any(
                    tag.startswith(begin) for tag in _TAGS
                ):
                    self._held = held
                    return "", ""
                self._place = "answer"
                return "", held
            self._start = held[: len(held) - len(begin)] + start
            self._end = _TAGS[start]
            self._place = "reasoning"
            held = begin[len(start) :]
        reasoning = ""
        if self._place == "reasoning":
            reasoning, found, rest = held.partition(self._end)
            if not found:
                kept = _overlap(held, self._end)
                reasoning = held[: len(held) - kept]
                self._held = held[len(held) - kept :]
            self._reasoning.append(reasoning)
            if not found:
                return reasoning, ""
            self._place = "gap"
            held = rest
        answer = held.lstrip()  # the white space in between belongs to neither
        if answer:
            self._place = "answer"
        return reasoning, answer

    def finish(self, *, is_whole: bool) -> str:
        """Return the rest of the answer: text that turned out not to be a tag.

        :param is_whole: whether the model finished its answer. If so and the end tag is
            missing, the start tag was ordinary text, and all of the text is the answer.
        """
        held = self._held
        self._held = ""
        if self._place == "reasoning" and not is_whole:
            self._reasoning.append(held)
            held = ""
        elif self._place == "reasoning":
            held = self._start + "".join(self._reasoning) + held
            self._reasoning.clear()
        self._place = "answer"
        return held

    @property
    def reasoning(self) -> str:
        """Return the reasoning so far."""
        return "".join(self._reasoning)


def _overlap(text: str, tag: str) -> int:
    """Return the number of characters at the end of a text that may begin the tag."""
    return next(
        (
            length
            for length in range(len(tag) - 1, 0, -1)
            if text.endswith(tag[:length])
        ),
        0,
    )
