"""Detects questions that ask for a secret, in many languages and even if the wording is
disguised.

The texts come from servers and models. A word may be spelled with look-alike letters
from other scripts, with digits, with zero-width marks and letters, or with separators
between its letters. So each text is checked in several readings.

Source: Model Context Protocol, "Elicitation", "User Interaction Model"; UTS 39,
"Unicode Security Mechanisms", confusables
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from acp_agent.visible import unseen

_LATIN = (
    r"pass[\s_-]?(?:word|wd|phrase|code|key|wort|ord\b)|\b(?:pwd|pin|otp|totp|cvv|cvc|2fa|mfa|puk|ssn|mdp)\b"
    r"|one[\s-]time\s(?:code|password)|social\ssecurity|\bid_(?:rsa|ed25519|ecdsa|dsa)(?![a-z0-9])"
    r"|(?:api|access|secret|private|encryption|signing|licen[cs]e|recovery|ssh|deploy)[\s_-]{0,3}(?:key|token|code)"
    r"|(?:verification|security|confirmation|backup|login|sms)\scode"
    r"|\b(?:auth\w*|bearer|refresh|session|security|personal access)[\s_-]{1,3}(?:token|code|cookie)|\btoken\b"
    r"|credential|client[\s_-]?secret|\bsecrets?\b|seed\s?phrase|mnemonic|(?:credit|debit|bank)[\s-]?card|card\snumber"
    r"|\bke(?:y|ys) for\b|log[\s-]?in data"
    # Written without accents from here on.
    r"|kennwort|zugangs(?:daten|code)|geheim(?:zahl|nis)|(?:einmal|sicherheits|bestatigungs)code|kreditkarte"
    r"|(?:api|geheim\w*|privat\w*|zugangs)[\s-]?schlussel"
    r"|mot de passe|identifiants|\bjeton|code (?:secret|d[e'] ?(?:verification|securite|confirmation|acces))"
    r"|cle (?:d'? ?api|api|secrete|privee|d'acces)|carte (?:bancaire|de credit)|numero de carte"
    r"|contrasen[ay]|clave (?:api|secreta|privada|de (?:acceso|api|seguridad))|credenciales"
    r"|tarjeta de (?:credito|debito)"
    r"|codigo de (?:verificacion|seguridad|seguranca|verificacao|acceso|acesso|confirmacion|confirmacao)"
    r"|\bsenha|palavra-passe|numero d[eo] cartao|cartao de credito|parola|credenziali|carta di credito"
    r"|codice (?:segreto|otp|di (?:verifica|sicurezza|accesso))|chiave (?:api|segreta|privata|di accesso)"
    r"|wachtwoord|wagwoord|losenord|adgangskode|kodeord|salasana|parool\b|slaptazodis|\bparol(?:ni|i)?\b|lykilor[dð]"
    r"|haslo|heslo|jelszo|sifre|sifr[eə]|lozink|\bgeslo|klucz (?:api|prywatny|dostepu)|kod weryfikacyjny|fjalekalim"
    r"|dogrulama kodu|guvenlik kodu|mat khau|ma xac (?:minh|nhan)|kata (?:sandi|laluan)|nenosiri|pasahitz|cyfrinair"
    r"|pasfhocal|focal faire"
)
_OTHERS = (
    r"парол|секретн|(?:приватн|закрыт)\w* ключ|ключ (?:доступа|api)|код (?:подтверждения|из (?:sms|смс)|доступа)"
    r"|номер карты|лозинк|құпия ?сөз|κωδικ|συνθηματικ|كلمة (?:المرور|السر|مرور|سر)|رمز (?:المرور|عبور|التحقق)|گذرواژه"
    r"|סיסמ|קוד אימות|पासवर्ड|ओटीपी|পাসওয়ার্ড|கடவுச்சொல்|รหัสผ่าน|รหัสยืนยัน|პაროლ|գաղտնաբառ"
    r"|密码|密碼|口令|令牌|密钥|密鑰|验证码|驗證碼|信用卡|助记词|助記詞|私钥|私鑰"
    r"|パスワード|暗証|認証コード|確認コード|合言葉|秘密鍵|トークン|クレジットカード"
    r"|비밀번호|암호|인증 ?(?:번호|코드)|신용 ?카드|토큰"
)
_LOOK_ALIKE = {
    "a": "аαɑᴀ4@", "b": "в", "c": "сᴄ", "d": "ԁᴅ", "e": "еεᴇ3€", "g": "ɡ", "h": "һн", "i": "іιıɪ1!", "j": "ј",
    "k": "кκᴋ", "l": "ł|", "m": "мᴍ", "n": "ոɴ", "o": "оօοᴏ0", "p": "рρᴘ", "q": "ԛ", "r": "ʀ", "s": "ѕꜱ5$",
    "t": "тτᴛ7", "u": "սυᴜ", "v": "νᴠ", "w": "ԝᴡ", "x": "х", "y": "уʏ", "z": "ᴢ",
}  # fmt: skip
"""Letters of other scripts, digits and signs that look like a Latin letter, keyed by
that letter.
"""
_IGNORED = ("Mn", "Me", "Cf", "Cc")
"""Unicode categories of marks and invisible characters."""
_REPLACED = "\ufffd"
"""Replaces an invisible letter in a text that was made printable."""
_DASHES = "\u00b7\u2022\u2027\u2043\u2212\u2219"
"""Dots and the minus sign, which count as hyphens in addition to dashes."""
_SPACED = re.compile(r"(?<![^\W_])[^\W_](?:[\W_]{1,3}[^\W_]){3,40}(?![^\W_])")
"""Matches letters with separators between them, as in `p a s s`."""
_BETWEEN = re.compile(r"[\W_]")


def asks_for_secret(text: str) -> bool:
    """Return whether a question or a field's label may ask for something that grants
    access or can be used to pay.
    """
    latin, others = _patterns()
    return others.search(_normal(text)) is not None or any(
        latin.search(each) for each in _readings(text)
    )


@cache  # compiled on first use, since it takes milliseconds
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(_LATIN), re.compile(_normal(_OTHERS))


def _normal(text: str) -> str:
    import unicodedata  # takes half a megabyte, which not every run needs

    return unicodedata.normalize("NFKC", text).casefold()


def _readings(text: str) -> Iterator[str]:
    """Yield a text unchanged, and then as a person may read it: without accents and
    hidden letters, and with look-alike letters replaced by Latin ones. Each reading is
    also yielded with spaced letters joined.
    """
    import unicodedata

    plain = " ".join(_normal("".join(map(_plain_sign, text))).split())
    apart = (
        unseen().sub("", unicodedata.normalize("NFKD", plain)).replace(_REPLACED, "")
    )
    bare = "".join(
        each
        for each in apart
        if each in "\n\t" or unicodedata.category(each) not in _IGNORED
    )
    latin = str.maketrans(
        {other: letter for letter, others in _LOOK_ALIKE.items() for other in others}
    )
    for reading in (plain, bare, bare.translate(latin).replace("vv", "w")):
        yield reading
        yield _SPACED.sub(lambda found: _BETWEEN.sub("", found[0]), reading)


def _plain_sign(sign: str) -> str:
    """Return the letter inside a square, circle or flag symbol, which Unicode
    normalisation leaves unchanged, and a hyphen for any dash.
    """
    if sign.isascii():
        return sign
    import unicodedata

    category = unicodedata.category(sign)
    if category == "So":
        letter = unicodedata.name(sign, "").rpartition(" LETTER ")[2]
        return letter if len(letter) == 1 else sign
    return "-" if category == "Pd" or sign in _DASHES else sign
