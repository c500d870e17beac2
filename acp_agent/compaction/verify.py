"""Check a summary: names, paths, numbers, URLs and quotations against the conversation; required headings.

The check compares strings; plain words and single digits are exempt. Case, punctuation, plural, the beginning of a path
and a rounding may differ. The parts of a dotted name may occur apart, if the last one occurs as a name.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from string import ascii_lowercase
from urllib.parse import unquote

from anyio import to_thread

from acp_agent.compaction.calls import beside_thread
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.facts import LONGEST, RUNS, facts_of_run, key_of
from acp_agent.compaction.frame import missing_sections
from acp_agent.compaction.state import ConversationState
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.conversation.messages import Entry, Image, Resource, ResourceLink, ToolCall, texts_in
from acp_agent.errors import CompactionError, ModelError
from acp_agent.frozen import frozen

_MARK = " [unverified]"
MAX_REPORTED = 20  # flagged pieces that a receipt or an error lists
_MAX_LISTED, _MAX_LISTED_LENGTH = 60, 300
_QUOTED_WORDS, _FEWEST_DIGITS, _SHORTEST_WORD = 3, 2, 3
_ROUNDED_ZEROS, _MOST_ROUNDED = 3, 0.05

_log = logging.getLogger(__name__)
_SPAN = re.compile(
    r"(?<!`)`[^`\n]+`(?!`)|(?<!`)``(?!`)(?:[^`\n]|`(?!`))+``(?!`)"
    r"|(?P<quote>(?<!\w)\"(?=\S)[^\"\n]*(?<=\S)\"(?!\w)|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|»[^«»\n]*«)"
    r"|\[[^\[\]\n]*\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|\[[^\[\]\n]*\])"
    r"|<[a-z][a-z+]*:[^\s<>]*>"
)
_REFERENCE = re.compile(r"\[#\d{1,18}(?:[\s,;–-]{1,3}#?\d{1,18})*\](?!\()")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[,'’_\u00a0\u202f]\d{3}){1,20}(?![\w'’])")
_TOKEN = re.compile(r"[a-z_]+(?=\d+\.\d)|\d+(?:\.\d+)+|[a-z\d_\u00c0-\u052f]+|[^\W\x00-\u052f]+")
_NUMBER = re.compile(r"\d+(?:\.(?P<decimals>\d+))?")
_MEMBER = re.compile(r"\b_\w+|(?<=[./:$@>-])\w+|(?<=['\"`])\w+(?=['\"`])|\b\w++(?=[(\[/]|\.\w| ?[=:])")
_OPENING, _CLOSING = frozenset('(["'), ".,;:!?)]}*_|>'…“”«»"


@frozen
class _Piece:
    """A piece of a summary that is checked."""

    kind: str  # a kind of fact, or "quotation"
    text: str
    start: int
    end: int
    place: int  # offset for a mark that flags it


@frozen
class _Index:
    """An index of the texts that a summary is checked against."""

    words: str  # all texts in lower case, with one space between the words and at both ends
    tokens: frozenset[str]  # the set of these words
    members: frozenset[str]  # words that occur as names: joined to other code, assigned, as keys or alone in quotes
    runs: frozenset[str]  # keys of the runs; a path among them is not the end of a longer one
    extensions: frozenset[str]  # of paths with a folder; they distinguish `cart.py` from the method `Cart.fit`
    numbers: tuple[tuple[float, ...], tuple[float, ...]]  # numbers with decimals; integers

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Index:
        """Index the texts."""
        folded = [text.casefold() for text in texts]
        # JSON inside a text
        folded += [each.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ") for each in folded if "\\" in each]

        def all_of(pattern: re.Pattern[str]) -> list[str]:
            # One text at a time: `re` holds the interpreter while it searches, so that no signal is heard.
            return [found for text in folded for found in pattern.findall(text)]

        words = all_of(_TOKEN)
        members = frozenset(_TOKEN.findall(" ".join({*all_of(_MEMBER)})))
        found = {number[0] for text in folded for number in _NUMBER.finditer(text)}
        found |= {*map(_digits, all_of(_GROUPED))}
        decimals = tuple(sorted(float(number) for number in found if not number.isdecimal()))
        integers = tuple(sorted(float(number) for number in found if number.isdecimal()))
        runs = frozenset(key_of(run) for run in {*all_of(RUNS)})
        extensions = frozenset(run.rpartition(".")[2] for run in runs if "/" in run)
        return cls(f" {' '.join(words)} ", frozenset(words), members, runs, extensions, (decimals, integers))

    def has(self, kind: str, piece: str) -> bool:
        """Return whether the texts contain a piece, or its parts."""
        folded = piece.casefold()
        match kind:
            case "quotation":
                return all(self._has_words(part) for part in folded.replace("...", "…").split("…"))
            case "option":
                return folded in self.runs
            case "hash":
                return f" {folded}" in self.words
            case "url":
                return self._has_words(folded.partition("#")[0].partition("://")[2])
            case "number":
                return self._has_number(_digits(folded))
            case _:
                by_parts = self._has_path if kind == "path" else self._has_parts
                return self._has_member(piece) and (
                    self._has_words(folded) or self._has_number(folded) or by_parts(folded)
                )

    def _has_member(self, name: str) -> bool:
        """Return whether the last part of a dotted name looks like a name or occurs as one."""
        _, dot, member = name.rpartition(".")
        plain = member.rstrip("_")
        is_word = member.startswith("_") or (len(plain) >= _SHORTEST_WORD and plain.isalpha() and plain.islower())
        return not (dot and is_word) or not self.members.isdisjoint({member.casefold(), plain})

    def _has_words(self, text: str) -> bool:
        words = _TOKEN.findall(text)
        return self.tokens.issuperset(words) and (not words[1:] or f" {' '.join(words)} " in self.words)

    def _has_path(self, path: str) -> bool:
        """Return whether the texts contain a directory and, on its own, the rest of the path."""
        if "/" not in path:
            extension = path.rpartition(".")[2]
            return extension in self.tokens and extension not in self.extensions and self._has_parts(path)
        parts = path.strip("/~.").split("/")
        splits = (("/".join(parts[:at]), "/".join(parts[at:])) for at in range(1, len(parts)))
        return any(rest in self.runs and self._has_words(folder) for folder, rest in splits)

    def _has_parts(self, text: str) -> bool:
        return all(map(self._has_token, _TOKEN.findall(text)))

    def _has_token(self, token: str) -> bool:
        variants = {token, token.strip("_"), f"{token}s", token.removesuffix("s")}
        number = token.removeprefix("l").rstrip(ascii_lowercase)  # `L118`, `30s`
        if number.replace(".", "").isdecimal():
            return len(number) < _FEWEST_DIGITS or self._has_number(number)
        return len(token) < _SHORTEST_WORD or not self.tokens.isdisjoint(variants)

    def _has_number(self, text: str) -> bool:
        """Return whether the texts contain a number, or one that was rounded to it."""
        text = text.removeprefix("v")
        if text in self.tokens:
            return True
        if (number := _NUMBER.fullmatch(text)) is None:
            return False
        unit = 10.0 ** (-len(number["decimals"] or ""))
        zeros = len(text) - len(text.rstrip("0"))
        if text.isdecimal() and zeros >= _ROUNDED_ZEROS:
            unit = min(10.0 ** min(zeros, LONGEST), float(text) * _MOST_ROUNDED)
        start, end = float(text) - unit / 2, float(text) + unit
        kinds = self.numbers if text.isdecimal() else self.numbers[:1]
        return any(bisect_left(numbers, start) < bisect_left(numbers, end) for numbers in kinds)


async def verify(
    task: Task,
    cut: Cut,
    write: Callable[[], Awaitable[str]],
    mend: Callable[[str], Awaitable[str]],
) -> Draft:
    """Return a draft with a checked summary: marked, corrected once or rejected, as the policy says.

    :param write: asks the model for the summary.
    :param mend: asks the model for a corrected summary.
    :raises CompactionError: the policy rejects the summary.
    """
    policy = task.policy
    if policy.verify == "off":
        text = await write()
        return Draft(cut, text, missing=missing_sections(text, policy.sections))

    def prepare() -> _Index:
        if task.index is not None:
            task.index.complete()  # for the excerpts, which are chosen next
        return index_of(task.state)

    text, index = await beside_thread(write, prepare)

    def check(text: str) -> tuple[tuple[_Piece, ...], tuple[str, ...]]:
        return unverified(text, index), missing_sections(text, policy.sections)

    flagged, missing = await to_thread.run_sync(check, text, abandon_on_cancel=True)
    if policy.verify == "mend" and (flagged or missing):
        try:
            mended = await mend(_mend_request(flagged, missing))
            still_flagged, still_missing = await to_thread.run_sync(check, mended, abandon_on_cancel=True)
            # A text with fewer sections than the first one is not a correction of it.
            if mended and len(still_missing) <= len(missing):
                text, flagged, missing = mended, still_flagged, still_missing
        except (CompactionError, ModelError) as error:
            _log.info("a summary was not mended: %s", error)
    reported = tuple(dict.fromkeys(piece.text for piece in flagged))[:MAX_REPORTED]
    if policy.verify == "reject" and (flagged or missing):
        raise _rejection(reported, missing)
    if flagged:
        text = await to_thread.run_sync(mark, text, flagged, abandon_on_cancel=True)
    return Draft(cut, text, unverified=reported, missing=missing)


def _mend_request(flagged: Sequence[_Piece], missing: Sequence[str]) -> str:
    """Return the message that asks the model for a corrected and complete summary."""
    blocks = ["Your summary was checked against the conversation and has to be corrected."]
    if flagged:
        found = dict.fromkeys(f"- {each.kind}: {' '.join(each.text.split())[:_MAX_LISTED_LENGTH]}" for each in flagged)
        blocks.append("These were not found. Replace each by what stands there, copied exactly, or leave it out:")
        blocks.append("\n".join(list(found)[:_MAX_LISTED]))
    if missing:
        blocks.append('These sections are missing or empty. Write each; "None." if there is nothing to say:')
        blocks.append("\n".join(f"- {name}" for name in missing))
    blocks.append("Answer with the whole corrected summary alone, in the same form, with everything else as it was.")
    return "\n\n".join([*blocks, "Call no tools and mention neither this check nor the correction."])


def _rejection(flagged: Sequence[str], missing: Sequence[str]) -> CompactionError:
    names = ", ".join(f"`{piece[:80]}`" for piece in flagged)
    reasons = [f"it says what the conversation does not contain ({names})"] if flagged else []
    reasons += [f"it lacks the sections {', '.join(missing)}"] if missing else []
    hint = "The history is unchanged; try /compact again, or set `verify: mark` in the recipe."
    return CompactionError(f"The summary was rejected: {' and '.join(reasons)}.", hint)


def index_of(state: ConversationState) -> _Index:
    """Return an index of the texts that a summary of this conversation is checked against."""
    earlier = [_verified_part(text) for entry in state.entries if entry.summary for text in _texts(entry)]
    texts = [state.request.system, *earlier, *(text for entry in state.originals for text in _texts(entry))]
    texts += [pin.text for pin in state.memory.pins] + [item.content for item in state.plan]
    texts += [state.workspace.cwd, state.workspace.branch, state.workspace.head]
    return _Index.of(texts)


def _verified_part(summary: str) -> str:
    """Return an earlier summary with its marked pieces blanked out."""
    for piece in pieces(summary):
        if summary.startswith(_MARK, piece.place):
            summary = f"{summary[: piece.start]}{' ' * len(piece.text)}{summary[piece.end :]}"
    return summary


def _texts(entry: Entry) -> Iterator[str]:
    """Yield all texts of an entry, from every speaker."""
    for part in (*entry.message.parts, *entry.typed):
        yield from texts_in(part)
        if isinstance(part, ResourceLink | Resource | Image) and part.uri:
            yield unquote(part.uri)
        if isinstance(part, ToolCall):
            yield f"{part.invalid or ''}\n{json.dumps(part.arguments, ensure_ascii=False)}"


def unverified(text: str, index: _Index) -> tuple[_Piece, ...]:
    """Return the pieces of a summary that the texts do not contain, in order and without overlaps."""
    flagged: list[_Piece] = []
    has = cache(index.has)
    for piece in pieces(text):
        overlaps = bool(flagged) and piece.start < flagged[-1].end
        if not overlaps and not has(piece.kind, piece.text):
            flagged.append(piece)
    return tuple(flagged)


def mark(text: str, flagged: Iterable[_Piece]) -> str:
    """Return the summary with a mark after each flagged piece that has none yet."""
    places = (place for place in sorted({piece.place for piece in flagged}) if not text.startswith(_MARK, place))
    return _MARK.join(text[start:end] for start, end in pairwise([0, *places, len(text)]))


def pieces(text: str) -> list[_Piece]:
    """Return the pieces of a text, in the order of their starts, longer ones first."""
    spans = list(_SPAN.finditer(text))
    quotes = [span for span in spans if span["quote"] and len(_TOKEN.findall(span[0].casefold())) >= _QUOTED_WORDS]
    found = [("quotation", span.start() + 1, span.end() - 1) for span in quotes]
    bare = _REFERENCE.sub(_blank, text)
    found += [("number", *number.span()) for number in _GROUPED.finditer(bare)]
    for run in RUNS.finditer(_GROUPED.sub(_blank, bare)):
        span = _around(spans, run.end())
        coded = bool(span and span[0][0] == "`" and len(span[0].split()) == 1) or text.startswith("()", run.end())
        found += _facts(run, coded)
    placed = (_Piece(kind, text[start:end], start, end, _place(text, end, spans)) for kind, start, end in found)
    return sorted(placed, key=lambda piece: (piece.start, -piece.end))


def _facts(run: re.Match[str], coded: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the outermost facts of a run; a word that fills a code span is a name."""
    at, key = run.start(), key_of(run[0])
    found = facts_of_run(run[0])
    whole = bool(found) and found[0][0] == key
    if coded and not whole and len(key) >= _SHORTEST_WORD and not key.isdecimal():
        start = at + run[0].find(key)
        yield "name", start, start + len(key)
        return
    for _, start, end, kind in found[:1] if whole else found:
        yield kind, at + start, at + end
    for small in () if found else re.finditer(r"(?<![\w.~])\d\d(?![\w.])", run[0].rstrip(".")):
        yield "number", at + small.start(), at + small.end()


def _around(spans: Sequence[re.Match[str]], end: int) -> re.Match[str] | None:
    """Return the span that begins before an offset and ends at or after it; the spans are in order."""
    at = bisect_left(spans, end, key=lambda span: span.end())
    return spans[at] if at < len(spans) and spans[at].start() < end else None


def _place(text: str, end: int, spans: Sequence[re.Match[str]]) -> int:
    """Return the nearest offset for a mark that is outside code, links and quotations."""
    while True:
        if span := _around(spans, end):
            end = span.end()
        rest = "".join(takewhile(lambda sign: not sign.isspace(), text[end : end + LONGEST]))
        # A mark within a word, or in front of a bracket or quotation mark, would change the text after it.
        rest = rest.rstrip(_CLOSING) if _OPENING.isdisjoint(rest) else rest
        if not rest or len(rest) == LONGEST:
            return end
        end += len(rest)


def _digits(text: str) -> str:
    return "".join(filter(str.isdecimal, text))


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
