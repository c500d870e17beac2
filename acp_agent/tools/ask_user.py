"""The `ask_user` tool: asks the user questions in the middle of a turn.

If the editor can show forms, all questions go into one form. Otherwise each question is
a separate choice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pydantic import Field

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, JsonValue, Text, ToolCall
from acp_agent.conversation.strict_json import get_objects, get_text
from acp_agent.errors import ToolError
from acp_agent.secrets.asked import asks_for_secret
from acp_agent.secrets.known import secrets_of
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import Environment, Report
from acp_agent.tools.forms import FieldChoice, Form, FormField, Questions
from acp_agent.tools.text import clean, counted, one_line
from acp_agent.tools.tool import Access, CallResult, PreparedCall

NAME = "ask_user"
_MOST_QUESTIONS = 4
_MOST_OPTIONS = 8
_LONGEST_ANSWER = 20_000
_OTHER = "_other"

_DESCRIPTION = (
    f"Ask the user 1 to {_MOST_QUESTIONS} questions that only they can answer: a decision, a name, a missing fact. Put "
    "the option that you recommend first. Do not ask for permission to run tools, since the user is asked anyway, and "
    "never for a password or key."
)
_NO_SECRETS = (
    "ask_user: do not ask for a password, key, token or card number, since a model reads what the user types, and the"
    " log keeps it. Nothing was asked. Tell the user where to put the secret instead, such as an environment variable,"
    " a file that you do not read, or the program's own login. If you mean something else, rephrase the question, or"
    " give options without `own_words`."
)
_GO_ON = "Continue without an answer if you can; otherwise end the turn and say what you need."
_REFUSED = {
    "decline": "declined to answer",
    "cancel": "closed the question without an answer",
}


class _Option(Arguments):
    label: str = Field(min_length=1, max_length=120)
    description: str = Field(default="", max_length=500)


class _Question(Arguments):
    question: str = Field(min_length=1, max_length=1000)
    options: list[_Option] = Field(
        default_factory=list[_Option],
        max_length=_MOST_OPTIONS,
        description="Without them, the user types the answer.",
    )
    multiple: bool = False
    own_words: bool = Field(
        default=False, description="Let the user type another answer."
    )

    @property
    def wants_secret(self) -> bool:
        """Return whether the question asks for a secret that the user could type as the
        answer.
        """
        said = (
            self.question,
            *(f"{each.label} {each.description}" for each in self.options),
        )
        return (not self.options or self.own_words) and any(map(asks_for_secret, said))

    @property
    def choices(self) -> tuple[FieldChoice, ...]:
        """Return the options as choices of a form."""
        return tuple(
            FieldChoice(each.label, clean(each.label), clean(each.description))
            for each in self.options
        )


class _Questions(Arguments):
    questions: list[_Question] = Field(min_length=1, max_length=_MOST_QUESTIONS)


def _title(arguments: JsonObject) -> str:
    asked = [get_text(each, "question") for each in get_objects(arguments, "questions")]
    return one_line(asked[0], 200) if any(asked[:1]) else "Ask the user"


async def _prepare(asked: _Questions, environment: Environment) -> PreparedCall:
    questions = environment.questions
    if questions is None or questions.asks == "nothing":
        raise ToolError(
            "There is no user to ask. Decide yourself, or end the turn with your question."
        )
    if any(each.wants_secret for each in asked.questions):
        raise ToolError(_NO_SECRETS)
    call = ToolCall(environment.call_id, NAME, asked.model_dump(exclude_unset=True))
    view = CallView(_title(call.arguments))

    async def run(report: Report) -> CallResult:
        # Its patterns take milliseconds to compile.
        from acp_agent.secrets.text import (
            mask,
        )

        # A model reads the answer, and the log keeps it.
        answer = mask(
            await _answer(questions, asked.questions, call), secrets_of(os.environ)
        )
        return CallResult((Text(answer),), view)

    return PreparedCall(view, Access("none"), run, asks=True)


async def _answer(
    questions: Questions, asked: Sequence[_Question], call: ToolCall
) -> str:
    """Ask the questions and return the answers as text for the model."""
    if questions.asks == "forms":
        answer = await questions.fill(_form(asked), call.id)
        if isinstance(answer, str):
            return f"The user {_REFUSED[answer]}. {_GO_ON}"
        return _answers_text(
            asked,
            [_typed(answer, f"answer_{number}") for number in range(1, len(asked) + 1)],
        )
    if any(not each.options for each in asked):
        raise ToolError(
            "The user's editor can only show options. Give every question at least two options."
        )
    answers: list[str] = []
    for each in asked:
        chosen = await questions.choose(
            call, one_line(each.question, 300), each.choices
        )
        answers.append(chosen.title if chosen else "")
    return (
        _answers_text(asked, answers)
        if any(answers)
        else f"The user chose none of the options. {_GO_ON}"
    )


def _answers_text(asked: Sequence[_Question], answers: Sequence[str]) -> str:
    pairs = zip(asked, answers, strict=True)
    return "\n\n".join(
        f"{clean(each.question)}\n→ {answer or 'No answer.'}" for each, answer in pairs
    )


def _form(asked: Sequence[_Question]) -> Form:
    fields: list[FormField] = []
    for number, each in enumerate(asked, 1):
        name = f"answer_{number}"
        title = "Answer" if len(asked) == 1 else clean(each.question)
        if not each.options:
            fields.append(
                FormField(name, "text", title, limits={"maxLength": _LONGEST_ANSWER})
            )
            continue
        kind = "choices" if each.multiple else "choice"
        fields.append(
            FormField(
                name, kind, title, choices=each.choices, required=not each.own_words
            )
        )
        if each.own_words:
            fields.append(
                FormField(
                    f"{name}{_OTHER}",
                    "text",
                    "In other words",
                    required=False,
                    instead_of=name,
                )
            )
    message = (
        clean(asked[0].question)
        if len(asked) == 1
        else f"The agent has {counted(len(asked), 'question')}."
    )
    return Form(message, tuple(fields))


def _typed(answer: Mapping[str, JsonValue], name: str) -> str:
    values = (answer.get(each, "") for each in (name, f"{name}{_OTHER}"))
    texts = (
        ", ".join(map(str, value)) if isinstance(value, list) else str(value).strip()
        for value in values
    )
    return "; ".join(filter(None, texts))


ASK_USER = BuiltIn(NAME, _DESCRIPTION, _Questions, _prepare, title=_title)
