"""`compaction` in the front matter: its form, and the options that it means.

Checks what can be seen in the recipe alone; what the numbers do, and what holds where one is missing, is the matter of
whoever compacts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.checks import unknown_provider
from acp_agent.config.document import Document, DocumentError, did_you_mean
from acp_agent.config.forms import ModelName, SizeOrNull, off_again
from acp_agent.recipes.model import CompactionOptions, HookBinding, Known, Verify

SWAP_HANDLER = "swap_context"
"""The handler that makes a compaction of a recipe's answer."""


def _heading(value: str) -> str:
    text = " ".join(value.lstrip().lstrip("#").split())
    if not text:
        raise PydanticCustomError("heading", "should be the text of a heading")
    return text


Heading = Annotated[
    str, AfterValidator(_heading), WithJsonSchema({"type": "string", "pattern": r"^\s*#*\s*[^\s#]|#\s+\S"})
]
Checking = Annotated[
    Verify | None,
    BeforeValidator(off_again),
    WithJsonSchema({"enum": [*get_args(Verify), False, None], "title": "`off`, `mark`, `mend`, `reject`"}),
]


class CompactionSection(BaseModel):
    """`compaction`. Null is the same as leaving the key out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    strategy: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="how it is done, such as `summary`, `excerpts` or `mask`; a name that no strategy has is an error",
    )
    size: SizeOrNull = Field(
        default=None,
        description="how much the new context may take beside the system prompt and the tools; left out: `20%`, and at "
        "most 64,000 tokens",
    )
    sections: list[Heading] | None = Field(
        default=None, description="headings that a summary must have, with or without their `#`; `[]`: none"
    )
    verify: Checking = Field(
        default=None,
        description="what happens where a summary says what the conversation does not: nothing, it is marked, the "
        "model is asked once to mend it, or it is not used",
    )
    model: ModelName | None = Field(
        default=None,
        description="writes the summary; left out: the session's own. A provider that is neither built in nor in "
        "`config.yaml` is an error",
    )


def compaction_options(
    section: CompactionSection, hooks: Mapping[str, HookBinding], document: Document, known: Known
) -> CompactionOptions:
    """What a section means.

    :param hooks: the recipe's.
    :param document: the front matter.
    :raises DocumentError: it contradicts itself, the hooks or what is known; with line and key.
    """
    lines = document.lines
    if all(binding.handler(SWAP_HANDLER) is None for binding in hooks.values()):
        message = (
            f"is for recipes whose answer takes the place of the conversation; add the hook "
            f"`turn_end: {{handler: {SWAP_HANDLER}}}`, or leave this key out"
        )
        raise DocumentError(message, lines["compaction",], "compaction")
    if section.strategy is not None and known.strategies is not None and section.strategy not in known.strategies:
        message = f"there is no strategy {section.strategy!r}; {did_you_mean(section.strategy, known.strategies)}"
        raise DocumentError(message, lines["compaction", "strategy"], "compaction.strategy")
    if section.model is not None and known.providers is not None:
        wrong = unknown_provider(section.model, known.providers)
        if wrong:
            raise DocumentError(wrong, lines["compaction", "model"], "compaction.model")
    return CompactionOptions(
        strategy=section.strategy,
        size=section.size,
        sections=_sections(section, document),
        verify=section.verify,
        model=section.model,
    )


def _sections(section: CompactionSection, document: Document) -> tuple[str, ...] | None:
    if section.sections is None:
        return None
    seen: dict[str, int] = {}
    for index, heading in enumerate(section.sections):
        line = document.lines["compaction", "sections", index]
        if (first := seen.get(heading.casefold())) is not None:
            message = f"is listed twice, first in line {first}; keep one"
            raise DocumentError(message, line, f"compaction.sections.{index}")
        seen[heading.casefold()] = line
    return tuple(section.sections)
