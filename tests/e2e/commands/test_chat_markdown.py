"""Answers in `acp-agent chat`: Markdown is rendered at a terminal with colours, and
stays as it is without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from acp_agent.cli.chat.markdown import MarkdownText
from acp_agent.cli.chat.plain import PlainText
from acp_agent.cli.chat.view import ChatView
from acp_agent.cli.terminal.client import Line
from support.chat import typing

WORDS = st.text(st.sampled_from("ab 漢|`#\r\n\t"), max_size=200)
TOKENS = (
    *"ab1漢 \n\t|`*_~#>-+[]()!<\\&;:=.\r",
    *(
        "\n\n",
        "```",
        "~~~",
        "\n```py\n",
        "**",
        "__",
        "~~",
        "`` ",
        "# ",
        "\n## ",
        "\n- ",
    ),
    *(
        "\n1. ",
        "    ",
        "\n> ",
        "](http://a.b)",
        "![",
        "<https://x.y>",
        "&amp;",
        "\n| a | b |\n",
    ),
    *(
        "|--|:-:|\n",
        "\n---\n",
        "\\|",
        ' "t")',
        "[x]: y\n",
        "<b>",
        "\x0b",
        "\x85",
        "\u2028",
    ),
)
MARKDOWN = st.lists(st.sampled_from(TOKENS), max_size=80).map("".join)
CUTS = st.lists(st.integers(0, 400), max_size=8)
Formatter = Callable[[], MarkdownText | PlainText]


def rows_of(
    pieces: Sequence[str], columns: int, formatter: Formatter = MarkdownText
) -> list[Line]:
    text = formatter()
    rows = [row for piece in pieces for row in text.feed(piece, columns)]
    return [*rows, *text.finish(columns)]


def parts_of(text: str, columns: int = 80) -> list[tuple[str, str]]:
    """Return the styled parts of all rows, without those of spaces."""
    parts = [part for row in rows_of([text], columns) for part in row]
    return [(style, part) for style, part in parts if part.strip()]


def shown_of(text: str, columns: int = 80) -> list[str]:
    """Return the rows without styles."""
    rows = rows_of([text], columns)
    return ["".join(part for _, part in row).rstrip() for row in rows]


def letters(text: str) -> str:
    return "".join(each for each in text if each.isalnum())


def pieces_of(text: str, cuts: Sequence[int]) -> list[str]:
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[begin:end] for begin, end in pairwise(ends)]


@pytest.mark.parametrize("formatter", [MarkdownText, PlainText])
@given(text=MARKDOWN | WORDS, cuts=CUTS, columns=st.integers(10, 80))
def test_however_a_text_arrives_the_same_rows_come_of_it(
    formatter: Formatter, text: str, cuts: list[int], columns: int
) -> None:
    pieces = pieces_of(text, cuts)
    assert rows_of(pieces, columns, formatter) == rows_of([text], columns, formatter)


@given(text=MARKDOWN | st.text(), cuts=CUTS)
@example(text="a ![b [c](d)](e)", cuts=[])
@example(text="[a](b&copy;c)", cuts=[])
@example(text='[a](b "c")', cuts=[])
@example(text="| a | b |\n|--|\n| c | d | e |", cuts=[])
def test_each_letter_is_shown_once_and_in_order(text: str, cuts: list[int]) -> None:
    rows = rows_of(pieces_of(text, cuts), 1_000)
    assert letters("".join(part for row in rows for _, part in row)) == letters(text)


@given(text=MARKDOWN, columns=st.integers(10, 40))
def test_each_letter_is_shown_once_where_rows_are_broken(
    text: str, columns: int
) -> None:
    rows = rows_of([text], columns)
    shown = letters("".join(part for row in rows for _, part in row))
    assert sorted(shown) == sorted(letters(text))


@given(text=MARKDOWN, cuts=CUTS, columns=st.integers(10, 80))
def test_what_is_unfinished_is_shown_as_far_as_it_has_come(
    text: str, cuts: list[int], columns: int
) -> None:
    formatter = MarkdownText()
    seen = ""
    for piece in pieces_of(text, cuts):
        rows = [*formatter.feed(piece, columns)]
        seen += letters("".join(part for row in rows for _, part in row))
    rows = formatter.preview(columns)
    seen += letters("".join(part for row in rows for _, part in row))
    assert sorted(seen) == sorted(letters(text))


@given(text=WORDS, columns=st.integers(10, 40))
def test_plain_rows_hold_all_words_and_those_of_prose_fit_where_a_space_allows_it(
    text: str, columns: int
) -> None:
    rows = rows_of([text], columns, PlainText)
    shown = "".join(part for row in rows for _, part in row)
    words = text.replace("\n", "").replace("\r", "")
    assert shown.replace(" ", "") == words.replace(" ", "")
    for [(style, row)] in rows:
        assert (
            style == "code"
            or "|" in row
            or get_cwidth(row) <= columns
            or " " not in row.strip()
        )


def test_plain_code_and_tables_keep_their_lines() -> None:
    wide = "word " * 20
    text = f"{wide}\n```py\n{wide}\n```\n| {wide}|\n"
    rows = rows_of([text], 40, PlainText)
    assert [("code", wide)] in rows
    assert [("", f"| {wide}|")] in rows
    assert all(len(row) <= 40 for [(_, row)] in rows[:3])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("# Title #", [("heading,title", "Title")]),
        (
            "### A `b` *c*",
            [
                ("heading", "A "),
                ("heading,code", "b"),
                ("heading", " "),
                ("heading,em", "c"),
            ],
        ),
        ("a **b** __c__", [("", "a "), ("strong", "b"), ("", " "), ("strong", "c")]),
        ("*a **b***", [("em", "a "), ("em,strong", "b")]),
        ("`a*b*`", [("code", "a*b*")]),
        ("``a`b``", [("code", "a`b")]),
        ("~~a~~", [("s", "a")]),
        ("[a](src/a.py)", [("link", "a"), ("link", " (src/a.py)")]),
        ("<https://a.b/c>", [("link", "https://a.b/c")]),
        ("![a](b.png)", [("", "a (b.png)")]),
        (r"\*a\*", [("", "*a*")]),
        ("- **a**", [("mark", "- "), ("strong", "a")]),
        ("10. a", [("mark", "10. "), ("", "a")]),
        ("- [x] a", [("mark", "- [x] "), ("", "a")]),
        ("> a", [("mark", "> "), ("", "a")]),
        ("---", [("mark", "---")]),
        ("    indented *code*", [("code", "    indented *code*")]),
    ],
)
def test_marks_become_styles(text: str, parts: list[tuple[str, str]]) -> None:
    assert parts_of(text) == [part for part in parts if part[1].strip()]


@pytest.mark.parametrize(
    "text",
    [
        "snake_case_name and 2 * 3 * 4",
        "an unclosed **mark and `span",
        "List<String> &amp; <b>bold</b>",
        "[a][b] and [c]",
        '[a](b "title")',
        "#hashtag and #",
        "[a](javascript:alert)",
        "C:\\path\\to\\file",
    ],
)
def test_text_that_only_resembles_markdown_stays_as_it_is(text: str) -> None:
    assert shown_of(text) == [text]


CODE = (
    "def f(a, *b, **c):\n\n\treturn `a`  # | [x](y) |   \n    - item\n``\n~~~\n| a |\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("```py\n", "```"),
        ("````\n```\n", "```\n````"),
        ("- item\n\n   ```sh\n", "   ```"),
        ("- ```\n", "  ```"),
        ("Text:\n  ```\n", "  ```  "),
    ],
)
def test_fenced_code_stays_exactly_as_it_is(before: str, after: str) -> None:
    text = f"{before}{CODE}{after}\n**end**"
    rows = rows_of([*text], 20)
    shown = ["".join(part for _, part in row) for row in rows]
    for line in CODE.splitlines():
        assert line in shown
    assert rows[-1] == [("strong", "end")]


def test_a_fence_in_a_quote_ends_with_the_quote() -> None:
    assert parts_of("> ```\n> *a*\n*b*")[1:] == [("code", "> *a*"), ("em", "b")]


def test_a_tilde_fence_may_contain_backticks() -> None:
    assert ("code", "*a*") in parts_of("~~~\n```\n*a*\n~~~\n*b*")
    assert parts_of("~~~\n```\n*a*\n~~~\n*b*")[-1] == ("em", "b")


def test_a_span_of_three_backticks_in_a_line_opens_no_fence() -> None:
    assert parts_of("```a``` b\n*c*") == [("code", "a"), ("", " b"), ("em", "c")]


def test_a_row_continues_below_the_text_of_its_item() -> None:
    text = "- one two three four five\n   1. six seven eight nine ten"
    assert shown_of(text, 20) == [
        "- one two three four",
        "  five",
        "   1. six seven",
        "      eight nine ten",
    ]


def test_the_columns_of_a_table_are_aligned() -> None:
    assert shown_of(
        "| Name | **Size** |\n|:--|--:|\n| `a` | 1 |\n| 漢字 | 100 | more |\n\nAfter"
    ) == [
        "Name │ Size │",
        "─────┼──────┼─────",
        "a    │    1 │",
        "漢字 │  100 │ more",
        "",
        "After",
    ]
    assert shown_of("|a|\n|-|\n|x \\| y|")[-1] == "x | y"


def test_cells_that_do_not_fit_take_several_rows() -> None:
    text = "| A | B |\n|-|-|\n| one two three four five | six seven eight |"
    shown = shown_of(text, 24)
    assert all(get_cwidth(row) <= 24 for row in shown)
    assert len(shown) > 3
    words = {word for row in shown for word in row.split()}
    assert words > {"one", "two", "three", "four", "five", "six", "seven", "eight"}


def test_lines_with_pipes_that_are_no_table_stay_as_they_are() -> None:
    text = "| a | b |\n| c | *d* |"
    assert shown_of(text) == text.split("\n")


def test_a_line_that_never_ends_is_shown_while_it_arrives() -> None:
    text = "word *another* " * 2_000
    formatter = MarkdownText()
    rows = [row for piece in text.split(" ") for row in formatter.feed(f"{piece} ", 80)]
    assert len(rows) > 300
    rows.extend(formatter.finish(80))
    assert letters("".join(part for row in rows for _, part in row)) == letters(text)


@pytest.mark.parametrize(
    "repeated", [" ", "- ", "> ", "1. ", "# a", "# ", "|-", "| -", "`", "[", "*a "]
)
@pytest.mark.parametrize("before", ["", "|a|\n|", "# a", "```", "- "])
def test_a_long_run_of_marks_is_shown_in_time(before: str, repeated: str) -> None:
    for length in (3_900, 200_000):
        text = before + repeated * (length // len(repeated)) + "x\n"
        rows = rows_of([text], 80)
        shown = "".join(part for row in rows for _, part in row)
        assert letters(shown) == letters(text)


ANSWER = "# Title\nSome **bold** `code`.\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n```\n**x**\n```\n"


async def test_an_answer_is_rendered_while_it_streams(tmp_path: Path) -> None:
    async with typing(tmp_path, columns=40) as person:
        view = ChatView(person.screen)
        view.stream("m", "", "Some **bold** and an **unfini shed")
        await person.sees("Some bold and an **unfini")
        view.stream("m", "", "\x1b[31m** line\n| a | b |\n|--|")
        await person.sees("Some bold and an unfini shed line")
        view.stream("m", "", f"--|\n| longer | 2 |\n{ANSWER}")
        view.end_stream()
        await person.sees_that(lambda: "Title" in person.rows)
        assert "longer │ 2" in person.rows
        assert "Some bold code." in person.rows
        assert "**x**" in person.rows
        view.markdown("**Commands:**\n\n- `/help`: Help")
        await person.sees("- /help: Help")
        assert "Commands:" in person.rows


async def test_a_long_unfinished_line_shows_its_end_and_leaves_room_for_typing(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path, columns=40, rows=10) as person:
        view = ChatView(person.screen)
        view.stream("m", "", "word " * 200 + "the end of it")
        await person.sees("the end of")
        person.type("typed")
        await person.sees("> typed")
        assert "The meter" in person.rows


@pytest.mark.parametrize(
    ("name", "value"),
    [("NO_COLOR", "1"), ("PROMPT_TOOLKIT_COLOR_DEPTH", "DEPTH_1_BIT")],
)
async def test_an_answer_stays_markdown_without_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    async with typing(tmp_path, columns=40) as person:
        view = ChatView(person.screen)
        view.stream("m", "", ANSWER)
        view.end_stream()
        await person.sees("**x**")
        for line in ANSWER.splitlines():
            assert line in person.rows
