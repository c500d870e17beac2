"""Measurements added up for each method, as a table for a terminal and as JSON.

Holds nothing that changes from run to run: the same recordings and methods give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from acp_agent.compaction.evaluation.facts import CLASSES, FactClass
from acp_agent.compaction.evaluation.measure import Measurement, Tally
from acp_agent.compaction.evaluation.methods import Method
from acp_agent.compaction.evaluation.needs import Need
from acp_agent.conversation.messages import JsonObject, JsonValue

_LONGEST_SHOWN = 90
_LEGEND = (
    "Percent kept of what the rest of each session needs. left: of the tokens · score: mean of the six classes ·\n"
    "need: facts of them all but rules · ctx: facts with the words around them · words: rare plain words (control) ·\n"
    "per 1k: needed facts for each 1,000 tokens left"
)


@dataclass(slots=True)
class Totals:
    """A method over all points.

    :ivar points: at how many it came to a result.
    :ivar failures: why it did not, once for each point.
    :ivar unverified: pieces in all summaries; None where no model wrote one.
    """

    method: str
    note: str = ""
    points: int = 0
    before: int = 0
    after: int = 0
    classes: dict[FactClass, Tally] = field(default_factory=lambda: dict.fromkeys((*CLASSES, "words"), Tally()))
    around: Tally = field(default_factory=Tally)
    summaries: int = 0
    unverified: int = 0
    failures: list[str] = field(default_factory=list[str])

    def add(self, measurement: Measurement) -> None:
        """Count one more point."""
        if measurement.failure:
            self.failures.append(measurement.failure)
            return
        self.points += 1
        self.before += measurement.tokens_before
        self.after += measurement.tokens_after
        for kind, tally in measurement.classes:
            self.classes[kind] += tally
        self.around += measurement.around
        if measurement.unverified is not None:
            self.summaries += 1
            self.unverified += len(measurement.unverified)

    @property
    def left(self) -> float | None:
        """Share of the tokens that is left."""
        return self.after / self.before if self.before else None

    @property
    def need(self) -> Tally:
        """Facts of all classes that count but the rules, which are needed whether they are referred to or not."""
        return sum((self.classes[kind] for kind in CLASSES if kind != "rules"), Tally())

    @property
    def score(self) -> float | None:
        """Mean of the shares of the classes of which something was needed: a class with few facts counts as much."""
        shares = [share for kind in CLASSES if (share := self.classes[kind].share) is not None]
        return sum(shares) / len(shares) if shares else None

    @property
    def facts_per_1000_tokens(self) -> float | None:
        """Facts kept for each thousand tokens that are left."""
        return 1000 * self.need.kept / self.after if self.after else None

    @property
    def unverified_per_summary(self) -> float | None:
        """Pieces of a summary that the conversation does not contain, on average."""
        return self.unverified / self.summaries if self.summaries else None


def add_up(measurements: Iterable[Measurement], methods: Sequence[Method]) -> tuple[Totals, ...]:
    """The totals of each method, in the order of the methods."""
    totals = {method.name: Totals(method.name, method.note) for method in methods}
    for measurement in measurements:
        totals[measurement.method].add(measurement)
    return tuple(totals.values())


def table(measurements: Sequence[Measurement], methods: Sequence[Method], misses: int = 0) -> str:
    """The report for a terminal.

    :param misses: so many of the facts that each method lost are listed, the newest first.
    """
    totals = add_up(measurements, methods)
    rows = [
        ["method", "left", "score", "need", "ctx", "words", *CLASSES, "per 1k", "unverified"],
        _needed(measurements),
    ]
    rows += [_row(each) for each in totals]
    if all(each.unverified_per_summary is None for each in totals):
        rows = [row[:-1] for row in rows]
    lines = [*_aligned(rows), "", _LEGEND]
    marks = {note: number for number, note in enumerate(dict.fromkeys(each.note for each in totals if each.note), 1)}
    lines += [f"{'*' * number} {note}" for note, number in marks.items()]
    for each in totals:
        for failure in dict.fromkeys(each.failures):
            count = each.failures.count(failure)
            lines.append(f"{each.method}: no result at {count} point{'s' if count > 1 else ''}: {failure}")
    if misses:
        lines += _lost(measurements, methods, misses)
    return "\n".join(lines) + "\n"


def as_json(measurements: Sequence[Measurement], methods: Sequence[Method]) -> str:
    """The report for programs, with every point and every fact that was lost."""
    document: JsonObject = {
        "methods": [_totals_json(each) for each in add_up(measurements, methods)],
        "measurements": [_measurement_json(each) for each in measurements],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _needed(measurements: Sequence[Measurement]) -> list[str]:
    """A row that says how many facts the figures rest on; they are the same for every method."""
    seen: dict[tuple[str, float], Measurement] = {}
    for each in measurements:
        if not each.failure:
            seen.setdefault((each.recording, each.point.share), each)
    totals = Totals("needed")
    for each in seen.values():
        totals.add(each)
    counts = [str(totals.classes[kind].needed) for kind in CLASSES]
    around, words = str(totals.around.needed), str(totals.classes["words"].needed)
    return ["(needed)", "", "", str(totals.need.needed), around, words, *counts, "", ""]


def _row(totals: Totals) -> list[str]:
    shares = [_percent(totals.classes[kind].share) for kind in CLASSES]
    unverified = totals.unverified_per_summary
    return [
        totals.method + ("*" if totals.note else ""),
        _percent(totals.left),
        _percent(totals.score),
        _percent(totals.need.share),
        _percent(totals.around.share),
        _percent(totals.classes["words"].share),
        *shares,
        "–" if totals.facts_per_1000_tokens is None else f"{totals.facts_per_1000_tokens:.1f}",
        "–" if unverified is None else f"{unverified:.1f}",
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _lost(measurements: Sequence[Measurement], methods: Sequence[Method], misses: int) -> list[str]:
    lines: list[str] = []
    for method in methods:
        lost = [(each, need) for each in measurements if each.method == method.name for need in reversed(each.missed)]
        if lost:
            lines += ["", f"{method.name} lost {len(lost)}" + (f", of which {misses}:" if misses < len(lost) else ":")]
        for each, need in lost[:misses]:
            key = need.key if len(need.key) <= _LONGEST_SHOWN else f"{need.key[: _LONGEST_SHOWN - 1]}…"
            asked = f", asked for in #{need.asked}" if need.asked else ""
            lines.append(f"  {need.kind:<9} {key}  ({each.recording} at {each.point.share:g}: in #{need.seq}{asked})")
    return lines


def _totals_json(totals: Totals) -> JsonObject:
    return {
        "method": totals.method,
        "note": totals.note,
        "points": totals.points,
        "tokens_before": totals.before,
        "tokens_after": totals.after,
        "left": _rounded(totals.left),
        "score": _rounded(totals.score),
        "need": _tally(totals.need),
        "ctx": _tally(totals.around),
        "classes": {kind: _tally(tally) for kind, tally in totals.classes.items()},
        "facts_per_1000_tokens": _rounded(totals.facts_per_1000_tokens),
        "unverified_per_summary": _rounded(totals.unverified_per_summary),
        "failures": [*totals.failures],
    }


def _measurement_json(each: Measurement) -> JsonObject:
    place: JsonObject = {
        "session": each.recording,
        "at": each.point.share,
        "messages_before": each.point.cut,
        "method": each.method,
    }
    if each.failure:
        return {**place, "failure": each.failure}
    return {
        **place,
        "tokens_before": each.tokens_before,
        "tokens_after": each.tokens_after,
        "classes": {kind: _tally(tally) for kind, tally in each.classes},
        "ctx": _tally(each.around),
        "unverified": None if each.unverified is None else [*each.unverified],
        "missed": [_need_json(need) for need in each.missed],
    }


def _need_json(need: Need) -> JsonObject:
    return {"class": need.kind, "fact": need.key, "stood_in": need.seq, "asked_for_in": need.asked or None}


def _tally(tally: Tally) -> JsonValue:
    return {"kept": tally.kept, "needed": tally.needed, "share": _rounded(tally.share)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
