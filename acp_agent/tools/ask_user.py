"""The `ask_user` tool: questions that only the user can answer, in the middle of a turn.

Where the user can be shown a form, all questions come in one; elsewhere each is a choice of its own, so that a session
of such a client has the tool in a smaller form. It is not offered where nobody can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments, schema_of
from acp_agent.tools.environment import Environment
from acp_agent.tools.forms import Asking, Asks, Choice, Filled, Form, FormField, FormsUnknownError, Value
from acp_agent.tools.text import clean, counted, one_line
from acp_agent.tools.tool import Access, Outcome, PreparedCall, Report

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions

NAME = "ask_user"
MOST_QUESTIONS = 4
MOST_OPTIONS = 8
LONGEST_ANSWER = 20_000
_OTHER = "_other"

_DESCRIPTION = (
    "Ask the user what only they can decide and you cannot find out by yourself: which of several ways to go, a name, "
    "a missing fact. Put the option that you recommend first. Do not ask for leave to run a tool, since that is asked "
    "by itself, and never for a password or a key. The turn waits for the answer; the user may decline."
)
_GO_ON = "Go on without an answer if you can; otherwise end the turn and say what you need."
_UNANSWERED = {"declined": "declined to answer", "cancelled": "closed the question without an answer"}


class _Option(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    label: str = Field(min_length=1, max_length=120)
    description: str = Field(default="", max_length=500)


class _Choice(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    question: str = Field(min_length=1, max_length=1000)
    options: list[_Option] = Field(min_length=2, max_length=MOST_OPTIONS)


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    question: str = Field(min_length=1, max_length=1000)
    options: list[_Option] = Field(
        default_factory=list[_Option], max_length=MOST_OPTIONS, description="Left out: the user types the answer."
    )
    multiple: bool = Field(default=False, description="Several options may be chosen.")
    own_words: bool = Field(default=False, description="The user may type another answer beside the options.")


class _FormArguments(Arguments):
    questions: list[_Question] = Field(min_length=1, max_length=MOST_QUESTIONS)


class _ChoiceArguments(Arguments):
    questions: list[_Choice] = Field(min_length=1, max_length=MOST_QUESTIONS)


class AskUserTool:
    """Asks the user.

    :param asks: what can be asked, of which its arguments depend.
    """

    name = NAME
    description = _DESCRIPTION

    def __init__(self, asks: Asks) -> None:
        self._arguments: type[_FormArguments | _ChoiceArguments] = (
            _FormArguments if asks == "forms" else _ChoiceArguments
        )

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        return schema_of(self._arguments)

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind for the announcement."""
        asked = arguments.get("questions")
        first = asked[0] if isinstance(asked, list) and asked else None
        question = first.get("question") if isinstance(first, dict) else None
        more = len(asked) - 1 if isinstance(asked, list) else 0
        also = f" (and {more} more)" if more > 0 else ""
        return CallView(
            f"{one_line(question, 200)}{also}" if isinstance(question, str) and question else "Ask the user"
        )

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check the questions; see `Tool.prepare`."""
        asked = [_as_question(each) for each in self._arguments.read(self.name, arguments).questions]
        for each in asked:
            labels = [option.label for option in each.options]
            if len(set(labels)) < len(labels):
                raise ToolError(f"{self.name}: two options of {one_line(each.question)!r} have the same label.")
            if each.multiple and not each.options:
                raise ToolError(
                    f"{self.name}: {one_line(each.question)!r} has no options of which several could be chosen."
                )
        questions = environment.questions
        if questions is None or questions.asks == "nothing":
            raise ToolError("Nobody is here to ask. Decide by yourself, or end the turn with your question.")
        view = self.preview(arguments)

        async def run(report: Report) -> Outcome:
            del report
            answers = await self._asked(asked, arguments, environment, questions)
            if isinstance(answers, str):
                return Outcome((Text(answers),), view)
            told = "\n\n".join(
                f"{clean(each.question)}\n→ {answer or 'No answer.'}"
                for each, answer in zip(asked, answers, strict=True)
            )
            return Outcome((Text(told),), view)

        return PreparedCall(view, Access("none"), run, asks=True)

    async def _asked(
        self, asked: Sequence[_Question], arguments: JsonObject, environment: Environment, questions: Questions
    ) -> list[str] | str:
        """What the user said to each question; a sentence for the model where they said nothing at all."""
        if questions.asks == "forms":
            try:
                answer = await questions.fill(_form(asked), environment.call_id)
            except FormsUnknownError:
                pass
            else:
                if isinstance(answer, Filled):
                    return [_said(each, index, answer) for index, each in enumerate(asked)]
                return f"The user {_UNANSWERED[answer]}. {_GO_ON}"
        if any(not each.options for each in asked):
            raise ToolError("The user can only choose here: give every question at least two options.")
        answers: list[str] = []
        for each in asked:
            asking = Asking(environment.call_id, self.name, CallView(one_line(each.question, 300)), arguments)
            chosen = await questions.choose(asking, [_choice(option) for option in each.options])
            answers.append(chosen.title if chosen else "")
        if not any(answers):
            return f"The user chose none of the options. {_GO_ON}"
        return answers


def _as_question(asked: _Question | _Choice) -> _Question:
    if isinstance(asked, _Question):
        return asked
    return _Question(question=asked.question, options=asked.options)


def _choice(option: _Option) -> Choice:
    return Choice(option.label, clean(option.label), clean(option.description))


def _form(asked: Sequence[_Question]) -> Form:
    fields: list[FormField] = []
    for index, each in enumerate(asked):
        title = "Answer" if len(asked) == 1 else clean(each.question)
        name = f"answer_{index + 1}"
        if not each.options:
            fields.append(FormField(name, "text", title, limits={"maxLength": LONGEST_ANSWER}))
            continue
        choices = tuple(_choice(option) for option in each.options)
        kind = "choices" if each.multiple else "choice"
        fields.append(FormField(name, kind, title, choices=choices, required=not each.own_words))
        if each.own_words:
            other = FormField(f"{name}{_OTHER}", "text", "In other words", required=False, instead_of=name)
            fields.append(other)
    message = clean(asked[0].question) if len(asked) == 1 else f"The agent has {counted(len(asked), 'question')}."
    return Form(message, tuple(fields))


def _said(asked: _Question, index: int, answer: Filled) -> str:
    name = f"answer_{index + 1}"
    said = [_shown(answer.values.get(each)) for each in (name, f"{name}{_OTHER}")]
    return "; ".join(filter(None, said))


def _shown(value: Value | None) -> str:
    if value is None:
        return ""
    return ", ".join(value) if isinstance(value, tuple) else str(value).strip()
