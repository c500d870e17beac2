"""Finds the summary in a model's answer.

When asked for a summary, models that are trained to call tools or to think first
sometimes write tool calls or thinking as plain text. Some answer with a single word.
Such an answer must not replace a conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from acp_agent.compaction.frame import has_section, missing_sections
from acp_agent.errors import CompactionError
from acp_agent.llm.thinking_marks import THINKING_MARKS

LEAST_CHARACTERS = 200
"""Minimum length of a summary that lacks the sections that the recipe asks for, if it
replaces much text. Repeated sentences are counted only once.
"""
LEAST_SENTENCE = 12
"""The same minimum if the summary replaces little text. A shorter answer is only a word
or two, like "Understood.".
"""
TOKENS_PER_CHARACTER = 150
"""Number of replaced tokens for which one character is required. The result is limited
to the range between the two minimums above.
"""

_THINKING = tuple(
    (re.compile(marks.start, re.IGNORECASE), re.compile(marks.end, re.IGNORECASE))
    for marks in THINKING_MARKS
)
"""Start and end marks of thinking."""
_CALL = re.compile(
    r"</?[^<>\s]{0,40}(?:tool|function|invoke|DSML|python_tag|plugin)[^<>\n]{0,200}>"
    r"|\[/?TOOL_(?:CALLS?|REQUEST|ARGS)\]|\[END_TOOL_REQUEST\]|```tool_\w+",
    re.IGNORECASE,
)
"""Markup of tool calls: Hermes and Qwen, Llama, DeepSeek, Kimi, Mistral, LM Studio,
Gemini and others.
"""
_ARGUMENTS = re.compile(r"\s*+(?:[\[{<]|\w[\w.]*+\s*+[({\[:])")
_TAG = re.compile(r"<[^<>\n]{1,200}>")
_FENCE = re.compile(r"^```\w*+\s*|(?<!\s)\s*```$")
_SENTENCE_END = re.compile(r"\n|[.!?]\s|[。！？]")
_NUMBERING = re.compile(r"^(?:[^\w]|\d|_)+")
_ADVICE = "The history is unchanged; try /compact again, or with another model."


def least_characters(replaced: int) -> int:
    """Return the minimum length of a summary without sections, in characters.

    :param replaced: number of tokens that the summary replaces.
    """
    return max(LEAST_SENTENCE, min(LEAST_CHARACTERS, replaced // TOKENS_PER_CHARACTER))


def summary_in(
    answer: str, sections: Sequence[str], least: int = LEAST_CHARACTERS
) -> str:
    """Return the summary in a model's answer, without the model's thinking.

    :param answer: the visible text.
    :param sections: headings that the summary should have. An answer that has any
        section with content is a summary, even if the model chose the heading.
    :param least: minimum characters of a summary without sections, if the recipe asks
        for sections.
    :raises CompactionError: if there is no summary: the answer consists of thinking or
        of tool calls written as text, or is short and has no section.
    """
    summary = _without_thinking(answer, sections).strip()
    if not summary:
        raise CompactionError(
            "The model's answer has only thinking, and no summary.", _ADVICE
        )
    words = _words_of(summary)
    is_markup = len(words) < len(summary)
    # The text next to a call only announces the call.
    least = LEAST_CHARACTERS if is_markup else least
    if has_section(words) or len(_distinct(words)) >= least or (words and not sections):
        return summary
    if is_markup:
        raise CompactionError(
            "The model wrote tool calls or markup instead of a summary.", _ADVICE
        )
    distinct = len(_distinct(words))
    if distinct < len(words) // 2:
        raise CompactionError(
            "The model's answer is not a summary: it repeats itself.", _ADVICE
        )
    raise CompactionError(
        f"The model's answer is not a summary: it has only {len(words)} characters, and none of the sections that the "
        "recipe asks for.",
        _ADVICE,
    )


def _distinct(text: str) -> str:
    """Return a text without repeated sentences. Sentences that differ only in a leading
    number or bullet are considered equal.
    """
    sentences: dict[str, None] = {}
    for sentence in _SENTENCE_END.split(text):
        words = " ".join(sentence.casefold().split())
        sentences[_NUMBERING.sub("", words)] = None
    return " ".join(sentences)


def _without_thinking(answer: str, sections: Sequence[str]) -> str:
    """Return an answer without the thinking at its beginning, even if the thinking has
    several pieces.
    """
    while True:
        rest = _without_unopened_thinking(
            _without_opened_thinking(answer.lstrip()), sections
        )
        if rest == answer:
            return answer
        answer = rest


def _without_opened_thinking(answer: str) -> str:
    """Return an answer without a piece of thinking at its very beginning, or "" if the
    piece is not closed.
    """
    for opening, closing in _THINKING:
        if begins := opening.match(answer):
            ends = closing.search(answer, begins.end())
            return answer[ends.end() :].lstrip() if ends else ""
    return answer


def _without_unopened_thinking(answer: str, sections: Sequence[str]) -> str:
    """Return an answer without thinking that has no opening mark because the chat
    template put it in the prompt.
    """
    closing = _THINKING[0][1]
    for ends in closing.finditer(answer):
        before = answer[: ends.start()]
        after = answer[ends.end() :]
        is_alone = (
            before.rpartition("\n")[2].strip() == ""
            or after.partition("\n")[0].strip() == ""
        )
        # A summary may quote the tag.
        if is_alone and len(missing_sections(after, sections)) <= len(
            missing_sections(answer, sections)
        ):
            return after
    return answer


def _words_of(summary: str) -> str:
    """Return the text of a summary without tool calls and tags."""
    calls = list(_CALL.finditer(summary))
    if calls:
        # The text between the first and the last piece of markup is names and
        # arguments. If there is only one piece, the text after it is prose unless it
        # looks like a name or arguments: the summary may quote the markup.
        before = summary[: calls[0].start()]
        after = summary[calls[-1].end() :]
        is_call = len(calls) == 1 and _ARGUMENTS.match(after) is not None
        summary = before if is_call else before + after
    words = _TAG.sub("", summary).strip()
    return "" if _is_json(_FENCE.sub("", words)) else words


def _is_json(text: str) -> bool:
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
