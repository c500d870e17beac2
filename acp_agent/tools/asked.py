"""What a permission request shows about a call: a title, and facts that are never
truncated.

Some editors show only the title (CodeCompanion), some render it as Markdown (Zed), and
many truncate it. So the title names the place first, and shows the beginning and end of
long texts. The facts contain the full text, with every character visible.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from acp_agent.conversation.markdown import fenced
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen
from acp_agent.tools.matching.hunks import added_in, change_counts, hunks
from acp_agent.tools.text import counted, title_line
from acp_agent.tools.tool import Access, Fact, PreparedCall
from acp_agent.visible import code_point, hidden_in, visible

MOST_SHOWN = 1_000_000
"""Maximum number of characters of arguments in one question. Editors can show at least
this many.
"""
_INLINE = 200
"""Maximum length, in characters, of a text that is shown on the line of its label."""
_END = 80
"""Number of characters at the end of a long text that are quoted before the text."""
_LONG_LINES = 10
_MOST_NAMED = 12
"""Maximum number of different invisible characters to list."""
_MARKUP = frozenset("`*[]<>\\&~|$")
_PADDING = (" " * 20, "\t" * 5, "\n" * 4)
"""White space long enough to push the rest of a text out of sight."""
_IN_THE_DIFF = frozenset({"path", "content", "edits"})
"""Arguments of `write` and `edit` that the diff already shows."""


@frozen
class Question:
    """What a permission request shows.

    :ivar title: one line that names the place first, and shows the beginning and end of
        long texts.
    :ivar facts: the most important first, with every character visible.
    :ivar access: what the call would access.
    :ivar by_hook: whether a hook requires the question. If so, it is asked in every
        mode.
    """

    title: str
    facts: tuple[Fact, ...]
    access: Access
    by_hook: bool = False

    @property
    def markdown(self) -> str:
        """Return the facts as Markdown, escaped so that no text is rendered as markup."""
        blocks: list[str] = []
        for fact in self.facts:
            if _is_short(fact.text):
                blocks.append(
                    f"{fact.label}: {code_span(fact.text)}{f' ({fact.note})' if fact.note else ''}"
                )
            else:
                note = f" ({fact.note})" if fact.note else ""
                blocks.append(f"{fact.label}{note}:\n\n{fenced(fact.text)}")
        return "\n\n".join(blocks)

    @property
    def lines(self) -> Iterator[str]:
        """Yield the facts as lines for a terminal, without a fact that repeats the
        title.
        """
        for fact in self.facts:
            note = f" ({fact.note})" if fact.note else ""
            if fact.text == self.title:
                continue
            if _is_short(fact.text):
                yield f"{fact.label}: {fact.text}{note}"
                continue
            yield f"{fact.label}{note}:"
            for line in fact.text.split("\n"):
                yield f"  {line}"


def question_of(
    prepared: PreparedCall,
    arguments: JsonObject,
    covers: str = "",
    *,
    by_hook: bool = False,
) -> Question:
    """Return the question to show for a call.

    :param arguments: the call's arguments, as the model wrote them.
    :param covers: what "always allow" covers; empty if the option's name already says
        so.
    :param by_hook: whether a hook requires the question.
    """
    facts = [*prepared.facts] or [*_places(prepared), *_arguments(arguments)]
    facts += _about_changes(prepared)
    if covers:
        facts.append(Fact("“Always allow” covers", covers))
    title = prepared.asked_title or title_line(prepared.view.title, 200)
    shown = tuple(_shown(fact) for fact in facts)
    return Question(title, shown, prepared.access, by_hook)


def arguments_fact(arguments: JsonObject) -> Fact:
    """Return all arguments of a call as JSON, the shortest first, so that a long one
    cannot hide the others.

    A line end within a string is written as `\\n`, so that no string can imitate another argument.
    """
    members = sorted(arguments.items(), key=lambda member: _length(member[1]))
    text = json.dumps(dict(members), ensure_ascii=False, indent=2)
    return Fact(
        "Arguments", text, f"{len(text):,} characters" if len(text) > _INLINE else ""
    )


def code_span(text: str) -> str:
    """Return a text of one line as a Markdown code span that nothing in the text can
    close (CommonMark, 6.1).
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    blank = (
        " "
        if text.startswith(("`", " ")) or text.endswith(("`", " ")) or not text
        else ""
    )
    return f"{fence}{blank}{text}{blank}{fence}"


def in_title(text: str, limit: int) -> str:
    """Return a text for use in a title: on one line, and as a code span if Markdown
    would hide or change any of it.
    """
    line = title_line(text, limit)
    return code_span(line) if "__" in line or not _MARKUP.isdisjoint(line) else line


def _shown(fact: Fact) -> Fact:
    """Return the fact with every character visible. If the end of a long text may be
    out of sight, the note quotes it.
    """
    text = visible(fact.text)
    if len(text) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        lines = text.count("\n", half, len(text) - half)
        left_out = f"{len(text) - MOST_SHOWN:,} characters, {counted(lines, 'line')}"
        text = f"{text[:half]}\n[… {left_out} left out: `acp-agent inspect` shows the whole call …]\n{text[-half:]}"
    note = visible(fact.note) or _measure(text)
    return Fact(visible(fact.label), text, note)


def _measure(text: str) -> str:
    """Return a note about a long text: its length, and its last characters if its end
    may be out of sight. For a short text, return an empty string.
    """
    is_padded = any(blanks in text for blanks in _PADDING)
    lines = text.count("\n") + 1
    if _is_short(text) and not is_padded:
        return ""
    size = (
        f"{counted(lines, 'line')}, {len(text):,} characters"
        if lines > 1
        else f"{len(text):,} characters"
    )
    if len(text) <= _INLINE and lines < _LONG_LINES and not is_padded:
        return size
    end = " ".join(text[-_END:].split())
    return f"{size}, ends with {code_span(end)}"


def _is_short(text: str) -> bool:
    return len(text) <= _INLINE and "\n" not in text


def _places(prepared: PreparedCall) -> Iterator[Fact]:
    """Yield the paths that a call uses, and where symbolic links in them lead."""
    named = [place.path for place in prepared.view.locations]
    for path in named:
        yield Fact("Path", path)
    for place in dict.fromkeys((*prepared.access.outside, *prepared.leads_to)):
        if str(place) not in named:
            yield Fact("Leads to", str(place))


def _arguments(arguments: JsonObject) -> Iterator[Fact]:
    rest = {
        name: value for name, value in arguments.items() if name not in _IN_THE_DIFF
    }
    texts = {
        name: value
        for name, value in rest.items()
        if isinstance(value, str | int | float) and name.isidentifier()
    }
    for name, value in texts.items():
        yield Fact(
            name.replace("_", " ").capitalize(),
            value if isinstance(value, str) else json.dumps(value),
        )
    if left := {name: value for name, value in rest.items() if name not in texts}:
        yield arguments_fact(left)


def _about_changes(prepared: PreparedCall) -> Iterator[Fact]:
    """Yield what the diffs of a call do not show: invisible characters, and all changed
    lines if a diff was cut.
    """
    changed = prepared.hunks or "".join(
        hunks(diff.old_text or "", diff.new_text) for diff in prepared.view.diffs
    )
    hidden = Counter(hidden_in(added_in(changed)))
    if hidden:
        listed = ", ".join(
            f"{code_point(each)} ×{times}"
            for each, times in hidden.most_common(_MOST_NAMED)
        )
        others = len(hidden) - _MOST_NAMED
        more = f" and {others} others" if others > 0 else ""
        yield Fact("The added lines contain invisible characters", f"{listed}{more}")
    if prepared.hunks:
        added, removed = change_counts(changed)
        yield Fact(
            "All changed lines", changed, f"{added:,} added, {removed:,} removed"
        )


def _length(value: JsonValue) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))
