"""Sessions of Claude Code: JSON Lines, in which lines of the types `user` and `assistant` hold a message each.

An answer is recorded in pieces of one block, which share their message's id. Left out are side chains (sub-agents),
what the program says in the user's name (`isMeta`), summaries of compactions (the whole history stands before them),
and lines of every other type. Branches that the user went back from are left in, in the order of the file.
"""

from __future__ import annotations

from acp_agent.compaction.evaluation.importers.reading import Document, as_object, as_text, wrong
from acp_agent.compaction.evaluation.importers.transcript import add_content
from acp_agent.compaction.evaluation.recording import Recording, RecordingBuilder

FORM = "Claude Code"

_TYPES = ("user", "assistant")
_LEFT_OUT = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")


def matches(document: Document) -> bool:
    """Whether it is one."""
    return any(line.value.get("type") in _TYPES and as_object(line.value.get("message")) for line in document.lines)


def read(document: Document, name: str) -> Recording:
    """Import it.

    :raises AgentError: a line of a message holds none.
    """
    builder = RecordingBuilder()
    for line in document.lines:
        value = line.value
        if value.get("type") not in _TYPES or any(value.get(mark) is True for mark in _LEFT_OUT):
            continue
        message = as_object(value.get("message"))
        if message is None:
            raise wrong(document.path, "should be an object with `role` and `content`", line.number, "message")
        builder.cwd = builder.cwd or as_text(value.get("cwd"))
        user = value.get("type") == "user"
        add_content(builder, message.get("content"), user=user, key="" if user else as_text(message.get("id")))
    return builder.build(name, FORM)
