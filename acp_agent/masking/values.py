"""What a value looks like: drawn at random as keys are, a plain word or number, or where the secret is taken from.

Knows no places, see `forms`.
"""

from __future__ import annotations

import re

from acp_agent.masking.names import is_secret_name, said

_RUN = re.compile(r"[A-Za-z0-9]+")
_CHANGE = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_NUMBER_FIRST = re.compile(r"[0-9][A-Za-z]")
_SHORTEST_RUN, _LONG_NUMBER, _LONG_RUN, _LONGEST_WORD = 8, 12, 24, 32
_SAYS_NOTHING = re.compile(
    r"true|false|yes|no|on|off|none|null|nil|undefined|void|auto|default|required|optional|empty|missing|invalid|unset"
    r"|basic|bearer|digest|negotiate|oauth2?|oidc|sso|jwt|apikey|string|str|text|int|integer|number|bool|boolean|any"
    r"|object|bytes|env|environment|prompt|stdin|ask|keyring|keychain|change-?me|example|placeholder|todo|redacted"
    r"|hidden|masked",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"(?:[A-Z]?[a-z]{0,15}|[A-Z]{1,15})(?:[._+-](?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15}|[0-9]{1,3}))*|-?[0-9]{1,5}"
)
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}")
_NAMES = re.compile(r"[A-Za-z]{1,40}[0-9]{0,4}(?:[-_./:+*][A-Za-z]{0,40}[0-9]{0,4}){1,40}")
_NO_PASSWORD = re.compile(r"\s|://|\(\?|\{\w*\}|^[./~]|\\[nrtux]")
_ELSEWHERE = re.compile(
    r"\$[{(]|\$[A-Za-z_]\w*(?:$|[/\"' ])|[`<]|\{[{%A-Za-z_}]|%[A-Z_]+%|%[sr]$|[*.…]+$|[xX]{3,}$", re.ASCII
)
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,40}"
_PATH_OF_CODE = re.compile(rf"{_NAME}(?:(?:\.|\?\.|::|->){_NAME}){{1,8}}")
_CALL = re.compile(rf"(?:{_NAME}(?:\.|::)){{1,8}}{_NAME}[(\[]|(?:getenv|getpass|env|get|input|prompt|require|str)\(")
_WORDS = re.compile(r"[A-Za-z_-]{1,40}")
_ROOTS = re.compile(
    r"process|os|env|environ|import|meta|self|this|cls|config|cfg|conf|settings|options|opts|args|argv|params|secrets"
    r"|ctx|context|request|req|response|res|state|props|e"
)


def is_random(value: str) -> bool:
    """Whether a part of it mixes letters and digits as no word does, or is longer than one is."""
    for run in _RUN.findall(value):
        if len(run) < _SHORTEST_RUN:
            continue
        digits = any(map(str.isdigit, run))
        if digits and (len(run) >= _LONG_RUN or len(_CHANGE.findall(run)) > 1):
            return True
        if len(run) >= _LONG_NUMBER and _NUMBER_FIRST.search(run):
            return True
        if len(run) >= _LONGEST_WORD and run != run.lower() and run != run.upper():
            return True
    return False


def is_drawn(value: str) -> bool:
    """Whether it is random, or letters and digits change in it as they seldom do in what has a meaning, separators
    aside."""
    joined = "".join(_RUN.findall(value))
    return is_random(value) or (sum(map(str.isdigit, joined)) > 2 and len(_CHANGE.findall(joined)) > 1)


def is_odd(value: str) -> bool:
    """Whether it has letters and digits as a password that somebody made up has, and is no word, name, path or
    sentence."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and value.isascii()
    return has_both and not (is_plain(value) or _NO_PASSWORD.search(value) or _NAMES.fullmatch(value))


def is_worded(value: str) -> bool:
    """Whether much of it are words, written together as code writes them."""
    return sum(map(len, _WORD.findall(value))) > 0.4 * len(value)


def is_plain(value: str) -> bool:
    """Whether it is a word, some words in a row, or a number of no more digits than a count or a status has."""
    return len(value) < 100 and _PLAIN.fullmatch(value) is not None


def is_given(value: str, name: str = "") -> bool:
    """Whether it is the secret itself, and not a word about it, where it is to be taken from, or code.

    :param name: what it is given to.
    """
    if not value or _SAYS_NOTHING.fullmatch(value) or _ELSEWHERE.match(value) or _CALL.match(value):
        return False
    if _PATH_OF_CODE.fullmatch(value):
        parts = re.split(r"\W+", value)
        return any(map(is_random, parts)) or not (_ROOTS.fullmatch(parts[0]) or is_secret_name(parts[-1]))
    # `API_KEY=apiKey`, `TOKEN=YOUR_TOKEN`: the name once more.
    whole, again = said(name), said(value) if _WORDS.fullmatch(value) else ""
    return not (whole and again) or not (
        whole == again or whole.endswith(f"-{again}") or again.endswith(f"-{whole}") or again.startswith("your-")
    )
