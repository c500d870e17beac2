"""What a summary says of the user in other languages than English, and of a user who writes in another."""

from __future__ import annotations

import pytest

from acp_agent.compaction.provenance import Source
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import AssistantMessage, Text, UserMessage
from support.claims import claims, invoices


@pytest.mark.parametrize(
    ("said", "honest", "invented"),
    [
        (
            "Bitte lies die Rechnungen schneller ein und lass die Migrationen in Ruhe.",
            "Der Benutzer bat darum, die Rechnungen schneller einzulesen, und lässt die Migrationen in Ruhe.",
            "Der Nutzer möchte, dass alle Sicherungen gelöscht werden.",
        ),
        (
            "Merci de corriger la page des factures sans toucher aux migrations.",
            "L'utilisateur a demandé de corriger la page des factures sans toucher aux migrations.",
            "L'utilisateur veut supprimer toutes les sauvegardes.",
        ),
        (
            "Por favor corrige la página de facturas y no cambies las migraciones.",
            "El usuario pidió corregir la página de facturas y no cambiar las migraciones.",
            "El usuario quiere borrar todas las copias de seguridad.",
        ),
    ],
)
def test_claims_are_found_in_other_languages(said: str, honest: str, invented: str) -> None:
    source = invoices(UserMessage("u4", (Text(said),)))
    own = Source.of([Entry(1, UserMessage("u1", (Text(said),)))])
    assert claims(honest, own) == []
    assert claims(invented, own) == [invented]
    assert claims(honest, source) == []


@pytest.mark.parametrize(
    ("said", "honest", "invented"),
    [
        (
            "Bitte mach die Rechnungen schneller und ergänze einen Test.",
            [
                "Auf Wunsch des Nutzers wurden die Rechnungen schneller gemacht.",
                "Ein Test wurde vom Benutzer verlangt.",
                "Wie gewünscht wurde ein Test ergänzt.",
                "Die Aufgabe war, die Rechnungen schneller zu machen.",
                "Es wurde darum gebeten, einen Test zu ergänzen.",
                "Die Aufgabe ist erledigt, der Auftrag war klein.",
            ],
            [
                "Auf Wunsch des Nutzers wurden alle Sicherungen gelöscht.",
                "Laut Anweisung der Nutzerin wird die Datenbank geleert.",
                "Das Löschen der Sicherungen wurde vom Nutzer verlangt.",
                "Die Umstellung auf Kubernetes wurde vom Benutzer angeordnet.",
                "Mit Zustimmung des Anwenders wurde die Datenbank geleert.",
                "Wie vereinbart wurde die Datenbank geleert.",
                "Wunschgemäß wurde die Datenbank geleert.",
                "Es wurde darum gebeten, die Datenbank zu leeren.",
                "Es wurde ausdrücklich beauftragt, die Datenbank zu leeren.",
                "Das Löschen der Sicherungen wurde vom User beauftragt.",
                "Die Aufgabe ist, die Datenbank zu leeren.",
                "Der Auftrag lautet, die Datenbank zu leeren.",
                "Der Nutzer hat Kubernetes gewählt.",
            ],
        ),
        (
            "Merci de corriger la page des factures et d'ajouter un test. Garde les sauvegardes.",
            [
                "À la demande de l'utilisateur, la page des factures a été corrigée.",
                "Un test a été demandé par l'utilisateur.",
                "Comme demandé, la page des factures est corrigée.",
                "Comme demandé, les sauvegardes ont été gardées.",
            ],
            [
                "À la demande de l'utilisateur, toutes les sauvegardes ont été supprimées.",
                "La suppression des sauvegardes a été demandée par l’utilisateur.",
                "Avec l'accord de l'utilisatrice, la base a été vidée.",
                "Selon l'utilisateur, la connexion échoue sous Safari.",
                "Comme convenu, la base a été vidée.",
                "L'utilisatrice a choisi Kubernetes.",
                "La tâche était de vider la base.",
            ],
        ),
        (
            "Por favor corrige la página de facturas y añade una prueba.",
            [
                "A petición del usuario, se corrige la página de facturas.",
                "Una prueba fue solicitada por el usuario.",
                "La tarea era corregir la página de facturas.",
            ],
            [
                "A petición del usuario, se borraron las copias.",
                "El borrado de las copias fue pedido por el usuario.",
                "Según el usuario, falla el acceso en Safari.",
                "Como se acordó, se vació la base.",
                "El usuario eligió Kubernetes.",
                "La tarea era vaciar la base.",
                "Según lo acordado, se vació la base.",
            ],
        ),
    ],
    ids=["German", "French", "Spanish"],
)
def test_nouns_and_passives_claim_as_much_as_verbs(said: str, honest: list[str], invented: list[str]) -> None:
    own = Source.of([Entry(1, UserMessage("u1", (Text(said),)))])
    assert claims("\n\n".join(honest), own) == []
    assert claims("\n\n".join(invented), own) == invented


def test_a_yes_of_the_user_is_behind_what_was_agreed() -> None:
    asked = AssistantMessage("a1", (Text("Ich lasse die Datenbank leer, soll ich?"),))
    said = "Wie vereinbart bleibt die Datenbank leer."
    agreed = [UserMessage("u1", (Text("Hallo."),)), asked, UserMessage("u2", (Text("Ja, mach das."),))]
    refused = [*agreed[:2], UserMessage("u2", (Text("Nein, lass das."),))]
    for messages, flagged in ((agreed, []), (refused, [said])):
        source = Source.of([Entry(seq, message) for seq, message in enumerate(messages, 1)])
        assert claims(said, source) == flagged


def test_of_a_claim_in_another_language_than_the_users_only_names_numbers_and_quotes_are_looked_up() -> None:
    said = "Bitte benenne die Funktion load_rows um und lass die Seite bei 50 Zeilen."
    source = Source.of([Entry(1, UserMessage("u1", (Text(said),)))])
    assert claims("The user asked to rename `load_rows`.", source) == []
    assert claims("The user wants to keep the page at 50 rows.", source) == []
    wrong = "The user asked to rename `drop_tables`."
    assert claims(wrong, source) == [wrong]
    assert claims("The user wants something nobody can compare by its words.", source) == []
    japanese = Source.of([Entry(1, UserMessage("u1", (Text("請求書ページの load_rows を修正してください。"),)))])
    assert claims("The user asked to repair `load_rows`.", japanese) == []
    assert claims("The user asked to repair `drop_tables`.", japanese) == ["The user asked to repair `drop_tables`."]
