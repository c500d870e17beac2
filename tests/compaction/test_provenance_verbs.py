"""A verb by which a summary says that the user said something counts for nothing of what was said."""

from __future__ import annotations

import pytest

from acp_agent.compaction.provenance import Source, check
from acp_agent.compaction.provenance_words import PATTERNS, VERBS
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import Text, UserMessage


def _flags(summary: str, said: str) -> list[str]:
    source = Source.of([Entry(1, UserMessage("u", (Text(said),)))])
    return [flag.text for flag in check(summary, source) if flag.kind == "user_claim"]


SHORT = {
    "en": ("No Redis, never.", ["The user {} Redis."]),
    "de": ("Nein, kein Redis", ["Der Nutzer hat Redis {}.", "Der Nutzer {} Redis ab."]),
    "fr": ("Non, pas de Redis", ["L'utilisateur a {} Redis.", "Redis {} par l'utilisateur."]),
    "es": ("No, sin Redis", ["El usuario {} Redis.", "Redis, {} por el usuario."]),
}


@pytest.mark.parametrize("language", SHORT)
def test_a_verb_that_marks_a_claim_is_no_content_of_it(language: str) -> None:
    said, forms = SHORT[language]
    assert {"en": "forbade", "de": "lehnte", "fr": "refusé", "es": "rechazó"}[language] in VERBS[language]
    for verb in VERBS[language]:
        sentences = [form.format(verb) for form in forms]
        assert any(PATTERNS[language].search(sentence) for sentence in sentences), verb
        for sentence in sentences:
            assert _flags(sentence, said) == [], sentence
        assert any(_flags(sentence, "Hello.") for sentence in sentences), verb


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("Nein, kein Redis", "Der Nutzer hat Redis abgelehnt."),
        ("Nein, kein Redis", "Der Nutzer hat Redis verboten."),
        ("Nein, kein Redis", "Der Nutzer hat Redis untersagt."),
        ("Nein, kein Redis", "Der Nutzer lehnte Redis ab."),
        ("Nein, kein Redis", "Der Nutzer lehnt Redis ab."),
        ("Non, pas de Redis", "L'utilisateur a refusé Redis."),
        ("No, sin Redis", "El usuario rechazó Redis."),
    ],
)
def test_a_short_refusal_is_believed_and_of_another_thing_it_is_not(said: str, summary: str) -> None:
    assert _flags(summary, said) == []
    invented = summary.replace("Redis", "Docker")
    assert _flags(invented, said) == [invented]


def test_what_a_program_requires_of_those_who_use_it_is_no_claim() -> None:
    assert _flags("Le mot de passe requis est saisi par l'utilisateur.", "Bonjour.") == []
