"""Exact replacement in the text of a file, as requested by a model.

A place matches if it equals the model's text character by character, apart from line
ends. If nothing matches but exactly one place looks like the model's text, that place
is used, and the answer says which characters differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from acp_agent.errors import ToolError
from acp_agent.tools.matching.controls import CONTROL, REPLACEMENT, Notation, code
from acp_agent.tools.matching.line_ends import CR, CRLF, LF, Fitting, Lines, as_sent
from acp_agent.tools.matching.misses import explained
from acp_agent.tools.matching.near import carried, differences, near_places

_BOM = "\ufeff"
MAX_PLACES = 100_000
"""Maximum number of places at which one edit may replace a text."""
MAX_CHARACTERS = 10 * 1024 * 1024
"""Maximum length of the text after an edit. No tool writes a larger file."""
_MOST_COMPARED = 400_000
"""Maximum total number of characters in the distinct lookalikes that one edit replaces."""


def notation_of(text: str) -> Notation:
    """Return the notation that is used to show this text of a file to a model."""
    lines = Lines.of(text)
    return Notation.of(text, CR if CR in lines.ends and not lines.only_cr else "")


def whole(before: str, content: str) -> str:
    """Return the content that a model wrote for a file, with the conventions of the
    file's old text restored.

    These are the byte order mark, the control characters and the line ends. Models
    leave them out or write them as they were shown.

    :raises ToolError: if the content has U+FFFD in place of control characters.
    """
    notation = notation_of(before)
    old = Lines.of(before.removeprefix(_BOM))
    mark = _BOM if before.startswith(_BOM) else ""
    content = content.removeprefix(mark)
    _refuse_replacements(before, content, "content")
    if CRLF in content and CRLF not in old.ends:
        return mark + notation.read(content)  # the model introduces CRLF
    new = as_sent(content, notation)
    fitting = Fitting(new, Lines(old.plain, old.shown_ends))
    ends = fitting.ends(old.ends, "", old.usual)
    return mark + Lines(new.plain, ends).text


@dataclass(slots=True)
class Editing:
    """A text to which edits are applied one after another.

    :ivar notes: what the model should know about the edits.
    """

    before: str
    notation: Notation = field(init=False)
    usual: str = field(init=False)
    notes: list[str] = field(default_factory=list[str])
    _lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.notation = notation_of(self.before)
        self._lines = Lines.of(self.before)
        self.usual = self._lines.usual

    @property
    def text(self) -> str:
        """Return the current text."""
        return self._lines.text

    def replace(
        self, old_text: str, new_text: str, *, everywhere: bool, name: str
    ) -> None:
        """Replace a text at its only place, or everywhere.

        :param name: the name of this edit in messages to the model.
        :raises ToolError: if there is no such place, or more than one; the message says
            where, and what to do.
        """
        old = as_sent(old_text, self.notation)
        new = as_sent(new_text, self.notation)
        if not old_text:
            raise ToolError(
                f"{name}: old_text is empty. Use `write` to create a file or to replace all of its text."
            )
        if old == new:
            raise ToolError(
                f"{name}: old_text and new_text are the same, so there is nothing to change."
            )
        places = self._places(old.plain, everywhere=everywhere, name=name)
        self._refuse_added(old.plain, new.plain, name)
        self._refuse_growth(places, old.plain, new.plain, name)
        fitting = Fitting(new, old)
        made: dict[str, str] = {}
        pieces: list[str] = []
        ends: list[str] = []
        at = line = 0
        for start, end in places:
            plain = self._lines.plain
            first = line + plain.count(LF, at, start)
            last = first + plain.count(LF, start, end)
            after = self._lines.ends[last] if last < len(self._lines.ends) else ""
            part = plain[start:end]
            if part not in made:
                made[part] = (
                    new.plain
                    if part == old.plain
                    else carried(part, old.plain, new.plain)
                )
            pieces += (plain[at:start], made[part])
            ends += self._lines.ends[line:first]
            ends += fitting.ends(
                self._lines.ends[first:last],
                after or self._end_before(first),
                self.usual,
            )
            at = end
            line = last
        pieces.append(self._lines.plain[at:])
        ends += self._lines.ends[line:]
        self._lines = Lines("".join(pieces), tuple(ends))

    def _end_before(self, line: int) -> str:
        return self._lines.ends[line - 1] if line else ""

    def _places(
        self, old: str, *, everywhere: bool, name: str
    ) -> list[tuple[int, int]]:
        """Return the places of a text, or the places that look like it if there are
        none.

        :raises ToolError: if there is no place, or if there is more than one and
            `everywhere` is not set.
        """
        plain = self._lines.plain
        start = plain.find(old)
        if start >= 0:
            # Search from the next character, so that overlapping places count as two.
            again = plain.find(old, start + 1)
            if again >= 0 and not everywhere:
                raise _several(
                    plain,
                    (start, again),
                    f"{name}: this text occurs more than once",
                )
            return (
                _all_places(plain, old) if everywhere else [(start, start + len(old))]
            )
        near = near_places(plain, old, MAX_PLACES + 1 if everywhere else 2)
        if len(near) > 1 and not everywhere:
            differing = ", ".join(differences(plain[slice(*near[0])], old))
            raise _several(
                plain,
                (near[0][0], near[1][0]),
                f"{name}: the file has texts that look like this one, but have {differing}",
            )
        if not near:
            raise ToolError(
                f"{name}: this text is not in the file. {explained(plain, old)} Nothing was changed."
            )
        start, end = near[0]
        differing = ", ".join(differences(plain[start:end], old))
        self.notes.append(
            f"{name} was found at line {plain.count(LF, 0, start) + 1}, where the file has {differing}; characters "
            "that new_text does not change were kept as they are in the file"
        )
        return near

    def _refuse_growth(
        self, places: Sequence[tuple[int, int]], old: str, new: str, name: str
    ) -> None:
        """Refuse an edit that would take minutes or gigabytes: a short text at a
        million places, or a long one at many.

        :raises ToolError: if it is refused.
        """
        plain = self._lines.plain
        unlike = {plain[start:end] for start, end in places} - {old}
        is_much = (
            len(unlike) > 1 and len(unlike) * max(len(old), len(new)) > _MOST_COMPARED
        )
        grows = len(plain) + len(places) * (len(new) - len(old)) > max(
            MAX_CHARACTERS, len(plain)
        )
        if len(places) > MAX_PLACES or is_much or grows:
            raise ToolError(
                f"{name}: replacing this text at {len(places):,} places is too much for one edit (at most "
                f"{MAX_PLACES:,} places and {MAX_CHARACTERS >> 20} MiB of text). Nothing was changed. Use `shell`, "
                "such as with sed."
            )

    def _refuse_added(self, old: str, new: str, name: str) -> None:
        if new.count(REPLACEMENT) > old.count(REPLACEMENT):
            _refuse_replacements(self.before, new, f"{name}: new_text")


def _all_places(text: str, wanted: str) -> list[tuple[int, int]]:
    """Return the places where `text` contains `wanted`, in order and without overlaps;
    at most `MAX_PLACES + 1`.
    """
    places: list[tuple[int, int]] = []
    start = text.find(wanted)
    while start >= 0 and len(places) <= MAX_PLACES:
        places.append((start, start + len(wanted)))
        start = text.find(wanted, start + len(wanted))
    return places


def _several(text: str, starts: tuple[int, int], what: str) -> ToolError:
    lines = " and ".join(str(text.count(LF, 0, at) + 1) for at in starts)
    return ToolError(
        f"{what}, first at lines {lines}. Nothing was changed. Include more of the surrounding lines to make it "
        "unique, or set replace_all to change every occurrence."
    )


def _refuse_replacements(before: str, new: str, name: str) -> None:
    """Refuse a text with new U+FFFD if the file has control characters: earlier
    versions showed them as U+FFFD.

    :raises ToolError: if the text is refused.
    """
    controls = sorted(set(CONTROL.findall(before)))
    if controls and new.count(REPLACEMENT) > before.count(REPLACEMENT):
        raise ToolError(
            f"{name} contains {REPLACEMENT} (U+FFFD), so control characters of the file might be lost "
            f"({', '.join(map(code, controls))}). Nothing was changed. Read the file again: `read` shows each control "
            "character as a character that you can write."
        )
