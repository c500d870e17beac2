"""Finding the summary in a model's answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.answers import LEAST_CHARACTERS, least_characters, summary_in
from acp_agent.errors import CompactionError

SECTIONS = ("Goal and requirements", "Files")
GOOD = "## Goal and requirements\nA cart.\n\n## Files\nNone."
LONG = "word " * LEAST_CHARACTERS
CALL = '{"name": "read", "arguments": {"path": "src/cart.py"}}'
NONE = {
    "a word": "OK",
    "a sentence": "Sure, I will write the summary now.",
    "a refusal": "I'm sorry, but I can't help with that.",
    "an empty section": "## Goal and requirements\n",
    "Hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "Hermes, cut": f"<tool_call>\n{CALL[:30]}",
    "Hermes, after a sentence": f"Let me look first.\n<tool_call>{CALL}{LONG}</tool_call>",
    "DeepSeek": (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">'
        f"{LONG}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    ),
    "DeepSeek, older": (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{CALL}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "Kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        f'{{"path": "{LONG}"}}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "Qwen": "<function=read>\n<parameter=path>\ncart.py\n</parameter>\n</function>",
    "Claude": f'<function_calls>\n<invoke name="read">\n<parameter name="path">{LONG}</parameter>\n</invoke>\n',
    "MiniMax": '<minimax:tool_call>\n<invoke name="read"></invoke>\n</minimax:tool_call>',
    "Mistral": f"[TOOL_CALLS][{CALL}]",
    "Mistral, newer": '[TOOL_CALLS]read{"path": "cart.py"}',
    "Llama": '<|python_tag|>read.call(path="cart.py")',
    "Gemini": '```tool_code\nprint(read(path="cart.py"))\n```',
    "gpt-oss": '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a"}<|call|>',
    "JSON": CALL,
    "JSON in a fence": f"```json\n[{CALL}]\n```",
    "empty tags": "<summary></summary>",
    "thinking": f"<think>{LONG}</think>",
    "thinking without an end": f"<think>{LONG}",
    "thinking without a beginning": f"{LONG}\n</think>\n",
    "thinking, and a word": f"<think>{LONG}</think>\n\nOK",
    "thinking, and a call": f"<think>{LONG}</think>\n<tool_call>{CALL}</tool_call>",
    "gpt-oss's thinking": f"<|channel|>analysis<|message|>{LONG}",
}
THINKING = {
    "most models": "<think>hm</think>\n\n{}",
    "none": "<think>\n\n</think>\n\n{}",
    "without a beginning": "The user wants a summary.\n</think>\n\n{}",
    "thinking": "<thinking>hm\n\nhm</thinking>\n{}",
    "thought": "<thought>hm</thought>{}",
    "analysis": "<analysis>hm</analysis>\n{}",
    "Seed": "<seed:think>hm</seed:think>{}",
    "Magistral": "[THINK]hm[/THINK]{}",
    "Kimi": "◁think▷hm◁/think▷{}",
    "Cohere": "<|START_THINKING|>hm<|END_THINKING|>{}",
    "gpt-oss": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "Gemma": "<|channel>thought\nhm<channel|>{}",
    "twice": "<think>hm</think>\n<think>hm</think>\n{}",
}


@pytest.mark.parametrize("kind", NONE)
def test_thinking_textual_tool_calls_and_single_words_are_no_summary(kind: str) -> None:
    with pytest.raises(CompactionError, match="history is unchanged"):
        summary_in(NONE[kind], SECTIONS)


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in NONE
        if kind.split()[0] not in ("a", "an") and "a word" not in kind
    ],
)
def test_markup_alone_is_no_summary_even_without_required_sections(
    kind: str,
) -> None:
    if "after a sentence" in kind:
        return
    with pytest.raises(CompactionError):
        summary_in(NONE[kind], ())


@pytest.mark.parametrize("kind", THINKING)
@pytest.mark.parametrize("sections", [SECTIONS, ()], ids=["with sections", "without"])
def test_thinking_before_a_summary_is_removed(
    kind: str, sections: tuple[str, ...]
) -> None:
    assert summary_in(THINKING[kind].format(GOOD), sections) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "# Goal\nA cart.",
        "x" * LEAST_CHARACTERS,
        f"{GOOD}\nHandle `<think>` and `</think>`.\n\n```\n</think>\n```\n- It is closed.",
        f"{GOOD}\nThe parser reads `<tool_call>` and `</tool_call>`.",
        "# Goal\n<tool_call> is parsed.",
        f"The model writes <tool_call> and {LONG}".strip(),
    ],
)
def test_a_summary_that_mentions_markup_is_unchanged(text: str) -> None:
    assert summary_in(text, SECTIONS) == text


@pytest.mark.parametrize(
    ("text", "replaced", "is_summary"),
    [
        ("OK", 300, False),
        ("Understood.", 300, False),
        ("All about carts.", 2_000, True),
        ("All about carts.", 20_000, False),
        ("word " * 20, 10_000, True),
        ("word " * 20, 40_000, False),
        (LONG, 1_000_000, True),
    ],
)
def test_the_minimum_length_grows_with_the_replaced_text(
    text: str, replaced: int, is_summary: bool
) -> None:
    if is_summary:
        assert summary_in(text, SECTIONS, least_characters(replaced)) == text.strip()
    else:
        with pytest.raises(CompactionError, match="is not a summary"):
            summary_in(text, SECTIONS, least_characters(replaced))


def test_a_short_summary_is_accepted_without_required_sections() -> None:
    assert summary_in("A cart was built.", ()) == "A cart was built."


PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "[THINK]",
            "<|channel|>final",
            "{",
            "}",
            "\n",
        ]
    )
    | st.text(max_size=8),
    max_size=12,
).map("".join)


@given(PIECES)
def test_any_answer_gives_an_ending_of_it_or_an_error_and_is_stable(
    text: str,
) -> None:
    for sections in (SECTIONS, ()):
        try:
            summary = summary_in(text, sections)
        except CompactionError:
            continue
        assert summary
        assert text.rstrip().endswith(summary)
        assert summary_in(summary, sections) == summary


@given(PIECES)
def test_a_summary_with_sections_is_kept_whatever_follows_it(text: str) -> None:
    whole = f"{GOOD}\n{text}"
    assert summary_in(whole, SECTIONS) == whole.strip()
