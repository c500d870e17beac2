"""`compaction` in the front matter: its form, and the options that it means.

Checks what can be seen in the recipe alone; what the numbers do, and what holds where one is missing, is the matter of
whoever compacts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from acp_agent.config.checks import unknown_provider
from acp_agent.config.document import Document, DocumentError, did_you_mean
from acp_agent.config.forms import ModelName, off_again
from acp_agent.recipes.model import CompactionOptions, HookBinding, Known, Share, Verify

SWAP_HANDLER = "swap_context"
"""The handler that makes a compaction of a recipe's answer."""

MAX_TOKENS = 1_000_000
MAX_TAIL = 0.9
MIN_TARGET, MAX_TARGET = 0.05, 0.9


def _percentage(value: object) -> float | None:
    """A percentage as a share; None where it is no percentage."""
    found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?) ?%", value) if isinstance(value, str) else None
    return float(found[1]) / 100 if found else None


def _tail(value: object) -> int | Share | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
        return value
    share = _percentage(value)
    if share is not None and share <= MAX_TAIL:
        return Share(share)
    raise PydanticCustomError(
        "tail",
        "should be a number of tokens from 0 to {tokens}, or a percentage of the window up to {percent}%, such as 20%",
        {"tokens": MAX_TOKENS, "percent": round(MAX_TAIL * 100)},
    )


def _target(value: object) -> float | None:
    if value is None:
        return None
    share = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _percentage(value)
    if share is not None and MIN_TARGET <= share <= MAX_TARGET:
        return share
    raise PydanticCustomError(
        "target",
        "should be a percentage of the window from {least}% to {most}%, such as 50%",
        {"least": round(MIN_TARGET * 100), "most": round(MAX_TARGET * 100)},
    )


def _heading(value: str) -> str:
    text = " ".join(value.lstrip().lstrip("#").split())
    if not text:
        raise PydanticCustomError("heading", "should be the text of a heading")
    return text


PERCENTAGE_TO_90 = r"^(?:0{0,2}[0-9]|0?[1-8][0-9])(?:\.[0-9]{1,3})? ?%$|^0?90(?:\.0{1,3})? ?%$"
PERCENTAGE_5_TO_90 = r"^(?:0{0,2}[5-9]|0?[1-8][0-9])(?:\.[0-9]{1,3})? ?%$|^0?90(?:\.0{1,3})? ?%$"

Budget = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Tail = Annotated[
    int | Share | None,
    PlainValidator(_tail),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_TOKENS},
                {"type": "string", "pattern": PERCENTAGE_TO_90},
            ],
            "title": "tokens, or a percentage of the window up to `90%`",
        }
    ),
]
Target = Annotated[
    float | None,
    PlainValidator(_target),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["number", "null"], "minimum": MIN_TARGET, "maximum": MAX_TARGET},
                {"type": "string", "pattern": PERCENTAGE_5_TO_90},
            ],
            "title": "a percentage of the window, `5%` to `90%`, or the same as a share, such as `0.4`",
        }
    ),
]
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
        description="how it is done, such as `summary`, `mask` or `ledger`; a name that no strategy has is an error",
    )
    tail: Tail = Field(default=None, description="how much of the newest messages stays word for word")
    target: Target = Field(default=None, description="what the context has to get below; more than `tail`")
    ledger: Budget | None = Field(
        default=None,
        description="room in tokens for the facts that code notes: files, commands, tests, open errors; `0`: none",
    )
    requests: Budget | None = Field(
        default=None, description="room in tokens for your own requests, word for word; `0`: none"
    )
    summary: Annotated[int, Field(gt=0, le=MAX_TOKENS)] | None = Field(
        default=None, description="the longest that a summary may be, in tokens"
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
    if isinstance(section.tail, Share) and section.target and section.tail.of_window >= section.target:
        message = f"should be less than `target`, which is {section.target:.0%}: the tail is a part of that"
        raise DocumentError(message, lines["compaction", "tail"], "compaction.tail")
    return CompactionOptions(
        strategy=section.strategy,
        tail=section.tail,
        target=section.target,
        ledger=section.ledger,
        requests=section.requests,
        summary=section.summary,
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
