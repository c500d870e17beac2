"""`Desk`: where a conversation is shown and typed, and the question that is open there. Knows nothing of sessions.

`screen.py` is one that keeps a part of the terminal below what was said, `plain.py` one for a terminal that cannot move
its cursor: lines, and what is typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

import anyio

from acp_agent.frozen import frozen

Line: TypeAlias = Sequence[tuple[str, str]]
"""Texts of one line, each behind its style."""
AtInterrupt: TypeAlias = Literal["leave", "clear", "stay"]
"""End it, empty the line, or leave both as they are."""

PROMPT = "> "


@frozen
class Typing:
    """What becomes of what a person types.

    :ivar entered: is given what was typed as a prompt.
    :ivar interrupted: ctrl-c was typed, with or without something on the line; says what is to be done.
    """

    entered: Callable[[str], None]
    interrupted: Callable[[bool], AtInterrupt]


class Desk(Protocol):
    """Whatever is printed goes through `lines`, and is made safe there."""

    @property
    def columns(self) -> int:
        """Of the terminal."""
        ...

    @property
    def keeps_typed(self) -> bool:
        """Whether what was typed stays where it was typed."""
        ...

    async def run(self) -> bool:
        """Take what is typed, until the person leaves.

        :returns: False where not the person has left, but the terminal.
        """
        ...

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        ...

    def live(self, style: str, text: str) -> None:
        """Show a line that is not whole yet; "" for none."""
        ...

    def busy(self, what: str) -> None:
        """Say what is waited for, where nothing streams; "" for nothing, which makes the person's turn."""
        ...

    def renew(self) -> None:
        """Show the meter as it is now."""
        ...

    def prompt(self) -> None:
        """Show that it is the person's turn."""
        ...

    async def ask(self, question: str) -> str | None:
        """What the person types behind a question.

        :returns: without blanks around it; None for ctrl-d.
        """
        ...


class Question:
    """One that waits.

    :ivar answer: what was typed; None for ctrl-d.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.answer: str | None = None
        self.answered = anyio.Event()

    def give(self, answer: str | None) -> None:
        """Let whoever asked go on."""
        self.answer = answer
        self.answered.set()
