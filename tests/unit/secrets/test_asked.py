"""Questions that ask for a secret, in whatever language and however they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.secrets.asked import asks_for_secret

LANGUAGES = """
mot de passe|passord|kodeord|palavra-passe|parolă|contrasenya|contraseña|parool|slaptažodis|lozinka|geslo
лозинка|hasło|heslo|κωδικός πρόσβασης|كلمة المرور|كلمة السر|رمز عبور|گذرواژه|סיסמה|पासवर्ड|পাসওয়ার্ড
கடவுச்சொல்|รหัสผ่าน|mật khẩu|kata sandi|kata laluan|lykilorð|პაროლი|գաղտնաբառ|құпия сөз|şifre|şifrə|parol
pasahitza|fjalëkalim|wagwoord|nenosiri|jelszó|salasana|Einmalcode|Sicherheitscode|Kreditkartennummer
API-Schlüssel|Geheimnis|code secret|code de vérification|clé d'API|clé secrète|jeton d'accès|numéro de carte
código de verificación|clave de acceso|tarjeta de crédito|número de cartão|codice segreto|chiave API
código de segurança|验证码|驗證碼|信用卡|支付密码|認証コード|クレジットカード|合言葉|인증번호|신용카드
номер карты|код подтверждения|код из SMS|ключ API|klucz API|kod weryfikacyjny|doğrulama kodu|mã xác minh
秘密鍵|アクセストークン|助记词|私钥|verification code|social security number|the contents of id_rsa
seed phrase|one-time code|API key|credit card
"""
WRITTEN = (
    *(
        "p a s s w o r d",
        "P.A.S.S.W.O.R.D",
        "p-a-s-s-w-o-r-d",
        "раssword",
        "pаsswоrd",
        "passw0rd",
        "p@ssword",
    ),
    *(
        "pass\u200bword",
        "pass\xadword",
        "passw\u0335ord",
        "ｐａｓｓｗｏｒｄ",
        "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝",
        "ⓟⓐⓢⓢⓦⓞⓡⓓ",
    ),
    *(
        "passvvord",
        "t o k e n",
        "A P I k e y",
        "ρassword",
        "paѕѕword",
        "passᴡord",
        "ᴘᴀssᴡᴏʀᴅ",
        "pass\u2800word",
    ),
    *(
        "pass\u2010word",
        "pass\u2011word",
        "pass\u2013word",
        "pass\u2212word",
        "pass\ufffdword",
        "pass\u00b7word",
    ),
    *("🅿🅰🆂🆂🆆🅾🆁🅳", "🅟🅐🅢🅢🅦🅞🅡🅓", "🇵🇦🇸🇸🇼🇴🇷🇩", "the file id_rsa_work", "id_ed25519_sk"),
    *("pa$$word", "s\u3164ecret", "pässwörd", "PASS\nWORD"),
)
HARMLESS = """
Your name|Which branch?|Passenger name|Pass or fail?|compass direction|What is the key point?
Where do you want to deploy?|How many tokens may the answer have?|Compare passages|The secretary's name
keyboard layout|pinned version|Clave de sol|parole|le mot juste|monkey|hotkey for save|tan colour
primary key column|Schlüsselwort|keyword|passport country|passive or active|Passau|パス|密度|code style
postal code|country code|commit message|a secure design|clave primaria|clé étrangère|ключевое слово|a b c d e
"""


@pytest.mark.parametrize(
    "text", [*"|".join(LANGUAGES.strip().splitlines()).split("|"), *WRITTEN]
)
def test_a_question_for_a_secret_is_known_in_whatever_language_and_however_it_is_written(
    text: str,
) -> None:
    assert asks_for_secret(text)
    assert asks_for_secret(f"Please enter: {text.upper()}!")


@pytest.mark.parametrize("text", "|".join(HARMLESS.strip().splitlines()).split("|"))
def test_other_questions_ask_for_no_secret(text: str) -> None:
    assert not asks_for_secret(text)


@given(
    st.text(max_size=40),
    st.lists(st.sampled_from("\u200b\xad\u2060\u0301\u2800"), min_size=7, max_size=7),
)
def test_what_does_not_show_between_the_letters_hides_no_question(
    before: str, hidden: list[str]
) -> None:
    word = (
        "".join(letter + mark for letter, mark in zip("passwor", hidden, strict=True))
        + "d"
    )
    assert asks_for_secret(f"{before} {word}")
