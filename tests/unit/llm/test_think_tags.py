"""Reasoning that a server left between tags in the text of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.answers import summary_in
from acp_agent.llm.adapters.chat_fold import ChatFold
from acp_agent.llm.adapters.think_tags import ThinkTags
from acp_agent.llm.provider import TextDelta, ThinkingDelta
from acp_agent.llm.thinking_marks import THINKING_MARKS

PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<",
            "think",
            ">",
            "</",
            " ",
            "\n",
            "[THINK]",
            "a",
            "[/THINK]",
        ]
    )
)


def split(pieces: list[str], *, is_whole: bool = True) -> tuple[str, str]:
    tags = ThinkTags()
    shown = [tags.add(piece) for piece in pieces]
    rest = tags.finish(is_whole=is_whole)
    return tags.reasoning, "".join(answer for _, answer in shown) + rest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>I look.</think>\n\nDone.", ("I look.", "Done.")),
        ("\n<think>\nI look.\n</think>Done.", ("\nI look.\n", "Done.")),
        ("<think></think>Done.", ("", "Done.")),
        ("<think>I look.</think>", ("I look.", "")),
        ("<thought>I look.</thought>Done. </thought>", ("I look.", "Done. </thought>")),
        ("[THINK]I look.[/THINK]Done.", ("I look.", "Done.")),
        ("◁think▷I look.◁/think▷Done.", ("I look.", "Done.")),
        ("<|START_THINKING|>I look.<|END_THINKING|>Done.", ("I look.", "Done.")),
        (
            "<analysis>For you.</analysis>Done.",
            ("", "<analysis>For you.</analysis>Done."),
        ),
        ("Done. <think>no</think>", ("", "Done. <think>no</think>")),
        ("<think> is a tag.", ("", "<think> is a tag.")),
        ("<thin", ("", "<thin")),
        ("<table>", ("", "<table>")),
        ("  ", ("", "  ")),
    ],
)
def test_an_answer_that_begins_with_a_think_tag_is_split_however_it_is_cut(
    text: str, expected: tuple[str, str]
) -> None:
    assert split([text]) == split([*text]) == expected


@given(PIECES, st.booleans())
def test_the_split_does_not_depend_on_the_pieces_and_loses_nothing_but_tags_and_space(
    pieces: list[str], is_whole: bool
) -> None:
    text = "".join(pieces)
    reasoning, answer = split(pieces, is_whole=is_whole)
    assert (
        (reasoning, answer)
        == split([text], is_whole=is_whole)
        == split([*text], is_whole=is_whole)
    )
    assert text.endswith(answer)
    assert reasoning in text


def test_an_answer_that_is_cut_off_inside_its_reasoning_is_no_answer() -> None:
    assert split(["<think>I look"], is_whole=False) == ("I look", "")


def test_reasoning_between_tags_is_shown_as_reasoning_and_kept_out_of_the_answer() -> (
    None
):
    fold = ChatFold("local")
    shown = [
        delta
        for text in ("<thi", "nk>I lo", "ok.</th", "ink>\n", "Done.")
        for delta in fold.feed({"choices": [{"delta": {"content": text}}]})
    ]
    shown += fold.feed({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    thoughts = [delta.text for delta in shown if isinstance(delta, ThinkingDelta)]
    texts = [delta.text for delta in shown if isinstance(delta, TextDelta)]
    assert ("".join(thoughts), "".join(texts)) == ("I look.", "Done.")
    answered = fold.answer()
    assert [(part.type, getattr(part, "text", "")) for part in answered.parts] == [
        ("thinking", "I look."),
        ("text", "Done."),
    ]


def test_every_tag_of_an_answer_is_a_mark_of_thinking_in_a_summary_as_well() -> None:
    for marks in THINKING_MARKS:
        for start, end in marks.tags.items():
            assert (
                summary_in(f"{start}hm{end}{'The work goes on. ' * 20}", ())
                == ("The work goes on. " * 20).strip()
            )
