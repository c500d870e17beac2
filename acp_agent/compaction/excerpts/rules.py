"""Finds the sentences of a message that state a rule, by a short table of cues such as
"never", "do not" and "from now on".

The table misses many rules. It only decides which of the user's messages have priority
if there is not enough room for all of them. It is kept short, since a sentence that is
mistaken for a rule would displace a real rule.

Fenced blocks, lines quoted with `>`, and paragraphs of more than `MAX_TYPED` characters
that look pasted are skipped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from acp_agent.frozen import frozen

MAX_RULE_LENGTH = 500
MAX_TYPED = 2_000
MAX_LABEL = 4
"""Maximum number of words in a label before a rule, or in a heading that is a rule."""
MAX_SHORT = 16
"""Maximum number of words in a short sentence."""
MAX_FORBIDDING = 8
"""Maximum number of words in a clause that begins with "no" and forbids something."""
_WORD = re.compile(r"[\u3040-\u9fff가-힣]|[^\W\u3040-\u9fff가-힣]+'?|[,:]")
_MARKS = str.maketrans("’;：(–—¡", "',:,,,,")


def _line(text: str) -> str:
    return " ".join(_WORD.findall(text.lower().replace(" - ", ", ").translate(_MARKS)))


def _table(rows: str) -> list[str]:
    return [
        f" {_line(cue.replace('!', ': , ').replace('^', ', '))} "
        for cue in rows.replace("\n", "|").split("|")
    ]


# `^` is the beginning of a clause. `!` is the beginning of a sentence or of the text
# after a label. The table has only words that rarely occur outside of rules.
_CUES = _table("""!never|!always|!do not|!don't|!dont|!avoid|!refrain from|!answer in|!reply in|!ask me before
!only change|!only edit|!only touch|!only modify|!only use|you must|you may not|from now on|from here on
no circumstances|any circumstances|without asking|off limits|whatever you do|stay away from|we don't use
we do not use|!niemals|!immer|!antworte auf|du darfst|keinesfalls|keinen fall|keinen umständen|ab jetzt
ab sofort|von nun an|ohne rückfrage|!ne|!n'|!jamais|!toujours|!réponds en|désormais|dorénavant
à partir de maintenant|aucun cas|aucun prétexte|surtout pas|!nunca|!jamás|!siempre|!no toques|!no cambies
!no modifiques|!no uses|!responde en|a partir de ahora|en adelante|ningún concepto|ningún caso|!nooit
!aldrig|!aldri|!nigdy|!nikdy|!asla|!никогда|!ніколи|впредь|不要|不许|不得|请勿|請勿|禁止|绝不|絶対
しないで|ないでください|절대|하지마|지마세요""")
# These words are cues only in short sentences. In longer ones they usually report
# something.
_CUES_OF_SHORT = _table("""^never|^always|^do not|^don't|^immer|must never|must always|must not|mustn't|must stay
must remain|should never|should always|at all times|i prefer|we prefer|user prefers|nicht ändern
nicht anfassen|nicht löschen|nie wolno|нельзя""")
# Phrases that contain a cue but do not state a rule.
_IDIOMS = _table("""never mind|don't do|don't we|don't you|don't need|don't think|don't know|don't see
don't understand|don't worry|don't care|don't get|don't have|don't want|don't like|don't forget|n'hésite
n'hésitez|n'oublie|n'oubliez|ne sais|toujours pas|nunca había""")
# Phrases that only postpone something.
_PUTS_OFF = _table(
    "yet|for now|right now|for the moment|pour l'instant|vorerst|noch nicht|por ahora"
)
# "Use uv instead of pip" is a rule.
_CHOOSES = _table("!use|!nimm|!nutze|!verwende|!utilise|!usa")
_OVER = _table(
    "^not|^nicht|instead of|rather than|statt|anstatt|au lieu de|au lieu d'|en lugar de|en vez de"
)
# "No new dependencies" is a rule, but "No other file needs changes" is not.
_ADDED = _table("new|other|more|extra|additional|external|further|build")
_REPORTS = _table(
    "is|are|was|were|need|needs|needed|required|change|changes|error|errors"
)
_CODE = re.compile(
    r"\A\s*(?:assert|raise|import|def|\d+(?:\t|\s{2,}))\s*\S"
    r"|\d:\d+\s|\d-\d\dT\d\d:|[!=]=|\s=\s|[{};]\s*$|\w\(\)?:|\.\w+\(|</\w"
)
"""Matches text that occurs in lines of code or logs, but not in sentences."""
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_ASIDE = re.compile(r"\([^()\n]*\)")
_JOINING = _table(
    "please|and|but|so|then|also|just|bitte|und|aber|et|mais|surtout|y|favor|pero|e|и|та"
)
_ASKING = _table(
    "please|can|could|would|bitte|kannst|könntest|peux|pourrais|pouvez|plaît|puedes|podrías|favor"
)
_LISTS = _table(
    "rules|constraints|conventions|guidelines|requirements|regeln|vorgaben|règles|reglas"
)
_COMMAS = re.compile(r"(?: ,)+")
_ITEM = re.compile(r"\A\s*(?:[-*+•–]|\d{1,3}[.)]|[a-z]\))\s+(?:\[[ xX]\]\s+)?")
_PASTED = re.compile(
    r"(?ms)^[ \t]*(?:[-*+] +)?(`{3,}|~{3,})[^`\n]*$.*?(?:^[ \t]*\1[`~]*\s*?$|\Z)|^[ \t]*>[^\n]*"
)
_BREAK = re.compile(
    r"(?<=\n)(?=[ \t]*(?:[-*+•–]\s|\d{1,3}[.)]\s|#))"  # before an item or a heading
    r"|(?<=\n)(?<!.{50}\n)(?<!,\n)(?![ \t]*[a-zß-öø-ÿа-яіїґąęłśżčěřšž]|\Z)"  # before a line that is not wrapped
    r"|(?:(?<=[.!?…])|(?<=[.!?…][\"'”’»)*_`]))(?<!\b\w\.)(?<!\b(?:vs|ca|nr)\.)(?<!\b(?:etc|bzw|ggf)\.)(?=\s)"
    r"|(?<=[。！？])(?!\Z)"
)


def same_rule_key(text: str) -> str:
    """Return a key that is the same for rules that differ only in case and white space."""
    return " ".join(text.casefold().split())


def stated_rules(text: str) -> list[str]:
    """Return the rules in a text, in order and without duplicates. A list after a line
    such as "Never:" is part of that rule.
    """
    pieces = _pieces(text)
    found = (
        "".join(piece.text for piece in pieces[first:last])
        for first, last in _rules(pieces)
    )
    rules = [_ITEM.sub("", rule).strip()[:MAX_RULE_LENGTH].rstrip() for rule in found]
    return [*{same_rule_key(rule): rule for rule in rules if rule}.values()]


def rule_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each rule in a text, including the sentences before and
    after it in the same paragraph, as in "The cap is $500. Never exceed it."
    """
    pieces = _pieces(text)
    spans: list[tuple[int, int]] = []
    for first, last in _rules(pieces):
        start = pieces[first].start
        end = pieces[last - 1].end
        if first and _same_paragraph(pieces[first - 1], pieces[first]):
            start = pieces[first - 1].start
        if last < len(pieces) and _same_paragraph(pieces[last - 1], pieces[last]):
            end = pieces[last].end
        spans.append((start, end))
    return spans


def prose(text: str) -> Iterator[str]:
    """Yield the sentences and lines that the user typed, and an empty string for each
    pasted piece.
    """
    for piece in _pieces(text):
        yield piece.text


def segments(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in pieces, as pairs of whether the piece was typed (and not
    pasted) and the piece.
    """
    at = 0
    for match in _PASTED.finditer(text):
        yield from _paragraphs(text[at : match.start()])
        yield False, match[0]
        at = match.end()
    yield from _paragraphs(text[at:])


def _paragraphs(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the paragraphs of a text without fenced blocks, like `segments`."""
    runs = re.split(r"(?<=\n)(?=[ \t\r]*\n)", text)
    for typed, group in groupby(runs, lambda run: _looks_typed(run.strip())):
        together = "".join(group)
        if together:
            yield typed or len(together) <= MAX_TYPED, together


@frozen
class _Piece:
    """A sentence or a line.

    :ivar start: its offset in the message.
    :ivar text: the text; empty if it was pasted.
    """

    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _pieces(text: str) -> list[_Piece]:
    """Return the sentences and lines of a text."""
    pieces: list[_Piece] = []
    at = 0
    for typed, segment in segments(text):
        start = at
        at += len(segment)
        if not typed:
            pieces.append(_Piece(start, ""))
            continue
        for run in re.split(r"(?<=\n)(?=[ \t\r]*\n)", segment):
            for sentence in _BREAK.split(run):
                parts = (
                    [sentence]
                    if len(sentence) <= MAX_RULE_LENGTH
                    else sentence.splitlines(keepends=True)
                )
                for part in parts:
                    pieces.append(_Piece(start, part))
                    start += len(part)
    return pieces


def _same_paragraph(piece: _Piece, after: _Piece) -> bool:
    """Return whether two neighbouring pieces are short and in the same paragraph."""
    both = (
        0 < len(piece.text) <= MAX_RULE_LENGTH
        and 0 < len(after.text) <= MAX_RULE_LENGTH
    )
    return both and not after.text.lstrip(" \t\r").startswith("\n")


def _rules(pieces: Sequence[_Piece]) -> list[tuple[int, int]]:
    """Return the bounds of each rule as indices of pieces; the end is exclusive."""
    found: list[tuple[int, int]] = []
    cued: set[int] = set()
    listing = False
    for number, piece in enumerate(pieces):
        text = piece.text
        if listing:
            last = pieces[found[-1][1] - 1].text
            listing = bool(
                text and (_ITEM.match(text) or not text.strip() or last[-1:] != "\n")
            )
        if listing and piece.end - pieces[found[-1][0]].start <= MAX_RULE_LENGTH:
            found[-1] = (found[-1][0], number + 1)
            continue
        has_cue = _has_cue(text)
        leads = text.strip().endswith(":") or text.lstrip().startswith("#")
        listing = listing or (leads and (has_cue or _announces(text)))
        is_word = text.isascii() and len(text.split()) == 1
        if listing or (has_cue and not is_word):
            found.append((number, number + 1))
        if has_cue:
            cued.add(number)
    return [
        (first, last)
        for first, last in found
        if first in cued or _says_something(pieces[first:last])
    ]


def _says_something(pieces: Sequence[_Piece]) -> bool:
    """Return whether pieces without a cue contain more than a heading such as
    "Constraints:".
    """
    first, *others = pieces
    return not _announces(first.text) or any(
        _ITEM.match(piece.text) for piece in others
    )


def _announces(text: str) -> bool:
    """Return whether a line such as "## Rules" or "Please follow these rules:" announces
    a list of rules.
    """
    words = _line(text).rstrip(" :").split()
    return bool(words) and f" {words[-1]} " in _LISTS


def _looks_typed(paragraph: str) -> bool:
    """Return whether a paragraph looks typed: a list, or one line that ends like a
    sentence.
    """
    first, *rest = paragraph.split("\n")
    ends = len(first) <= MAX_TYPED and first.endswith((*".!?…:)*`\"'”»。！？",))
    return all(map(_ITEM.match, rest)) if rest else ends


def _has_cue(sentence: str) -> bool:
    sentence = _ASIDE.sub(" ", sentence)
    line = f" : , {_clauses(sentence)} , "
    if sentence.rstrip().endswith(("?", "？")) and not _has_any(line, _ASKING):
        return False
    if _CODE.search(_CODE_SPAN.sub("", sentence)):
        return False
    if sentence.lstrip().startswith("#") and len(sentence.split()) > MAX_LABEL:
        return False  # a comment in code
    # A conjunction after a comma begins a clause. Without a comma it does not, as in
    # "it starts and never ends".
    for word in _JOINING * 2:
        line = line.replace(f" ,{word}", " , ")
    line = line.replace(" please ", " , ").replace(" bitte ", " , ")
    line = _COMMAS.sub(" ,", line)
    for idiom in _IDIOMS:
        line = line.replace(idiom, " … ")
    if _has_any(line, _PUTS_OFF):
        return False
    if _has_any(line, _CUES):
        return True
    if len(_line(sentence).split()) <= MAX_SHORT and (
        _has_any(line, _CUES_OF_SHORT)
        or (_has_any(line, _CHOOSES) and _has_any(line, _OVER))
    ):
        return True
    return any(map(_forbids, f" {_line(sentence)} ".split(":")))


def _clauses(sentence: str) -> str:
    """Return the words of a sentence. A colon stays only after a label such as "Rule:"."""
    words = _line(sentence)
    label, colon, rest = words.partition(" : ")
    if colon and len(label.split()) <= MAX_LABEL:
        return f"{label} : , {rest.replace(' :', '')}"
    return words.replace(" :", "")


def _forbids(part: str) -> bool:
    """Return whether a part of a sentence is like "no new dependencies" or "no peanuts,
    ever".
    """
    words = part.split()
    return (
        2 <= len(words) <= MAX_FORBIDDING
        and words[0] == "no"
        and (f" {words[1]} " in _ADDED or words[-1] == "ever")
        and not _has_any(part, _REPORTS)
    )


def _has_any(line: str, cues: Iterable[str]) -> bool:
    return any(cue in line for cue in cues)
