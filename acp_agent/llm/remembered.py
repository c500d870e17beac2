"""Leaves out the parts of a request that its server is known to refuse, and remembers
new refusals.

Only refusals that hold for every conversation with a model are remembered; see
`learned.py`. Whether a server accepts reasoning, or a header or parameter for it, may
depend on the conversation, so each session learns that for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from acp_agent.conversation.messages import ToolDefinition
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.learned import LearnedModel
from acp_agent.llm.parts import without_images
from acp_agent.llm.provider import (
    ImagesLeftOut,
    ModelRequest,
    Refusal,
    Refused,
    RefusedTools,
    Remembered,
)
from acp_agent.llm.refused_tools import all_tools, without_tools

_FEATURES: dict[str, Feature] = {feature: feature for feature in get_args(Feature)}
_OF_CONVERSATIONS: frozenset[Feature] = frozenset(
    (
        "controls",
        "compaction",
        "trigger",
        "tools",
        "effort",
        "summaries",
        "echo",
        "thinking",
        "include",
    )
)
"""Features that concern a conversation's reasoning, or its compaction by the provider.
"""
_REFUSED = "refused"
_TAKES = "takes"
_TOOL = "tool"
_IMAGE = "image"
_NO_IMAGES = f"{_REFUSED} images"


def without_refused(
    request: ModelRequest, learned: LearnedModel
) -> tuple[ModelRequest, Remembered]:
    """Return the request without the parts that its server is known to refuse, and a
    record of the parts that were left out.
    """
    refused: set[Feature] = set()
    takes: dict[Feature, str] = {}
    tools: list[str] = []
    facts = learned.facts()
    for name, value in facts.items():
        kind, _, subject = name.partition(" ")
        feature = _FEATURES.get(subject)
        if kind == _REFUSED and feature is not None and feature not in request.refused:
            refused.add(feature)
        elif kind == _TAKES and feature is not None and feature not in request.takes:
            takes[feature] = value
        elif kind == _TOOL:
            tools += {
                tool.name
                for tool in all_tools(request)
                if tool.name == subject and _digest(tool) == value
            }
    changed = replace(
        request, refused=request.refused | refused, takes={**takes, **request.takes}
    )
    changed = without_tools(changed, tools)
    if _NO_IMAGES in facts:
        without = without_images(changed)
        return without or changed, Remembered(
            frozenset(refused), takes, tuple(tools), images=without is not None
        )
    return changed, Remembered(frozenset(refused), takes, tuple(tools))


def keep_refusal(
    event: Refusal | ImagesLeftOut, request: ModelRequest, learned: LearnedModel
) -> None:
    """Remember a refusal if it holds for every conversation. Writes a file, so call
    this in a thread.

    :param request: the original request, before anything was left out.
    """
    facts: dict[str, str | None] = {}
    match event:
        case Refused() if event.lasting and event.feature not in _OF_CONVERSATIONS:
            facts[f"{_TAKES if event.takes else _REFUSED} {event.feature}"] = (
                event.takes
            )
        case RefusedTools():
            facts = {
                f"{_TOOL} {tool.name}": _digest(tool)
                for tool in all_tools(request)
                if tool.name in event.tools
            }
        case ImagesLeftOut() if event.takes_none:
            facts[_NO_IMAGES] = ""
        case _:
            pass
    if facts:
        learned.keep(facts)


def refused_images(learned: LearnedModel) -> frozenset[str]:
    """Return the images that the server has refused, as SHA-256 digests of their bytes."""
    names = (name.partition(" ") for name in learned.facts())
    return frozenset(digest for kind, _, digest in names if kind == _IMAGE)


def keep_images(digests: Iterable[str], learned: LearnedModel) -> None:
    """Remember images that the server refused. Writes a file, so call this in a thread."""
    learned.keep({f"{_IMAGE} {digest}": "" for digest in digests})


def _digest(tool: ToolDefinition) -> str:
    """Return a digest of a tool's definition. A server may accept the tool once its
    definition has changed.
    """
    import hashlib  # loads OpenSSL

    return hashlib.sha256(
        repr((tool.description, tool.input_schema)).encode("utf-8", "surrogatepass")
    ).hexdigest()
