"""Finding the rules in a user's message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.excerpts.rules import (
    MAX_RULE_LENGTH,
    MAX_TYPED,
    prose,
    same_rule_key,
    stated_rules,
)
from support.growth import grows_too_fast, repeated

RULES = [
    "Never push to main!",
    "You must not touch the legacy folder.",
    "Don't change the public API.",
    "Do **not** rename files.",
    "DO NOT run the migrations.",
    "Only touch files in src/.",
    "From now on answer in German.",
    "The API must not change.",
    "Please avoid global state.",
    "I prefer composition over inheritance.",
    "Use uv instead of pip.",
    "Use tabs, not spaces.",
    "No new dependencies.",
    "HARD CONSTRAINT: Do not push before the review.",
    "Please, don’t format files that you don’t change.",
    "Under no circumstances delete data.",
    "Under the hood we don't use threads.",
    "Answer in Polish, please.",
    "Ask me before you change a schema.",
    "Stay away from the vendor folder.",
    "Den Ordner legacy bitte nicht anfassen.",
    "Niemals auf main pushen!",
    "Immer die Kommentare auf Englisch schreiben.",
    "Tests bitte nicht ändern.",
    "No peanuts at the prep counter, ever.",
    "Ab jetzt bitte nur noch Deutsch.",
    "Verwende uv statt pip.",
    "Du darfst die Datenbank nicht löschen.",
    "Auf keinen Fall die Tests löschen.",
    "Kein Refactoring ohne Rückfrage.",
    "N'utilise pas npm.",
    "Ne touche jamais aux tests.",
    "Réponds en français.",
    "Utilise uv au lieu de pip.",
    "No toques la carpeta legacy.",
    "Nunca hagas push.",
    "A partir de ahora usa solo pytest.",
    "Nooit naar main pushen.",
    "Никогда не трогай тесты.",
    "不要修改测试。",
    "テストは絶対に変更しないでください。",
    "테스트는 절대 수정하지 마세요.",
]
NO_RULES = [
    "Fix the login bug.",
    "I don't know why it fails.",
    "The only problem is the login page.",
    "Das geht immer noch nicht.",
    "Was ist das?",
    "No idea.",
    "Keep going.",
    "Never.",
    "It starts high and never gets to 0.",
    "Dimensions are always copied.",
    "No other files need changes.",
    "No, the other folder.",
    "No man, let us use twelve.",
    "The tests explain themselves and don't need comments.",
    "Something must be off.",
    "assert row must be None",
    "12:4 error 'x' must be used",
    "Node is only needed for the linter.",
    "",
    "修复错误。",
    "Don't write any code yet, just show me the mechanism.",
    "Do not fix it right now.",
    "Don't forget the changelog.",
    "N'oublie pas d'utiliser la variable.",
    "Something that you own (never rounded) is wrong.",
    "# Ensure that this is never rounded",
    "My addresses lack the last slash since we set trailingSlash: always.",
    "Ruff must be installed.",
    "Ensure that the key is set in the environment.",
    "The report says that line 98 contradicts the decision, which was to fetch the data, and must not be followed.",
    "## Key dependencies and constraints",
    "Do not answer these messages.</local-command-caveat>",
    "Всё работает, но не сейчас.",
]
PASTED = [
    "```\nnever do this\n```",
    "~~~~ text\nalways ```\n~~~\nnever\n~~~~",
    "- first\n  ```py\n  # never\n  ```",
    "> you must never do that",
    "the log must be read " * 100,
    "the log must be read\n" * 100,
]
FILLER = st.sampled_from(
    [*NO_RULES[:5], *PASTED, "Thanks", "- a point", "## Heading", "line one\nline two"]
)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_found_among_other_sentences(rule: str) -> None:
    assert stated_rules(rule) == [rule]
    assert stated_rules(f"The page is broken. {rule} What happened?") == [rule]
    assert stated_rules(f"Look here:\n\n- one\n- {rule}\n- two") == [rule]


@pytest.mark.parametrize("text", NO_RULES)
def test_sentences_without_a_rule_are_not_found(text: str) -> None:
    assert stated_rules(text) == []


@pytest.mark.parametrize("pasted", PASTED)
def test_text_that_the_user_did_not_write_has_no_rules(pasted: str) -> None:
    assert stated_rules(pasted) == []
    # And hides none behind it.
    assert stated_rules(f"Look:\n\n{pasted}\n\nNever push.") == ["Never push."]


@pytest.mark.parametrize(
    "paragraph",
    [
        "12:00:01 WARN the value must never be null\n12:00:02 ERROR no value",
        "def total(cart):\n    # never round here\n    return sum(cart)",
        "You must never\nround a price before the\nsum is built.",
        "ERROR: the key must be set",
    ],
)
def test_blank_lines_do_not_end_a_paste(paragraph: str) -> None:
    pasted = "\n\n".join([paragraph] * 80)
    assert len(paragraph) < MAX_TYPED < len(pasted)
    assert stated_rules(f"Look:\n\n{pasted}\n\nNever push.") == ["Never push."]


def test_plain_paragraphs_and_lists_count_as_typed() -> None:
    paragraphs = [
        f"The page with the number {number} is slow. Never touch {number}.py. {'Thanks. ' * 30}"
        for number in range(9)
    ]
    text = "\n\n".join([*paragraphs, "And:\n- always test\n- never push"])
    assert len(text) > MAX_TYPED
    assert stated_rules(text)[:9] == [
        f"Never touch {number}.py." for number in range(9)
    ]
    assert "never push" in stated_rules(text)[-1]


@given(st.lists(st.sampled_from(RULES), unique=True, max_size=8), st.data())
def test_rules_are_found_in_order_anywhere_in_a_message(
    rules: list[str], data: st.DataObject
) -> None:
    blocks: list[str] = []
    for rule in rules:
        blocks += data.draw(st.lists(FILLER, max_size=2))
        blocks.append(rule)
    blocks += data.draw(st.lists(FILLER, max_size=2))
    assert stated_rules("\n\n".join(blocks)) == rules


@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.sampled_from(
                [
                    *RULES,
                    *PASTED,
                    "\n",
                    "\r\n",
                    "```",
                    "~~~",
                    "> ",
                    "- ",
                    "# Rules",
                    ":",
                    "\n    ",
                    "…",
                    "!",
                ]
            ),
        ),
        max_size=30,
    )
)
def test_every_rule_is_a_slice_of_the_message_within_the_limits(
    pieces: list[str],
) -> None:
    for joint in ("", "\n", " "):
        text = joint.join(pieces)
        rules = stated_rules(text)
        assert all(rule in text and rule == rule.strip() != "" for rule in rules)
        assert all(len(rule) <= MAX_RULE_LENGTH for rule in rules)
        assert len(rules) == len({same_rule_key(rule) for rule in rules})
        assert stated_rules(text) == rules
        assert all(piece in text for piece in prose(text))


def test_a_third_of_the_corpus_rules_and_no_other_sentences_are_found() -> None:
    corpus = json.loads(
        (Path(__file__).parents[4] / "benchmarks" / "rules" / "rules.json").read_bytes()
    )
    cued = [rule["text"] for rule in corpus["rules"] if rule["cue"]]
    assert sum(stated_rules(text) == [text] for text in cued) >= 0.35 * len(cued)
    ordinary = [sentence["text"] for sentence in corpus["ordinary"]]
    assert [text for text in ordinary if stated_rules(text)] == []


def test_a_long_rule_is_cut_to_its_beginning() -> None:
    assert stated_rules("Never " + "x" * MAX_RULE_LENGTH) == [
        "Never " + "x" * (MAX_RULE_LENGTH - 6)
    ]


def test_a_message_may_have_a_hundred_rules() -> None:
    rules = [f"Never use port {port}." for port in range(100)]
    assert stated_rules("\n".join(f"- {rule}" for rule in rules)) == rules


def test_rules_differing_in_case_and_space_are_equal_and_conflicting_ones_stay() -> (
    None
):
    text = "Never push.\nAlways push.\nnever  push."
    assert [same_rule_key(rule) for rule in stated_rules(text)] == [
        "never push.",
        "always push.",
    ]
    assert (
        same_rule_key("NEVER\n push ")
        == same_rule_key("never push")
        != same_rule_key("never push!")
    )


def test_a_rule_wrapped_over_several_lines_is_one_rule() -> None:
    wrapped = "You must not change anything that is in a folder called\nLegacy or in any folder below it."
    assert stated_rules(f"Hello.\n{wrapped}\nThanks") == [wrapped]
    assert stated_rules("never touch\nthe tests") == ["never touch\nthe tests"]
    assert stated_rules("- never touch\n  the tests\n- thanks") == [
        "never touch\n  the tests"
    ]
    windows = "You must not change anything that is in a folder called\r\nLegacy."
    assert stated_rules(f"Hello.\r\n{windows}\r\nThanks") == [windows]


def test_a_question_states_a_rule_only_if_it_is_a_polite_request() -> None:
    assert stated_rules("Why does it always fail?") == []
    assert stated_rules("Could you please always run the tests?") == [
        "Could you please always run the tests?"
    ]


def test_list_items_stay_with_the_line_that_introduces_them_as_rules() -> None:
    text = (
        "Never:\n- push to main\n- delete files\n\nAnd fix the bug.\n\n- this\n- that"
    )
    assert stated_rules(text) == ["Never:\n- push to main\n- delete files"]
    assert stated_rules("## Rules\n\n- two spaces\n- pytest\n\nThanks") == [
        "## Rules\n\n- two spaces\n- pytest"
    ]
    assert stated_rules("Unsere Regeln:\n\n1. zwei Leerzeichen") == [
        "Unsere Regeln:\n\n1. zwei Leerzeichen"
    ]
    assert stated_rules("Files:\n- a.py\n- b.py") == []


def test_a_list_after_pasted_code_does_not_belong_to_the_text_before_it() -> None:
    assert stated_rules("You must never:\n```\nfoo()\n```\n- the page") == [
        "You must never:"
    ]


def test_a_long_list_of_short_items_counts_as_typed() -> None:
    items = [
        f"Do not change the name, the owner or the mode of folder {number}, {'x' * 40}."
        for number in range(30)
    ]
    text = "\n".join(f"- {item}" for item in items)
    assert len(text) > MAX_TYPED
    assert stated_rules(text) == items


@pytest.mark.parametrize(
    "make",
    [
        repeated("."),
        repeated("```\n~~~~x\n"),
        repeated("prefer a b. "),
        repeated("prefer "),
        repeated("a\n"),
        repeated("abc, \n"),
        repeated("use a "),
        repeated(" ", behind="x"),
        repeated("`"),
        repeated("a:\n- b:\n"),
        repeated("- b\n", before="# rules\n"),
        repeated("((("),
        repeated("\"'"),
        repeated("\n"),
        repeated("~~~\n"),
        repeated("- a:\n"),
        repeated("Never x.\n\n"),
    ],
    ids=lambda make: repr(make(20)),
)
def test_hostile_texts_take_linear_time(make: Callable[[int], str]) -> None:
    assert not grows_too_fast(stated_rules, make, 5_000)
