"""What the user is asked in the middle of a turn: by a form where the editor has those,
else by its dialogs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.editors import ACPX
from support.memory import stage
from support.questions import accepted, answers
from support.replies import Reply, ToolCall
from support.stage import Stage, results

WAYS = [
    {"label": "Rewrite", "description": "All of it"},
    {"label": "Mend"},
    {"label": "Leave"},
]
ASK = ToolCall("ask_user", {"questions": [{"question": "Which way?", "options": WAYS}]})


def offered(it: Stage, call: int = 0) -> list[str]:
    return [each["name"] for each in it.server.calls[call].body["tools"]]


async def test_a_question_of_the_model_is_a_form_and_its_answer_the_result(
    tmp_path: Path,
) -> None:
    several = {
        "questions": [
            {"question": "Which way?", "options": WAYS, "own_words": True},
            {"question": "Which parts?", "options": WAYS, "multiple": True},
            {"question": "What name?"},
        ]
    }
    replies = (Reply(tool_calls=[ASK, ToolCall("ask_user", several)]), Reply("Done."))
    async with stage(tmp_path, *replies, mode="plan") as it:
        asked = answers(
            it,
            accepted(answer_1="Mend"),
            accepted(
                answer_1="",
                answer_1_other="Burn it",
                answer_2=["Rewrite", "Leave"],
                answer_3="Ada",
            ),
        )
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert offered(it)[-1] == "ask_user"
        first, second = asked
        [call, other] = it.calls()
        assert (first["sessionId"], first["toolCallId"], first["mode"]) == (
            it.session,
            call["toolCallId"],
            "form",
        )
        assert first["message"] == call["title"] == "Which way?"
        assert other["title"] == "Which way?"
        [field] = first["requestedSchema"]["properties"].values()
        assert field["oneOf"][0] == {
            "const": "Rewrite",
            "title": "Rewrite",
            "description": "All of it",
        }
        assert first["requestedSchema"]["required"] == ["answer_1"]
        assert second["requestedSchema"]["required"] == ["answer_2", "answer_3"]
        fields = second["requestedSchema"]["properties"]
        assert [field["type"] for field in fields.values()] == [
            "string",
            "string",
            "array",
            "string",
        ]
        # Editors that know this show the text as one more option of its question.
        other_answer = {"questionId": "answer_1", "isCustomAnswer": True}
        assert fields["answer_1_other"]["_meta"] == {
            "_askUserQuestionCustomAnswer": other_answer
        }
        assert [name for name, field in fields.items() if "_meta" in field] == [
            "answer_1_other"
        ]
        # What has to be answered with a text cannot be left empty.
        assert ["minLength" in field for field in fields.values()] == [
            False,
            False,
            False,
            True,
        ]
        told = [result.text for result in results(it.server.calls[1].body)]
        assert told == [
            "Which way?\n→ Mend",
            "Which way?\n→ Burn it\n\nWhich parts?\n→ Rewrite, Leave\n\nWhat name?\n→ Ada",
        ]
        # Some editors take a question down when its call runs.
        assert it.statuses(call["toolCallId"]) == ["pending", "completed"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"action": "decline"}, "declined to answer"),
        ({"action": "cancel"}, "closed the question"),
        ({"action": "_later"}, "closed the question"),
        (accepted(answer_1="Sing"), "`Answer` should be 'Rewrite', 'Mend' or 'Leave'"),
        (accepted(), "`Answer` is missing"),
        ({"action": "accept", "content": None}, "`Answer` is missing"),
        ({}, "cannot be used: action is missing"),
    ],
    ids=json.dumps,
)
async def test_whatever_comes_in_place_of_an_answer_the_turn_goes_on(
    tmp_path: Path, answer: Any, said: str
) -> None:
    async with stage(tmp_path, Reply(tool_calls=[ASK]), Reply("Then not.")) as it:
        answers(it, answer)
        assert await it.prompt() == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert said in result.text

        # The end of the wire ends it as well: `stage` fails where the agent does not go
        # by itself.


async def test_an_editor_without_forms_is_asked_by_dialogs(tmp_path: Path) -> None:
    free = ToolCall("ask_user", {"questions": [{"question": "What name?"}]})
    replies = (Reply(tool_calls=[ASK, ASK, free]), Reply("Done."))
    async with stage(tmp_path, *replies, editor=ACPX, mode="plan") as it:
        picks = iter(["reject_once", "reject_once", "allow_once", *["reject_once"] * 3])
        it.agent.permission_answer = lambda params: next(picks)
        assert await it.prompt() == {"stopReason": "end_turn"}
        dialogs = it.agent.desk.permissions
        assert [
            [option["name"] for option in dialog["options"]] for dialog in dialogs
        ] == [
            ["Rewrite", "Show the next choice"],
            ["Mend", "Show the next choice"],
            ["Leave", "None of these"],
        ] * 2
        assert "Rewrite**: All of it" in json.dumps(dialogs[0]["toolCall"]["content"])
        told = [result.text for result in results(it.server.calls[1].body)]
        assert told[0] == "Which way?\n→ Leave"
        assert told[1].startswith("The user chose none of the options.")
        assert "options" in told[2]
        assert not [
            line for line in it.agent.lines if line.method == "elicitation/create"
        ]


@pytest.mark.parametrize(
    "question",
    [
        {"question": "What is your database password?"},
        {"question": "Please paste the API key for OpenAI."},
        {"question": "Wie lautet das Passwort?"},
        {"question": "请输入密码"},
        {"question": "The 2FA code, please"},
        {
            "question": "How do we go on?",
            "options": [{"label": "I type my ｐａｓｓｗｏｒｄ"}],
            "own_words": True,
        },
    ],
)
async def test_no_question_asks_the_user_to_type_a_secret(
    tmp_path: Path, question: dict[str, Any]
) -> None:
    ask = ToolCall("ask_user", {"questions": [{"question": "Which branch?"}, question]})
    async with stage(tmp_path, Reply(tool_calls=[ask]), Reply("Done.")) as it:
        asked = answers(it)
        await it.prompt()
        assert asked == []
        [told] = results(it.server.calls[1].body)
        assert "Nothing was asked" in told.text


async def test_what_is_chosen_among_options_may_be_about_secrets_and_a_secret_that_is_typed_is_masked(
    tmp_path: Path,
) -> None:
    secret = "correct horse battery"
    options = [{"label": "In a file"}, {"label": "In a variable"}]
    choice = {"question": "Where does the password come from?", "options": options}
    ask = ToolCall("ask_user", {"questions": [choice, {"question": "What else?"}]})
    async with stage(
        tmp_path, Reply(tool_calls=[ask]), Reply("Done."), env={"DB_PASSWORD": secret}
    ) as it:
        answers(it, accepted(answer_1="In a file", answer_2=f"It is {secret}."))
        await it.prompt()
        [told] = results(it.server.calls[1].body)
        assert "→ In a file" in told.text
        assert "It is ***." in told.text
        stored = (it.home / "state" / "sessions.db").read_bytes() + b"".join(
            path.read_bytes() for path in (it.home / "state").glob("sessions.db-*")
        )
        assert secret.encode() not in stored
