"""The line below what is typed: how full the context is, what it has cost, who answers, and what may run unasked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from acp_agent.frozen import frozen


@frozen
class Meter:
    """:ivar used: tokens of the context; None where nobody has counted yet, and 0 where there was nothing to count.
    :ivar window: of the model, in tokens.
    :ivar threshold: tokens from which on it is compacted by itself; None where it is not.
    :ivar cost: US dollars so far; None where that is not known.
    :ivar model: `provider/model`; empty where there is none.
    """

    used: int | None = None
    window: int = 0
    threshold: int | None = None
    cost: float | None = None
    model: str = ""
    mode: str = ""


def meter_text(meter: Meter, columns: int, width_of: Callable[[str], int]) -> str:
    """As much of it as there is room for; what is left out first is known best.

    :param width_of: columns that a text takes.
    """
    for text in _forms(meter):
        if width_of(text) <= columns:
            return text
    return ""


def _forms(meter: Meter) -> Iterator[str]:
    """From the longest to the shortest."""
    model = meter.model or "no model"
    short = model.rpartition("/")[2]
    cost = "" if meter.cost is None else f"${meter.cost:.2f}"
    full, brief, share = _filling(meter)
    yield _joined(full, cost, model, meter.mode)
    yield _joined(full, cost, short, meter.mode)
    yield _joined(brief, cost, short, meter.mode)
    yield _joined(brief, short, meter.mode)
    yield _joined(brief, meter.mode)
    yield _joined(share, meter.mode)
    yield share


def _filling(meter: Meter) -> tuple[str, str, str]:
    if not meter.used or meter.window <= 0:
        return "context empty", "context empty", "empty"
    share = f"{meter.used / meter.window:.0%}"
    brief = f"{_short(meter.used)} of {_short(meter.window)} tokens ({share})"
    compacts = "no automatic compaction" if meter.threshold is None else f"compacts at {_short(meter.threshold)}"
    return f"{brief}, {compacts}", brief, share


def _short(tokens: int) -> str:
    """With three digits: `950`, `12.3k`, `128k`, `1.05M`."""
    unit, suffix = (1_000_000, "M") if tokens >= 999_500 else (1_000, "k")
    if tokens < unit and suffix == "k":
        return str(tokens)
    amount = tokens / unit
    return f"{amount:.0f}{suffix}" if amount >= 99.95 else f"{amount:.3g}{suffix}"


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
