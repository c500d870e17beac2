"""A terminal in memory, which takes down the lines that a `View` shows."""

from __future__ import annotations

from collections.abc import Iterable

from acp_agent.cli.chat.view import Line


class Paper:
    """:param columns: its width."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.text = ""

    def print(self, lines: Iterable[Line]) -> None:
        self.text += "".join("".join(text for _, text in line) + "\n" for line in lines)

    def show_partial(self, style: str, text: str) -> None:
        pass
