"""Output as a terminal would show it."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyte import modes

from acp_agent.tools.shell.screen import ShownOutput, as_shown
from acp_agent.tools.text import clean, cut_middle
from support.growth import grows_too_fast

LIMIT = 32_000


def shown(*pieces: str, limit: int = LIMIT) -> str:
    output = ShownOutput(limit)
    for piece in pieces:
        output.add(piece)
    output.finish()
    return output.text


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("10%\r20%\r100%\ndone\n", "100%\ndone\n"),
        ("long line\rshort", "shortline"),
        ("long line\r\x1b[Kshort", "short"),
        ("long line\x1b[2K\rshort", "short"),
        ("long line\x1b[2K\x1b[Gshort", "short"),
        ("50%\b\b\b75%", "75%"),
        ("N\bNA\bAM\bME\bE _\bx", "NAME x"),
        ("a\nb\nc\n\x1b[2A\x1b[2KB\n", "a\nB\nc\n"),
        ("a\nb\n\x1b[1A\x1b[1A\x1b[Jx\n", "x\n"),
        ("\x1b[32mok\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07 \x1b(B", "ok link "),
        ("a\x1b[3Cb\x1b[2Dc", "a  cb"),
        ("one\x1b7\ntwo\x1b8 more", "one more\ntwo"),
        (
            "error: first\n\x1b[2J\x1b[Hframe 1\nx\n\x1b[2J\x1b[Hframe 2\n",
            "error: first\nframe 2\n",
        ),
        ("error: first\n\x1bcframe 1\n\x1bcframe 2\n", "error: first\nframe 2\n"),
        ("下载 10%\r下载 100%", "下载 100%"),
        ("下载\rab", "ab载"),
        ("bell\x07 and \x00", "bell and \ufffd"),
        ("\x1b[?25lhidden\x1b[?25h\x1b[>1u", "hidden"),
        ("half a sequence \x1b[3", "half a sequence \ufffd[3"),
        ("100%\r", "100%"),
    ],
)
def test_output_is_what_a_terminal_would_show_at_the_end(
    output: str, wanted: str
) -> None:
    assert shown(output) == wanted


FRAMES = {
    "a carriage return": "\rframe {:04}",
    "an erased line": "\r\x1b[Kframe {:04}",
    "a whole erased line": "\x1b[2K\x1b[Gframe {:04}",
    "backspaces": "\b\b\b\b\b\b\b\b\b\bframe {:04}",
    "the line above": "\x1b[1A\x1b[2Kframe {:04}\n",
    "two lines above": "\x1b[2A\x1b[2Kframe {:04}\n\x1b[2Kitem\n",
    "a page": "\x1b[H\x1b[2Jframe {:04}\n",
    "the start of a page": "\x1b[H\x1b[Jframe {:04}\n",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_an_error_among_thousands_of_progress_frames_is_kept(frame: str) -> None:
    frames = "".join(frame.format(number) for number in range(5_000))
    output = f"begin\n\n\n{frames}\nerror: disk full\n\n\n{frames}\nend\n"
    pieces = [output[at : at + 1000] for at in range(0, len(output), 1000)]
    text = shown(*pieces)
    if "\x1b[H" not in frame:  # a terminal would clear the error with the page
        assert "error: disk full" in text
    assert "frame 4999" in text
    assert text.startswith("begin\n")
    assert text.endswith("end\n")
    assert len(text) < 200


# Pieces of typical program output, so that complete escape sequences are more frequent
# than by chance.
_NUMBERS = st.sampled_from(["", "0", "1", "2", "3", "1;3", "12", "?25"])
_SHORT = st.one_of(
    st.text("ab é字\u0301\t", min_size=1, max_size=12),
    st.sampled_from(["\r", "\n", "\r\n", "\b", "\x07", "\x1b", "\x00"]),
    st.sampled_from(["\x1b7", "\x1b8", "\x1b[s", "\x1b[u", "\x1bc", "\x1bM"]),
    st.builds("\x1b[{}{}".format, _NUMBERS, st.sampled_from("ABCDEFGHJKfhlmsu")),
    st.sampled_from(["\x1b]0;title\x07", "\x1b]8;;x\x1b\\", "\x1bP1$r\x1b\\", "\x1b(B", "\x1b]0;no end\n", "\x1b[12;"]),
)  # fmt: skip
_LONG = st.sampled_from(
    ["x" * 3000, "字" * 3000, "line\n" * 150, "\n" * 201, "\x1b]" + "t" * 4100]
)
_PIECES = st.one_of(_SHORT, _SHORT, _SHORT, _LONG)
_OUTPUTS = st.lists(_PIECES, max_size=25).map("".join)


@given(_OUTPUTS, st.data(), st.integers(0, 20_000))
def test_the_result_does_not_depend_on_the_pieces_of_output(
    output: str, data: st.DataObject, limit: int
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=12)))
    pieces = [
        output[begin:end]
        for begin, end in zip([0, *cuts], [*cuts, len(output)], strict=True)
    ]
    assert (
        shown(*pieces, limit=limit)
        == shown(output, limit=limit)
        == as_shown(output, limit)
    )


@given(st.lists(_SHORT, max_size=30).map("".join))
@example("a\x1b[1;3Hb\x1b[2Jc")
@example("字\u0301\r\u0301x")
def test_the_result_is_the_same_for_single_characters(output: str) -> None:
    assert shown(*output) == shown(output)


@given(_OUTPUTS)
def test_shown_output_has_no_control_characters_and_is_stable(
    output: str,
) -> None:
    text = shown(output)
    assert len(text) <= LIMIT
    assert clean(text) == text
    assert "\r" not in text
    assert shown(text) == text


@given(
    st.text(
        st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n"),
        max_size=600,
    ),
    st.integers(0, 300),
)
def test_plain_text_within_the_limit_is_unchanged(text: str, limit: int) -> None:
    assert as_shown(text, limit) == cut_middle(text, limit)


# Sequences that both we and pyte support. Each program clears the screen first, so that
# both have the same first row.
_KNOWN = st.one_of(
    st.text("abc ", min_size=1, max_size=10),
    st.sampled_from(
        [
            "\r",
            "\n",
            "\r\n",
            "\b",
            "\x1b7",
            "\x1b]0;title\x07",
            "\x1b[31m",
            "\x1b[?25l",
            "\x07",
        ]
    ),
    st.builds(
        "\x1b[{}{}".format,
        st.sampled_from(["", "1", "2", "5"]),
        st.sampled_from("ACDFG"),
    ),
    st.sampled_from(
        [
            "\x1b[K",
            "\x1b[0K",
            "\x1b[1K",
            "\x1b[2K",
            "\x1b[J",
            "\x1b[1J",
            "\x1b[2J",
            "\x1b[H",
            "\x1b[3;4H",
        ]
    ),
)


@given(st.lists(_KNOWN, max_size=40).map("".join))
@example("abc\b\x1b[1Kx\n\n\x1b[2Aab\x1b[J")
def test_rows_match_a_terminal_emulator(output: str) -> None:
    screen = pyte.Screen(400, 120)
    screen.set_mode(modes.LNM)
    pyte.Stream(screen).feed(output)
    expected = "\n".join(row.rstrip() for row in screen.display).rstrip()
    got = shown("\x1b[H\x1b[2J" + output)
    assert "\n".join(row.rstrip() for row in got.split("\n")).rstrip() == expected


@given(
    st.lists(
        st.one_of(
            st.text("a字语 ", min_size=1, max_size=8),
            st.sampled_from(["\n", "\r\x1b[K", "\r\x1b[2K"]),
        ),
        max_size=10,
    )
)
def test_wide_characters_take_the_same_columns_as_in_an_emulator(
    pieces: list[str],
) -> None:
    # Ten pieces take at most 160 columns and 11 rows.
    screen = pyte.Screen(172, 11)
    screen.set_mode(modes.LNM)
    pyte.Stream(screen).feed("".join(pieces) + "\x1b[170G|")
    expected = "\n".join(row.rstrip() for row in screen.display).rstrip()
    assert (
        "\n".join(
            row.rstrip() for row in shown("".join(pieces) + "\x1b[170G|").split("\n")
        ).rstrip()
        == expected
    )


@pytest.mark.parametrize("sequence", ["\b", "\r", "\x1b[3D", "\x1b[2K"], ids=repr)
def test_overwriting_wide_characters_takes_linear_time(
    sequence: str,
) -> None:
    def output(size: int) -> str:
        return "漢" * 400 + f"{sequence}漢" * size + "\nthe end"

    assert not grows_too_fast(lambda text: as_shown(text, 10_000), output, 2_000)
    assert as_shown(output(10_000), 10_000).endswith("the end")
