"""Long but useless answers to a summary request, and genuine summaries that resemble
them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.relevance import FEWEST_NAMES, check_relevance
from acp_agent.compaction.state import CompactionPolicy
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Message,
    Text,
    UserMessage,
)
from acp_agent.errors import CompactionError
from support.ladder import Model, run, says, state_of

SECTIONS = ("Goal and requirements", "Files")
LONG = "\n".join(
    f"`total_{number}` in shop/cart_{number}.py adds prices." for number in range(800)
)
REFUSAL = (
    "I'm sorry, but I can't help with summarizing this. The request touches on things that my "
    "guidelines do not allow "
    "me to talk about, and I would rather not go into the details. Please ask me something else instead, and I will "
    "do my best to give you a good answer. Thank you for your understanding and for your patience today."
)
INSTRUCTIONS = """Write the summary that will stand in place of the conversation above
this message. Report history; give no orders. The user asks for this focus: keep the
name of the test test_totals_are_whole.

# The sections

## Goal and requirements
What the user wants in the end, and the present request as a part of it. Every rule that
still holds, word for word where it is short.

## Files
Each file that was made, changed or read for a reason that still matters: its path, its
state, and what in it is important.
"""
SORRY = "I'm sorry, I can't help with that."
BELOW = (
    "The material above touches on things that my guidelines do not cover. Please ask "
    "something else instead."
)
USELESS = {
    "a refusal below a heading": f"## Summary\n\n{REFUSAL}",
    "a short refusal below a heading": f"# Summary\n{SORRY}",
    "a refusal in each section": f"## Goal and requirements\n{SORRY}\n\n## Files\n{SORRY}",
    "a refusal and reasons": f"## Goal and requirements\n- {SORRY}\n\n## Files\n{BELOW}",
    "a refusal and empty sections": f"## Goal and requirements\nNone.\n\n## Files\n> {SORRY}",
    "a refusal in a fence": f"## Goal and requirements\n```\n{SORRY}\n```",
    "a refusal as a heading": f"# I'm sorry, I can't help with that\n\n{BELOW}",
    "a refusal above headings": f"{SORRY}\n\n## Goal and requirements\n{BELOW}",
    "a German refusal below a heading": "## Files\n**Es tut mir leid, dabei kann ich nicht helfen.**",
    "sections that say nothing": "## Goal and requirements\nN/A\n\n## Files\n- None.",
    "sections without text": "## Goal and requirements\n- \n\n## Files\n*nothing*\n...",
    "sections that say nothing in Chinese": "## Goal and requirements\n无。\n\n## Files\n没有",
    "the instructions": INSTRUCTIONS,
    "the instructions with other line ends": " ".join(INSTRUCTIONS.split("\n")).replace(
        "## ", "\n## "
    ),
    "the sections of the instructions": f"Sure!\n\n{INSTRUCTIONS[INSTRUCTIONS.index('## G') :]}",
    "a template": "## Goal and requirements\n[What the user wants in the end]\n\n## Files\n"
    "- [Each file that was made, changed or read for a reason that still matters]\n",
    "a refusal": REFUSAL,
    "a refusal with a preamble": f"**Unfortunately, I am unable to provide a summary of cart.** {REFUSAL[50:]}",
    "a German refusal": "Es tut mir leid, aber dabei kann ich nicht helfen. "
    "Bitte frage mich etwas anderes, ich antworte "
    "gerne auf jede andere Frage, soweit es mir meine Richtlinien gestatten, und danke für "
    "Verständnis und Geduld dabei.",
    "the same line": "We worked on it and it went well.\n" * 60,
    "the same line, numbered": "\n".join(
        f"{number}. The work goes on." for number in range(60)
    ),
    "the same sentence": "The user wants to go on with the work. " * 40,
    "the same Chinese sentence": "用户想继续修改购物车的代码。" * 60,
    "another subject": "Beat the eggs until fluffy, fold in the flour with a spoon, and pour "
    "everything into a greased tin. "
    "Bake it for half an hour, let it cool by the window, and dust it with sugar. Serve it with "
    "berries and cream, and "
    "enjoy it with friends.",
}
HONEST = {
    "a quoted refusal": "## Goal and requirements\nThe user asked for a poem.\n\n"
    f'## Errors\nThe model answered "{SORRY}"\n> {SORRY}',
    "a section that is only a quoted refusal": f"## Goal and requirements\nA cart.\n\n## Errors\n{SORRY}",
    "a refusal that names what it is about": f"## Goal and requirements\n{SORRY} was the answer about "
    "shop/cart_1.py, shop/cart_2.py and total_3.",
    "one section with content": "## Goal and requirements\nA cart.\n\n## Files\nN/A",
    "a rule of the instructions": "## Goal and requirements\nKeep the name of the test test_totals_are_whole.\n"
    "A cart.\n\n## Files\nNone.",
    "with its sections": "## Goal and requirements\nA cart.\n\n## Files\nNone.",
    "prose with a name": "The user asked why quantities are lost. The reason is that cart_7 keeps a "
    "copy of each line, so a "
    "change never arrives. Nothing was changed yet. Next, the copy should go, and the tests should run again on both "
    "versions of the program, as the user wants.",
    "German prose with a compound": "Der Nutzer fragt, warum Mengen verloren gehen. Grund: die "
    "Shopdateien halten jede Zeile "
    "doppelt, und eine Änderung kommt daher nie an. Geändert ist noch nichts; als Nächstes soll die Kopie weg, und "
    "danach sollen alle Prüfungen noch einmal laufen.",
    "Chinese prose": "用户询问为什么数量会丢失。原因是每一行都保存了副本，所以修改不会生效。目前没有"
    "改动任何代码，下一步应删除副本并重新运行测试。"
    "用户要求所有金额使用整数分，不允许重命名任何文件，也不要修改税率的计算方式。之后需要检查四舍五"
    "入，并把结果告诉用户。" * 2,
    "an apology before a summary": "I'm sorry, I cannot help with the old ticket any more: "
    "shop/cart_1.py, shop/cart_2.py and "
    "total_3 were changed in its place. The totals are whole cents now, and the user wants no file "
    "to be renamed. The "
    "tests of all three have to run again before the next step begins.",
    "repetition among other lines": "- Done.\n"
    * 40
    + "The cart keeps a copy of each line, which is why quantities are lost. Next, the copy in "
    "shop/cart_9.py should go. "
    "The user wants no file to be renamed and every amount in whole cents; the tests have to run on both versions.",
}


def conversation(text: str = LONG) -> list[Message]:
    return [
        UserMessage("1", (Text("Why is the quantity lost?"),)),
        AssistantMessage("2", (Text(text),)),
        UserMessage("3", (Text("And then?"),)),
        AssistantMessage("4", (Text(text),)),
        UserMessage("5", (Text("Go on."),)),
    ]


def checked(summary: str, entries: list[Entry]) -> None:
    check_relevance(summary, entries, instructions="", least=200, sections=SECTIONS)


def compacted(
    answer: str, *, manual: bool = False, sections: tuple[str, ...] = SECTIONS
) -> tuple[str, tuple[str, ...]]:
    """Return the strategy that was used, and the notes of the receipt."""
    policy = CompactionPolicy(
        INSTRUCTIONS, sections=sections, manual=manual, strategy="summary", tail=0
    )
    state = state_of(conversation(), used=60_000, window=64_000)
    result = run(state, policy, Model([says(answer)]))
    assert result is not None
    return result.strategy, result.receipt.notes


@pytest.mark.parametrize("kind", USELESS)
def test_a_long_useless_answer_is_replaced_by_excerpts(
    kind: str,
) -> None:
    strategy, notes = compacted(USELESS[kind])
    assert strategy == "excerpts"
    assert any("summary" in note for note in notes), notes
    with pytest.raises(CompactionError, match="history is unchanged"):
        compacted(USELESS[kind], manual=True)


@pytest.mark.parametrize("kind", [each for each in USELESS if "refusal" in each])
def test_a_refusal_is_no_summary_of_a_recipe_without_sections(kind: str) -> None:
    assert compacted(USELESS[kind], sections=())[0] == "excerpts"


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_summary_in_any_form_and_language_is_accepted(kind: str) -> None:
    assert compacted(HONEST[kind])[0] == "summary"


def test_a_conversation_with_few_names_demands_none_of_its_summary() -> None:
    names = "\n".join(
        f"We spoke of item_{number}." for number in range(FEWEST_NAMES - 1)
    )
    entries = [Entry(1, message) for message in conversation(names)]
    checked(USELESS["another subject"], entries)


@given(st.text(), st.integers(0, 799))
def test_a_text_with_a_name_from_the_conversation_is_accepted(
    text: str, number: int
) -> None:
    entries = [Entry(1, message) for message in conversation()]
    checked(f"The file shop/cart_{number}.py. {text}", entries)
