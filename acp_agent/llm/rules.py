"""Describes how providers treat the reasoning of earlier answers.

The rules are data: `reasoning.csv` lists them by model family, and `platforms.csv` by
server.

Sources: platform.claude.com on preserved thinking, mid-conversation system messages,
effort per message, and compaction on demand; developers.openai.com on preserved
reasoning, prompt caching and compaction, and the API's specification on
`compaction_trigger`, which Codex sends to OpenAI and to Azure; the pages of the other
providers that `docs/models.md` names. State of November 2026.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from acp_agent.frozen import frozen
from acp_agent.llm.caches import CacheLife, cache_life
from acp_agent.llm.names import gpt_version, plain_name
from acp_agent.llm.places import Endpoint, known_host

Checks: TypeAlias = Literal["none", "anthropic", "openai", "unknown"]
"""Whether the provider checks that reasoning stays in the conversation that created it,
and whose rules the provider applies.
"""
ThinkingOff: TypeAlias = Literal["none", "disabled", "between_tools", "low", "least"]
"""How a request turns thinking off. `none`: sends nothing, since thinking is off by
default. `disabled`, `between_tools`: sends `thinking` with this type. `low`, `least`:
sends the lowest effort, since the model always thinks.
"""
ToolChanges: TypeAlias = Literal["plain", "value", "reference", "items"]
"""How tools change during a conversation. `plain`: with a new list of tools, which
changes the beginning of the request. `value`, `reference`: with Anthropic's system
messages, which define a tool or refer to one in the list. `items`: with OpenAI's
`additional_tools`.
"""
EffortChanges: TypeAlias = Literal["top", "message", "item"]
"""How the effort changes during a conversation. `top`: with the request's top-level
member. `message`: with Anthropic's system message. `item`: with OpenAI's
`configuration_update`.
"""
Compaction: TypeAlias = Literal["none", "plain", "kept"]
"""Whether the provider has its own compaction. `kept`: the remaining messages keep
their reasoning.
"""
CompactsTo: TypeAlias = Literal["none", "block", "window"]
"""What remains of the messages after the provider's own compaction. `block`: one block
that replaces them. `window`: all user messages, and one encrypted item that replaces
the rest.
"""
AskedBy: TypeAlias = Literal["none", "parameter", "path", "item"]
"""How the agent asks the provider to compact. `parameter`: with Anthropic's
`compaction`. `path`: with OpenAI's `/responses/compact`, which does not use the prompt
cache. `item`: with OpenAI's `compaction_trigger` at the end of an ordinary request,
whose beginning is read from the cache; with the path if the server does not accept the
item.
"""
Echo: TypeAlias = Literal[
    "none", "signature", "items", "given", "calls", "always", "thought_signature"
]
"""The form in which reasoning is sent back. `signature`: Anthropic's blocks. `items`:
OpenAI's items. `given`: in the member of the message that it arrived in, if there was
any. `calls`: like `given`, but answers that call tools always have the member.
`always`: like `given`, but all answers have the member. `thought_signature`: Gemini's
signatures, on the calls.
"""


@frozen
class ReasoningRules:
    """The rules for one model at one server.

    :ivar family: the beginning of the model's id, as the table has it; empty for an
        unknown model.
    :ivar reads: other families whose reasoning the model can read; a final `*` matches
        any ending.
    :ivar binds: whether reasoning is sent only in the conversation that created it.
    :ivar takes_compaction: whether a conversation that the provider has compacted can
        be sent to the model.
    :ivar controls: whether requests specify how to treat invalid reasoning.
    :ivar native_first: whether automatic compactions are done by the provider, since
        that keeps reasoning.
    :ivar cache: how long the server keeps a prompt in its cache; None if unknown.
    """

    family: str = ""
    checks: Checks = "unknown"
    reads: tuple[str, ...] = ("*",)
    off: ThinkingOff = "none"
    tools: ToolChanges = "plain"
    effort: EffortChanges = "top"
    instructions: Literal["system", "developer", "instructions"] = "system"
    compaction: Compaction = "none"
    compacts_to: CompactsTo = "none"
    asked_by: AskedBy = "none"
    echo: Echo = "given"
    binds: bool = False
    takes_compaction: bool = False
    controls: bool = False
    native_first: bool = False
    cache: CacheLife | None = None

    def can_read(self, family: str) -> bool:
        """Return whether the model can read the reasoning of a model of this family."""
        if not family or family == self.family:
            return True
        return any(_covers(pattern, family) for pattern in self.reads)


@frozen
class _Platform:
    """What a server supports; see `platforms.csv`."""

    controls: bool
    compaction: bool
    trigger: bool
    tools: ToolChanges
    effort: bool


_SEALING_GPT = (6, 2)
"""The first version of OpenAI's models that checks reasoning."""
_LATER_VERSION = re.compile(r"(?<=\d)-\d{1,2}(?!\d)")
"""Matches the version after the family in an id such as `claude-opus-5-6`, but not a
date, which is longer.
"""
_GATEWAY = _Platform(
    controls=False, compaction=False, trigger=False, tools="plain", effort=False
)


@cache
def rules_of(model: str) -> ReasoningRules:
    """Return the rules for a model at its maker's own server.

    :param model: the provider's id; `plain_name` strips its prefixes.
    """
    name = plain_name(model)
    version = gpt_version(name)
    if version is not None and version >= _SEALING_GPT:
        name = "gpt-{}.{}".format(*_SEALING_GPT)
    table = _models()
    family = max(
        (prefix for prefix in table if _is_of(name, prefix)), key=len, default=""
    )
    return table.get(family, ReasoningRules())


def rules_at(endpoint: Endpoint, model: str, cache_option: str = "") -> ReasoningRules:
    """Return the rules for a model at this server.

    For an unknown server, the rules use only features that every server understands.

    :param cache_option: see `cache_life`.
    """
    known = rules_of(model)
    platform = _platform_of(endpoint)
    tools = known.tools
    if tools != "plain" and platform.tools != tools:
        tools = (
            platform.tools
            if {tools, platform.tools} == {"value", "reference"}
            else "plain"
        )
    return replace(
        known,
        tools=tools,
        effort=known.effort if platform.effort else "top",
        asked_by="path"
        if known.asked_by == "item" and not platform.trigger
        else known.asked_by,
        takes_compaction=known.compaction != "none" or known.checks == "unknown",
        binds=endpoint.kind in ("anthropic", "openai-responses"),
        controls=known.checks == "anthropic" and platform.controls,
        native_first=known.compaction == "kept" and platform.compaction,
        cache=cache_life(endpoint, model, cache_option),
    )


def _is_of(name: str, family: str) -> bool:
    """Return whether a model belongs to a family. Later versions do not belong to it,
    since their rules are unknown.
    """
    return name.startswith(family) and not _LATER_VERSION.match(name, len(family))


def _covers(pattern: str, family: str) -> bool:
    return (
        family.startswith(pattern[:-1]) if pattern.endswith("*") else family == pattern
    )


def _platform_of(endpoint: Endpoint) -> _Platform:
    return _platforms().get(known_host(endpoint, _platforms()), _GATEWAY)


@cache
def _models() -> dict[str, ReasoningRules]:
    """Return the rules, keyed by prefixes of model ids."""
    table: dict[str, ReasoningRules] = {}
    names = {field.name for field in fields(ReasoningRules)}
    for row in _rows("reasoning.csv"):
        values: dict[str, Any] = {
            name: value for name, value in row.items() if name in names
        }
        values["reads"] = tuple(row["reads"].split())
        for family in row["models"].split():
            table[family] = ReasoningRules(family, **values)
    return table


@cache
def _platforms() -> dict[str, _Platform]:
    return {
        row["host"]: _Platform(
            controls=row["controls"] == "yes",
            compaction=row["compaction"] == "yes",
            trigger=row["trigger"] == "yes",
            tools=cast("ToolChanges", row["tools"]),
            effort=row["effort"] == "yes",
        )
        for row in _rows("platforms.csv")
    }


def _rows(name: str) -> list[dict[str, str]]:
    import csv

    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
