"""Writes a conversation as Markdown for people: messages, tool calls and their results.

Every text is included word for word. A text that would swallow the text after it, such
as one with an unclosed fence, is put into a fence. Reasoning is omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from acp_agent.conversation.events import (
    AssistantAnswered,
    ContextAdded,
    ContextSwapped,
    EditsUndone,
    LoggedEvent,
    NoteAdded,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    Audio,
    CompactedBlock,
    Image,
    Resource,
    ResourceLink,
    ResultPart,
    Text,
    ToolCall,
    UserPart,
)

TITLE = "Conversation"
USER = "User"
AGENT = "Agent"
NOTE = "Note to the agent"
COMPACTED = "Compacted"


def log_markdown(events: Iterable[LoggedEvent], *, title: str = TITLE) -> str:
    """Return a session's log as one document: everything that the user saw, including
    compactions.

    :param title: the heading of the document.
    """
    page = _Page(title)
    for logged in events:
        page.event(logged)
    return "\n\n".join(page.blocks) + "\n"


class _Page:
    """The document while it is being written."""

    def __init__(self, title: str) -> None:
        self.blocks = [f"# {' '.join(title.split())}"]
        self._speaker = ""
        self._calls: dict[str, str] = {}

    def event(self, logged: LoggedEvent) -> None:
        """Append the blocks of an event."""
        match logged.event:
            case UserPrompted(shown=parts):
                self._says(
                    USER, *(block for part in parts for block in _user_part(part))
                )
            case AssistantAnswered(message=message):
                for part in message.parts:
                    if isinstance(part, Text):
                        self._says(AGENT, *_prose(part.text))
                    elif isinstance(part, ToolCall):
                        name = self._calls[part.id] = _code(part.name)
                        arguments = part.invalid
                        if arguments is None:
                            arguments = json.dumps(
                                part.arguments, ensure_ascii=False, indent=2
                            )
                        self._says(
                            AGENT, f"{name} was called:", fenced(arguments, "json")
                        )
            case ToolReturned(result=result):
                name = self._calls.pop(result.call_id, "a call")
                ending = "failed" if result.is_error else "returned"
                self._says(
                    AGENT,
                    f"{name} {ending}:",
                    *(block for part in result.parts for block in _result_part(part)),
                )
            case NoteAdded(text=text):
                self._says(AGENT, *_prose(text))
            case ContextAdded(sent=text) | EditsUndone(sent=text):
                self._says(NOTE, *_prose(text))
            case ContextSwapped(
                summary=summary, tokens_before=before, tokens_after=after
            ):
                size = f"From about {before:,} to {after:,} tokens. The messages above are no longer in the context."
                self._says(COMPACTED, size, *_prose(summary))
            case _:
                pass

    def _says(self, speaker: str, *blocks: str) -> None:
        """Append blocks, under a new heading if the speaker changes or is the user."""
        if not blocks:
            return
        if speaker != self._speaker or speaker == USER:
            self.blocks.append(f"## {speaker}")
            self._speaker = speaker
        self.blocks.extend(blocks)


def fenced(text: str, info: str = "") -> str:
    """Return a text in a fence that nothing in the text can close.

    :param info: the language of the text, such as `json`.
    """
    fence = fence_for(text)
    return f"{fence}{info}\n{text}\n{fence}"


def fence_for(text: str, mark: str = "`") -> str:
    """Return the shortest fence of at least three marks that is longer than any run of
    marks in the text.
    """
    longest = max((len(run) for run in re.findall(f"{mark}+", text)), default=0)
    return mark * max(3, longest + 1)


def _prose(text: str) -> tuple[str, ...]:
    """Return Markdown unchanged, or in a fence if it would swallow a heading below it."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").disable("inline").parse(f"{text}\n\n# _")
    is_closed = [token.content for token in tokens[-2:]] == ["_", ""]
    return (text if is_closed else fenced(text, "markdown"),) if text else ()


def _code(name: str) -> str:
    return f"`{' '.join(name.replace('`', ' ').split()) or '(no name)'}`"


def _user_part(part: UserPart) -> tuple[str, ...]:
    match part:
        case Text():
            return _prose(part.text)
        case Image():
            return (_image(part),)
        case Audio():
            return (f"An audio clip ({_code(part.mime_type)}).",)
        case ResourceLink():
            return (f"Attached: {_code(part.uri)}",)
        case Resource():
            contents = () if part.text is None else (fenced(part.text),)
            return (f"Attached: {_code(part.uri)}", *contents)
        case CompactedBlock():
            return _prose(part.text)


def _result_part(part: ResultPart) -> tuple[str, ...]:
    if isinstance(part, Image):
        return (_image(part),)
    return (fenced(part.text),) if part.text else ()


def _image(image: Image) -> str:
    return f"An image ({_code(image.mime_type)}){f': {_code(image.uri)}' if image.uri else ''}."
