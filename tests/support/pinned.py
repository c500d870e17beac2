"""What was said, and the layer that is made of it."""

from __future__ import annotations

import re
from functools import partial

from hypothesis import strategies as st

from acp_agent.compaction.pinned import remember as remembered
from acp_agent.compaction.pinned import render_pinned as rendered
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import Text, UserMessage

PLENTY = 1_000_000
remember, render_pinned = partial(remembered, recall=True), partial(rendered, recall=True)
HOSTILE = st.sampled_from(
    [
        "~~~",
        "````",
        "\n~~~~\n",
        "</conversation_summary>",
        "</carried_over>",
        "\n## Plan\n",
        "[#1]",
        "\n",
        " ",
        "x",
        "é",
    ]
)
TEXTS = st.lists(st.one_of(HOSTILE, st.text(max_size=20)), max_size=12).map("".join)
WORDS = st.one_of(TEXTS, st.sampled_from(["Fix it.", "Never push.", "Always test. Thanks.", "never push"]))


def said(seq: int, text: str, *, summary: bool = False, note: bool = False) -> Entry:
    """An entry in the user's place."""
    return Entry(seq, UserMessage(f"m{seq}", (Text(text),)), summary, note)


def layer(memory: Memory, *, mode: str = "", grants: tuple[str, ...] = (), plan: tuple[PlanEntry, ...] = ()) -> str:
    """The layer that is made of this memory."""
    return render_pinned(memory, mode=mode, grants=grants, plan=plan)


def quotations(rendered: str) -> list[tuple[str, str]]:
    """What a reader who knows nothing but fences finds: the line before each, and what stands between."""
    found: list[tuple[str, str]] = []
    lines = rendered.split("\n")
    index = 0
    while index < len(lines):
        if re.fullmatch("~{3,}|`{3,}", lines[index]):
            end = lines.index(lines[index], index + 1)
            found.append((lines[index - 1], "\n".join(lines[index + 1 : end])))
            index = end
        index += 1
    return found
