"""Long logs are folded in pieces. The result is the same."""

from __future__ import annotations

from functools import reduce

from acp_agent.conversation.context import Context
from support.logs import LogBuilder


def sixty_steps(log: LogBuilder) -> None:
    for number in range(60):
        log.step(f"Step {number}.", calls=number % 3)


def test_folding_a_long_log_equals_applying_its_events_one_by_one() -> None:
    log = LogBuilder()
    log.prompt("Fix it.")
    sixty_steps(log)
    keep = log.context.entries[40].seq
    log.swap(min(cut for cut in log.cuts() if cut >= keep))
    sixty_steps(log)
    log.refuse()
    log.prompt("Again.")
    sixty_steps(log)
    log.mask()
    log.restore()
    sixty_steps(log)
    one_by_one = reduce(Context.apply, log.logged, Context())
    folded = Context.from_log(log.logged)
    assert folded == one_by_one == log.context
    assert len(folded.entries) > 150
    assert folded.before_turn == one_by_one.before_turn
