"""What a summary says that the user did *not* ask for or mention, and whether a message of the user says otherwise.

A denial is let pass unless it is plainly wrong: a sentence of the user's that denies, compares and asks nothing itself
has all content words of what is denied, behind a word that asks for something. "Did not ask for tests" is found where
the user wrote "add a regression test". English alone; what is denied of a part of the session ("not yet", "no more
tests"), or of an answer ("did not say which"), is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_DENIES = re.compile(
    r"\buser\W+(?:\w+\W+)?(?:(?:has|have|had|did|does)(?:n['’]t| not| never)|never)\W+(?:\w+ly\W+)?"
    r"(?:(?P<asked>ask(?:ed)?(?: us| me)? (?:for|to)|request(?:ed)?|want(?:ed)?(?: to)?|requir(?:ed?)|demand(?:ed)?|"
    r"(?:instruct(?:ed)?|tell|told) (?:us |me )?to|sa(?:id|y) to)|mention(?:ed)?)\b"
    r"(?P<what>(?:(?!\b(?:and|but|so|because|since|which|therefore|although|when|until)\b)[^,;.:!?])*)",
    re.IGNORECASE,
)
_NOT_ASKED = re.compile(
    r"\b(?:was|were|is|are|has been|have been)(?: not| never|n['’]t)(?: been)?(?: \w+ly)? "
    r"(?:asked for|demanded|requested|required|wanted) by the user\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:]|\b(?:and|but|because|since|so)\b", re.IGNORECASE)
_OF_A_PART = re.compile(
    r"\b(?:additional|again|also|another|any|anything|at first|else|extra|first|full|further|here|how|if|initially|"
    r"just|last|latest|more|new|newest|only|originally|other|separate|such|that|this|what|when|where|whether|which|why|yet)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?;\n]+[?]?")
_DENIED_TOO = re.compile(
    r"\?|n['’]t\b|\b(?:not|no|never|nor|none|nothing|without|than|instead|rather|except|avoid|skip|stop|unless|if)\b",
    re.IGNORECASE,
)
_VERBS = (
    "add|analy[sz]e|build|change|check|clean up|commit|configure|convert|cover|create|delete|deploy|disable|document|"
    "drop|enable|examine|explain|extend|extract|find|fix|generate|implement|improve|include|install|investigate|make|"
    "merge|migrate|move|publish|push|put|refactor|release|remove|rename|repair|replace|review|rewrite|run|show|simplify|"
    "split|support|switch|test|translate|update|upgrade|use|write"
)
_ASKS = re.compile(
    rf"(?:\A\W*|[,:]\s*|\b(?:and|then|also|please|to|you|now)\s+)(?:{_VERBS})\b"
    r"|\b(?:asked (?:for|to)|insist(?:s|ed)? on|must|need(?:s|ed)?|please|requested|require[sd]?|should|want(?:s|ed)?|"
    r"would like)\b",
    re.IGNORECASE,
)


def denied(sentence: str) -> tuple[str, bool]:
    """What a sentence says that the user did not ask for, or did not mention; empty where it denies nothing.

    :returns: the words, and whether it is asking that is denied.
    """
    found = _DENIES.search(sentence)
    passive = _NOT_ASKED.search(sentence) if found is None else None
    last = found or passive
    if last is None or _OF_A_PART.search(sentence[: last.end()]):
        return "", False
    if found is not None:
        return found["what"], found["asked"] is not None
    return _CLAUSE.split(sentence[: last.start()])[-1], True


def contradicts(what: str, said: Iterable[str], keys: Callable[[str], frozenset[str]], *, asking: bool) -> bool:
    """Whether the user said after all what is denied.

    :param said: the user's messages.
    :param keys: the content words of a text.
    :param asking: whether it is asking that is denied.
    """
    wanted = keys(what)
    return bool(wanted) and any(
        _is_behind(sentence[0], wanted, keys, asking=asking)
        for text in said
        if wanted <= keys(text)
        for sentence in _SENTENCE.finditer(text)
    )


def _is_behind(sentence: str, wanted: frozenset[str], keys: Callable[[str], frozenset[str]], *, asking: bool) -> bool:
    if not asking:
        return wanted <= keys(sentence)
    asks = _ASKS.search(sentence)
    return asks is not None and wanted <= keys(sentence[asks.start() :]) and _DENIED_TOO.search(sentence) is None
