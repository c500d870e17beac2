"""Characters of a text that do not show, or that change how the rest of it is shown, made visible.

A name, a command or an error may come from a file, a model or a server. In a terminal it can hold sequences that move
the cursor; elsewhere blanks that push its end out of sight, letters of no width, marks that turn the order of reading
around, and accents that pile up over the lines above.

Unicode Standard, "Default_Ignorable_Code_Point", "White_Space", "Bidi_Control"; UTS 39, "Unicode Security Mechanisms";
UAX 31, 2.3, "Layout and Format Control Characters"; ECMA-48, "Control Functions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""Those of ASCII but the tab and the line end, those of ISO 6429 (C1), Unicode's line ends, halves of pairs."""
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of text."""
_MARKS = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U00013441\U00013442\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Letters and symbols without a shape: of no width, or as wide as a blank."""
_SPACES = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""Blanks other than the space."""
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010fffd"
"""What they look like is up to the font."""
_JOINING = ("\u200c", "\u200d", "\ufe0e", "\ufe0f", "\ufe0f\u200d")
"""What joins letters and emoji where it stands between two of them."""
_EMOJI = "[\xa9\xae\u203c\u2049\u2100-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_JOINED_LETTER = "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17d3\u1820-\u1878]"
"""Of scripts that are written with joiners: Arabic, those of India, of Myanmar, of Cambodia, Mongolian."""
_MOST_ACCENTS = 4
"""Combining marks on one letter; Vietnamese has two, Hebrew and Tibetan up to four."""
_MOST_GROUPS = 6
"""Different characters of a run that are named one by one."""


def code_point(character: str) -> str:
    """Return the code point of a character, as in `U+00A0`."""
    return f"U+{ord(character):04X}"


def named(run: str) -> str:
    """Return the code points of characters that do not show, as in `[U+2800 ×500]`."""
    groups = [(character, len([*same])) for character, same in groupby(run)]
    told = [code_point(each) + (f" ×{times}" if times > 1 else "") for each, times in groups[:_MOST_GROUPS]]
    more = sum(times for _, times in groups[_MOST_GROUPS:])
    return f"[{' '.join(told)}{f' and {more} more' if more else ''}]"


def visible(text: str, shown: Callable[[str], str] = named) -> str:
    """Return a text of which every character shows, on as many lines, for a person who decides about it.

    Spaces, tabs and line ends stay, and so does what joins the letters of a script or the parts of an emoji.

    :param shown: returns what takes the place of a run of characters that do not show.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _hidden().sub(lambda run: run[0] if _joins(run) else shown(run[0]), text)
    return text if text.isascii() else "".join(_without_piles(text, shown))


def harmless(text: str) -> str:
    """Return a text without what a terminal obeys and what changes the order of reading, for any output."""
    if text.isascii() and text.isprintable():
        return text
    return _obeyed().sub(lambda run: named(run[0]), text)


def hidden_in(text: str) -> Iterator[str]:
    """Yield the characters of a text that `visible` replaces."""
    for run in () if text.isascii() and text.isprintable() else _hidden().finditer(text):
        if not _joins(run):
            yield from run[0]


@cache  # compiled when they are first needed: it takes a millisecond
def _hidden() -> re.Pattern[str]:
    return re.compile(f"(?:(?!\r\n)[{_CONTROLS}{_DIRECTIONS}{_MARKS}{_SPACES}{_PRIVATE}])+")


@cache
def _obeyed() -> re.Pattern[str]:
    return re.compile(f"(?:(?!\r\n)[{_CONTROLS}{_DIRECTIONS}])+")


@cache
def unseen() -> re.Pattern[str]:
    """Return the pattern of one character that has no shape, or changes how others are shown; without blanks of other
    widths, and without what joins letters and emoji."""
    joining = "\u200c\u200d\ufe0e\ufe0f"
    return re.compile(f"(?![{joining}])[{_CONTROLS}{_DIRECTIONS}{_MARKS}]")


def _joins(run: re.Match[str]) -> bool:
    """Return whether a run is a single joiner or variation selector in the place where it belongs."""
    if run[0] not in _JOINING:
        return False
    before = run.string[run.start() - 1 : run.start()]
    after = run.string[run.end() : run.end() + 1]
    if run[0] in "\u200c\u200d" and re.match(_JOINED_LETTER, before) and re.match(_JOINED_LETTER, after):
        return True
    if run[0] in ("\ufe0e", "\ufe0f"):
        return re.match(_EMOJI, before) is not None or after == "\u20e3"
    return run[0] != "\u200c" and re.match(_EMOJI, before) is not None and re.match(_EMOJI, after) is not None


def _without_piles(text: str, shown: Callable[[str], str]) -> Iterator[str]:
    """Yield the pieces of a text whose letters have no more accents than a script puts on one."""
    import unicodedata  # half a megabyte, which not every start needs

    for combines, group in groupby(text, lambda character: unicodedata.category(character) in ("Mn", "Me")):
        piece = "".join(group)
        if combines and len(piece) > _MOST_ACCENTS:
            piece = piece[:_MOST_ACCENTS] + shown(piece[_MOST_ACCENTS:])
        yield piece
