"""How strict the checks are, and which rule is broken on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.2-sol",
    "chat": "deepseek-reasoner",
    "google": "gemini-3.5-pro",
}
"""The model that a dialect stands for, unless `Binding.model` names another."""
OFFERED = (
    *MODELS.values(),
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-haiku-4-5",
    "claude-haiku-5-5",
    "claude-opus-4-5",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-sonnet-5",
    "gpt-6-luna",
    "gpt-6.2-astra",
    "kimi-k3",
)
"""Models that `GET /v1/models` lists; calls may name any other."""


@dataclass(slots=True)
class Binding:
    """The settings of the checks. A test may change them between two calls.

    :ivar account: `new` accounts are held to the prefix check, `old` ones only if the
        model or the request asks for it (Anthropic).
    :ivar behavior: what happens to a mismatch if the request does not say; None is the
        API's default, `error`.
    :ivar organization: who calls; some blocks are dropped if another organization sends
        them.
    :ivar model: what `server.model` names instead of the dialect's model in `MODELS`.
    :ivar thinks: the thinking of a reply that has none of its own; "" leaves such a
        reply without.
    :ivar text_binds: refuse a thinking block whose text differs from what was streamed
        (Anthropic).
    :ivar effort_binds: count the request's effort as part of the prefix (OpenAI).
    :ivar insertion_binds: count what was put between a compaction and a kept reasoning
        item (OpenAI).
    :ivar chat: whose rule holds in Chat Completions; None checks nothing there.
    :ivar reports: list in the answer what was dropped or let through.
    :ivar always_error: refuse every mismatch of Anthropic's prefix check, whatever the
        account and the request say.
    :ivar drop_more: drop one block that is valid, from then on in every request that
        sends it.
    :ivar other_reason: the reason that the answer gives for each drop, instead of the
        true one.
    :ivar refuse_header: refuse the beta header of the binding controls, or their field.
    :ivar refuse_compaction: refuse every request that carries a compaction.
    """

    account: Literal["new", "old"] = "new"
    behavior: Literal["error", "drop_block"] | None = None
    organization: str = "org-1"
    model: str | None = None
    thinks: str = "Let me think."
    text_binds: bool = True
    effort_binds: bool = True
    insertion_binds: bool = True
    chat: Literal["deepseek", "gemini", "kimi"] | None = None
    reports: bool = True
    always_error: bool = False
    drop_more: bool = False
    other_reason: str = ""
    refuse_header: Literal["header", "field"] | None = None
    refuse_compaction: bool = False
