"""What a summary prepared in a pause costs and saves: the example in
docs/compaction.md, and properties.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.saving import pays, prompt_cost, saving_of, summary_cost
from acp_agent.compaction.state import MANUAL_SHARE
from acp_agent.compaction.strategies.summary import EXPECTED_SUMMARY
from acp_agent.llm.profiles import Prices, profile

PAGE = Path(__file__).parents[3] / "docs" / "compaction.md"
TOKENS = st.integers(0, 2_000_000)
AMOUNTS = st.floats(0, 100)
PRICES = st.builds(Prices, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)


def example() -> list[tuple[float | None, float | None, float]]:
    """Tokens, price and costs of each row of the page's example."""
    _, start, rest = PAGE.read_text().partition("| | tokens | at dollars per million |")
    table = f"{start}{rest}".partition("\n\n")[0]
    rows: list[tuple[float | None, float | None, float]] = []
    for line in table.splitlines()[2:]:
        tokens, price, costs = (
            cell.strip().strip("$").replace(",", "") for cell in line.split("|")[2:5]
        )
        rows.append(
            (
                float(tokens) if tokens else None,
                float(price) if price else None,
                float(costs),
            )
        )
    return rows


def test_the_documented_example_matches_the_computed_saving() -> None:
    prices = profile("claude-sonnet-5").prices
    assert prices is not None
    whole, short, saved, read, written, spent = example()
    used = 100_000
    system = 10_000
    after = 32_500
    assert after == system + int((used - system) * MANUAL_SHARE)
    saving = saving_of(used, after, prices)
    assert whole == (used, prices.cache_write, round(saving.before, 3))
    assert short == (after, prices.cache_write, round(saving.after, 3))
    assert saved[2] == round(saving.before - saving.after, 3)
    assert read == (
        used,
        prices.cached_input,
        round(prompt_cost(used, prices, cached=True), 3),
    )
    assert written == (
        EXPECTED_SUMMARY,
        prices.output,
        round(summary_cost(0, prices, cached=True), 3),
    )
    cost = summary_cost(used, prices, cached=True)
    assert spent[2] == round(cost, 3)
    assert pays(saving, cost)
    assert not pays(saving, summary_cost(used, prices, cached=False))


@given(TOKENS, TOKENS, PRICES, AMOUNTS)
def test_a_compaction_that_shortens_nothing_never_pays(
    before: int, more: int, prices: Prices, cost: float
) -> None:
    assert not pays(saving_of(before, before + more, prices), cost)
    assert not pays(saving_of(before, max(0, before - more), Prices(0, 0, 0, 1)), cost)


@given(TOKENS, TOKENS, TOKENS, PRICES, AMOUNTS)
def test_saving_more_or_costing_less_always_pays_too(
    before: int, saved: int, more: int, prices: Prices, cost: float
) -> None:
    if pays(saving_of(before, before - min(before, saved), prices), cost):
        assert pays(saving_of(before + more, before - min(before, saved), prices), cost)
        assert pays(saving_of(before, before - min(before, saved), prices), cost / 2)
