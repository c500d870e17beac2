"""What a slash command needs and was not given with it: the user is asked for it by a form, where they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from acp_agent.errors import InvalidParamsError
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions


async def missing_values(
    questions: Questions, command: str, missing: Sequence[tuple[str, str]]
) -> Mapping[str, str] | Literal["not asked", "not given"]:
    """Ask for the arguments of a command.

    :param command: as it is typed.
    :param missing: name and description of each, none of them empty.
    :returns: the values by name.
    :raises InvalidParamsError: the answer does not fit: one of them is still missing, say.
    :raises ToolError: the user could not be asked.
    """
    if questions.asks != "forms":
        return "not asked"
    from acp_agent.tools.forms import AnswerError, Filled, Form, FormField, FormsUnknownError

    fields = tuple(FormField(name, "text", name, one_line(description, 300)) for name, description in missing)
    names = ", ".join(f"`{name}`" for name, _ in missing)
    try:
        answer = await questions.fill(Form(f"{command} needs {names}.", fields))
    except FormsUnknownError:
        return "not asked"
    except AnswerError as error:
        raise InvalidParamsError(f"{command} was not run. {error}") from error
    if not isinstance(answer, Filled):
        return "not given"
    return {name: str(value) for name, value in answer.values.items()}


def described(command: str, missing: Sequence[tuple[str, str]]) -> str:
    """What is missing and how it is given, for who cannot be asked: the end of a sentence, and another one.

    :param missing: see `missing_values`.
    """
    each = [f"`{name}`" + (f" ({one_line(text, 300)})" if text else "") for name, text in missing]
    values = " ".join(f"{name}=…" for name, _ in missing)
    return f"{', '.join(each)}. Give what is missing in front: `{command} {values}`."
