"""Breaks styled text into rows."""

from __future__ import annotations

from itertools import groupby

from prompt_toolkit.utils import get_cwidth

from acp_agent.cli.terminal.client import Line

width_of = get_cwidth


def joined(*parts: tuple[str, str]) -> Line:
    """Return a line of these parts, without empty ones."""
    return [part for part in parts if part[1]]


def restyled(line: Line, style: str) -> Line:
    """Return a line that has a style in addition to those of its parts."""
    if not style:
        return line
    return [(f"{style},{own}" if own else style, text) for own, text in line]


def broken(
    line: Line, columns: int, indent: int = 0, *, breaks_words: bool = False
) -> list[Line]:
    """Return the rows of a line: each ends at its last space before the edge, or else
    at the first one after it. The spaces where a row ends are left out.

    :param indent: number of spaces before each row but the first.
    :param breaks_words: whether a word that is longer than a row is broken at the edge.
    """
    if sum(width_of(text) for _, text in line) <= columns:
        return [line]
    characters = [(style, character) for style, text in line for character in text]
    rows: list[Line] = []
    row: list[tuple[str, str]] = []
    spaces: list[tuple[str, str]] = []
    for is_space, run in groupby(characters, key=lambda each: each[1] == " "):
        if is_space:
            spaces = [*run]
            continue
        word = [*run]
        width = _width(row)
        if width > indent and width + len(spaces) + _width(word) > columns:
            rows.append(_grouped(row))
            row = [("", " ")] * indent
        else:
            row += spaces
        spaces = []
        if breaks_words:
            while row_part := _fitting(row, word, columns):
                rows.append(_grouped([*row, *word[:row_part]]))
                word = word[row_part:]
                row = [("", " ")] * indent
        row += word
    rows.append(_grouped(row))
    return rows


def _fitting(
    row: list[tuple[str, str]], word: list[tuple[str, str]], columns: int
) -> int:
    """Return how many characters of a word fit into a row, at least one; 0 if all of
    them fit.
    """
    width = _width(row)
    for at, (_, character) in enumerate(word):
        width += width_of(character)
        if width > columns:
            return max(1, at) if len(word) > 1 else 0
    return 0


def _width(characters: list[tuple[str, str]]) -> int:
    return sum(width_of(character) for _, character in characters)


def _grouped(characters: list[tuple[str, str]]) -> Line:
    """Return characters as parts, one for each run of a style."""
    return [
        (style, "".join(character for _, character in group))
        for style, group in groupby(characters, key=lambda each: each[0])
    ]
