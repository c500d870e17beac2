"""What hooks may do to a compaction: veto it, write its summary, add to its prompt, and hear of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.background import LONG, OUT_OF_ROOM, PREPARE, SUMMARY, THRESHOLD, desk
from support.client import AgentError
from support.compactions import asked_last, is_summary_request, shown_compactions
from support.models import Reply, ToolCall, Usage

NO_BACKGROUND = {"compaction": {"prepare": False}}
HOOK = """\
import json
from pathlib import Path
from acp_agent.hooks import *

HEARD = Path(__file__).parents[2] / "heard.jsonl"

def note(event, **facts):
    with HEARD.open("a") as file:
        file.write(json.dumps({"event": event.name, **facts}) + "\\n")

@hook("before_compaction")
async def before(event, services):
    note(event, reason=event.reason, input=event.input_tokens, limit=event.context_limit, said=event.instructions)
    return ANSWER

@hook("after_compaction")
async def after(event, services):
    note(event, reason=event.reason, input=event.input_tokens, output=event.output_tokens, summary=event.summary)
    return Outcome.block("too late")

@hook("session_start")
async def start(event, services):
    note(event, source=event.source)
    return Outcome(context=("The week ends on Friday.",)) if event.source == "compact" else None
"""


def with_hook(home: Path, answer: str) -> None:
    folder = home / "state" / "hooks"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "compactions.py").write_text(HOOK.replace("ANSWER", answer))


def heard(home: Path) -> list[dict[str, Any]]:
    path = home / "heard.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def names(home: Path) -> list[str]:
    return [str(event["event"]) for event in heard(home)]


REWORD = """\
from acp_agent.hooks import *

@hook("turn_end")
async def reword(event, services):
    if "# Goal" in event.response:
        return Outcome(action=SwapContext(event.response.replace("A cart", "A basket")))
"""


@pytest.mark.parametrize("rewords", [False, True], ids=["by the recipe alone", "reworded"])
async def test_what_own_hooks_want_done_behind_an_answer_does_not_take_the_place_of_a_swap(
    tmp_path: Path, rewords: bool
) -> None:
    wants = ({"action": "compact"}, {"action": "continue", "messages": ["More."]}, {"continue": False})
    heard_it = "grep -o '\"response\": *\"# Goal' >> heard && echo '{}'; true"
    hooks = [{"command": heard_it.format(json.dumps(each)), "name": f"own{n}"} for n, each in enumerate(wants)]
    if rewords:
        with_hook(tmp_path, "None")
        (tmp_path / "state" / "hooks" / "reword.py").write_text(REWORD)
    async with desk(
        tmp_path,
        Reply(SUMMARY),
        Reply(SUMMARY),
        config={"compaction": {"prepare": False, "wait": True}, "hooks": {"turn_end": hooks}},
    ) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        await it.filled(OUT_OF_ROOM)
        await it.prompt("Two?", Reply("Yes."))
        text = "# Goal\nA basket." if rewords else SUMMARY
        assert [(each.statuses[-1], each.text) for each in shown_compactions(it.agent)] == [("completed", text)] * 2
        assert it.asked == 2
        # All of them are asked all the same, and the log says of whom nothing was used.
        assert len((tmp_path / "heard").read_text().splitlines()) == 2 * len(wants)
        log = (tmp_path / "state" / "logs" / "acp-agent.log").read_text()
        assert "action of the hook own0 is not used" in log
        assert "stop of the hook own2 is not used" in log


SWAPS = """\
from acp_agent.hooks import *

@hook("turn_end")
async def swaps(event, services):
    return Outcome(action=SwapContext("LONG " * 400 if event.is_summary else "Only this."))
"""
BOUNDED = """\
---
description: Make it short
hooks: {turn_end: {handler: swap_context, params: {max_summary_tokens: 60}}}
---
Summarise it.
"""


async def test_a_swap_that_a_hook_wants_is_for_summaries_alone_and_within_the_recipe_s_bounds(tmp_path: Path) -> None:
    for folder, name, text in (("hooks", "swaps.py", SWAPS), ("recipes", "bounded.md", BOUNDED)):
        path = tmp_path / "state" / folder / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    async with desk(tmp_path, config=NO_BACKGROUND) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("Two?", Reply("Yes."))
        assert LONG in str(it.last)
        refused = "answered `action: swap_context` at turn_end, where only these are possible: `decision: block`"
        assert [refused in update["title"] for update in it.agent.updates(kind="notice")] == [True]
        assert (tmp_path / "state" / "logs" / "acp-agent.log").read_text().count(refused) == 2
        await it.prompt("/bounded", Reply("# Goal\nA cart."))
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "failed"]
        assert "more than the 60 of `max_summary_tokens`" in compaction.text


async def test_a_hook_s_summary_takes_the_place_of_a_model_s_and_costs_nothing(tmp_path: Path) -> None:
    with_hook(tmp_path, 'Outcome(summary="# Goal\\nA cart, says the hook.")')
    async with desk(tmp_path, config=NO_BACKGROUND) as it:
        await it.prompt("One?", Reply(LONG, usage=Usage(7_000, 400)))
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            "# Goal\nA cart, says the hook.",
        )
        assert it.asked == 0
        await it.prompt("Two?", Reply("Yes."))
        assert "A cart, says the hook." in str(it.last)
        assert LONG not in str(it.last)
        # Whoever hears of it afterwards is told the tokens from before; what they answer is dropped.
        [after] = [event for event in heard(tmp_path) if event["event"] == "after_compaction"]
        assert (after["input"], after["output"], after["summary"]) == (7_000, 400, "# Goal\nA cart, says the hook.")
        # The session starts anew with its compacted context.
        assert names(tmp_path)[-3:] == ["before_compaction", "after_compaction", "session_start"]
        assert heard(tmp_path)[-1]["source"] == "compact"
        assert "The week ends on Friday." in str(it.last)


async def test_a_hook_s_summary_is_refused_as_a_model_s_would_be(tmp_path: Path) -> None:
    with_hook(tmp_path, 'Outcome(summary="# Goal\\nA cart, says the hook.")')
    refuses = {"command": "! grep -q 'says the hook' || { echo 'Say it better.' >&2; exit 2; }"}
    config = {**NO_BACKGROUND, "hooks": {"turn_end": [refuses]}}
    async with desk(tmp_path, config=config) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "failed"]
        assert "A hook refused the summary. Say it better." in compaction.text
        await it.prompt("Two?", Reply("Yes."))
        assert LONG in str(it.last)


async def test_a_hook_s_summary_keeps_the_tail_that_a_model_s_would_keep(tmp_path: Path) -> None:
    sent: list[str] = []
    for name, answer in (("model", "None"), ("hook", f"Outcome(summary={SUMMARY!r})")):
        (tmp_path / name).mkdir()
        with_hook(tmp_path / name, answer)
        async with desk(tmp_path / name, Reply(SUMMARY), config=NO_BACKGROUND) as it:
            await it.prompt("One?", Reply(LONG))
            await it.prompt("Two?", Reply("The second answer."))
            await it.prompt("/compact")
            await it.prompt("Three?", Reply("Yes."))
            assert it.asked == (name == "model")
            sent.append(json.dumps(it.last))
    assert all(words in sent[0] for words in ("A cart.", "Two?", "The second answer."))
    assert sent[1] == sent[0]


async def test_a_blank_summary_is_as_none_and_what_a_hook_adds_is_part_of_the_request(tmp_path: Path) -> None:
    with_hook(tmp_path, 'Outcome(summary=" \\n", context=("Name every price.",))')
    async with desk(tmp_path, Reply(SUMMARY)) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].statuses == ["in_progress", "completed"]
        [request] = [call for call in it.server.calls if is_summary_request(call.body)]
        assert "Name every price." in asked_last(request.body)


async def test_a_veto_at_the_threshold_lets_the_turn_go_on_and_is_asked_for_once(tmp_path: Path) -> None:
    with_hook(tmp_path, 'Outcome.block("Later.")')
    async with desk(tmp_path, config=NO_BACKGROUND) as it:
        await it.filled(THRESHOLD)
        await it.prompt("Two?", Reply("Second.", usage=Usage(THRESHOLD, 5)))
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert LONG in str(it.last)
        assert names(tmp_path).count("before_compaction") == 1


async def test_a_veto_of_a_summary_in_the_background_is_asked_for_once_in_a_turn(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    with_hook(tmp_path, 'Outcome.block("Later.")')
    async with desk(tmp_path) as it:
        await it.filled(PREPARE)
        steps = [Reply("Step.", tool_calls=[read], usage=Usage(THRESHOLD, 5)) for _ in range(4)]
        await it.prompt("Two?", *steps, Reply("Done.", usage=Usage(THRESHOLD, 5)))
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert names(tmp_path).count("before_compaction") == 1


async def test_a_program_that_defers_as_in_earlier_versions_vetoes_and_the_user_is_told_once(tmp_path: Path) -> None:
    hooks = {"PreCompact": [{"command": 'echo >> asked; echo \'{"defer": "turn_end"}\'', "name": "later"}]}
    async with desk(tmp_path, config={**NO_BACKGROUND, "hooks": hooks}) as it:
        await it.filled(THRESHOLD)
        await it.prompt("Two?", Reply("Second.", usage=Usage(THRESHOLD, 5)))
        await it.prompt("Three?", Reply("Third.", usage=Usage(THRESHOLD, 5)))
        assert LONG in str(it.last)
        assert len((tmp_path / "asked").read_text().splitlines()) == 2
        [told] = [update["title"] for update in it.agent.updates(kind="notice")]
        assert "The hook later (" in told
        assert "asked for `defer`, which is no longer known" in told


async def test_a_summary_in_the_background_is_asked_for_before_it_is_written_and_not_again(tmp_path: Path) -> None:
    with_hook(tmp_path, 'Outcome(summary="# Goal\\nA cart, says the hook.")')
    async with desk(tmp_path) as it:
        await it.filled(PREPARE)
        await it.prompt("Two?", Reply("Second.", usage=Usage(PREPARE, 5)))
        if not shown_compactions(it.agent):  # it may have been in time for the end of that turn
            await it.ready()
        await it.prompt("Three?", Reply("Third."))
        assert it.asked == 0
        assert shown_compactions(it.agent)[0].text == "# Goal\nA cart, says the hook."
        assert names(tmp_path).count("before_compaction") == 1


@pytest.mark.parametrize("told", ["prompt is too long: 50000 tokens > 40000 maximum", "context_length_exceeded"])
async def test_a_veto_where_the_provider_refuses_leads_to_one_more_request_and_then_to_a_clear_error(
    tmp_path: Path, told: str
) -> None:
    with_hook(tmp_path, 'Outcome.block("Never.") if event.reason == "overflow" else None')
    refusal = Reply(http_status=400, body={"error": {"code": "context_length_exceeded", "message": told}})
    async with desk(tmp_path, config=NO_BACKGROUND) as it:
        await it.filled(8_000)
        it.answers += [refusal, refusal]
        with pytest.raises(AgentError, match=re.escape("A hook did not allow the compaction. Never.")):
            await it.prompt("Two?")
        assert it.answers == []
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert names(tmp_path).count("before_compaction") == 1
        # Nothing is lost: the next turn has the whole conversation.
        await it.prompt("Three?", Reply("Third."))
        assert LONG in str(it.last)


async def test_a_request_that_by_the_provider_s_own_numbers_is_too_large_is_not_sent_again_after_a_veto(
    tmp_path: Path,
) -> None:
    with_hook(tmp_path, 'Outcome.block("Never.")')
    told = "prompt is too long: 8100 tokens > 7000 maximum"
    refusal = Reply(http_status=400, body={"error": {"code": "context_length_exceeded", "message": told}})
    async with desk(tmp_path, config=NO_BACKGROUND) as it:
        await it.filled(8_000)
        it.answers += [refusal]
        with pytest.raises(AgentError, match=r"does not fit.*A hook did not allow the compaction\. Never\."):
            await it.prompt("Two?")
        assert it.answers == []
