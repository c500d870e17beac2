"""Prompts that wait for their turn, and their answers."""

from __future__ import annotations

import anyio
import pytest

from acp_agent.conversation.messages import Text
from acp_agent.errors import AgentError
from acp_agent.session.mailbox import Mailbox, Ticket
from support.waiting import all_blocked


def ticket(text: str = "x") -> Ticket:
    return Ticket((Text(text),))


async def test_who_takes_waits_for_the_next_prompt_and_gets_them_in_order() -> None:
    mailbox, taken, tickets = Mailbox(), list[Ticket](), [ticket(), ticket(), ticket()]

    async def take() -> None:
        while len(taken) < 3:
            taken.append(await mailbox.take())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            for number in (1, 3):
                await all_blocked()
                mailbox.waiting.extend(tickets[len(taken) : number])
                mailbox.arrived.set()
    assert taken == tickets


def test_the_oldest_prompt_joins_the_running_turn_where_it_may() -> None:
    mailbox = Mailbox()
    assert mailbox.join(lambda _: True) is None
    mailbox.waiting.extend(tickets := [ticket("one"), ticket("/two"), ticket("three")])
    may_join = [mailbox.join(lambda each: each is not tickets[1]) for _ in range(3)]
    assert may_join == [tickets[0], None, None]
    assert [*mailbox.waiting] == tickets[1:]


def test_only_the_first_answer_of_a_prompt_counts() -> None:
    answered, failed = ticket(), ticket()
    answered.answer("end_turn")
    answered.answer("cancelled")
    assert answered.result() == "end_turn"
    failed.answer(AgentError("No."))
    failed.answer("end_turn")
    with pytest.raises(AgentError, match="No"):
        failed.result()
