"""Selects and ranks the messages of an indexed session for a query.

Literal matches come first: messages that contain the only word of a query, a quoted
phrase, an identifier, a path, or the whole query, such as an error message. Next come
messages that contain all words of the query. The rest are ordered by BM25 over word
stems (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), with
three changes:

- Term frequency is ignored, since the index does not store it.
- A word in the previous or next message adds to the score with a lower weight, since an
  answer rarely repeats the words of its question.
- The score rises with the share of the query's words that the message itself contains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain

from acp_agent.frozen import frozen
from acp_agent.storage.search_index import SearchIndex
from acp_agent.storage.texts import (
    is_unspaced,
    phrase_pattern,
    query_pieces,
    tokens,
    whole_pattern,
)

K1 = 1.2
B = 0.5
"""The BM25 parameters: term saturation (`K1`) and length normalization (`B`)."""
NEIGHBOUR_SHARE = 0.6
"""The weight of a word in a neighbouring message, relative to a word in the message
itself.
"""
_QUESTION = 3
"""Words in neighbouring messages are considered only for queries with at least this
many words.
"""
_COMMON = 0.25
"""Words found in more than this share of the messages are ignored, unless all words are
that common.
"""
_FEW = 2
"""Words found in at most this many messages are never too common."""
_READ_AT_ONCE = 20
_SIGNS = re.compile(
    r"""
    [^\W\d_][./\\:@#]+\w        # src/cart.py, pkg::name, user@host
    | _\w | [a-z][A-Z]            # parse_header, __init__, parseHeader
    | [^\W\d_]\d                  # E1042, utf8
    | \d[./:-]\w+[./:-]\w         # 10.0.0.1, 2026-05-07
    """,
    re.VERBOSE,
)
_EDGES = ".,;:!?()[]{}<>\"'`"
_SHORTEST_NAME = 4


@frozen
class Query:
    """A parsed search query.

    :ivar words: the words and phrases as `texts.folded` returns them, in the order of
        the query and without duplicates.
    :ivar quoted: the quoted phrases.
    :ivar names: the words that look like identifiers or paths.
    """

    words: tuple[str, ...]
    quoted: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def is_name(word: str) -> bool:
    """Return whether a query word, given before folding, looks like an identifier, a
    path or a code.
    """
    bare = word.strip(_EDGES)
    return len(bare) >= _SHORTEST_NAME and _SIGNS.search(bare) is not None


class Ranking:
    """Ranks the messages of one session. Messages are numbered from 1, as in the index.

    :param text_of: returns the folded text of the message with a given sequence number.
    :param containing_all: filters the given sequence numbers, keeping messages that may
        contain all the given tokens. It may keep too many, but is much faster than
        `text_of`.
    :param without: sequence numbers to leave out of the results.
    """

    def __init__(
        self,
        index: SearchIndex,
        text_of: Callable[[int], str],
        containing_all: Callable[[Iterable[int], Sequence[str]], Iterable[int]],
        without: Collection[int],
    ) -> None:
        self._index = index
        self._text_of = text_of
        self._containing_all = containing_all
        self._entries = index.entries()
        self._excluded = frozenset(
            number for number, (seq, _) in enumerate(self._entries, 1) if seq in without
        )
        self._rows: dict[str, frozenset[int]] = {}

    def best(self, query: Query, limit: int) -> list[int]:
        """Return the sequence numbers of the best messages, best first."""
        found = (
            self._rank_one(query, limit)
            if len(query.words) == 1
            else self._rank_many(query, limit)
        )
        return [self._entries[number - 1][0] for number in found]

    def _rank_one(self, query: Query, limit: int) -> list[int]:
        """Return the messages that contain the query's only word or phrase, or similar
        words if it is not quoted.
        """
        [phrase] = query.words
        levels = self._matches(phrase, None, limit)
        if levels and len(levels) < limit and len(tokens(phrase)) == 1:
            stems = self._with_all(tokens(phrase)) - self._excluded
            levels = dict.fromkeys(stems, 0) | levels
        if levels or query.quoted:
            return nlargest(limit, levels, key=lambda number: (levels[number], number))
        scores = self._scores(query.words)
        similar = scores.keys() - self._excluded
        return nlargest(limit, similar, key=lambda number: (scores[number], number))

    def _rank_many(self, query: Query, limit: int) -> list[int]:
        """Return the best messages for a query of several words or phrases."""
        scores = self._scores(query.words)
        literal: Mapping[int, int] = {}
        if not query.quoted:
            literal = self._matches(" ".join(query.words), None, limit)
        matches = [
            self._matches(phrase, scores, limit)
            for phrase in (*query.quoted, *query.names)
        ]
        with_all = self._with_all(
            [token for word in query.words for token in tokens(word)]
        )
        first: set[int] = {*literal, *with_all}.union(*matches)
        found = first | scores.keys()
        required = [frozenset(each) for each in matches[: len(query.quoted)] if each]
        if required:
            found &= _intersection(required) or frozenset(chain.from_iterable(required))
        found -= self._excluded

        def rank(number: int) -> tuple[float, ...]:
            whole_query = literal.get(number, 0)
            phrases = sum(number in each for each in matches)
            level = sum(each.get(number, 0) for each in matches)
            score = 0 if whole_query else scores.get(number, 0)
            return whole_query, phrases, level, number in with_all, score, number

        # Of the messages that are not in `first`, only those with the best scores can be
        # among the results.
        some = set(nlargest(limit, found, key=lambda number: scores.get(number, 0))) | (
            found & first
        )
        return nlargest(limit, some, key=rank)

    def _scores(self, words: Iterable[str]) -> dict[int, float]:
        """Return the scores of all messages that contain a word of the query, and of
        the messages next to them.
        """
        count = len(self._entries)
        rows_of: dict[str, frozenset[int]] = {}
        for piece in _pieces(token for word in words for token in tokens(word)):
            if rows := self._rows_of(piece) or self._rows_of_part(piece):
                rows_of[piece] = rows
        most = max(_COMMON * count, _FEW)
        distinctive = {
            piece: rows for piece, rows in rows_of.items() if len(rows) <= most
        } or rows_of
        neighbour_weight = NEIGHBOUR_SHARE if len(distinctive) >= _QUESTION else 0
        weights = {
            piece: _rarity(len(rows), count) for piece, rows in distinctive.items()
        }
        average = sum(length for _, length in self._entries) / max(1, count)
        norms = [
            (K1 + 1) / (1 + K1 * (1 - B + B * length / average))
            for _, length in self._entries
        ]
        scores: dict[int, float] = {}
        covered: dict[int, float] = {}
        for piece, rows in distinctive.items():
            weight = weights[piece]
            for number, share in _with_neighbours(
                rows, norms, neighbour_weight
            ).items():
                scores[number] = scores.get(number, 0) + weight * share
            for number in rows:
                covered[number] = covered.get(number, 0) + weight
        every = sum(weights.values())
        return {
            number: score * (1 + covered.get(number, 0) / every)
            for number, score in scores.items()
        }

    def _matches(
        self, phrase: str, scores: Mapping[int, float] | None, limit: int
    ) -> dict[int, int]:
        """Return messages that contain a phrase, each with the level of the match.

        The level is 3 for whole words with the same punctuation, 2 for whole words, and
        1 for parts of words. The search stops once it has found enough messages.

        :param scores: the messages are read in descending order of these scores; if
            None, the newest are read first.
        """
        split = tokens(phrase)
        if not split:
            return {}
        pattern = phrase_pattern(phrase)
        part = re.compile(pattern)
        whole = re.compile(whole_pattern(pattern))
        levels: dict[int, int] = {}
        wholes = 0
        for number in self._in_order(self._with_all(split), scores):
            text = self._text_of(self._entries[number - 1][0])
            if whole.search(text):
                levels[number] = 3 if phrase in text else 2
                wholes += 1
            elif part.search(text):
                levels[number] = 1
            if wholes == limit:
                return levels
        if len(levels) < limit:
            for number in self._in_order(self._with_sequence(split), scores):
                if number not in levels and part.search(
                    self._text_of(self._entries[number - 1][0])
                ):
                    levels[number] = 1
                if len(levels) == limit:
                    break
        return levels

    def _in_order(
        self, numbers: Collection[int], scores: Mapping[int, float] | None
    ) -> list[int]:
        wanted = [number for number in numbers if number not in self._excluded]
        if scores is None:
            return sorted(wanted, reverse=True)
        return sorted(
            wanted, key=lambda number: (scores.get(number, 0), number), reverse=True
        )

    def _with_all(self, split: Iterable[str]) -> frozenset[int]:
        """Return the messages that contain words with the same stems as all of these
        tokens.
        """
        return _intersection([self._rows_of(piece) for piece in _pieces(split)])

    def _with_sequence(self, split: Sequence[str]) -> Collection[int]:
        """Return all messages that may contain these tokens in sequence, even as parts
        of words.
        """
        found = self._with_all_parts(split)
        if len(found) <= _READ_AT_ONCE:
            return found
        numbers = {self._entries[number - 1][0]: number for number in found}
        return [numbers[seq] for seq in self._containing_all(numbers, split)]

    def _with_all_parts(self, split: Iterable[str]) -> Collection[int]:
        """Return the messages that, according to the index, may contain all of these
        tokens as parts of words.
        """
        found: Collection[int] = range(1, len(self._entries) + 1)
        # Each piece requires a search through all words, so start with the rarest and
        # stop once few enough messages remain.
        for piece in sorted(
            _pieces(split), key=lambda piece: len(self._rows_of(piece))
        ):
            rows = self._rows_of_part(piece)
            if rows is not None:
                found = rows.intersection(found)
            if len(found) <= _READ_AT_ONCE:
                break
        # A truncated word may contain any of the parts.
        return self._index.messages_with_cut_words().union(found)

    def _rows_of(self, piece: str) -> frozenset[int]:
        if piece not in self._rows:
            self._rows[piece] = self._index.messages_with(piece)
        return self._rows[piece]

    def _rows_of_part(self, piece: str) -> frozenset[int] | None:
        """Return all messages that may have a word containing the piece; None if there
        are too many such words.
        """
        return (
            self._rows_of(piece)
            if is_unspaced(piece)
            else self._index.messages_with_part(piece)
        )


def _rarity(matches: int, count: int) -> float:
    return math.log(1 + (count - matches + 0.5) / (matches + 0.5))


def _pieces(split: Iterable[str]) -> list[str]:
    return list(
        dict.fromkeys(piece for token in split for piece in query_pieces(token))
    )


def _with_neighbours(
    rows: Iterable[int], norms: Sequence[float], neighbour_weight: float
) -> dict[int, float]:
    """Return the weight of a word in each message that contains it, and in the
    neighbouring messages.
    """
    weights = {number: norms[number - 1] for number in rows}
    if not neighbour_weight:
        return weights
    own = tuple(weights.items())
    for number, share in own:
        lent = neighbour_weight * share
        for neighbour in (number - 1, number + 1):
            if 1 <= neighbour <= len(norms) and weights.get(neighbour, 0) < lent:
                weights[neighbour] = lent
    return weights


def _intersection(sets: Sequence[frozenset[int]]) -> frozenset[int]:
    if not sets:
        return frozenset()
    first, *others = sorted(sets, key=len)
    return first.intersection(*others)
