"""`recall` in a real session: the model finds and reads messages that a compaction
removed from its context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compactions import asked_last, both_editors, is_summary_request
from support.editors import Editor
from support.layers import summarising, whole_text
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import Stage, results

AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False}}
PROSE = "The cart adds up what the lines cost. " * 60
NEEDLE = "The voucher code is QX-7731-plum."
SUMMARY = "## Goal and requirements\nThe shop has vouchers."


def recall(**arguments: Any) -> Reply:
    return Reply(tool_calls=[ToolCall("recall", arguments)])


async def recalled(it: Stage) -> str:
    [result] = results(it.server.calls[-1].body)
    assert not result.is_error, result.text
    return result.text


def talk(
    *later: Reply | str | Callable[[], Reply], said: list[dict[str, Any]] | None = None
) -> Any:
    """A read, an answer with the needle and another one; then these.

    :param said: takes in every request.
    """
    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        f"{PROSE}\n{NEEDLE}",
        f"Fine. {PROSE}",
        *later,
    ]

    def answer(number: int) -> Reply | str:
        reply = replies[number]
        return reply() if callable(reply) else reply  # pyright: ignore[reportReturnType] - what it makes is a reply

    script = summarising([SUMMARY] * 3, answer)

    def heard(body: dict[str, Any]) -> Reply:
        if said is not None:
            said.append(body)
        return script(body)

    return heard


@both_editors
async def test_removed_messages_are_found_by_words_and_read_by_number(
    tmp_path: Path, editor: Editor
) -> None:
    requests: list[dict[str, Any]] = []
    numbers: list[int] = []
    later = (
        recall(query="voucher code"),
        "QX-7731.",
        lambda: recall(entry=numbers[0]),
        "Yes.",
    )
    script = talk(*later, said=requests)
    async with stage(
        tmp_path, script=script, editor=editor, config=AT_ONCE, dialect="anthropic"
    ) as it:
        await it.prompt("Which vouchers are there?")
        await it.prompt("Thanks.")
        await it.prompt("/compact")
        await it.prompt("What was the code?")
        assert NEEDLE not in whole_text(it.server.calls[-2].body)
        found = await recalled(it)
        hit = re.search(
            r"^#(\d+) [\d-]+ [\d:]+ you: .*QX-7731-plum", found, re.MULTILINE
        )
        assert hit is not None
        numbers.append(int(hit[1]))
        # It is the number by which the summary was to cite it.
        table = next(asked_last(body) for body in requests if is_summary_request(body))
        assert f"[#{hit[1]}] you: The cart adds up" in table
        await it.prompt("Read it as it stood there.")
        page = await recalled(it)
        assert page.startswith(f"Entry {hit[1]}, ")
        assert "".join(page.partition("\n\n")[2].splitlines()) == f"{PROSE}{NEEDLE}"
        calls = [call for call in it.calls() if call["title"].startswith("Recall")]
        assert [(call["title"], call["kind"], call["status"]) for call in calls] == [
            ("Recall voucher code", "search", "completed"),
            (f"Recall entry {hit[1]}", "search", "completed"),
        ]
        assert "QX-7731-plum" in str(calls[0]["content"])
        assert it.agent.desk.permissions == []
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            again = [
                call for call in later.calls() if call["title"].startswith("Recall")
            ]
            assert [
                (call["title"], call["kind"], call["status"]) for call in again
            ] == [
                ("Recall voucher code", "search", "completed"),
                (f"Recall entry {hit[1]}", "search", "completed"),
            ]


@pytest.mark.parametrize("strategy", ["summary", "excerpts"])
async def test_every_new_context_explains_recall_to_the_model(
    tmp_path: Path, strategy: str
) -> None:
    config = {"compaction": {"prepare": False, "strategy": strategy}}
    async with stage(
        tmp_path, script=talk("Yes."), config=config, dialect="anthropic"
    ) as it:
        await it.prompt("Which vouchers are there?")
        await it.prompt("Thanks.")
        await it.prompt("/compact")
        await it.prompt("What was the code?")
        sent = " ".join(whole_text(it.server.calls[-1].body).split())
        assert ("<conversation_summary>" in sent) == (strategy == "summary")
        assert (
            sent.count(
                "`recall` also finds entries by a question, a name, a path or an error message"
            )
            == 1
        )
        assert (
            sent.count(
                "Use it for anything from the earlier conversation that you need"
            )
            == 1
        )
