"""Forms that a person fills at a terminal."""

from __future__ import annotations

from acp_agent.commands.questions import TerminalQuestions
from acp_agent.tools.forms import Choice, Filled, Form, FormField


async def test_a_choice_is_named_by_its_number_or_its_name_and_what_is_none_is_asked_for_again() -> None:
    walls = tuple(Choice(name.lower(), name) for name in ("Light grey", "Dark green", "Pink"))
    form = Form(
        "Choose.",
        (
            FormField("colour", "choice", title="Which colour?", choices=(Choice("r", "Red"), Choice("b", "Blue"))),
            FormField("walls", "choices", title="Which walls?", choices=walls, required=False),
        ),
    )
    typed = iter(["green", "blue", "dark GREEN, 1 pink"])
    said: list[str] = []

    async def ask(question: str) -> str | None:
        said.append(question)
        return next(typed)

    answer = await TerminalQuestions(said.append, ask).fill(form)
    assert isinstance(answer, Filled)
    assert dict(answer.values) == {"colour": "b", "walls": ("dark green", "light grey", "pink")}
    assert said.count("  number or name> ") == 2
    assert any("is none of its choices" in line for line in said)
    assert said[-1] == "  numbers or names (or nothing)> "
