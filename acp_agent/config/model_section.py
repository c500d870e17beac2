"""`models` in the user's configuration file, and `compaction`, which both files and each model may have.

Does not know which file a section stands in; defaults are in `settings` alone.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acp_agent.config.forms import MAX_THRESHOLD, Dollars, ModelName, ShareOrOff, SizeOrNull, StrategyName, Tokens
from acp_agent.config.hook_section import Section
from acp_agent.config.settings import CompactionChoices, ModelPrices, ModelSettings


class CompactionSection(Section):
    """`compaction` and `models.*.compaction`. That `prepare` is lower than `threshold` is seen in `checks`, since the
    two may come from different layers."""

    auto: bool | None = Field(
        default=None,
        description="`false`: only `/compact` compacts, and what could not be sent otherwise; left out: `true`",
    )
    threshold: Annotated[float, Field(ge=0.1, le=MAX_THRESHOLD)] | None = Field(
        default=None,
        description="share of the usable window from which on the context is compacted; left out: `0.8`",
    )
    prepare: ShareOrOff = Field(
        default=None,
        description="share of the usable window from which on a summary is prepared in the background, so that you do "
        "not wait for it; `off` prepares none. Must be lower than `threshold`; left out: `0.7`",
    )
    wait: bool | None = Field(
        default=None,
        description="`true`: a turn waits for a summary that is not ready, rather than use excerpts; left out: `false`",
    )
    size: SizeOrNull = Field(
        default=None,
        description="how much the new context may take beside the system prompt and the tools; left out: the recipe's, "
        "else `20%`, and at most 64,000 tokens",
    )
    strategy: StrategyName | None = Field(
        default=None,
        description="how it is done; a name that no [strategy](strategies.md) has is an error; left out: the recipe's, "
        "else `summary`",
    )
    model: ModelName | None = Field(
        default=None, description="the model that writes summaries; left out: the recipe's, else the session's"
    )

    def choices(self) -> CompactionChoices:
        """As plain data."""
        return CompactionChoices(
            auto=self.auto,
            threshold=self.threshold,
            prepare=self.prepare,
            wait=self.wait,
            size=self.size,
            strategy=self.strategy,
            model=self.model,
        )


class PricesSection(Section):
    """`models.*.prices`: US dollars for a million tokens."""

    input: Dollars | None = Field(default=None, description="what is read and was in no cache")
    cached_input: Dollars | None = Field(default=None, description="what is read from the provider's cache")
    cache_write: Dollars | None = Field(default=None, description="what is written into it")
    output: Dollars | None = Field(default=None, description="what the model writes")


class ModelSection(Section):
    """`models.*`."""

    context_window: Tokens | None = Field(
        default=None, description="tokens, where neither the provider nor the built-in table says"
    )
    max_output_tokens: Tokens | None = Field(default=None, description="tokens of one answer")
    prices: PricesSection | None = Field(default=None, description="US dollars for a million tokens")
    compaction: CompactionSection | None = Field(
        default=None, description="[as below](#compaction), for this model alone; what it leaves out holds from there"
    )

    def settings(self) -> ModelSettings:
        """As plain data."""
        prices = self.prices or PricesSection()
        return ModelSettings(
            context_window=self.context_window,
            max_output_tokens=self.max_output_tokens,
            prices=ModelPrices(**prices.model_dump()),
            compaction=choices_of(self.compaction),
        )


def choices_of(section: CompactionSection | None) -> CompactionChoices:
    """What a section chooses; nothing where there is none."""
    return section.choices() if section else CompactionChoices()
