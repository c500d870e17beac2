"""Digests that bind reasoning to the conversation in which it was created.

Current models bind a piece of reasoning to everything before it: the system prompt, the
tools, all messages, and the previous piece of reasoning. A provider refuses or drops a
piece that appears in another place. So a `Prefix` keeps track of a request while it is
encoded. Each new piece of reasoning is stored with the digests of its prefix (`Bound`),
and is sent only if a later request has the same digests. A digest covers what providers
compare: the parts of messages, in order and with their roles. It does not cover
`cache_control`, leading and trailing white space, or blank texts.

Source: platform.claude.com, "Preserved thinking"; developers.openai.com, "Keep the
prefix unchanged".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from acp_agent.conversation.messages import (
    Bound,
    JsonObject,
    JsonValue,
    Thinking,
    name_of,
)
from acp_agent.frozen import frozen
from acp_agent.llm.provider import Cause
from acp_agent.llm.rules import ReasoningRules

_BYTES = 8


@frozen
class Prefix:
    """The beginning of a request, as encoded so far.

    :ivar head: digest of the system prompt and the tools.
    :ivar before: digest of all parts so far.
    :ivar said: digest of all parts so far, except the system and developer messages.
    :ivar newest: the newest piece of reasoning that is sent for each family of models,
        in the order of the request.
    """

    head: str
    before: str = ""
    said: str = ""
    newest: tuple[tuple[str, str], ...] = ()

    def after(self, role: str, part: JsonObject) -> Prefix:
        """Return the prefix with one more part.

        :param part: the part in the form that the provider compares.
        """
        piece = _digest(role, part)
        is_said = role not in ("system", "developer")
        said = _chained(self.said, piece) if is_said else self.said
        # `dataclasses.replace` would take longer than computing the digests.
        return Prefix(self.head, _chained(self.before, piece), said, self.newest)

    def after_reasoning(self, family: str, part: Thinking) -> Prefix:
        """Return the prefix with one more piece of reasoning by a model of this family."""
        others = tuple(each for each in self.newest if each[0] != family)
        return Prefix(
            self.head, self.before, self.said, (*others, (family, name_of(part)))
        )

    def after_compaction(self, block: JsonObject, at: Bound | None) -> Prefix:
        """Return the prefix after the block that holds a conversation compacted by the
        provider.

        The messages kept after the block continue from the end of the compaction
        request.

        :param at: the binding of the compaction; None if it keeps no reasoning.
        """
        if at is None:
            return replace(self.after("assistant", block), newest=())
        return replace(self, before=at.before, said=at.said, newest=())

    def bound(self, rules: ReasoningRules) -> Bound:
        """Return the binding for the reasoning that the model creates next."""
        return Bound(self.head, self.before, self.said, self._previous(rules))

    def mismatch(
        self, part: Thinking, rules: ReasoningRules, reader: ReasoningRules
    ) -> Cause | None:
        """Return why a piece of reasoning is not valid here; None if it is.

        :param rules: the rules for the model that created it.
        :param reader: the rules for the model that is called.
        """
        if part.bound is None:
            return None
        if "none" in (rules.checks, reader.checks):
            # Older models do not bind or check reasoning, so only the messages must be
            # the same.
            return None if part.bound.said == self.said else "conversation"
        if part.bound.head != self.head:
            return "surroundings"
        if part.bound.before != self.before:
            return "conversation"
        # Reasoning may be missing at the beginning, but not in the middle.
        previous = self._previous(rules)
        return "conversation" if previous and part.bound.previous != previous else None

    def _previous(self, rules: ReasoningRules) -> str:
        """Return the newest piece of reasoning that a model with these rules can read."""
        readable = (
            piece for family, piece in reversed(self.newest) if rules.can_read(family)
        )
        return next(readable, "")


def head_of(system: str, tools: Iterable[JsonObject], *others: str) -> str:
    """Return the digest of a system prompt and tools, regardless of the tools' order.

    :param others: anything else that comes before the messages.
    """
    digests: list[JsonValue] = [*sorted(_digest("tool", tool) for tool in tools)]
    return _digest("head", [system.strip(), digests, *others])


def _chained(before: str, piece: str) -> str:
    return blake2b(f"{before} {piece}".encode(), digest_size=_BYTES).hexdigest()


def _digest(role: str, part: JsonValue) -> str:
    # With sorted keys, `json.dumps` would create a new encoder for each call.
    text = f"{role} {_canonical(part)}"
    return blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_BYTES
    ).hexdigest()


_canonical = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":")
).encode
