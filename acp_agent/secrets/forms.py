"""Patterns of secrets in texts: private keys, URLs, headers, assignments, and the keys of known providers.

All but private keys end with their line, and all but headers, cookies and quoted values end at a blank or a character
outside of ASCII: this is where `stream` cuts a text.
"""

from __future__ import annotations

import re

from acp_agent.secrets.known import MASK
from acp_agent.secrets.names import is_harmless_header, is_query_parameter, is_secret_name

_NAME_START = r"(?:(?<![\w-])|(?<=\\[nrt]))"
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Not within a word; a line's end may be written as an escape."""
_QUOTE = r"(?:\\?[\"'])"
_VALUE = r"[^\s\"'`,;|<>(){}\[\]\\\x80-\U0010ffff]+"

_BETWEEN = r"(?:[\s\"'+,>|]|\\[nr]){1,20}+"
_BASE64 = r"[A-Za-z0-9+/=]{16,}+(?=[\s\"'+,>|\\]|-----|\Z)"
_PRIVATE_KEY = re.compile(
    rf"(-----BEGIN [A-Z ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----)(?:{_BETWEEN}[A-Z][A-Za-z-]{{1,20}}: [^\n\\]{{0,200}})*+"
    rf"(?:{_BETWEEN}{_BASE64})++(?:{_BETWEEN}=?[A-Za-z0-9+/=]{{1,15}}(?={_BETWEEN}-----END))?",
    re.ASCII,
)
_OPEN_PRIVATE_KEY = re.compile(
    rf"-----BEGIN [A-Z ]{{0,30}}(?:PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BETWEEN}(?:{_BASE64}|[A-Z][A-Za-z-]{{1,20}}: [^\n]{{0,200}}))*+"
    rf"(?:{_BETWEEN})?(?:=?[A-Za-z0-9+/=]{{0,15}}{_BETWEEN})?(?:[A-Za-z0-9+/=]*|[A-Z][A-Za-z-]{{1,20}}:?|\\)|-{{0,5}})\Z",
    re.ASCII,
)

_LOGIN = re.compile(
    r"(?<![a-z0-9+.-])(?P<scheme>[a-z][a-z0-9+.-]{1,30})://(?P<login>[^\s/?#\"'<>`\x80-\U0010ffff]{1,500})@(?=[\w\[*])",
    re.ASCII | re.IGNORECASE,
)
_LOGIN_BY_NAME = re.compile(r"(?:.*\+)?(?:ssh|sftp|scp|svn)", re.IGNORECASE)
"""Schemes in which a user's name alone authenticates nobody."""
_PARAMETER = re.compile(r"(?<=[?&#])([A-Za-z][\w.-]{0,60})=([^&\s\"'<>#;)`\\\x80-\U0010ffff]+)", re.ASCII)

_HEADER_NAME = (
    r"(?:(?:proxy-)?authorization|x-[a-z0-9-]{0,60}?(?:key|token|secret|auth|password)|api-key|private-token)"
)
_SCHEME = r"(?:basic|bearer|digest|token|negotiate|apikey)"
_HEADER = re.compile(
    rf"({_NAME_START}({_HEADER_NAME}){_QUOTE}?[ \t]{{0,5}}[:=][ \t]{{0,5}}{_QUOTE}?"
    rf"(?!aws4-)({_SCHEME}[ \t]{{1,5}})?)({_VALUE})",
    re.ASCII | re.IGNORECASE,
)
_COOKIE = re.compile(
    rf"({_NAME_START}(?:set-)?cookie{_QUOTE}?:[ \t]{{0,5}}{_QUOTE}?)[\w.%+~-]{{1,100}}=[^\n\"'`\\]*",
    re.ASCII | re.IGNORECASE,
)
_BEARER = re.compile(rf"({_START}bearer )([a-z0-9._~+/=-]{{20,}})", re.ASCII | re.IGNORECASE)

_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w-])-{{0,2}}[A-Za-z_][\w-]{{0,80}}+)"
    rf"(?P<sign>{_QUOTE}?+[ \t]{{0,5}}(?::=|=>|=(?![=>])|:(?![:=/]))[ \t]{{0,5}})",
    re.ASCII,
)
_QUOTED = re.compile(r"(\\?[\"'])((?:(?!\1)(?:[^\\\n]|\\[^\n])){4,200})(?=\1)", re.ASCII)
_BARE = re.compile(
    r"()(?![(@])((?:[^\s\"'`;|<>,\\\[\]{}&\x80-\U0010ffff]|&(?![&\s]|[\w.-]{1,60}=)){4,2000}+)(?=[\s\"'&;|`,)\\]|\Z)",
    re.ASCII,
)
_LAST = re.compile(r"&[\w.-]|[ \t]{0,8}(?:[\r\n#;]|\Z)", re.ASCII)
_AWAITS_SIGN = re.compile(rf"(?<![\w-])(-{{0,2}}[A-Za-z_][\w-]{{0,80}}+){_QUOTE}?[ \t]{{1,5}}\Z", re.ASCII)
_AWAITS_TOKEN = re.compile(rf"{_START}(bearer) \S*\Z", re.ASCII | re.IGNORECASE)
_OPTION = re.compile(
    r"((?<![\w$-])(?:--?[A-Za-z][\w-]{1,80}[ \t]{1,5}(?!-)|-{0,2}[A-Za-z_][\w-]{0,80}=))"
    r"(\\?[\"']|)((?<=\")(?:[^\"\\]|\\.)*|(?<=')[^']*|[^\s;&|\"']+)"
)
_OPTION_HEADER = re.compile(
    r"((?:-H|--(?:http-)?headers?)[= ]?\s{0,5}([\"'])?([\w-]{1,80}):\s{0,5})((?(2)(?:(?!\2).)*|.*))"
)

_PLACEHOLDER = re.compile(
    r"true|false|yes|no|on|off|none|null|nil|undefined|auto|default|required|optional|empty|missing|invalid"
    r"|basic|bearer|digest|negotiate|oauth2?|sso|str|string|text|int|integer|number|bool|boolean|any|object|bytes|env"
    r"|prompt|stdin|ask|keyring|keychain|your[-_ ].*|change-?me|example|redacted|hidden"
    r"|(?:\w{0,40}[-_])?(?:api[-_]?key|key|token|secret|password|passwd|pat)|[*.…x]+|-?\d{1,5}"
    r"|\$(?:[{(\w].*)?|[<{`(@].*|%[a-z_]+%|[a-z_][\w.:]{0,80}\(.*",
    re.IGNORECASE | re.DOTALL,
)
"""Words about a secret, places where it is taken from, and code."""
_PATH_OF_CODE = re.compile(r"[A-Za-z_]\w{0,40}(?:(?:\.|\?\.|::|->)[A-Za-z_]\w{0,40}){1,8}", re.ASCII)
_NO_SECRET = re.compile(
    rf".*(?:\s|://|\(\?|\{{)|[./~]|{_PATH_OF_CODE.pattern}\Z"
    r"|[A-Za-z]{1,40}[0-9]{0,4}(?:[-_./:+*][A-Za-z]{0,40}[0-9]{0,4}){1,40}\Z"
)
"""Paths, sentences and joined words."""
_PASSWORD = re.compile(r"passw|pass$|pwd$", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|--.*", re.ASCII)
_MIN_PASSWORD, _MIN_KEY = 6, 20

_KEY = re.compile(
    _START + r"(?:"
    r"(?<!sha256=)(?!sk_[A-Z0-9]{1,20}_)(?:sk|rk|xai|gsk|csk|nvapi|pplx|tvly|fw|r8|lsv2|dckr_pat|lin_api|ntn|whsec|figd"
    r"|shp(?:at|ca|pa|ss))[-_]"
    r"(?=(?:[A-Za-z0-9_-]{0,80}?(?:[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9]))){2})[A-Za-z0-9_-]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|gl(?:pat|dt|rt|ptt|cbt)-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-AgE[A-Za-z0-9_-]{40,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|do[opr]_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}|hvs\.[A-Za-z0-9_-]{24,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}|(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
    r"|xox[abeoprs]-(?=[A-Za-z-]{0,10}[0-9])[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})"
    r"|(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/(?=[A-Za-z/]{0,40}[0-9])[A-Za-z0-9_/-]{20,}"
    r"|(?<=Signature=)[a-f0-9]{64}",
    re.ASCII,
)


def mask_forms(text: str) -> str:
    """Mask everything that has the form of a secret."""
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "://" in text:
        text = _LOGIN.sub(_without_login, text)
    if "=" in text:
        text = _PARAMETER.sub(_without_parameter, text)
    lowered = text.lower()
    if any(name in lowered for name in ("authorization", "x-", "api-key", "private-token")):
        text = _HEADER.sub(_without_header, text)
    if "cookie" in lowered:
        text = _COOKIE.sub(rf"\1{MASK}", text)
    text = _without_assigned(text)
    if "bearer" in lowered:
        text = _BEARER.sub(lambda found: found[1] + (MASK if _is_mixed(found[2]) else found[2]), text)
    return _KEY.sub(MASK, text)


def mask_options(line: str) -> str:
    """Mask the values that a shell command gives to options, variables and headers with the name of a secret."""

    def option(found: re.Match[str]) -> str:
        opens = is_secret_name(found[1].strip(" \t=")) and is_given(found[3])
        return found[1] + found[2] + (MASK if opens else found[3])

    def header(found: re.Match[str]) -> str:
        return found[0] if is_harmless_header(found[3]) or "$" in found[4] else found[1] + MASK

    return _OPTION.sub(option, _OPTION_HEADER.sub(header, line))


def open_form(text: str) -> tuple[int, bool]:
    """Return where the form of a secret begins that may go on behind the text over a blank (the text's length where
    none does), and whether nothing before the line's end can tell."""
    begun = text.rfind("-----BEGIN")
    end = begun if begun >= 0 and _OPEN_PRIVATE_KEY.match(text, begun) else len(text)
    line = text.rfind("\n", 0, end) + 1
    names = (found.start() for found in _ASSIGNED.finditer(text, line, end) if is_secret_name(found["name"]))
    assigned = next(names, None)
    awaits_line = assigned is not None and end == len(text)
    end = end if assigned is None else assigned
    awaiting = _AWAITS_TOKEN.search(text, line, end) or _AWAITS_SIGN.search(text, max(line, end - 100), end)
    if awaiting and is_secret_name(awaiting[1]):
        end = awaiting.start()
    return end, awaits_line


def _without_login(found: re.Match[str]) -> str:
    user, colon, password = found["login"].partition(":")
    is_name = not colon and (_LOGIN_BY_NAME.fullmatch(found["scheme"]) or user.lower() == "git")
    return found[0] if is_name or not is_given(password if colon else user) else f"{found['scheme']}://{MASK}@"


def _without_parameter(found: re.Match[str]) -> str:
    name, value = found.groups()
    opens = is_given(value) if is_secret_name(name) else is_query_parameter(name) and _is_mixed(value)
    return f"{name}={MASK}" if opens else found[0]


def _without_header(found: re.Match[str]) -> str:
    start, name, scheme, value = found.groups()
    opens = is_secret_name(name) and is_given(value) and (scheme or any(map(str.isdigit, value)))
    return start + MASK if opens else found[0]


def _without_assigned(text: str) -> str:
    """Mask what is assigned to names of secrets: anything as in `API_KEY=x` and `--token=x`, what looks like a secret
    in settings and code."""
    shown: list[str] = []
    done = 0
    for found in _ASSIGNED.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        value = _QUOTED.match(text, found.end()) or _BARE.match(text, found.end())
        if value is not None and _is_assigned(found["name"], found["sign"], value, text):
            shown += (text[done : value.start(2)], MASK)
            done = value.end(2)
    return "".join((*shown, text[done:])) if shown else text


def _is_assigned(name: str, sign: str, found: re.Match[str], text: str) -> bool:
    value = found[2]
    if not is_given(value):
        return False
    if sign == "=" and _VARIABLE.fullmatch(name):
        return not _PATH_OF_CODE.fullmatch(value) or _is_mixed(value)
    is_last = bool(found[1]) or _LAST.match(text, found.end()) is not None
    least = _MIN_PASSWORD if _PASSWORD.search(name) else _MIN_KEY
    return is_last and len(value) >= least and _is_mixed(value) and not _NO_SECRET.match(value)


def is_given(value: str) -> bool:
    """Return whether a value may be the secret itself: no word about it, and not the place that it is taken from."""
    return _PLACEHOLDER.fullmatch(value) is None


def _is_mixed(value: str) -> bool:
    return len(value) >= _MIN_PASSWORD and any(map(str.isdigit, value)) and any(map(str.isalpha, value))
