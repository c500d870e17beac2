"""The available strategies: the built-in ones, and those of installed packages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import cast

from acp_agent.compaction.strategies.modelless import ExcerptsStrategy, MaskStrategy
from acp_agent.compaction.strategies.summary import NativeStrategy, SummaryStrategy
from acp_agent.compaction.strategy import ENTRY_POINTS, Strategy
from acp_agent.module_path import load_plug_in

_BUILT_IN: tuple[Strategy, ...] = (
    SummaryStrategy(),
    NativeStrategy(),
    MaskStrategy(),
    ExcerptsStrategy(),
)

_log = logging.getLogger(__name__)


def by_name(strategies: Iterable[Strategy]) -> dict[str, Strategy]:
    """Return strategies by name. Of two with the same name, the later one wins."""
    return {strategy.name: strategy for strategy in strategies}


@cache
def installed_strategies() -> dict[str, Strategy]:
    """Return all strategies by name.

    A package's strategy that cannot be loaded is logged and skipped. A package cannot
    replace a built-in strategy, since the last step of the ladder depends on it.
    """
    from importlib.metadata import entry_points

    found = by_name(_BUILT_IN)
    for point in entry_points(group=ENTRY_POINTS):
        try:
            strategy = cast("Callable[[], Strategy]", load_plug_in(point))()
            name = strategy.name
        except Exception:
            _log.exception(
                "the strategy %s of %s could not be loaded", point.name, point.value
            )
            continue
        if name in found:
            _log.error(
                "the strategy %s of %s was ignored: the name is already in use",
                name,
                point.value,
            )
            continue
        found[name] = strategy
    return found
