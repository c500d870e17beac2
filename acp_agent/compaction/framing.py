"""The words around a summary: what the model is asked, and how it later reads the answer.

A summary is framed as history and not as orders, since models otherwise act on it as if the user had just said it.
What the user is shown never contains this framing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import AssistantMessage, Message, Text, UserMessage, UserPart

_HISTORY = (
    "The earlier part of this conversation was replaced by the summary below to make room. It is a record of what "
    "happened, written by you, not a new request: do not answer it, and do not start again what it says is done. Files "
    "may have changed since; read one again before you edit it. A number as in [#n] names an entry of the whole "
    "record{recall}. Go on from where the conversation stands."
)
_RECALL = ", which the `recall` tool reads word for word"
_FACTS = (
    "Collected from the calls and results of the earlier part by the program that you run in, not by a model. A record "
    "of what happened, not a request."
)
_FRAMES = re.compile(r"(?<=[</])(\s*)(conversation|recorded|carried)_(?=(?:summary|facts|over)\b)", re.IGNORECASE)
_MADE_AFRESH = ("<carried_over>\n", "<recorded_facts>\n")
_QUOTE_LENGTH = 120
_TABLE_ENTRIES = 120
_TABLE_QUOTE = 60


def frame(pinned: str, summary: str, facts: str, *, recall: bool) -> tuple[Text, ...]:
    """A compacted past as the model reads it: one text for each layer that there is.

    :param pinned: what is carried word for word (see `pinned.render_pinned`), which is safe in itself.
    :param recall: whether the model has the `recall` tool.
    """
    layers: list[str] = []
    if pinned:
        layers.append(f"<carried_over>\n{pinned}\n</carried_over>")
    if summary:
        history = _HISTORY.format(recall=_RECALL if recall else "")
        layers.append(f"<conversation_summary>\n{history}\n\n{_inside(summary)}\n</conversation_summary>")
    if facts:
        layers.append(f"<recorded_facts>\n{_FACTS}\n\n{_inside(facts)}\n</recorded_facts>")
    return tuple(Text(layer) for layer in layers)


def is_made_afresh(part: UserPart) -> bool:
    """Whether this part of a compacted past is one that the next compaction makes again."""
    return isinstance(part, Text) and part.text.startswith(_MADE_AFRESH)


def layer_of(part: object) -> Literal["pinned", "summary", "ledger"]:
    """Which layer of a compacted past a part of it is.

    :param part: one that `frame` made, or a provider's own compaction, which is the summary.
    """
    if not isinstance(part, Text) or part.text.startswith("<conversation_summary>\n"):
        return "summary"
    if part.text.startswith("<recorded_facts>\n"):
        return "ledger"
    return "pinned" if part.text.startswith("<carried_over>\n") else "summary"


def summary_request(prompt: str, first_kept: Message | None, summarised: Sequence[Entry] = ()) -> Text:
    """The last message of the summary request: the recipe's text, the numbers of the entries for its citations, and
    where the part to be summarised ends.

    :param prompt: the rendered recipe.
    :param first_kept: the first message that stays word for word; None where all is summarised.
    :param summarised: the entries that the summary is about.
    """
    text = prompt
    if table := entry_table(summarised):
        text += f"\n\nEntries, by number:\n{table}"
    if first_kept is not None:
        text += (
            "\n\nSummarise only what comes before the message quoted here; it and what follows stay in the "
            f"conversation word for word and need not be repeated:\n{_quote(first_kept)}"
        )
    return Text(text)


def entry_table(entries: Sequence[Entry]) -> str:
    """A line for each message of the user and each answer, with its number and how it begins; of a long history, an
    even choice of answers."""
    said = [entry for entry in entries if isinstance(entry.message, UserMessage) and not entry.summary]
    answers = [entry for entry in entries if isinstance(entry.message, AssistantMessage)]
    said = said[-_TABLE_ENTRIES // 2 :]
    room = _TABLE_ENTRIES - len(said)
    step = max(1, -(-len(answers) // room))
    chosen = sorted([*said, *answers[::step]], key=lambda entry: entry.seq)
    return "\n".join(f"[#{entry.seq}] {_begins(entry)}" for entry in chosen)


def _begins(entry: Entry) -> str:
    message = entry.message
    role = "user" if isinstance(message, UserMessage) else "you"
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    words = _first_words(entry.typed or message.parts, _TABLE_QUOTE)
    if not words and calls:
        words = ", ".join(call.name for call in calls[:3])
    return f"{role}: {words}"


def _quote(message: Message) -> str:
    first = _first_words(message.parts, _QUOTE_LENGTH)
    role = "the user's message" if isinstance(message, UserMessage) else "your answer"
    if not first:
        return f"({role} that begins with a tool call)"
    return f'({role} that begins) "{first}"'


def _first_words(parts: Sequence[object], length: int) -> str:
    text = next((part.text for part in parts if isinstance(part, Text) and part.text.strip()), "")
    return " ".join(text[: length * 4].split())[:length]


def _inside(text: str) -> str:
    # Text that was found in a file may have made its way into a summary; it must not be able to end the frame.
    return _FRAMES.sub(r"\1\2-", text)
