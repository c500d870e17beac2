"""In which language a user writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.language import NEWEST_TEXTS, language_of

WRITTEN = {
    "English": "Fix the bug in the parser",
    "German": "Bitte behebe den Fehler im Parser",
    "French": "Corrige le bug dans le parseur, s'il te plaît",
    "Spanish": "Arregla el error en el parser por favor",
    "Portuguese": "Corrija o erro no parser, por favor, e não mude os testes",
    "Italian": "Correggi l'errore nel parser per favore e non toccare i test",
    "Dutch": "Los de fout in de parser op en raak de tests niet aan",
    "Polish": "Napraw błąd w parserze i nie zmieniaj testów, proszę",
    "Swedish": "Rätta felet i parsern och rör inte testerna",
    "Danish": "Ret fejlen i parseren og rør ikke ved testene; hvad sker der?",
    "Romanian": "Corectează eroarea din parser și nu modifica testele, te rog",
    "Czech": "Oprav chybu v parseru a neměň testy, prosím, je to důležité",
    "Turkish": "Parserdaki hatayı düzelt lütfen ve testlere dokunma, bu çok önemli",
    "Russian": "Исправь ошибку в парсере, пожалуйста, и не трогай тесты, это уже есть в плане",
    "Ukrainian": "Виправ помилку в парсері і не чіпай тести, будь ласка",
    "Bulgarian": "Поправи грешката в парсера и не пипай тестовете, моля, това е важно",
    "Japanese": "parser.py のバグを直してください",
    "Chinese": "请修复 parser.py 中的错误",
    "Korean": "파서의 버그를 고쳐 주세요",
    "Arabic": "أصلح الخطأ في المحلل",
    "Persian": "لطفا این خطا را پیدا کن و درست کن، چرا اجرا نمی‌شود؟",
    "Hebrew": "תקן את הבאג בפרסר",
    "Greek": "Διόρθωσε το σφάλμα",
    "Hindi": "पार्सर में बग ठीक करो",
    "Thai": "แก้บั๊กในพาร์เซอร์",
}


@pytest.mark.parametrize(("language", "text"), WRITTEN.items(), ids=WRITTEN)
def test_a_sentence_shows_its_language(language: str, text: str) -> None:
    assert language_of([text]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "fix it",
        "make login page nicer",
        "def the(of): return self.and_the",
        "`the and is are was it this that`",
        "```\nthe and is are was it this that\n```",
        "/usr/the/and /of/is/are the.and.is of_the_and https://the.and/is",
        "> the and is are was it this that",
        "Korjaa jäsentimen virhe",
    ],
)
def test_what_is_short_or_code_or_in_a_language_it_does_not_know_is_unclear(text: str) -> None:
    assert language_of([text]) == ""


def test_short_messages_are_clear_together() -> None:
    messages = ["mach weiter", "der Test?", "ja", "noch rot"]
    assert [language_of([message]) for message in messages] == [""] * 4
    assert language_of(messages) == "German"


def test_names_of_things_in_english_do_not_hide_the_language() -> None:
    text = "Der Button in LoginPage.tsx ist nicht blau, nutze bitte das Theme aus src/theme und den Hook useTheme()."
    assert language_of([text]) == "German"
    assert language_of(["LoginPage の Button を blue theme に変更して、useTheme hook を使ってください"]) == "Japanese"


def test_a_long_paste_in_another_language_does_not_drown_what_the_user_types() -> None:
    paste = "It is what it is, and this is what the user should see when the page is not there. " * 40
    typed = ["Kannst du das bitte für mich in der Hilfe ändern, und auch den Text auf der Seite?"] * 3
    assert language_of([paste]) == "English"
    assert language_of([paste, *typed]) == "German"


def test_the_newest_messages_count() -> None:
    old = ["Can you fix the bug in the parser and all of the tests that are red?"] * NEWEST_TEXTS
    new = ["Kannst du den Fehler im Parser und die Tests reparieren, die noch rot sind?"] * NEWEST_TEXTS
    assert language_of([*old, *new]) == "German"


@given(st.lists(st.text(max_size=300), max_size=5))
def test_any_text_has_one_known_language_or_none(texts: list[str]) -> None:
    assert language_of(texts) in {*WRITTEN, "Norwegian", ""}
    assert language_of(texts) == language_of(texts)
