"""What a summary was made from, indexed so that a piece of the summary is looked up quickly.

Every text of the conversation counts as a source; what the user said is kept apart, since only that can stand behind
"the user asked". It does not know what is looked up, nor why.

A piece is rejected by the set of the source's words where it can be, and only looked for in the text where each of its
words occurs; both are linear in the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from decimal import Decimal
from itertools import accumulate
from typing import assert_never

from acp_agent.compaction.provenance_none import is_run, says_none
from acp_agent.compaction.provenance_numbers import ends, scientific, value, written
from acp_agent.compaction.provenance_texts import said_by, texts_of
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.frozen import frozen

WORD = re.compile(r"\w+")
_LEADING_DIGITS = re.compile(r"(?:\A[vVL]?|(?<=\d)T)(\d+)")
_DIGEST = re.compile(r"[0-9a-f]{7,40}")
_COLOUR = re.compile(r"(?:[\da-fA-F]{3,4}){1,2}")
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛", "'") | {"…": "..."})
_ELLIPSIS = re.compile(r"\[?\.\.\.\]?")
_MARKED = re.compile(
    # A word is looked at from its beginning alone: one of 100,000 characters would stop the process otherwise.
    r"(?:`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”|„[^„“\n]*“|«[^«»\n]*»|(?:(?<!\S)|(?<=\[unverified\]))\S+) \[unverified\]"
)
_WORDS_FOR = {
    "pass": r"pass|ok\b|succe|tests?\b|ran\b|run\b",
    "fail": r"fail|broke",
    "error": r"err|problem|issue|violation|finding",
    "exit": r"exit|status|code\b|return|rc\b",
}
_BESIDE = {
    what: (
        re.compile(rf"(?:{words})\w*[^\w,;]{{0,4}}\Z", re.IGNORECASE),
        re.compile(rf"[^\w,;]{{0,4}}(?:\w+ ){{0,3}}(?:{words})", re.IGNORECASE),
    )
    for what, words in _WORDS_FOR.items()
}
_BESIDE_LENGTH = 24
_TRIES = 2_000
"""Occurrences of a piece inside longer words that are passed over before it counts as not found."""
_COMPONENTS = 16


@frozen
class Said:
    """A message of the user, and what the assistant had said just before it, which a "yes" means."""

    text: str
    before: str = ""


@frozen
class Source:
    """The texts behind a summary, made by `Source.of`.

    :ivar text: all of them, white space collapsed, one line each.
    :ivar folded: the same without case, emphasis and code marks, for quotes of prose.
    :ivar words: the words of each text, and `ends` where the next text begins in `text`.
    :ivar digits: numbers at the beginning of words such as `30s` and `v3`, and behind the `T` of a time.
    :ivar scientific: the values of numbers with an exponent.
    :ivar said: what the user said, oldest first.
    :ivar ran: what tools printed that ran something, and what is recorded of it.
    :ivar none: what `has_none` has found in it: it takes longer than all else, and few summaries ask for it.
    """

    text: str
    folded: str
    words: tuple[frozenset[str], ...]
    ends: tuple[int, ...]
    all_words: frozenset[str]
    digits: frozenset[str]
    scientific: frozenset[Decimal]
    said: tuple[Said, ...]
    user_folded: str
    ran: tuple[str, ...]
    none: dict[str, bool] = field(default_factory=dict[str, bool], compare=False)

    @classmethod
    def of(
        cls,
        entries: Sequence[Entry],
        *,
        extra: Iterable[str] = (),
        results: Iterable[str] = (),
        user_texts: Iterable[str] = (),
        reported: Iterable[str] = (),
    ) -> Source:
        """Index what a summary of these entries may state.

        What an earlier summary or ledger marks as `[unverified]` is no source: a piece does not become true by being
        carried on.

        :param entries: what is summarised, and what is kept behind it.
        :param extra: other texts that the model saw or that are known: the system prompt, the working directory, an
            earlier summary, the plan.
        :param results: the same, of what is recorded of the results of tools: the ledger.
        :param user_texts: what counts as the user's words and is no message any more: pins, rules and requests that a
            session carries on, and the project's instruction files.
        :param reported: what an earlier summary said of the user and its check let pass: behind what a later one says
            of the user, and no source of anything else.
        """
        said = [Said(text) for text in user_texts]
        texts = [_MARKED.sub(" ", text) for text in extra]
        texts += [one.text for one in said]
        said += [Said(text) for text in reported]
        before, ran = "", [_MARKED.sub(" ", text) for text in results]
        texts += ran
        calls: dict[str, ToolCall] = {}
        for entry in entries:
            if isinstance(entry.message, AssistantMessage):
                calls |= {call.id: call for call in entry.message.tool_calls}
            elif isinstance(entry.message, ToolResult) and is_run(calls.get(entry.message.call_id)):
                ran += texts_of(entry)
            texts += [_MARKED.sub(" ", text) if entry.summary else text for text in texts_of(entry)]
            match entry.message:
                case UserMessage() if not entry.summary:
                    words = "\n".join(said_by(entry.typed))
                    texts.append(words)
                    said.append(Said(words, before))
                    before = ""
                case AssistantMessage():
                    before = entry.message.text or before
                case UserMessage() | ToolResult():
                    pass
                case _:
                    assert_never(entry.message)
        normal = [_normal(text) for text in texts]
        words = tuple(frozenset(WORD.findall(text)) for text in normal)
        all_words = frozenset[str]().union(*words)
        ends = tuple(accumulate(len(text) + 1 for text in normal))
        text = "\n".join(normal)
        return cls(
            text=text,
            folded=_fold(text),
            words=words,
            ends=ends,
            all_words=all_words,
            digits=frozenset(digits for word in all_words for digits in _LEADING_DIGITS.findall(word)),
            scientific=frozenset(scientific(text)),
            said=tuple(said),
            user_folded=_fold("\n".join(_normal(one.text) for one in said)),
            ran=tuple(ran),
        )

    def has_name(self, name: str) -> bool:
        """Whether an identifier occurs: as it is; or, a dotted one, as a path, or with all its parts in one text.

        The last is how a summary names a method (`Class.method`) of which the source shows the class's code. A commit
        or digest may stand for a longer one, and the case of a colour such as `#FF00AA` does not count.
        """
        words = WORD.findall(name)
        if _COLOUR.fullmatch(name) and any(self.has_phrase(f"#{form}") for form in (name.lower(), name.upper())):
            return True
        if _DIGEST.fullmatch(name) and self._stands(name, lambda at, _: not _wordy(self.text, at - 1)):
            return True
        if not words or not self._knows(words):
            return False
        if name == words[0] or self.has_phrase(name):
            return True
        if not re.fullmatch(r"\w+(?:\.\w+)+", name):
            return False
        parts = set(words)
        return self.has_phrase(name.replace(".", "/")) or any(parts <= text for text in self.words)

    def has_phrase(self, phrase: str) -> bool:
        """Whether a text occurs with this case, at the limits of words; `...` in it stands for anything."""
        parts = [part.strip() for part in _ELLIPSIS.split(_normal(phrase))]
        return all(self._knows(WORD.findall(part)) and self._has_part(part) for part in parts if part)

    def has_quote(self, quote: str) -> bool:
        """Whether prose occurs: white space, case, quotation marks and emphasis do not count, nor stops at its end."""
        return _quoted(quote, self.folded)

    def has_user_quote(self, quote: str) -> bool:
        """The same, in the user's words only."""
        return _quoted(quote, self.user_folded)

    def has_url(self, url: str) -> bool:
        """Whether an address occurs, or a longer one that continues it with a path, a query or an anchor."""
        url = url.rstrip("/")
        words = WORD.findall(url)
        return self._knows(words) and self._stands(
            url, lambda at, end: not _wordy(self.text, at - 1) and not _wordy(self.text, end, "%-@"), words
        )

    def has_path(self, path: str) -> bool:
        """Whether a path occurs, or a longer one that ends or begins with it, or a directory and a name that make it.

        The name must then occur somewhere without a directory, as in the output of `ls`.
        """
        path = path.removeprefix("./").removeprefix("~/").rstrip("/")
        words = WORD.findall(path)
        if not words or not self._knows(words):
            return False
        if self._has_path(path):
            return True
        parts = path.split("/")
        return len(parts) <= _COMPONENTS and any(
            self._has_path("/".join(parts[:at])) and self._has_path("/".join(parts[at:]), bare=True)
            for at in range(len(parts) - 1, 0, -1)
            if any(parts[:at])
        )

    def has_number(self, number: str) -> bool:
        """Whether a number occurs, whatever separates its thousands and whatever unit follows; none is rounded.

        The beginning of a version (`3.11` of `3.11.4`) counts, the beginning of a decimal does not.
        """
        return value(number) in self.scientific or any(self._has_number(form) for form in written(number))

    def has_count(self, number: str, what: str) -> bool:
        """Whether a number occurs right beside a word for what it counts, as in `7 failed` and `exit status: 1`.

        :param what: `pass`, `fail`, `error` or `exit`.
        """
        before, after = _BESIDE[what]
        return self._has_number(
            number,
            lambda at, end: bool(
                before.search(self.text, max(0, at - _BESIDE_LENGTH), at) or after.match(self.text, end)
            ),
        )

    def has_none(self, what: str) -> bool:
        """Whether some result says that there was none of these, in whatever words.

        :param what: as in `has_count`.
        """
        if what not in self.none:
            self.none[what] = says_none(self.ran, what)
        return self.none[what]

    def _has_number(self, number: str, beside: Callable[[int, int], bool] = lambda _, __: True) -> bool:
        text = self.text

        def stands(at: int, end: int) -> bool:
            before, further = text[at - 1 : at], text[at - 2 : at - 1] if at > 1 else ""
            if before in tuple("vVL"):
                if _wordy(text, at - 2):
                    return False
            elif before == "T" and further.isdecimal():
                pass  # the time of an ISO date
            elif _wordy(text, at - 1) or (before == "." and further.isdecimal()):
                return False
            return ends(text, at, end) and beside(at, end)

        words = WORD.findall(number)[: 1 if "." in number or "," in number else None]
        return all(word in self.all_words or word in self.digits for word in words) and self._stands(number, stands)

    def _has_path(self, path: str, *, bare: bool = False) -> bool:
        text = self.text
        parted = "/" if bare else ""

        def stands(at: int, end: int) -> bool:
            if path[0] != "/" and _wordy(text, at - 1, "-" + parted):
                return False
            if path[0] != "/" and text[at - 1 : at] == "." and text[at - 2 : at - 1] != ".":
                return False
            return not _wordy(text, end, "-") and not (text[end : end + 1] == "." and _wordy(text, end + 1))

        return self._stands(path, stands, WORD.findall(path))

    def _has_part(self, part: str) -> bool:
        def stands(at: int, end: int) -> bool:
            first = _wordy(part, 0) and _wordy(self.text, at - 1)
            last = _wordy(part, len(part) - 1) and _wordy(self.text, end)
            return not first and not last

        return self._stands(part, stands, WORD.findall(part))

    def _knows(self, words: Iterable[str]) -> bool:
        return all(word in self.all_words for word in words)

    def _stands(self, piece: str, fits: Callable[[int, int], bool], words: Iterable[str] = ()) -> bool:
        """Whether a piece occurs where it fits.

        :param words: the whole words in it; only texts that have all of them are searched.
        """
        wanted = frozenset(words)
        if not wanted:
            return _find(self.text, piece, fits)
        start = 0
        for known, end in zip(self.words, self.ends, strict=True):
            if wanted <= known and _find(self.text, piece, fits, start, end):
                return True
            start = end
        return False


def _find(text: str, piece: str, fits: Callable[[int, int], bool], start: int = 0, end: int | None = None) -> bool:
    at = text.find(piece, start, end)
    for _ in range(_TRIES):
        if at < 0:
            return False
        if fits(at, at + len(piece)):
            return True
        at = text.find(piece, at + 1, end)
    return False


def _wordy(text: str, at: int, also: str = "") -> bool:
    if not 0 <= at < len(text):
        return False
    character = text[at]
    return character.isalnum() or character == "_" or character in also


def _quoted(quote: str, folded: str) -> bool:
    parts = [part.strip(" .,;:!?\"'") for part in _ELLIPSIS.split(_fold(_normal(quote)))]
    for part in parts:
        if part and not _find(folded, part, lambda at, end: not _wordy(folded, at - 1) and not _wordy(folded, end)):
            return False
    return True


def _normal(text: str) -> str:
    return " ".join(text.translate(_QUOTES).split()) if not text.isascii() else " ".join(text.split())


def _fold(text: str) -> str:
    return text.casefold().replace("`", "").replace("*", "")
