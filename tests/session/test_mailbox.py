"""The queue of prompts that wait for their turn."""

from __future__ import annotations

from collections import deque

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import Text
from acp_agent.errors import AgentError
from acp_agent.session.mailbox import CAPACITY, Mailbox, Ticket


def ticket(text: str = "x") -> Ticket:
    return Ticket((Text(text),))


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "remove", "cancel", "empty"]), st.integers(0, 9))))
def test_it_is_a_queue_from_which_prompts_can_be_withdrawn(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        mailbox, model, gone = Mailbox(), deque[Ticket](), ticket()
        for step, index in steps:
            if step == "put" and len(model) < CAPACITY:
                model.append(ticket())
                mailbox.put(model[-1])
            elif step == "take" and model:
                assert await mailbox.take() is model.popleft()
            elif step == "remove":
                wanted = model[index] if index < len(model) else gone
                assert mailbox.remove(wanted) == (wanted in model)
                assert not mailbox.remove(wanted)
                model = deque(item for item in model if item is not wanted)
            elif step == "cancel":
                mailbox.cancel_first()
                assert all(item.cancelled for item in [*model][:1])
            elif step == "empty":
                assert mailbox.empty() == tuple(model)
                model.clear()
        assert mailbox.empty() == tuple(model)

    anyio.run(play)


async def test_who_takes_waits_for_the_next_prompt() -> None:
    mailbox, taken = Mailbox(), list[Ticket]()

    async def take() -> None:
        while len(taken) < 3:
            taken.append(await mailbox.take())

    tickets = [ticket(), ticket(), ticket()]
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            mailbox.put(tickets[0])
            await anyio.wait_all_tasks_blocked()
            assert taken == tickets[:1]
            mailbox.put(tickets[1])
            mailbox.put(tickets[2])
    assert taken == tickets


def test_a_full_mailbox_refuses_one_more_and_says_what_to_do() -> None:
    mailbox = Mailbox()
    for _ in range(CAPACITY):
        mailbox.put(ticket())
    with pytest.raises(AgentError, match="cancel the running one"):
        mailbox.put(ticket())
    assert len(mailbox.empty()) == CAPACITY


async def test_only_the_first_answer_of_a_prompt_counts() -> None:
    answered, failed = ticket(), ticket()
    answered.answer("end_turn")
    answered.answer("cancelled")
    assert await answered.wait() == "end_turn"
    failed.answer(AgentError("No."))
    failed.answer("end_turn")
    with pytest.raises(AgentError, match="No"):
        await failed.wait()


async def test_a_cancel_before_its_turn_marks_the_oldest_prompt_alone_and_leaves_it_in_place() -> None:
    mailbox, first, second = Mailbox(), ticket(), ticket()
    mailbox.cancel_first()
    mailbox.put(first)
    mailbox.put(second)
    mailbox.cancel_first()
    assert (first.cancelled, second.cancelled) == (True, False)
    assert await mailbox.take() is first
