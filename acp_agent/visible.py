"""Makes characters visible that are invisible or change how the rest of a text is
shown.

Names, commands and errors may come from a file, a model or a server. They can contain
escape sequences that move a terminal's cursor, spaces that push the end of a line out
of sight, zero-width letters, marks that reverse the reading order, and stacked accents
that cover the lines above.

Unicode Standard, "Default_Ignorable_Code_Point", "White_Space", "Bidi_Control"; UTS 39,
"Unicode Security Mechanisms"; UAX 31, 2.3, "Layout and Format Control Characters";
ECMA-48, "Control Functions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""ASCII controls except tab and line feed, C1 controls (ISO 6429), Unicode line
separators, unpaired surrogates.
"""
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of text."""
_MARKS = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U00013441\U00013442\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Letters and symbols that are invisible: zero-width, or as wide as a space."""
_SPACES = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""Spaces other than U+0020."""
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010fffd"
"""Private-use characters, whose shape depends on the font."""
_JOINING = ("\u200c", "\u200d", "\ufe0e", "\ufe0f", "\ufe0f\u200d")
"""Joiners and variation selectors, which belong between two letters or emoji."""
_EMOJI = "[\xa9\xae\u203c\u2049\u2100-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_JOINED_LETTER = "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17d3\u1820-\u1878]"
"""Letters of the scripts that use joiners: Arabic, the scripts of India, Burmese,
Khmer, Mongolian.
"""
_MOST_ACCENTS = 4
"""Maximum number of combining marks on one letter. Vietnamese uses two, Hebrew and
Tibetan up to four.
"""
REPLACED = "\ufffd"
"""Replaces an invisible character on a line."""
_BARE_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPES = str.maketrans(
    {
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\x85": "\\x85",
        "\u2028": " ",
        "\u2029": " ",
    }
)
_MOST_GROUPS = 6
"""Maximum number of groups of equal characters in a run whose code points are listed."""


def code_point(character: str) -> str:
    """Return the code point of a character, as in `U+00A0`."""
    return f"U+{ord(character):04X}"


def named(run: str) -> str:
    """Return the code points of a run of invisible characters, as in `[U+2800 ×500]`."""
    groups = [(character, len([*same])) for character, same in groupby(run)]
    names = [
        code_point(each) + (f" ×{times}" if times > 1 else "")
        for each, times in groups[:_MOST_GROUPS]
    ]
    more = sum(times for _, times in groups[_MOST_GROUPS:])
    return f"[{' '.join(names)}{f' and {more} more' if more else ''}]"


def visible(text: str, shown: Callable[[str], str] = named) -> str:
    """Return a text in which every character is visible, for users who have to decide
    about it.

    Spaces, tabs and line breaks are kept, and so are joiners between the letters of a
    script or the parts of an emoji. The number of lines does not change.

    :param shown: returns the replacement for a run of invisible characters.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _hidden().sub(lambda run: run[0] if _joins(run) else shown(run[0]), text)
    return text if text.isascii() else "".join(_without_piles(text, shown))


def revealed(text: str) -> str:
    """Return a text for a model without hidden instructions: characters that are
    invisible or reverse the reading order are replaced by their names. Spaces of all
    widths and private-use symbols are kept, since ordinary texts contain them.
    """
    if text.isascii() and text.isprintable():
        return text
    return _shapeless().sub(lambda run: run[0] if _joins(run) else named(run[0]), text)


def harmless(text: str) -> str:
    """Return a text without terminal control characters and direction marks, for any
    output.
    """
    if text.isascii() and text.isprintable():
        return text
    return _obeyed().sub(lambda run: named(run[0]), text)


def on_one_line(text: object) -> str:
    """Return an untrusted name on one line, such as the path of a folder. Line breaks
    and tabs are written as escapes. Characters that are invisible or change the order
    of others are replaced with U+FFFD.

    Otherwise a name with a line break could add its own line to a list, a question or a
    prompt.
    """
    line = str(text)
    if line.isascii() and line.isprintable():  # as almost all names are
        return line
    return unseen().sub(REPLACED, _BARE_CONTROL.sub(REPLACED, line.translate(_ESCAPES)))


def hidden_in(text: str) -> Iterator[str]:
    """Yield the characters of a text that `visible` replaces."""
    for run in (
        () if text.isascii() and text.isprintable() else _hidden().finditer(text)
    ):
        if not _joins(run):
            yield from run[0]


@cache  # compiled on first use, since it takes a millisecond
def _hidden() -> re.Pattern[str]:
    return re.compile(
        f"(?:(?!\r\n)[{_CONTROLS}{_DIRECTIONS}{_MARKS}{_SPACES}{_PRIVATE}])+"
    )


@cache
def _obeyed() -> re.Pattern[str]:
    return re.compile(f"(?:(?!\r\n)[{_CONTROLS}{_DIRECTIONS}])+")


@cache
def _shapeless() -> re.Pattern[str]:
    return re.compile(f"(?:(?!\r\n)[{_CONTROLS}{_DIRECTIONS}{_MARKS}])+")


@cache
def unseen() -> re.Pattern[str]:
    """Return a pattern for one character that is invisible or changes how others are
    shown. It does not match spaces of other widths, or joiners of letters and emoji.
    """
    joining = "\u200c\u200d\ufe0e\ufe0f"
    return re.compile(f"(?![{joining}])[{_CONTROLS}{_DIRECTIONS}{_MARKS}]")


def _joins(run: re.Match[str]) -> bool:
    """Return whether a run is a single joiner or variation selector in a place where it
    is legitimate.
    """
    if run[0] not in _JOINING:
        return False
    before = run.string[run.start() - 1 : run.start()]
    after = run.string[run.end() : run.end() + 1]
    if (
        run[0] in "\u200c\u200d"
        and re.match(_JOINED_LETTER, before)
        and re.match(_JOINED_LETTER, after)
    ):
        return True
    if run[0] in ("\ufe0e", "\ufe0f"):
        return re.match(_EMOJI, before) is not None or after == "\u20e3"
    return (
        run[0] != "\u200c"
        and re.match(_EMOJI, before) is not None
        and re.match(_EMOJI, after) is not None
    )


def _without_piles(text: str, shown: Callable[[str], str]) -> Iterator[str]:
    """Yield the pieces of a text, with a limit on the number of accents per letter."""
    import unicodedata  # imported here, because it takes half a megabyte and few runs need it

    for combines, group in groupby(
        text, lambda character: unicodedata.category(character) in ("Mn", "Me")
    ):
        piece = "".join(group)
        if combines and len(piece) > _MOST_ACCENTS:
            piece = piece[:_MOST_ACCENTS] + shown(piece[_MOST_ACCENTS:])
        yield piece
