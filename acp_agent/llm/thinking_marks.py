"""Lists the marks that models put around thinking, for servers that leave it in the
text of an answer.

Sources: the models' chat templates; vLLM, "Reasoning Outputs"; Gemini's page on OpenAI
compatibility, for `<thought>`.
"""

from __future__ import annotations

from collections.abc import Mapping

from acp_agent.frozen import frozen

_NAMES = r"(?:[\w-]{1,20}:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection)"


@frozen
class ThinkingMarks:
    """One way to mark thinking.

    :ivar start: a regular expression for the mark before the thinking, in any spelling
        and case.
    :ivar end: a regular expression for the mark after the thinking.
    :ivar tags: end tags keyed by start tag, spelled as in the models' own templates. An
        answer that begins with such a start tag begins with thinking; other spellings
        may be meant for the user.
    """

    start: str
    end: str
    tags: Mapping[str, str]


THINKING_MARKS = (
    ThinkingMarks(  # most models; Mistral uses brackets, Kimi uses triangles
        rf"<{_NAMES}(?:\s[^<>\n]{{0,200}})?>|\[{_NAMES}\]|◁{_NAMES}▷",
        rf"</{_NAMES}\s*>|\[/{_NAMES}\]|◁/{_NAMES}▷",
        {
            "<think>": "</think>",
            "<thinking>": "</thinking>",
            "<thought>": "</thought>",
            "[THINK]": "[/THINK]",
            "◁think▷": "◁/think▷",
        },
    ),
    ThinkingMarks(  # Sky-T1 and Cohere
        r"<\|(?:begin_of_thought|START_THINKING)\|>",
        r"<\|(?:end_of_thought|END_THINKING)\|>",
        {
            "<|begin_of_thought|>": "<|end_of_thought|>",
            "<|START_THINKING|>": "<|END_THINKING|>",
        },
    ),
    ThinkingMarks(  # gpt-oss and Gemma, which mark the answer too
        r"(?:<\|start\|>assistant)?<\|channel\|?>(?:analysis|thought|commentary)",
        r"<\|channel\|>final(?:<\|message\|>)?|<channel\|>",
        {},
    ),
)
