"""Rules that a user states in passing: which sentences of a message must outlive every compaction word for word.

The matcher, in the order in which it looks:

1. **What is the user's own prose.** Left out are fenced code (a fence that nobody closes is text), indented code,
   lines quoted with `>`, diffs, and lines that look like a log, a traceback, a compiler's output or a shell prompt.
2. **What is a sentence.** A list item and a heading stand for themselves; a paragraph is split behind `.`, `!`, `?`,
   `…` and their East Asian forms, but not behind common abbreviations. A line break ends a sentence unless the line
   looks wrapped: it is long, ends with a comma or an article, or the next one begins in lower case; never before a
   word that begins a rule.
3. **What is a rule.** A sentence of two words or more, at most `MAX_RULE_LENGTH` characters, that holds one of:
   - English: always, never, must, "do not" and "don't" as an order, "only" beside a verb of work, from now on, going
     forward, make sure, ensure, be sure to, remember to, avoid, refrain from, stick to, keep … at the beginning, under
     no circumstances, not allowed, forbidden, off limits, whenever, unless I …, prefer … over …, use … instead of …,
     no new …, a sentence that begins with "no", without …ing, answer in a language;
   - German: nie, niemals, immer, stets, bitte nicht/kein/nur, an order with nicht/kein/nur, ab jetzt, künftig,
     keinesfalls, vermeide, achte darauf, stelle sicher, muss, darf/soll nicht, ohne zu, statt, keine neuen;
   - French, Spanish: jamais, toujours, ne … pas as an order, désormais, évite, sans …, au lieu de; nunca, siempre,
     "no" as an order, a partir de ahora, evita, asegúrate, sin …, en lugar de, debes;
   - the words for always, never, must and must not of some other languages.
4. **Lists.** Where a line that ends with a colon is a rule, or it or a heading speaks of rules, conventions or the
   like, the items behind it are rules as well: in one piece with that line where this is short enough, since an item
   of "Never:" means the opposite alone.

The matcher is generous: a sentence that is carried along needlessly costs a few tokens, a rule that is lost costs the
user's trust. Every result is a slice of the text, unchanged. The time is linear in the length of the text, and of one
that is longer than twice `END_LENGTH` only both ends are looked at: users write before and behind what they paste. What
is done with rules is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen

MAX_RULE_LENGTH = 500
"""Characters; a longer sentence tells a story or is no sentence."""
MAX_RULES = 40
"""Of one message; the oldest count. A pasted manual is no set of rules."""

END_LENGTH = 50_000
"""Characters at the beginning and at the end of a long text in which rules are looked for."""

_WORK = (
    r"(?:use|touch|change|edit|modify|write|read|run|commit|push|answer|reply|work|look|make|do|add|fix|test|call|"
    r"import|install|create|delete|move|rename|support|show|print|log|return|ask)"
)
_ENGLISH = (
    r"\b(?:always|never|must(?:n['’]t)?|cannot ever|from (?:now|here) on(?:wards?)?|going forward|in (?:the )?future|"
    r"make sure|ensure|be sure to|remember to|(?:don['’]?t|do not) forget|avoid|refrain from|stick (?:to|with)|"
    r"under no circumstances?|at all times|at no time|by no means|not allowed|forbidden|prohibited|off[- ]limits|"
    r"whenever|every time|each time|unless (?:i|we|you|told|asked)|hands off|leave .{1,80}? (?:alone|as is|untouched)|"
    r"(?:you|we) (?:should|may)(?:n['’]t| not| only)|you (?:have|need) to|is required|are required|"
    r"(?:prefer|favou?r)\b.{1,160}? (?:over|to|instead of|rather than)|instead of|rather than|"
    r"use\b.{1,80}?,? (?:not|over)|no (?:new|more|other|additional|external|extra|further)|"
    r"without (?:\w+ing|my|our|prior|explicit|permission|approval|confirmation|any|new)|"
    r"(?:answer|reply|respond|speak)(?: \w+){0,3}? in)\b|"
    rf"\bonly {_WORK}\b|\b{_WORK} only\b|"
    # As an order, not as in "I don't know".
    r"(?:^|[,;:–—(-]\s*|\b(?:please|and|but|so|then|also|or|just|you|we|ever)\s+)(?:do not|don['’]?t)\b|"
    r"^\W{0,4}(?:please )?(?:only|keep(?! going\b)|no(?! (?:idea|problem|worries|luck)\b)) \w"
)
_GERMAN = (
    r"\b(?:nie|niemals|nimmer|immer(?! noch\b| wieder\b| mehr\b)|stets|grundsätzlich|keinesfalls|auf keinen fall|"
    r"unter keinen umständen|ab (?:jetzt|sofort|nun|heute)|von (?:nun|jetzt) an|in zukunft|künftig|zukünftig|"
    r"achte?t? (?:bitte )?(?:darauf|immer)|stell(?:e|t)? (?:bitte )?sicher|denke? (?:bitte )?(?:daran|dran)|"
    r"vergiss (?:bitte )?nicht|vermeide?t?|verzichte|halte? dich an|muss|musst|müssen|verboten|"
    r"(?:darf|darfst|dürfen|soll|sollst|sollen|sollte|solltest|sollten)\b.{0,80}?\b(?:nicht|kein\w{0,3}|nur|nie)|"
    r"bitte (?:\w+ ){0,6}?(?:nicht|nichts|kein\w{0,3}|nur|ohne|erst)|keine (?:neuen|weiteren|zusätzlichen)|"
    r"ohne (?:\w+ )?(?:zu|meine?|vorher\w*|rückfrage|rücksprache|neue|weitere)|anstatt|statt|anstelle|lieber|"
    r"antworte?t?(?: \w+){0,3}? (?:auf|in)|nicht \w+e[rl]?n(?=\W{0,3}$))\b|"
    r"^\W{0,4}(?:nicht|nichts|kein\w{0,3}|nur) \w|"
    r"^\W{0,4}(?:mache?|ändere?|verändere?|fasse?|lösche?|nimm|nutze?|benutze?|verwende|schreibe?|committe?|pushe?|"
    r"installiere?|füge?|rühre?|lasse?|lege?|erstelle?|entferne?|spriche?|führe?|starte|rufe?|gehe?|halte?|baue?|"
    r"setze?|teste|lese?|lies|frage?|gib|arbeite|behalte)\b.{0,160}?\b(?:nicht|nichts|kein\w{0,3}|nur|zuerst|erst)\b"
)
_FRENCH = (
    r"\b(?:jamais|toujours|désormais|dorénavant|à partir de maintenant|évite[rz]?|assure-toi|assurez-vous|"
    r"veille[rz]? à|en aucun cas|surtout pas|interdit|il (?:ne )?faut|(?:tu dois|vous devez|doit|doivent)|"
    r"répond(?:s|ez|re) en|au lieu d['’e]|plutôt qu['’e]|uniquement|pas de nouve\w+|"
    r"sans (?:\w+er|\w+ir|me|mon|ma|mes|nouve\w+|aucune?))\b|"
    r"(?:^|[,;:]\s*|\bet )n(?:e |['’])\w.{0,80}?\b(?:pas|plus|rien|aucune?|que)\b|^\W{0,4}pas d(?:e |['’])"
)
_SPANISH = (
    r"\b(?:nunca|jamás|siempre|a partir de ahora|de ahora en adelante|asegúr[ae]\w*|evit[ae]r?|debes?|deben|tienes que|"
    r"responde?[dr]? en|en (?:lugar|vez) de|prohibido|por favor,? no|"
    r"(?:usa|utiliza|cambia|toca|modifica) (?:solo|sólo|solamente)|"
    r"sin (?:\w+r|permiso|nuev[ao]s|mi|ningun[ao]?))\b|[¡,;:]\s*no \w"
)
_OTHERS = (
    r"\b(?:sempre|non\b.{1,80}?\bmai|d'ora in poi|a partir de agora|deve|altijd|nooit|vanaf nu|moet|zawsze|nigdy|"
    r"alltid|aldrig|aldri|vždy|nikdy|her zaman|asla|всегда|никогда|нельзя|обязательно|только|завжди|ніколи|не надо)\b|"
    r"必须|必須|不要|请勿|請勿|禁止|绝不|務必|务必|总是|永远|不得|只能|必ず|絶対|常に|しないで|ないでください|してはいけ|"
    r"반드시|절대|항상|하지 ?마|지 마세요"
)
_OPENER = re.compile(
    r"(?:Always|Never|Only|Please|Don['’]?t|Do not|Must|Use|Make sure|Avoid|Prefer|Keep|No|From now|Ensure|Nie|Niemals|"
    r"Immer|Bitte|Kein\w*|Nicht|Ab (?:jetzt|sofort)|Jamais|Toujours|Ne|N['’]|Nunca|Siempre|No)\b"
)
_LIST_OF_RULES = re.compile(
    r"\b(?:rules?|constraints?|conventions?|guidelines?|requirements?|policy|policies|regeln?|vorgaben|konventionen|"
    r"règles?|contraintes?|reglas?|normas?|restricciones)\b"
)
_FENCE = re.compile(r"[ \t]{0,12}(?:[-*+] +)?(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"[ \t]{0,40}(?:[-*+•–]|\d{1,3}[.)]|[a-z]\))[ \t]+(?:\[[ xX]\][ \t]+)?")
_HEADING = re.compile(r"#{1,6}[ \t]+")
_DIFF = re.compile(r"diff --git |@@ -\d|(?:---|\+\+\+) [^ ]+/")
_PASTED = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d|\[?\d\d:\d\d:\d\d|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d|"
    r"[\[(](?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|CRITICAL)[\])]|(?:ERROR|INFO|DEBUG|TRACE|FATAL)\b[\s:|]|"
    r"(?:npm|pnpm|yarn) (?:ERR!|error)|(?:error|fatal|panic)(?:\[\w{1,20}\])?: |\w{1,80}(?:Error|Exception): |"
    r"Traceback \(|File \"|at [\w.$<>]{1,120}\(|[\w./\\-]{1,200}:\d+(?::\d+)?:|\$ |>>> |\.\.\. )"
)
_CODE_END = re.compile(r"(?:[{}]|\);|\};)$")
# Only the first mark of a row of marks is tried, or a long row would take quadratic time.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_`]*+(?=\s)|[。！？]++[」』”）]*+")
_ABBREVIATED = re.compile(
    r"(?<!\w)(?:e\.g|i\.e|cf|vs|approx|incl|excl|resp|esp|etc|z\.b|d\.h|u\.a|bzw|ca|evtl|ggf|inkl|nr|sog|vgl|usw|p\.ex)$",
    re.IGNORECASE,
)
_DANGLING = re.compile(
    r"\b(?:the|a|an|to|of|in|on|and|or|der|die|das|den|dem|und|oder|zu|im|le|la|les|de|du|des|et|ou|el|los|las|y|o)$",
    re.IGNORECASE,
)
"""Words with which no sentence ends."""
_WRAPPED_FROM = 50
"""Characters from which on a line is taken for one that a line break merely wraps."""

_Kind: TypeAlias = Literal["text", "item", "heading"]


@frozen
class _Block:
    """A paragraph, a list item or a heading: a slice of the text.

    :ivar indent: characters before a list item's marker.
    :ivar joined: whether nothing was left out between it and the block before it.
    """

    start: int
    end: int
    kind: _Kind
    indent: int
    joined: bool


def stated_rules(text: str) -> tuple[str, ...]:
    """The standing rules that a user's message states, in order, each once; see the module for what counts as one.

    :param text: of the user's message.
    :returns: slices of the text, at most `MAX_RULES`, each of at most `MAX_RULE_LENGTH` characters.
    """
    ends = (text,) if len(text) <= 2 * END_LENGTH else (text[:END_LENGTH], text[-END_LENGTH:])
    found = (end[slice(*span)] for end in ends for span in _rule_spans(end, _blocks(end)))
    return tuple(islice(_each_once(found), MAX_RULES))


def _each_once(texts: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for text in texts:
        if text not in seen:
            seen.add(text)
            yield text


def prose(text: str) -> Iterator[str]:
    """The paragraphs, list items and headings of a message that are the user's own words (see the module)."""
    return (text[block.start : block.end] for block in _blocks(text))


def _rule_spans(text: str, blocks: list[_Block]) -> Iterator[tuple[int, int]]:
    index = 0
    while index < len(blocks):
        block = blocks[index]
        index += 1
        leads: tuple[int, int] | None = None
        for start, end in _sentences(text, block):
            if _leads_list(text, block, start, end):
                leads = (start, end)
            elif _is_rule(text[start:end]):
                yield start, end
        if leads is None:
            continue
        first = index
        while index < len(blocks) and _is_item_of(blocks[index], block):
            index += 1
        if index > first:
            yield from _list_spans(leads, blocks[first:index])
        elif _is_rule(text[slice(*leads)]):
            yield leads


def _leads_list(text: str, block: _Block, start: int, end: int) -> bool:
    """Whether this sentence makes rules of the list items behind it."""
    sentence = _plain(text[start : min(end, start + MAX_RULE_LENGTH)])
    speaks_of_rules = _LIST_OF_RULES.search(sentence) is not None
    if block.kind == "heading":
        return speaks_of_rules
    return text.endswith(":", start, end) and (speaks_of_rules or _rule().search(sentence) is not None)


def _is_item_of(item: _Block, block: _Block) -> bool:
    return item.kind == "item" and item.joined and (block.kind != "item" or item.indent > block.indent)


def _list_spans(lead: tuple[int, int], items: list[_Block]) -> Iterator[tuple[int, int]]:
    if items[-1].end - lead[0] <= MAX_RULE_LENGTH:
        yield lead[0], items[-1].end
        return
    for start, end in (lead, *((item.start, item.end) for item in items)):
        if end - start <= MAX_RULE_LENGTH:
            yield start, end


def _is_rule(sentence: str) -> bool:
    if len(sentence) > MAX_RULE_LENGTH:
        return False
    # Scripts without spaces have no words to count.
    more_than_a_word = len(sentence.split(maxsplit=1)) > 1 or not sentence.isascii()
    return more_than_a_word and _rule().search(_plain(sentence)) is not None


@cache
def _rule() -> re.Pattern[str]:
    # Compiled when it is first needed, since that takes a while. Lower case is what it is matched against: that is
    # three times as fast as a pattern that ignores case.
    return re.compile(f"{_ENGLISH}|{_GERMAN}|{_FRENCH}|{_SPANISH}|{_OTHERS}")


def _plain(sentence: str) -> str:
    """The words as the matcher reads them: without case, emphasis and line breaks."""
    return " ".join(sentence.lower().replace("*", "").split())


def _sentences(text: str, block: _Block) -> Iterator[tuple[int, int]]:
    start = block.start
    for match in _SENTENCE_END.finditer(text, block.start, block.end):
        if match[0] == "." and _ends_abbreviation(text, start, match.start()):
            continue
        yield from _trimmed(text, start, match.end())
        start = match.end()
    yield from _trimmed(text, start, block.end)


def _ends_abbreviation(text: str, start: int, end: int) -> bool:
    return _ABBREVIATED.search(text[max(start, end - 10) : end]) is not None


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    sentence = text[start:end]
    left = len(sentence) - len(sentence.lstrip())
    right = len(sentence.rstrip())
    if left < right:
        yield start + left, start + right


def _blocks(text: str) -> list[_Block]:
    """The text's blocks in order, without what is not the user's own prose."""
    lines = list(_lines(text))
    closers = _closers(text, lines)
    blocks: list[_Block] = []
    is_open = joined = in_diff = False
    index = 0
    while index < len(lines):
        start, end = lines[index]
        line = text[start:end]
        index += 1
        fence = _FENCE.match(line)
        if fence and "`" not in fence[2] and closers[index].get(fence[1][0], 0) >= len(fence[1]):
            while not _closes(text[slice(*lines[index])], fence[1]):
                index += 1
            index += 1
            is_open = joined = in_diff = False
            continue
        if not line.strip():
            is_open = in_diff = False
            continue
        in_diff = bool(_DIFF.match(line)) or (in_diff and line[0] in "+- \\")
        indented = line.startswith(("    ", "\t")) and not is_open and not (blocks and blocks[-1].kind == "item")
        item = _ITEM.match(line)
        if in_diff or line.lstrip().startswith(">") or _is_pasted(line) or (indented and not item):
            is_open = joined = False
            continue
        heading = _HEADING.match(line)
        if is_open and not item and not heading and _is_wrapped(text, blocks[-1], line):
            blocks[-1] = replace(blocks[-1], end=start + len(line.rstrip()))
            continue
        kind: _Kind = "item" if item else "heading" if heading else "text"
        marker = item or heading
        begin = start + (marker.end() if marker else len(line) - len(line.lstrip()))
        stop = start + len(line.rstrip())
        if begin < stop:
            blocks.append(_Block(begin, stop, kind, len(line) - len(line.lstrip()), joined))
            joined, is_open = True, kind != "heading"
    return blocks


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _closers(text: str, lines: list[tuple[int, int]]) -> list[dict[str, int]]:
    """For each line, the longest row of each fence character that closes a fence there or further down."""
    longest: dict[str, int] = {}
    found = [longest]
    for start, end in reversed(lines):
        row = text[start:end].strip()
        if row[:3] in ("```", "~~~") and row == row[0] * len(row) and longest.get(row[0], 0) < len(row):
            longest = {**longest, row[0]: len(row)}
        found.append(longest)
    found.reverse()
    return found


def _closes(line: str, fence: str) -> bool:
    row = line.strip()
    return len(row) >= len(fence) and row == fence[0] * len(row)


def _is_pasted(line: str) -> bool:
    return bool(_PASTED.match(line) or _CODE_END.search(line.rstrip()[-3:]))


def _is_wrapped(text: str, block: _Block, line: str) -> bool:
    """Whether a line goes on with the sentence of the block before it."""
    words = line.lstrip()
    if _OPENER.match(words):
        return False
    last = text.rfind("\n", block.start, block.end) + 1
    before = text[max(last, block.start) : block.end].strip()
    if len(before) >= _WRAPPED_FROM or before.endswith(",") or words[0].islower():
        return True
    return _DANGLING.search(before[-10:]) is not None
