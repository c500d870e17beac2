"""`Meter`: how full the context is, what it has cost, who answers, and what may run unasked."""

from __future__ import annotations

from collections.abc import Iterator

from prompt_toolkit.utils import get_cwidth

from acp_agent.frozen import frozen


@frozen
class Meter:
    """What the last row of a conversation shows.

    :ivar used: tokens of the context; None where nobody has counted yet, and 0 where there was nothing to count.
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


def meter_text(meter: Meter, columns: int) -> str:
    """Return the longest form of a meter that fits."""
    return next((text for text in _forms(meter) if get_cwidth(text) <= columns), "")


def _forms(meter: Meter) -> Iterator[str]:
    """Yield the forms from the longest to the shortest: what is left out first is known best."""
    model = meter.model or "no model"
    name = model.rpartition("/")[2]
    cost = "" if meter.cost is None else f"${meter.cost:.2f}"
    if meter.used and meter.window > 0:
        share = f"{meter.used / meter.window:.0%}"
        brief = f"{_short(meter.used)} of {_short(meter.window)} tokens ({share})"
        compacts = "no automatic compaction" if meter.threshold is None else f"compacts at {_short(meter.threshold)}"
        full = f"{brief}, {compacts}"
    else:
        full = brief = "context empty"
        share = "empty"
    for parts in (
        (full, cost, model, meter.mode),
        (full, cost, name, meter.mode),
        (brief, cost, name, meter.mode),
        (brief, name, meter.mode),
        (brief, meter.mode),
        (share, meter.mode),
        (share,),
    ):
        yield " · ".join(filter(None, parts))


def _short(tokens: int) -> str:
    """Return three digits: `950`, `12.3k`, `128k`, `1.05M`."""
    if tokens < 1_000:
        return str(tokens)
    amount, suffix = (tokens / 1_000_000, "M") if tokens >= 999_500 else (tokens / 1_000, "k")
    return f"{amount:.0f}{suffix}" if amount >= 99.95 else f"{amount:.3g}{suffix}"
