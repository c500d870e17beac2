"""The sentences of a message that state a rule, found by a generous table of cues
("never", "always", "only", ...).

Fenced blocks, lines quoted with `>` and runs of more than `MAX_TYPED` characters that
look pasted are skipped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from acp_agent.frozen import frozen

MAX_RULE_LENGTH = 500
MAX_TYPED = 2_000
MAX_FORBIDDING = 8
"""Words of a clause that begins with "no" and forbids something."""
_WORD = re.compile(r"[\u3040-\u9fff가-힣]|[^\W\u3040-\u9fff가-힣]+'?|[,:]")
_MARKS = str.maketrans("’;：(–—¡", "',:,,,,")


def _line(text: str) -> str:
    return " ".join(_WORD.findall(text.lower().replace(" - ", ", ").translate(_MARKS)))


def _table(rows: str) -> list[str]:
    return [
        f" {_line(cue.replace('!', ': , ').replace('^', ', ').replace('$', ' ,'))} "
        for cue in rows.replace("\n", "|").split("|")
    ]


# `^` and `$` stand for the beginning and the end of a clause, `!` for the beginning of a
# sentence or what follows a colon. A word that describes as often as it orders ("is
# always copied", "I don't") counts only where an order begins with it. English, German,
# French, Spanish; only the plainest words of others.
_CUES = _table("""^never|you never|should never|must never|to never|^always|you always|should always|must always
to always|at all times|must|mustn't|^do not|^don't|^dont|^not allowed|you're not allowed|forbidden|prohibited
off limits|from now on|from here on|going forward|!make sure|just make sure|^ensure|^be sure to|^remember to
^avoid|^refrain from|!stick to|stick with|no circumstances|has to work|you should not|we should not|you may not
!prefer|prefers|we prefer|i prefer|i'd prefer|i only want|!keep|!leave|^ask me|^answer in|^reply in
without asking|!only change|!only edit|!only touch|!only modify|!only use|!only run|niemals|^immer|^nie|nie als
grundsätzlich|keinesfalls|keinen fall|keinen umständen|ab jetzt|ab sofort|von nun an|in zukunft|künftig
^achte darauf|^stell sicher|^stelle sicher|^denk daran|^vergiss nicht|^vermeide|^verzichte|^halte dich
^halt dich|muss|müssen|verboten|zwingend|unbedingt|ausschließlich|darfst|dürfen|sollst|solltest|!kein|!keine
!keinen|!nur|ohne rückfrage|frag mich|nicht ändern|nicht anfassen|nicht löschen|^antworte auf|jamais|^toujours
désormais|dorénavant|à partir de maintenant|^évite|^évitez|^assure toi|^assurez vous|^veille à|^veillez à
aucun cas|aucun prétexte|surtout pas|^interdit|il faut|tu dois|vous devez|doit|doivent|^réponds en
^réponds moi en|^répondez en|uniquement|exclusivement|obligatoire|impérativement|!pas de|!pas d'|^ne|!n'
^seulement|merci de ne|nunca|jamás|^siempre|a partir de ahora|en adelante|^asegúrate|^asegúrese|^evita|^evite
debes|debe|deben|tienes que|tiene que|hay que|prohibido|prohibida|obligatorio|únicamente|exclusivamente
!solo puedes|!sólo puedes|ningún concepto|ningún caso|^responde en|^respóndeme en|^pregúntame|^tampoco|!sin|mai
sempre|d'ora in poi|!não|proibido|nooit|altijd|verboden|aldrig|alltid|aldri|altid|nigdy|zawsze|nie wolno|nikdy
vždy|asla|her zaman|bundan sonra|никогда|всегда|нельзя|обязательно|впредь|!не|ніколи|завжди|не можна|обов'язково
必须|必須|不要|不许|不得|请勿|請勿|禁止|绝不|務必|务必|总是|只用|必ず|絶対|しないで|ないでください|반드시|절대|항상|하지마|지마세요|금지""")
# Phrases with a cue that state no rule.
_IDIOMS = _table("""never mind|must be off|must be wrong|must be missing|don't we|don't you|n'hésite|n'hésitez
must have been|must have|keep going|keep fixing|keep trying|never used|not required|not needed|if you need to
what you have to|if you have to|don't need|don't yet|don't think|don't know|don't see|don't understand
don't worry|don't care|don't get|don't have|must be a|must be the|muss an|toujours pas|no sé|no hay|no funciona
no es|no está|no puedo|no veo|no entiendo|non so|não sei|не знаю""")
# A clause that begins with an order and contains a limit is a rule too; a question is
# one only if it is polite.
_ORDERS = _table("""^use|^stop|^touch|^change|^edit|^modify|^write|^run|^commit|^push|^add|^create|^answer
^ändere|^verändere|^fass|^fasse|^lösche|^mach|^nimm|^nutze|^benutze|^verwende|^schreib|^schreibe|^committe
^pushe|^installiere|^füge|^rühr|^lass|^erstelle|^entferne|^starte|^setze|^arbeite|^utilise|^modifie|^rispondi
^usa|^utiliza|^ejecuta|^cambia|^toca|^modifica|^escribe""")
_LIMITS = _table("""only|nothing|never|always|instead of|rather than|^not|without adding|without changing|nicht
nichts|kein|keine|keinen|nur|erst|immer|statt|anstatt|rien|que|au lieu de|au lieu d'|plutôt que|sempre|solo|sólo
nada|en lugar de|en vez de|siempre""")
# A clause of a few words that begins with "no" forbids something, unless it reports.
_REPORTS = _table("""is|are|was|were|need|needs|needed|required|provided|there|it's|idea|problem|luck|matter
longer|more|change|changes|error|errors|man|wait|way|on|i|we|you|that's|such|one|worries|doubt|es|está|hay
funciona|puedo|veo|entiendo|sé|se|me|había|tengo|sirve""")
_CODE = re.compile(
    r"\A\s*(?:assert|raise|import|def|\d+(?:\t|\s{2,}))\s*\S"
    r"|\d:\d+\s|\d-\d\dT\d\d:|[!=]=|\s=\s|[{};]\s*$|\w\(\)?:|\.\w+\("
)
"""What a line of code or of a log contains, and a sentence does not."""
_CODE_SPAN = re.compile(r"`[^`\n]*`")
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
    """Return the key by which equal rules are found: the text without differences of
    case and white space.
    """
    return " ".join(text.casefold().split())


def stated_rules(text: str) -> list[str]:
    """Return the rules as slices of the text, in order, each once. The items behind
    "Never:" stay with it.
    """
    pieces = _pieces(text)
    found = (
        "".join(piece.text for piece in pieces[first:last])
        for first, last in _rules(pieces)
    )
    rules = [_ITEM.sub("", rule).strip()[:MAX_RULE_LENGTH].rstrip() for rule in found]
    return [*{same_rule_key(rule): rule for rule in rules if rule}.values()]


def rule_spans(text: str) -> list[tuple[int, int]]:
    """Return where rules stand in a text, each with the sentences beside it: "The cap
    is $500. Never exceed it."

    The neighbours stand in the same paragraph.
    """
    pieces = _pieces(text)
    spans: list[tuple[int, int]] = []
    for first, last in _rules(pieces):
        start = pieces[first].start
        end = pieces[last - 1].end
        if first and _stand_together(pieces[first - 1], pieces[first]):
            start = pieces[first - 1].start
        if last < len(pieces) and _stand_together(pieces[last - 1], pieces[last]):
            end = pieces[last].end
        spans.append((start, end))
    return spans


def prose(text: str) -> Iterator[str]:
    """Yield the sentences and lines that the user typed, and an empty text for each
    pasted one.
    """
    for piece in _pieces(text):
        yield piece.text


def segments(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in pieces, each with whether it was typed, and not pasted."""
    at = 0
    for match in _PASTED.finditer(text):
        yield from _paragraphs(text[at : match.start()])
        yield False, match[0]
        at = match.end()
    yield from _paragraphs(text[at:])


def _paragraphs(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the typed and the pasted paragraphs of a text without fences."""
    runs = re.split(r"(?<=\n)(?=[ \t\r]*\n)", text)
    for typed, group in groupby(runs, lambda run: _looks_typed(run.strip())):
        together = "".join(group)
        if together:
            yield typed or len(together) <= MAX_TYPED, together


@frozen
class _Piece:
    """A sentence or a line that the user typed, with its place; empty if it was pasted."""

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


def _stand_together(piece: _Piece, after: _Piece) -> bool:
    """Return whether two pieces are short and stand in one paragraph."""
    both = (
        0 < len(piece.text) <= MAX_RULE_LENGTH
        and 0 < len(after.text) <= MAX_RULE_LENGTH
    )
    return both and not after.text.lstrip(" \t\r").startswith("\n")


def _rules(pieces: Sequence[_Piece]) -> list[tuple[int, int]]:
    """Return the numbers of the first and after the last piece of each rule."""
    found: list[tuple[int, int]] = []
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
    return found


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
    line = f" : , {_line(sentence).replace(':', ': ,')} , "
    if sentence.rstrip().endswith(("?", "？")) and not _holds(line, _ASKING):
        return False
    if _CODE.search(_CODE_SPAN.sub("", sentence)):
        return False
    # A clause begins with such a word after a comma; "it starts and never ends" is one.
    for word in _JOINING * 2:
        line = line.replace(f" ,{word}", " , ")
    line = line.replace(" please ", " , ").replace(" bitte ", " , ")
    line = _COMMAS.sub(" ,", line)
    for idiom in _IDIOMS:
        line = line.replace(idiom, " ")
    if _holds(line, _CUES) or (_holds(line, _ORDERS) and _holds(line, _LIMITS)):
        return True
    parts = f" {_line(sentence)} ".split(":")
    return any(_forbids(f"{part.split(',')[0]} ") for part in parts)


def _forbids(clause: str) -> bool:
    """Return whether a clause is like "no new dependencies"."""
    words = clause.split()
    return (
        2 <= len(words) <= MAX_FORBIDDING
        and words[0] == "no"
        and not _holds(clause, _REPORTS)
    )


def _holds(line: str, cues: Iterable[str]) -> bool:
    return any(cue in line for cue in cues)
