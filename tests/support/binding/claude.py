"""What Claude models do with thinking, by model.

From platform.claude.com/docs/en/build-with-claude: preserved-thinking (prefix checks,
switching models, accounts), thinking-troubleshooting (types of thinking),
mid-conversation-system-messages, compaction-thinking-blocks.
"""

from __future__ import annotations

import re

BINDING_BETA = "thinking-binding-controls-2026-08-01"
COMPACTION_BETA = "compact-2026-09-04"
INLINE_TOOLS_BETA = "inline-tools-2026-09-15"
TOOL_CHANGES_BETA = "mid-conversation-tool-changes-2026-07-01"
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"
OUTPUT_CONFIG_BETA = "mid-conversation-output-config-2026-07-01"

FABLES = frozenset({"claude-fable-5", "claude-fable-5-1", "claude-fable-5-2"})
MYTHOS = frozenset({"claude-mythos-5", "claude-mythos-5-1", "claude-mythos-5-2"})
EARLIER = frozenset(
    {
        "claude-haiku-4-5",
        "claude-opus-4-1",
        "claude-opus-4-5",
        "claude-opus-4-6",
        "claude-opus-4-7",
        "claude-opus-4-8",
        "claude-sonnet-4",
        "claude-sonnet-4-5",
        "claude-sonnet-4-6",
        "claude-sonnet-5",
    }
)
"""Models before Opus 5, which all later ones read."""

PRESERVING = frozenset(
    {
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-haiku-5-5",
        "claude-mythos-5-1",
        "claude-mythos-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
    }
)
"""Models whose blocks record the conversation before them, and which compare it."""
ALWAYS_ENFORCED = frozenset(
    {"claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2"}
)
"""Models that are held to the check for every account."""
BOUND_TO_ACCOUNT = frozenset(
    {"claude-fable-5-2", "claude-haiku-5-5", "claude-mythos-5-2", "claude-sonnet-5-5"}
)
"""Models whose blocks only work in the account that created them."""

READS: dict[str, frozenset[str]] = {
    "claude-haiku-5-5": EARLIER,
    "claude-sonnet-5-5": EARLIER | {"claude-haiku-5-5"},
    "claude-opus-5": EARLIER,
    "claude-opus-5-5": EARLIER
    | {"claude-haiku-5-5", "claude-opus-5", "claude-sonnet-5-5"},
    "claude-fable-5-1": EARLIER
    | {
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-fable-5",
        "claude-mythos-5",
        "claude-mythos-5-1",
    },
    "claude-mythos-5-1": EARLIER
    | {
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-fable-5",
        "claude-fable-5-1",
        "claude-mythos-5",
    },
    "claude-fable-5-2": (EARLIER | PRESERVING | FABLES | MYTHOS | {"claude-opus-5"}),
    "claude-mythos-5-2": (EARLIER | PRESERVING | FABLES | MYTHOS | {"claude-opus-5"}),
}
"""Whose blocks a model reads beside its own. Models before Opus 5 read each other's."""

SYSTEM_MESSAGES = PRESERVING | FABLES | MYTHOS | {"claude-opus-4-8", "claude-opus-5"}
"""Models that take messages of the role `system`."""
COMPACTS = (
    PRESERVING
    | FABLES
    | MYTHOS
    | {
        "claude-opus-4-6",
        "claude-opus-4-7",
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-sonnet-4-6",
        "claude-sonnet-5",
    }
)
"""Models with compaction on demand."""
ALWAYS_THINKS = FABLES | MYTHOS | {"claude-opus-5-5", "claude-sonnet-5-5"}
"""Models that refuse `thinking: {"type": "disabled"}`."""
BETWEEN_TOOLS = frozenset({"claude-sonnet-5-5"})
"""Models that take `between_tools` instead."""
NO_BUDGET = (
    PRESERVING
    | FABLES
    | MYTHOS
    | {"claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5"}
)
"""Models that refuse `thinking: {"type": "enabled"}` and an assistant message at the
end.
"""
THINKS_BY_DEFAULT = PRESERVING | FABLES | MYTHOS | {"claude-opus-5", "claude-sonnet-5"}
"""Models that think if a request does not mention thinking."""
OMITS_TEXT = NO_BUDGET
"""Models that leave the text of a thinking block empty unless a request asks for a
summary.
"""


def family(model: str) -> str:
    """Return a model's name as it is in the tables: without a provider, a date, or
    dots.
    """
    name = model.rpartition("/")[2].replace(".", "-")
    return re.sub(r"-(\d{8}|latest)$", "", name)


def reads(reader: str, maker: str) -> bool:
    if reader == maker:
        return True
    if reader in EARLIER:
        return maker in EARLIER
    return maker in READS.get(reader, frozenset())
