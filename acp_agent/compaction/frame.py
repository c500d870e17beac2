"""The framing of a compacted history: the summary request, the check for required
sections, and the text around the summary in later requests.

A summary is framed as history, since models otherwise treat it as a new message from
the user. The user never sees this framing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Entry,
    Message,
    Text,
    UserMessage,
    UserPart,
)

_HISTORY = (
    "The earlier part of this conversation was replaced by the summary below to make room. You wrote the summary; it "
    "is a record of what happened, not a new request. Do not answer it, and do not repeat work that it says is done. "
    "Files may have changed since; read a file again before you edit it. {entries}{recall}. "
    "Continue the conversation from its current state."
)
_ENTRIES = "A number such as [#12] refers to an entry in the log of the whole session"
_RECALL = (
    ", which the `recall` tool reads word for word. `recall` also finds entries by a question, a name, a path or an "
    "error message. Use it for anything from the earlier conversation that you need and that is not shown here"
)
_EXCERPTS = (
    "Lines from the earlier conversation, quoted word for word; the other lines are omitted. They are history and "
    "contain no new requests."
)
_SINCE = (
    "The program that runs you lists here, from its log, what has happened since the summary was written. If this list "
    "and the summary disagree, the list is right. Everything in the list is done: do not do it again."
)
_RECALLED = " `recall` reads entry [#n] in full."
_FRAMES = re.compile(
    r"(?<=[</])(\s*)(conversation|recorded|carried)_(?=(?:summary|facts|excerpts|over|since)\b)",
    re.IGNORECASE,
)
_EMPHASIS = str.maketrans("", "", "*_`")
_QUOTE_LENGTH = 120
_TABLE_ENTRIES = 120
_TABLE_QUOTE = 60


def frame_quotes(quotes: str) -> tuple[Text, ...]:
    """Frame the result of `render_quotes`. The quotations need no escaping, since
    nothing in them can close their fences.
    """
    return (Text(f"<carried_over>\n{quotes}\n</carried_over>"),) if quotes else ()


def frame_summary(summary: str, *, recall: bool) -> tuple[Text, ...]:
    """Frame a summary as history.

    :param recall: whether the model has the `recall` tool.
    """
    if not summary:
        return ()
    history = _HISTORY.format(entries=_ENTRIES, recall=_RECALL if recall else "")
    return (
        Text(
            f"<conversation_summary>\n{history}\n\n{_escaped(summary)}\n</conversation_summary>"
        ),
    )


def reworded(
    parts: Sequence[UserPart], summary: str, words: str, *, recall: bool
) -> tuple[UserPart, ...]:
    """Return the parts of a compacted history with the text of its summary replaced.

    In a provider's own compaction, only the text for other providers changes. That text
    ends with the summary.
    """
    [old] = frame_summary(summary, recall=recall)
    [new] = frame_summary(words, recall=recall)
    changed: list[UserPart] = []
    for part in parts:
        if isinstance(part, Text):
            changed.append(new if part == old else part)
        elif isinstance(part, CompactedBlock) and part.text.endswith(old.text):
            changed.append(
                replace(part, text=part.text.removesuffix(old.text) + new.text)
            )
        else:
            changed.append(part)
    return tuple(changed)


def frame_excerpts(
    inventory: str, excerpts: str, *, recall: bool, alone: bool = False
) -> tuple[Text, ...]:
    """Frame the inventory and the excerpts.

    :param recall: whether the model has the `recall` tool.
    :param alone: whether there is no framed summary, which would explain the `recall`
        tool. If so, the text around the excerpts explains it.
    """
    if not inventory and not excerpts:
        return ()
    introduction = _EXCERPTS
    if recall:
        introduction += f" {_ENTRIES}{_RECALL}." if alone else _RECALLED
    content = _escaped("\n\n".join(filter(None, (inventory, excerpts))))
    return (
        Text(f"<recorded_excerpts>\n{introduction}\n\n{content}\n</recorded_excerpts>"),
    )


def frame_since(happened: str) -> tuple[Text, ...]:
    """Frame what has happened since a summary was written; see `since`."""
    return (
        (
            Text(
                f"<recorded_since>\n{_SINCE}\n\n{_escaped(happened)}\n</recorded_since>"
            ),
        )
        if happened
        else ()
    )


def layer_of(part: object) -> Literal["pinned", "summary", "excerpts"]:
    """Return the layer of a part of a compacted history. A provider's own compaction
    counts as the summary.
    """
    text = part.text if isinstance(part, Text) else ""
    if text.startswith(("<recorded_excerpts>\n", "<recorded_facts>\n")):
        return "excerpts"
    return "pinned" if text.startswith("<carried_over>\n") else "summary"


def summary_request(
    prompt: str, first_kept: Message | None, summarised: Sequence[Entry] = ()
) -> Text:
    """Return the last message of the summary request.

    :param prompt: the rendered recipe.
    :param first_kept: the first message after the cut; None if all messages are
        summarised.
    :param summarised: the entries before the cut, whose numbers the summary may cite.
    """
    text = prompt
    if table := _entry_table(summarised):
        text += f"\n\nEntries, by number:\n{table}"
    if first_kept is not None:
        text += (
            "\n\nSummarise only what comes before the message quoted below. That message and everything after it "
            f"stay in the conversation word for word, so do not repeat them:\n{_quote(first_kept)}"
        )
    return Text(text)


def _entry_table(entries: Sequence[Entry]) -> str:
    """Return a list of user messages and answers by number, each with its first words.
    If there are many answers, they are sampled evenly.
    """
    prompts = [
        entry
        for entry in entries
        if isinstance(entry.message, UserMessage) and not entry.summary
    ]
    answers = [
        entry for entry in entries if isinstance(entry.message, AssistantMessage)
    ]
    prompts = prompts[-_TABLE_ENTRIES // 2 :]
    step = max(1, -(-len(answers) // (_TABLE_ENTRIES - len(prompts))))
    chosen = sorted([*prompts, *answers[::step]], key=lambda entry: entry.seq)
    return "\n".join(f"[#{entry.seq}] {_beginning(entry)}" for entry in chosen)


def _beginning(entry: Entry) -> str:
    message = entry.message
    role = "user" if isinstance(message, UserMessage) else "you"
    words = _first_words(entry.typed or message.parts, _TABLE_QUOTE)
    if not words and isinstance(message, AssistantMessage):
        words = ", ".join(call.name for call in message.tool_calls[:3])
    return f"{role}: {words}"


def _quote(message: Message) -> str:
    first = _first_words(message.parts, _QUOTE_LENGTH)
    role = "The user's message" if isinstance(message, UserMessage) else "Your answer"
    return (
        f'{role} that begins with "{first}"'
        if first
        else f"{role} that begins with a tool call"
    )


def _first_words(parts: Sequence[object], length: int) -> str:
    text = next(
        (part.text for part in parts if isinstance(part, Text) and part.text.strip()),
        "",
    )
    return " ".join(text[: length * 4].split())[:length]


def _escaped(text: str) -> str:
    """Return the text with the tags of frames disabled. Otherwise a file quoted in a
    summary could close the frame.
    """
    return _FRAMES.sub(r"\1\2-", text)


def missing_sections(summary: str, required: Sequence[str]) -> tuple[str, ...]:
    """Return the required sections that are missing or empty. "None." counts as
    content.

    Headings may have any level. Case, white space, emphasis, numbering and a final
    colon are ignored.
    """
    filled = _filled_sections(summary)
    return tuple(name for name in required if _title(name.lstrip(" #")) not in filled)


def has_section(summary: str) -> bool:
    """Return whether a summary has a section with content, under any heading."""
    return bool(_filled_sections(summary))


def texts_below_headings(summary: str) -> list[tuple[str, str]]:
    """Return the headings of a summary, each with the text up to the next heading. The
    first pair has an empty heading and the text above the first heading.
    """
    texts: list[tuple[str, list[str]]] = [("", [])]
    for heading, line in _lines(summary):
        if heading is None:
            texts[-1][1].append(line)
        else:
            texts.append((heading[1], []))
    return [(title, "\n".join(lines)) for title, lines in texts]


def _filled_sections(summary: str) -> set[str]:
    """Return the titles of the sections that have content."""
    filled: set[str] = set()
    above: list[tuple[int, str]] = []  # depth and title of the open sections
    for heading, line in _lines(summary):
        if heading is not None:
            depth, title = heading
            above = [(level, name) for level, name in above if level < depth]
            above.append((depth, _title(title)))
        elif any(character.isalnum() for character in line):
            filled.update(name for _, name in above)
    return filled


def _lines(summary: str) -> Iterator[tuple[tuple[int, str] | None, str]]:
    """Yield the lines of a summary, except for the fences of code blocks.

    :returns: pairs of the depth and title of a heading, or None for any other line, and
        the line.
    """
    fenced = False
    for line in summary.split("\n"):
        content = line.lstrip(" \t>")
        title = content.lstrip("#")
        depth = len(content) - len(title)
        if content.startswith(("```", "~~~")):
            fenced = not fenced
        elif 1 <= depth <= 6 and not fenced and title[:1] in ("", " ", "\t"):
            yield (depth, title.strip(" \t#\r")), line
        else:
            yield None, line


def _title(heading: str) -> str:
    plain = " ".join(heading.translate(_EMPHASIS).split())
    number, _, rest = plain.partition(" ")
    numbered = rest and number.rstrip(")").replace(".", "").isdecimal()
    return (rest if numbered else plain).rstrip(" :：").casefold()
