"""Control characters of a file, each shown to the model as a visible character.

A form feed is shown as `␌` and an escape as `␛`, their pictures in Unicode. If a file
contains both a control character and its picture, the control character is shown as
another character that the file does not contain. So a shown text can always be
converted back, and it has as many characters as the text in the file.

Unicode 16, chapter 22.7, "Control Pictures" (U+2400 to U+2421).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import chain

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen

REPLACEMENT = "\ufffd"
"""Character that earlier versions showed in place of every control character. Decoders
also write it for invalid bytes.
"""
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Characters that are never shown unchanged: no model, terminal or database accepts all
of them.
"""
_PICTURE_OF = {
    **{chr(number): chr(0x2400 + number) for number in range(0x20)},
    "\x7f": "\u2421",
}
PICTURES = "".join(_PICTURE_OF.values())
"""Unicode's pictures of control characters."""
_SPARE = (range(0x2500, 0x2900), range(0xE000, 0xF900), range(0x10000, 0x110000))
"""Characters that can replace a control character if its picture is taken, box drawings
and similar symbols first.
"""


@frozen
class Notation:
    """The visible characters that stand for the control characters of one text.

    :ivar controls: maps each visible character to the control character that it stands
        for.
    """

    controls: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, text: str, more: Iterable[str] = ()) -> Notation:
        """Return the notation of a text. Equal texts have the same notation.

        :param more: further characters to show in this way, such as a carriage return
            that does not end a line.
        :raises ToolError: if no unused character is left to stand for a control
            character.
        """
        used = sorted({*CONTROL.findall(text), *more})
        if not used:
            return cls()
        spare = _spare(set(text))
        controls: dict[str, str] = {}
        for control in used:
            picture = _PICTURE_OF.get(control, "")
            stand_in = next(spare, "") if not picture or picture in text else picture
            if not stand_in:
                raise ToolError(
                    "The file has control characters and uses all characters that could stand for them, so it cannot "
                    "be shown. Use `shell` to inspect or change it."
                )
            controls[stand_in] = control
        return cls(controls)

    def show(self, text: str) -> str:
        """Return the text with every control character replaced by its visible
        character.
        """
        return text.translate(
            {ord(control): shown for shown, control in self.controls.items()}
        )

    def read(self, text: str) -> str:
        """Return the text with every visible character replaced by the control
        character that it stands for.
        """
        return text.translate(
            {ord(shown): control for shown, control in self.controls.items()}
        )

    def legend(self, shown: str) -> str:
        """Return a sentence about the visible characters in a shown text, or an empty
        string if there are none.
        """
        marks = [
            f"{mark} for {code(control)}"
            for mark, control in self.controls.items()
            if mark in shown
        ]
        if not marks:
            return ""
        return f"control characters are shown as {', '.join(marks)}; write them the same way"


def added_pictures(before: str, after: str) -> str:
    """Return a sentence about pictures of control characters that a new text adds to a
    file, or an empty string if there are none.

    In such a file a picture is an ordinary character, but a model that has read another
    file may mean a control character.
    """
    new = sorted(set(PICTURES) & set(after) - set(before))
    if not new:
        return ""
    named = ", ".join(f"{each} ({code(each)})" for each in new)
    return f"{named} was written as this visible character; to write a control character, send it as \\u001b in JSON"


def code(character: str) -> str:
    """Return the code point of a character, as in `U+00A0`."""
    return f"U+{ord(character):04X}"


def _spare(taken: set[str]) -> Iterator[str]:
    for number in chain.from_iterable(_SPARE):
        if chr(number) not in taken:
            yield chr(number)
