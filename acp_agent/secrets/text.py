"""Masks known secrets in texts, and everything that has the form of a secret.

The forms are private keys, logins and parameters in URLs, headers, cookies, variables
and options whose name marks a secret, and keys of known providers. Passwords in source
code and settings are not searched for. A form ends at the end of its line, and most
forms end at the next space, which is where `stream` cuts a text. Only private keys span
several lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from acp_agent.secrets.known import MASK, mask_known
from acp_agent.secrets.names import is_query_parameter, is_secret_name

_QUOTE = r"(?:\\?[\"'])"
_START = r"(?:(?<![\w-])|(?<=\\[nrt]))"
"""Matches outside a word; a line break may be written as an escape."""
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
    r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{1,30})://([^\s/?#\"'<>`\x80-\U0010ffff]{1,500})@(?=[\w\[*])",
    re.ASCII | re.IGNORECASE,
)
_PARAMETER = re.compile(
    r"(?<=[?&#])([A-Za-z][\w.-]{0,60})=([^&\s\"'<>#;)`\\\x80-\U0010ffff]+)", re.ASCII
)
_HEADER = re.compile(
    rf"({_START}(?:(?:proxy-)?authorization|(?:set-)?cookie|api-key|private-token"
    r"|x-[a-z0-9-]{0,60}?(?:key|token|secret|auth|password|session))"
    rf"{_QUOTE}?[ \t]{{0,5}}:[ \t]{{0,5}}{_QUOTE}?(?:(?:basic|bearer|digest|token)[ \t]{{1,5}})?)"
    r"([^\s\"'`,;\\\x80-\U0010ffff]{6,}(?:;[^\n\"'`\\]*)?)",
    re.ASCII | re.IGNORECASE,
)
_BEARER = re.compile(
    rf"({_START}bearer )([a-z0-9._~+/=-]{{20,}})", re.ASCII | re.IGNORECASE
)
_ASSIGNED = re.compile(
    rf"((?<![\w-])(--?)?[A-Za-z_][\w-]{{1,80}}+)((?(2)[ =]|{_QUOTE}?[ \t]{{0,3}}(?:=>|:=|[:=])[ \t]{{0,3}}))",
    re.ASCII,
)
_ASSIGNED_VALUE = re.compile(
    r"(\\?\"(?=[^\"\n]{1,500}\")|\\?'(?=[^'\n]{1,500}')|)"
    r"((?<=\")[^\"\n\\]+|(?<=')[^'\n\\]+|[^\s\"'`,;|<>{}\\&\x80-\U0010ffff]{1,1000})",
    re.ASCII,
)
_OPAQUE = re.compile(r"[\w+/=-]{16,}", re.ASCII)
_NAME = re.compile(
    rf"{_START}(-{{0,2}}[A-Za-z_][\w-]{{0,80}}+){_QUOTE}?(?=([ \t]{{0,5}}(?:=?>|[:=]|\Z))|[ \t])",
    re.ASCII,
)
_NO_VALUE = re.compile(
    r"[-$<{`(@%*.\[]|(?:true|false|none|null|auto|basic|bearer|digest|token|prompt|required|x+|your\W.*"
    r"|\w+(?:\.[a-z_]\w*)+|[\w.:>]*\(.*)\Z",
    re.IGNORECASE,
)
"""Matches words that describe a value, references to a value, and code that creates
one.
"""
_KEY = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:"
    r"(?<!sha256=)(?!sk_[A-Z0-9]{1,20}_)(?:sk|rk|xai|gsk|csk|nvapi|pplx|tvly|fw|r8|lsv2|dckr_pat|lin_api|ntn|whsec|figd"
    r"|shp(?:at|ca|pa|ss))[-_]"
    r"(?=(?:[A-Za-z0-9_-]{0,80}?(?:[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9]))){2})[A-Za-z0-9_-]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|gl(?:pat|dt|rt|ptt|cbt)-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-AgE[A-Za-z0-9_-]{40,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|do[opr]_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}|hvs\.[A-Za-z0-9_-]{24,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}|(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
    r"|xox[abeoprs]-(?=[A-Za-z-]{0,10}[0-9])[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"
    r"|(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/(?=[A-Za-z/]{0,40}[0-9])[A-Za-z0-9_/-]{20,})",
    re.ASCII,
)
_WEB_TOKEN = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))eyJ[A-Za-z0-9_-]{8,}+(\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){1,3})?",
    re.ASCII,
)
"""Matches a JSON Web Token. Without group 1, the match is not a token but only looks
like a token's first part. No token begins within such a part, so all of it is skipped
at once: searching again from each `eyJ` in `eyJ-eyJ-…` would take quadratic time.
"""
_MEMBER = re.compile(
    r"\"([A-Za-z_][\w-]{0,80})\"(\s{0,9}:\s{0,9}\")((?:[^\"\\]++|\\.)++)"
)
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")


def mask(text: str, secrets: Sequence[str]) -> str:
    """Mask known secrets, and everything that has the form of a secret.

    :param secrets: known values, which are masked regardless of their form.
    """
    text = mask_known(text, secrets)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "://" in text:
        text = _LOGIN.sub(_without_login, text)
    if "=" in text:
        text = _PARAMETER.sub(_without_parameter, text)
    lowered = text.lower()
    if any(
        name in lowered
        for name in ("authorization", "x-", "api-key", "private-token", "cookie")
    ):
        text = _HEADER.sub(
            lambda found: found[0] if _NO_VALUE.match(found[2]) else found[1] + MASK,
            text,
        )
    if "bearer" in lowered:
        text = _BEARER.sub(
            lambda found: found[1] + (MASK if _is_mixed(found[2]) else found[2]), text
        )
    text = _WEB_TOKEN.sub(
        lambda found: found[0] if found[1] is None else MASK, _without_assigned(text)
    )
    return _KEY.sub(MASK, text)


def mask_broken_json(text: str, secrets: Sequence[str]) -> str:
    """Mask a JSON text that cannot be parsed. In addition to `mask`, this masks members
    that are named `value` or have a secret's name.
    """

    def member(found: re.Match[str]) -> str:
        is_secret = found[1] == "value" or is_secret_name(found[1])
        return f'"{found[1]}"{found[2]}{MASK}' if is_secret else found[0]

    return mask(_MEMBER.sub(member, mask_known(text, secrets)), ())


def open_form(text: str) -> int:
    """Return the index at which an unfinished form of a secret begins, which may
    continue after the text. Return the text's length if there is none.
    """
    begun = text.rfind("-----BEGIN")
    end = begun if begun >= 0 and _OPEN_PRIVATE_KEY.match(text, begun) else len(text)
    for found in _NAME.finditer(text, text.rfind("\n", 0, end) + 1, end):
        waits = (
            found[2] is not None
            or found[1].startswith("-")
            or found[1].lower() == "bearer"
        )
        if waits and is_secret_name(found[1]):
            return found.start()
    return end


def _without_login(found: re.Match[str]) -> str:
    scheme, login = found.groups()
    user, colon, password = login.partition(":")
    # A user name alone is not a credential for SSH.
    is_name = not colon and (
        scheme.lower().rpartition("+")[2] in ("ssh", "sftp") or user.lower() == "git"
    )
    return (
        found[0]
        if is_name or _NO_VALUE.match(password if colon else user)
        else f"{scheme}://{MASK}@"
    )


def _without_parameter(found: re.Match[str]) -> str:
    name, value = found.groups()
    opens = is_secret_name(name) or (is_query_parameter(name) and _is_mixed(value))
    return f"{name}={MASK}" if opens and not _NO_VALUE.match(value) else found[0]


def _without_assigned(text: str) -> str:
    """Mask the values assigned to variables and options whose name marks a secret, and
    keys in settings and code.
    """
    shown: list[str] = []
    done = 0
    for found in _ASSIGNED.finditer(text):
        value = (
            _ASSIGNED_VALUE.match(text, found.end())
            if is_secret_name(found[1])
            else None
        )
        if (
            value is not None
            and found.start() >= done
            and _is_assigned(found[1], found[3], value[2])
        ):
            shown += (text[done : value.start(2)], MASK)
            done = value.end(2)
    return "".join((*shown, text[done:]))


def _is_assigned(name: str, sign: str, value: str) -> bool:
    is_variable = name.startswith("--") or ("-" not in name and name == name.upper())
    if sign == "=" and is_variable:
        return not _NO_VALUE.match(value) and not value.isdecimal()
    return (
        (sign == " " or _OPAQUE.fullmatch(value) is not None)
        and _is_mixed(value)
        and not _NO_VALUE.match(value)
    )


def _is_mixed(value: str) -> bool:
    return (
        len(value) >= 6
        and _DIGIT.search(value) is not None
        and _LETTER.search(value) is not None
    )
