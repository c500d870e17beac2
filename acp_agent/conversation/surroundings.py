"""The parts of a request outside the conversation: system prompt (in sections), tools
and reasoning level.

Each request begins with the same surroundings as the one before it. Changes are
appended to the conversation as an `Amendment`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import (
    Amendment,
    Entry,
    Section,
    ToolDefinition,
    new_id,
)
from acp_agent.frozen import frozen
from acp_agent.visible import revealed

Feature: TypeAlias = Literal[
    "controls",
    "compaction",
    "trigger",
    "tools",
    "effort",
    "summaries",
    "echo",
    "functions",
    "descriptions",
    "cache_control",
    "call_ids",
    "user_after_tool",
    "system",
    "raw_arguments",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "stream",
    "stream_options",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "prompt_cache_key",
    "include",
    "store",
]
"""An optional part of a provider's API. `controls`: options for reasoning that is no
longer valid. `compaction`: conversations that the provider has compacted. `trigger`: an
item at the end of a request that asks for a compaction. `tools`, `effort`: changing
tools or the reasoning level in the middle of a conversation. `summaries`: readable
summaries of reasoning. `echo`: members of a message with its reasoning, in Chat
Completions. `functions`: any tools at all. `descriptions`: tool descriptions of any
length. `cache_control`: cache breakpoints. `call_ids`: call IDs other than nine letters
and digits. `user_after_tool`: a user message directly after a tool result. `system`: a
message with this role. `raw_arguments`: a call's arguments as the model wrote them,
even if they are not JSON. All others are members of a request, by their names in the
API.
"""


@frozen
class Surroundings:
    """The parts of a request outside the conversation.

    :ivar sections: the sections of the system prompt; empty in logs of earlier
        versions.
    :ivar tools: in the order of the request; None before the first request.
    :ivar thought_level: see `ModelRequest`.
    """

    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDefinition, ...] | None = None
    thought_level: str = ""

    def after(self, amendments: Iterable[Amendment]) -> Surroundings:
        """Return the surroundings after these amendments."""
        sections = {section.name: section for section in self.sections}
        tools = {tool.name: tool for tool in self.tools or ()}
        level = self.thought_level
        for amendment in amendments:
            for section in amendment.sections:
                sections[section.name] = section
            for name in amendment.removed:
                tools.pop(name, None)
            for tool in amendment.added:
                tools[tool.name] = tool
            if amendment.thought_level is not None:
                level = amendment.thought_level
        present = tuple(section for section in sections.values() if section.text)
        return Surroundings(
            present, None if self.tools is None else tuple(tools.values()), level
        )


_FRAME = re.compile(r"<([\s/]{0,20})((?:mcp_server_)?instructions\b)", re.IGNORECASE)
_BLOCK = re.compile(
    r'^<instructions file="([^"\n]*)">\n.*?^</instructions>$', re.DOTALL | re.MULTILINE
)
_FACT = re.compile(
    r"^(Working directory|Git repository|Platform|Date): .*$", re.MULTILINE
)

_ADDITIONAL = re.compile(r"^Additional directory: .*$", re.MULTILINE)


def as_instructions(text: str) -> str:
    """Return the instructions of a file or a server, escaped for the frame of their
    section.

    The text cannot close the frame, so it cannot pass for instructions from another
    source. Invisible characters are replaced with their names, since people who review
    a file do not see them.
    """
    return _FRAME.sub(r"<\1quoted-\2", revealed(text))


def sections_in(instructions: str) -> tuple[Section, ...]:
    """Split a system prompt into sections. Logs of earlier versions contain only its
    text.
    """
    head = instructions.partition("\n<instructions file=")[0]
    facts = [Section(match[1], match[0]) for match in _FACT.finditer(head)]
    additional = _ADDITIONAL.findall(head)
    if additional:
        facts.append(Section("Additional directories", "\n".join(additional)))
    files = [Section(match[1], match[0]) for match in _BLOCK.finditer(instructions)]
    return (*facts, *files)


def amendments_in(entries: Iterable[Entry]) -> Iterable[Amendment]:
    """Yield the amendments among the entries of a context, in order."""
    for entry in entries:
        if isinstance(entry.message, Amendment):
            yield entry.message


def changed_sections(
    before: Iterable[Section], after: Iterable[Section]
) -> tuple[Section, ...]:
    """Return the sections of the system prompt that differ. A removed section has an
    empty text.
    """
    old = {section.name: section.text for section in before}
    new = {section.name: section.text for section in after}
    changed = [
        Section(name, text) for name, text in new.items() if old.get(name, "") != text
    ]
    gone = [Section(name, "") for name, text in old.items() if text and name not in new]
    return (*changed, *gone)


def tools_amendment(
    announced: Surroundings, tools: tuple[ToolDefinition, ...], thought_level: str
) -> Amendment | None:
    """Return the amendment that tells the model about these tools and this reasoning
    level, or None if it already knows both.

    :param announced: the surroundings that the model knows.
    """
    before = {tool.name: tool for tool in announced.tools or ()}
    present = {tool.name for tool in tools}
    added = tuple(tool for tool in tools if before.get(tool.name) != tool)
    removed = tuple(name for name in before if name not in present)
    level = None if thought_level == announced.thought_level else thought_level
    if not added and not removed and level is None:
        return None
    return Amendment(
        new_id("msg"), (), added=added, removed=removed, thought_level=level
    )
