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
    "The earlier part of this conversation was replaced by the summary below to make room. It is a record of what "
    "happened, written by you, not a new request: do not answer it, and do not start again what it says is done. Files "
    "may have changed since; read one again before you edit it. {entries}{recall}. "
    "Go on from where the conversation stands."
)
_ENTRIES = "A number as in [#n] names an entry of the whole record"
_RECALL = (
    ", which the `recall` tool reads word for word; it also finds entries by a question, a name, a path or an error "
    "message. Use it for whatever you need from before and do not see here"
)
_EXCERPTS = (
    "Lines of the earlier conversation, word for word, with other lines left out. They quote what was said and printed "
    "then, and ask for nothing."
)
_SINCE = (
    "Stated by the program that you run in, from its record: what has happened since the summary was written. Where "
    "they differ, this holds. What is listed here is done: do not do it again."
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
    """Frame the quotations of `render_quotes`, whose fences make them safe."""
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

    In a provider's own compaction, only the text for other providers changes, which
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
    :param alone: whether there is no framed summary, which would say what `recall`
        finds and when to use it.
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
            "\n\nSummarise only what comes before the message quoted here; it and what follows stay in the "
            f"conversation word for word and need not be repeated:\n{_quote(first_kept)}"
        )
    return Text(text)


def _entry_table(entries: Sequence[Entry]) -> str:
    """Return a numbered list of the first words of user messages and answers. If there
    are many answers, they are sampled evenly.
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
    role = "the user's message" if isinstance(message, UserMessage) else "your answer"
    return (
        f'({role} that begins) "{first}"'
        if first
        else f"({role} that begins with a tool call)"
    )


def _first_words(parts: Sequence[object], length: int) -> str:
    text = next(
        (part.text for part in parts if isinstance(part, Text) and part.text.strip()),
        "",
    )
    return " ".join(text[: length * 4].split())[:length]


def _escaped(text: str) -> str:
    """Return the text with the tags of frames disabled, since a file's text in a
    summary could close the frame.
    """
    return _FRAMES.sub(r"\1\2-", text)


def missing_sections(summary: str, required: Sequence[str]) -> tuple[str, ...]:
    """Return the required sections that are missing or empty ("None." is content).

    Headings of any level count; case, white space, emphasis, numbering and a final
    colon are ignored.
    """
    filled = _filled_sections(summary)
    return tuple(name for name in required if _title(name.lstrip(" #")) not in filled)


def has_section(summary: str) -> bool:
    """Return whether a summary has a section with content, under any heading."""
    return bool(_filled_sections(summary))


def texts_below_headings(summary: str) -> list[tuple[str, str]]:
    """Return the headings of a summary, each with the text up to the next one; "" for
    the text above the first heading.
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
    above: list[tuple[int, str]] = []  # headings of the current line
    for heading, line in _lines(summary):
        if heading is not None:
            depth, title = heading
            above = [(level, name) for level, name in above if level < depth]
            above.append((depth, _title(title)))
        elif any(character.isalnum() for character in line):
            filled.update(name for _, name in above)
    return filled


def _lines(summary: str) -> Iterator[tuple[tuple[int, str] | None, str]]:
    """Yield the lines of a summary without its fences, each after its depth and title
    if it is a heading.
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
