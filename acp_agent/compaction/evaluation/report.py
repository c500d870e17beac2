"""Measurements added up for each method, as a table and as JSON, which are the same in every run."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from acp_agent.compaction.evaluation.facts import CLASSES
from acp_agent.compaction.evaluation.measure import KINDS, WITHOUT_SUMMARY, Measurement, Tally
from acp_agent.conversation.messages import JsonObject
from acp_agent.frozen import frozen

_LEGEND = """
Percent kept of what the rest of each session needs. left: of the tokens · score: mean of the six classes ·
need: facts of them all but rules · ctx: facts with the words around them · words: rare plain words (control) ·
per 1k: needed facts for each 1,000 tokens left"""
_NO_SUMMARY = "* measured without its summary, since no --model was given: excerpts stand in its place"


@frozen
class Total:
    """A method over all points at which it came to a result.

    :ivar figures: by the table's columns; None where nothing was needed.
    :ivar failures: why it did not come to a result, once for each point.
    """

    method: str
    points: int
    figures: dict[str, float | None]
    tallies: dict[str, Tally]
    failures: tuple[str, ...]


def add_up(measurements: Sequence[Measurement]) -> list[Total]:
    """Return the totals of each method, in the order of the measurements."""
    names = dict.fromkeys(each.method for each in measurements)
    return [_total(name, [each for each in measurements if each.method == name]) for name in names]


def _total(method: str, measurements: Sequence[Measurement]) -> Total:
    done = [each for each in measurements if not each.failure]
    before, after = sum(each.tokens_before for each in done), sum(each.tokens_after for each in done)
    tallies = {kind: sum((each.tallies[kind] for each in done), Tally()) for kind in KINDS}
    shares = {kind: _quotient(100 * tally.kept, tally.needed) for kind, tally in tallies.items()}
    counted = [share for kind in CLASSES if (share := shares[kind]) is not None]
    pieces = [len(each.unverified) for each in done if each.unverified is not None]
    figures = {
        "left": _quotient(100 * after, before),
        "score": _quotient(sum(counted), len(counted)),
        **shares,
        "per 1k": _quotient(1000 * tallies["need"].kept, after),
        "unverified": _quotient(sum(pieces), len(pieces)),
    }
    return Total(method, len(done), figures, tallies, tuple(each.failure for each in measurements if each.failure))


def _quotient(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def table(measurements: Sequence[Measurement], misses: int = 0) -> str:
    """Return the report for a terminal.

    :param misses: so many of the facts that each method lost are listed, the newest first.
    """
    totals = add_up(measurements)
    points = {(each.session, each.at): each for each in measurements if not each.failure}.values()
    needed = {kind: str(sum(each.tallies[kind].needed for each in points)) for kind in KINDS}
    columns = list(totals[0].figures)
    if all(total.figures["unverified"] is None for total in totals):
        columns.remove("unverified")
    rows = [["method", *columns], ["(needed)", *(needed.get(name, "") for name in columns)]]
    for total in totals:
        figures = (total.figures[name] for name in columns)
        rows.append([total.method, *("–" if figure is None else f"{figure:.1f}" for figure in figures)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    lines += [_LEGEND, *[_NO_SUMMARY] * any(total.method.endswith(WITHOUT_SUMMARY) for total in totals)]
    for total in totals:
        for failure in dict.fromkeys(total.failures):
            lines.append(f"{total.method}: no result at {total.failures.count(failure)} of the points: {failure}")
    for total in totals if misses else ():
        lost = [(each, need) for each in measurements if each.method == total.method for need in reversed(each.missed)]
        lines += ["", f"{total.method} lost {len(lost)}:"]
        for each, need in lost[:misses]:
            place = f"{each.session} at {each.at:g}: in #{need['stood_in']}, asked for in #{need['asked_for_in']}"
            lines.append(f"  {need['class']:<9} {need['fact']}  ({place})")
    return "\n".join(lines) + "\n"


def as_json(measurements: Sequence[Measurement]) -> str:
    """Return the report for programs, with every point and every fact that was lost."""
    totals: list[JsonObject] = [asdict(total) for total in add_up(measurements)]
    points: list[JsonObject] = [asdict(each) for each in measurements]
    return json.dumps({"methods": totals, "measurements": points}, indent=2, ensure_ascii=False) + "\n"
