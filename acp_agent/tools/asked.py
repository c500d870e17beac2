"""What the user is shown of a call that waits for permission: a title, and facts that are never cut.

Some editors show the title alone (CodeCompanion), some render it as Markdown (Zed), and many cut it. So the place comes
first in it, and both ends of what is long are kept; the facts have everything, each character of it visible.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from acp_agent.conversation.markdown import fenced
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.views import Diff
from acp_agent.frozen import frozen
from acp_agent.tools.text import counted, title_line
from acp_agent.tools.tool import Fact, PreparedCall
from acp_agent.visible import code_point, hidden_in, visible

MOST_SHOWN = 1_000_000
"""Characters of all arguments of one call that an editor takes in a question."""
_INLINE = 200
"""Characters of a text that stands behind its label."""
_END = 80
"""Characters of a long text's end that are shown in front of it."""
_LONG_LINES = 10
_MARKUP = frozenset("`*[]<>\\&~|$")
_PADDING = (" " * 20, "\t" * 5, "\n" * 4)
"""Blanks that push the rest of a text out of sight."""
_IN_THE_DIFF = frozenset({"path", "content", "edits"})
"""Arguments of `write` and `edit`, which the change shows."""


@frozen
class Question:
    """What a permission request shows.

    :ivar title: one line: the place first, both ends of what is long.
    :ivar facts: in the order of their weight; each character of their texts shows.
    """

    title: str
    facts: tuple[Fact, ...]

    @property
    def markdown(self) -> str:
        """Return the facts as Markdown, in which no text can be taken for anything but a text."""
        blocks: list[str] = []
        for fact in self.facts:
            if _is_short(fact.text):
                blocks.append(f"{fact.label}: {code_span(fact.text)}{f' ({fact.note})' if fact.note else ''}")
            else:
                note = f" ({fact.note})" if fact.note else ""
                blocks.append(f"{fact.label}{note}:\n\n{fenced(fact.text)}")
        return "\n\n".join(blocks)

    @property
    def lines(self) -> Iterator[str]:
        """Yield the facts as lines for a terminal, without what the title says in full."""
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


def question_of(prepared: PreparedCall, arguments: JsonObject, covers: str = "") -> Question:
    """Return what is shown of a call.

    :param arguments: of the call, as the model wrote them.
    :param covers: what an "always allow" covers; empty where the name of the option says so itself.
    """
    facts = [*prepared.facts] or [*_places(prepared), *_arguments(arguments)]
    facts += (fact for diff in prepared.view.diffs for fact in _about(diff, arguments))
    if covers:
        facts.append(Fact("“Always allow” covers", covers))
    title = prepared.asked_title or title_line(prepared.view.title, 200)
    return Question(title, tuple(_shown(fact) for fact in facts))


def arguments_fact(arguments: JsonObject) -> Fact:
    """Return all arguments of a call as JSON, the short ones first: a long one pushes none of the others out of sight.

    A line end within a text is written as `\\n` there, so that no text can pass for another argument.
    """
    members = sorted(arguments.items(), key=lambda member: _length(member[1]))
    text = json.dumps(dict(members), ensure_ascii=False, indent=2)
    return Fact("Arguments", text, f"{len(text):,} characters" if len(text) > _INLINE else "")


def code_span(text: str) -> str:
    """Return a text of one line as Markdown code, which nothing in it can end (CommonMark, 6.1)."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) or not text else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def in_title(text: str, limit: int) -> str:
    """Return a text for a part of a title: on one line, and as code if Markdown would hide or change a part of it."""
    line = title_line(text, limit)
    return code_span(line) if "__" in line or not _MARKUP.isdisjoint(line) else line


def _shown(fact: Fact) -> Fact:
    """Return a fact all of whose characters show, with the end of a text that may be out of sight in its note."""
    text = visible(fact.text)
    if len(text) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        text = f"{text[:half]}\n[… {len(text) - MOST_SHOWN:,} characters left out …]\n{text[-half:]}"
    note = visible(fact.note) or _measure(text)
    return Fact(visible(fact.label), text, note)


def _measure(text: str) -> str:
    """Return how long a text is and how it ends, if its end may be out of sight; otherwise an empty string."""
    is_padded = any(blanks in text for blanks in _PADDING)
    lines = text.count("\n") + 1
    if _is_short(text) and not is_padded:
        return ""
    size = f"{counted(lines, 'line')}, {len(text):,} characters" if lines > 1 else f"{len(text):,} characters"
    if len(text) <= _INLINE and lines < _LONG_LINES and not is_padded:
        return size
    end = " ".join(text[-_END:].split())
    return f"{size}, ends with {code_span(end)}"


def _is_short(text: str) -> bool:
    return len(text) <= _INLINE and "\n" not in text


def _places(prepared: PreparedCall) -> Iterator[Fact]:
    """Yield where a call works, and where links lead from there."""
    named = [place.path for place in prepared.view.locations]
    for path in named:
        yield Fact("Path", path)
    for place in prepared.access.outside:
        if str(place) not in named:
            yield Fact("Leads to", str(place))


def _arguments(arguments: JsonObject) -> Iterator[Fact]:
    rest = {name: value for name, value in arguments.items() if name not in _IN_THE_DIFF}
    texts = {
        name: value for name, value in rest.items() if isinstance(value, str | int | float) and name.isidentifier()
    }
    for name, value in texts.items():
        yield Fact(name.replace("_", " ").capitalize(), value if isinstance(value, str) else json.dumps(value))
    if left := {name: value for name, value in rest.items() if name not in texts}:
        yield arguments_fact(left)


def _about(diff: Diff, arguments: JsonObject) -> Iterator[Fact]:
    """Yield what the change of a file does not show: characters without a shape, and what is left out of it."""
    new = Counter(hidden_in(diff.new_text)) - Counter(hidden_in(diff.old_text or ""))
    new.pop("\r", None)
    if new:
        told = ", ".join(f"{code_point(each)} ×{times}" for each, times in new.most_common(12))
        yield Fact("The new text holds characters that do not show", told)
    written = arguments.get("content")
    if isinstance(written, str) and len(written) > len(diff.new_text):
        yield Fact(
            "The change is shown in part",
            f"{len(diff.new_text):,} of {len(written):,} characters; it ends with {written[-_END:]!r}",
        )


def _length(value: JsonValue) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))
