"""Permission dialogs and questions in editors that show them in ways of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.editors import (
    ACPX,
    AGENTIC,
    AVANTE,
    BARE,
    CODECOMPANION,
    JUPYTER,
    OLD_AGENTIC,
    TOAD,
    ZED,
    Editor,
)
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

WAYS = [
    {"label": "Rewrite", "description": "All of it"},
    {"label": "Mend"},
    {"label": "Leave"},
    {"label": "Ask them"},
]
ASK = ToolCall("ask_user", {"questions": [{"question": "Which way?", "options": WAYS}]})
EDIT = ToolCall("write", {"path": "b.txt", "content": "b\n"})


def as_avante_sends(words: str) -> list[dict[str, Any]]:
    """The first prompt of a session, as avante sends it."""
    note = "<system_context>Continuing from previous session with 1 recent user messages</system_context>"
    return [
        {
            "type": "text",
            "text": f"<previous_user_message>{words}</previous_user_message>",
        },
        {"type": "text", "text": note},
    ]


def options(dialog: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (option["optionId"], option["kind"], option["name"])
        for option in dialog["options"]
    ]


def answered_by(it: Stage, *option_ids: str) -> list[Mapping[str, Any]]:
    """Answer the dialogs with options of these ids, and return the list that the
    dialogs will be in.
    """
    picks: Iterator[str] = iter(option_ids)
    it.agent.permission_answer = lambda params: next(picks)
    return it.agent.desk.permissions


def told(it: Stage) -> str:
    [result] = results(it.server.calls[1].body)
    return result.text


@pytest.mark.parametrize(
    "editor", [TOAD, JUPYTER, AGENTIC, OLD_AGENTIC], ids=lambda editor: str(editor.info)
)
async def test_an_editor_that_shows_every_option_gets_all_choices_of_a_question_in_one_dialog(
    tmp_path: Path, editor: Editor
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[ASK]), Reply("Done."), editor=editor
    ) as it:
        dialogs = answered_by(it, "allow_once_3")
        assert await it.prompt() == {"stopReason": "end_turn"}
        [dialog] = dialogs
        assert options(dialog) == [
            ("allow_once", "allow_once", "Rewrite"),
            ("allow_once_2", "allow_once", "Mend"),
            ("allow_once_3", "allow_once", "Leave"),
            ("allow_once_4", "allow_once", "Ask them"),
            ("reject_once", "reject_once", "None of these"),
        ]
        assert dialog["toolCall"]["title"] == "Which way?"
        assert told(it) == "Which way?\n→ Leave"


@pytest.mark.parametrize(
    "editor", [CODECOMPANION, AVANTE, ACPX, BARE], ids=lambda editor: str(editor.info)
)
async def test_any_other_editor_is_offered_one_choice_at_a_time_whose_name_is_in_the_title(
    tmp_path: Path, editor: Editor
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[ASK]), Reply("Done."), editor=editor
    ) as it:
        dialogs = answered_by(it, "reject_once", "allow_once")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert [dialog["toolCall"]["title"] for dialog in dialogs] == [
            "Which way? → Rewrite (1 of 4)",
            "Which way? → Mend (2 of 4)",
        ]
        # The ids and kinds that all editors know, and no "always", which some remember.
        assert options(dialogs[0]) == [
            ("allow_once", "allow_once", "Rewrite"),
            ("reject_once", "reject_once", "Show the next choice"),
        ]
        assert told(it) == "Which way?\n→ Mend"


@pytest.mark.parametrize(
    ("editor", "answers", "shown"),
    [
        (CODECOMPANION, ["reject_once"] * 4, 4),
        (TOAD, ["reject_once"], 1),
        (CODECOMPANION, ["reject_once", "cancel"], 2),
    ],
)
async def test_the_user_may_choose_none(
    tmp_path: Path, editor: Editor, answers: Sequence[str], shown: int
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[ASK]), Reply("Done."), editor=editor
    ) as it:
        dialogs = answered_by(
            it, *("cancelled" if answer == "cancel" else answer for answer in answers)
        )
        await it.prompt()
        assert len(dialogs) == shown
        if "cancel" not in answers:
            assert options(dialogs[-1])[-1] == (
                "reject_once",
                "reject_once",
                "None of these",
            )
        assert told(it).startswith("The user chose none of the options.")


async def test_a_question_of_one_choice_is_not_counted_and_a_long_one_keeps_its_choice_in_the_title(
    tmp_path: Path,
) -> None:
    one = ToolCall(
        "ask_user",
        {"questions": [{"question": "Shall I?", "options": [{"label": "Yes"}]}]},
    )
    long = ToolCall(
        "ask_user", {"questions": [{"question": "Why? " * 150, "options": WAYS[:2]}]}
    )
    async with stage(
        tmp_path, Reply(tool_calls=[one, long]), Reply("Done."), editor=CODECOMPANION
    ) as it:
        dialogs = answered_by(it, "allow_once", "allow_once")
        await it.prompt()
        first, second = (dialog["toolCall"]["title"] for dialog in dialogs)
        assert first == "Shall I? → Yes"
        assert second.endswith("→ Rewrite (1 of 2)")
        assert len(second) < 320


@pytest.mark.parametrize(
    "editor", [ZED, CODECOMPANION, TOAD], ids=lambda editor: str(editor.info)
)
async def test_no_editor_is_sent_the_arguments_of_a_question_as_json(
    tmp_path: Path, editor: Editor
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[ASK]), Reply("Done."), editor=editor
    ) as it:
        if editor is not ZED:
            answered_by(it, "allow_once")
        await it.prompt()
        await it.agent.load(it.session, it.folder)
        sent = [
            line.raw
            for line in it.agent.lines
            if b"Which way?" in line.raw and b"session/" in line.raw
        ]
        assert sent
        assert not [line for line in sent if b"rawInput" in line]


async def test_avante_is_never_offered_always_since_it_answers_all_later_questions_with_it(
    tmp_path: Path,
) -> None:
    replies = [
        Reply(tool_calls=[EDIT]),
        Reply("Done."),
        Reply(tool_calls=[EDIT]),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies, editor=AVANTE) as it:
        dialogs = answered_by(it, "allow_once", "allow_once")
        await it.prompt(as_avante_sends("Write it"))
        await it.prompt(as_avante_sends("Again"))
        assert [[kind for _, kind, _ in options(dialog)] for dialog in dialogs] == [
            ["allow_once", "reject_once"]
        ] * 2
        assert not (it.home / "state" / "permissions.json").exists()


async def test_avante_may_trust_a_project_for_the_session_alone(tmp_path: Path) -> None:
    config = tmp_path / "project" / ".acp-agent" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "hooks:\n  SessionStart:\n  - hooks: [{type: command, command: 'true'}]\n"
    )
    async with stage(tmp_path, Reply("Hello."), editor=AVANTE) as it:
        dialogs = answered_by(it, "reject_once")
        await it.prompt(as_avante_sends("Hello"))
        [dialog] = dialogs
        assert [kind for _, kind, _ in options(dialog)] == ["allow_once", "reject_once"]


async def test_a_client_of_the_same_capabilities_that_is_not_avante_is_offered_always(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply(tool_calls=[EDIT]), Reply("Done."), editor=AVANTE
    ) as it:
        dialogs = answered_by(it, "allow_once")
        # Marimo sends the same `initialize`, and plain prompts.
        await it.prompt("Write it")
        assert [kind for _, kind, _ in options(dialogs[0])] == [
            "allow_once",
            "allow_always",
            "reject_once",
        ]
