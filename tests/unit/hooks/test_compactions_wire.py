"""Hooks around a compaction: they can veto it, write the summary, add to the prompt, and
observe the compaction.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.background import LONG, OUT_OF_ROOM, SUMMARY
from support.client import AgentError
from support.compactions import said, shown_compactions
from support.memory import desk
from support.models import Reply, Usage
from support.pages import DOCS, examples

NO_BACKGROUND = {"compaction": {"prepare": False}}
HOOK = """\
from pathlib import Path
from typing import Any
from acp_agent.hooks import *

@hook("before_compaction")
async def before(event, services):
    with (Path(__file__).parents[2] / "asked").open("a") as file:
        file.write("once\\n")
    return ANSWER
"""


def with_hook(home: Path, answer: str) -> None:
    folder = home / "state" / "hooks"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "compactions.py").write_text(HOOK.replace("ANSWER", answer))


def run_count(home: Path) -> int:
    """Return how often the hook ran before a compaction."""
    return len((home / "asked").read_text().splitlines())


REWORD = """\
from acp_agent.hooks import *

@hook("turn_end")
async def reword(event, services):
    if "# Goal" in event.response:
        return Outcome(action=SwapContext(event.response.replace("A cart", "A basket")))
"""


@pytest.mark.parametrize(
    "rewords", [False, True], ids=["by the recipe alone", "reworded"]
)
async def test_actions_of_the_user_s_hooks_do_not_replace_a_recipe_s_swap(
    tmp_path: Path, rewords: bool
) -> None:
    wants = (
        {"action": "compact"},
        {"action": "continue", "messages": ["More."]},
        {"continue": False},
    )
    heard_it = "grep -o '\"response\": *\"# Goal' >> heard && echo '{}'; true"
    hooks = [
        {"command": heard_it.format(json.dumps(each)), "name": f"own{n}"}
        for n, each in enumerate(wants)
    ]
    if rewords:
        with_hook(tmp_path, "None")
        (tmp_path / "state" / "hooks" / "reword.py").write_text(REWORD)
    async with desk(
        tmp_path,
        Reply(SUMMARY),
        Reply(SUMMARY),
        config={
            "compaction": {"prepare": False, "wait": True},
            "hooks": {"turn_end": hooks},
        },
    ) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        await it.filled(OUT_OF_ROOM)
        await it.filled(OUT_OF_ROOM)  # the agent trusts such a jump the second time
        await it.prompt("Two?", Reply("Yes."))
        text = "# Goal\nA basket." if rewords else SUMMARY
        assert [
            (each.statuses[-1], each.text) for each in shown_compactions(it.agent)
        ] == [("completed", text)] * 2
        assert it.asked == 2
        # All of these hooks run, and the log names those whose answer was ignored.
        assert len((tmp_path / "heard").read_text().splitlines()) == 2 * len(wants)
        log = (tmp_path / "state" / "logs" / "acp-agent.log").read_text()
        for name, word in (
            ("own0", "action: compact"),
            ("own1", "action: continue"),
            ("own2", "continue: false"),
        ):
            assert re.search(
                rf"The hook {name} \(.*\) answered `{word}` at turn_end.*which was ignored",
                log,
            )
        assert "The hook own" not in str(it.agent.updates(kind="notice"))


async def test_a_hook_can_refuse_another_hook_s_summary_like_a_model_s(
    tmp_path: Path,
) -> None:
    with_hook(tmp_path, 'Outcome(summary="# Goal\\nA cart, says the hook.")')
    refuses = {
        "command": "! grep -q 'says the hook' || { echo 'Say it better.' >&2; exit 2; }"
    }
    config = {**NO_BACKGROUND, "hooks": {"turn_end": [refuses]}}
    async with desk(tmp_path, config=config) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "failed"]
        assert "A hook refused the summary. Say it better." in compaction.text
        await it.prompt("Two?", Reply("Yes."))
        assert LONG in str(it.last)


@pytest.mark.parametrize(
    "reason",
    ["prompt is too long: 50000 tokens > 40000 maximum", "context_length_exceeded"],
)
async def test_a_veto_after_the_provider_s_refusal_ends_the_turn_with_a_clear_error(
    tmp_path: Path, reason: str
) -> None:
    with_hook(
        tmp_path, 'Outcome.block("Never.") if event.reason == "overflow" else None'
    )
    refusal = Reply(
        http_status=400,
        body={"error": {"code": "context_length_exceeded", "message": reason}},
    )
    async with desk(tmp_path, config=NO_BACKGROUND) as it:
        await it.filled(8_000)
        it.answers += [refusal]
        with pytest.raises(
            AgentError, match=re.escape("A hook did not allow the compaction. Never.")
        ):
            await it.prompt("Two?")
        assert it.answers == []
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert run_count(tmp_path) == 1
        # Nothing is lost: the next turn sends the whole conversation.
        await it.prompt("Three?", Reply("Third."))
        assert LONG in str(it.last)


async def test_hooks_get_the_name_of_the_recipe_that_a_manual_compaction_runs(
    tmp_path: Path,
) -> None:
    config = {
        **NO_BACKGROUND,
        "hooks": {"before_compaction": [{"command": "cat > told"}]},
    }
    async with desk(tmp_path, Reply(SUMMARY), config=config) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        assert json.loads((tmp_path / "told").read_text())["invoked_by"] == "compact"


@pytest.mark.parametrize("event", ["agent_stop", "turn_end", "summary"])
async def test_a_hook_s_compaction_after_the_only_turn_works_like_a_manual_one(
    tmp_path: Path, event: str
) -> None:
    action, at = ("summary", "agent_stop") if event == "summary" else ("compact", event)
    command = f"grep -q 'One?' && echo '{json.dumps({'action': action})}'; true"
    config = {**NO_BACKGROUND, "hooks": {at: [{"command": command}]}}
    async with desk(tmp_path, Reply(SUMMARY), config=config) as it:
        await it.prompt("One?", Reply(LONG))
        shown = [(each.statuses, each.text) for each in shown_compactions(it.agent)]
        if event == "summary":
            assert (SUMMARY in it.agent.text(), shown) == (True, [])
        else:
            assert shown == [(["in_progress", "completed"], SUMMARY)]


async def test_a_summary_in_the_wrong_format_is_refused_with_a_message_for_the_user(
    tmp_path: Path,
) -> None:
    recipe = tmp_path / "state" / "recipes" / "compact.md"
    recipe.parent.mkdir(parents=True, mode=0o700)
    form = "{handler: validate_output, params: {schema: {type: object}}}"
    recipe.write_text(
        f"---\nhooks: {{turn_end: {{handlers: [{form}, swap_context]}}}}\n---\nSum it up as JSON.\n"
    )
    answers = [Reply(LONG), Reply(SUMMARY)]
    async with desk(
        tmp_path, script=lambda _: answers.pop(0), config=NO_BACKGROUND
    ) as it:
        await it.prompt("One?")
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "failed"]
        assert (
            "A hook refused the summary. It does not have the required format: it is not valid JSON"
            in compaction.text
        )
        assert "Answer again" not in it.agent.text() + compaction.text


async def test_the_user_is_told_that_a_compaction_for_a_hook_failed(
    tmp_path: Path,
) -> None:
    recipe = tmp_path / "state" / "recipes" / "compact.md"
    recipe.parent.mkdir(parents=True, mode=0o700)
    recipe.write_text(
        "---\nhooks: {turn_end: {handler: swap_context}}\n---\nSum it up. {{ 1 // instructions | length }}\n"
    )
    command = f"echo '{json.dumps({'action': 'compact'})}'"
    config = {**NO_BACKGROUND, "hooks": {"agent_stop": [{"command": command}]}}
    async with desk(tmp_path, config=config) as it:
        await it.prompt("One?", Reply(LONG))
        notices = json.dumps(it.agent.updates(kind="notice"))
        assert f"The compaction that a hook requested failed. {recipe}" in notices
        assert "Automatic compaction" not in notices


async def test_the_documented_hook_replaces_the_conversation_after_the_only_prompt(
    tmp_path: Path,
) -> None:
    [example] = [
        text
        for _, text in examples("python hook", DOCS / "hooks-python.md")
        if "auto_compact" in text
    ]
    (tmp_path / "state" / "hooks").mkdir(parents=True, mode=0o700)
    (tmp_path / "state" / "hooks" / "auto_compact.py").write_text(example)
    answers = [
        Reply(LONG, usage=Usage(OUT_OF_ROOM, 400)),
        Reply(SUMMARY),
        Reply("Yes."),
        Reply(SUMMARY),
    ]
    async with desk(
        tmp_path,
        script=lambda _: answers.pop(0),
        config={"compaction": {"auto": False}},
    ) as it:
        # The agent would not trust a first count far above its estimate.
        await it.prompt("One? " + LONG)
        [shown] = shown_compactions(it.agent)
        assert (
            "A hook replaced the conversation with 1 message of its own." in shown.text
        )
        await it.prompt("Two?")
        assert [said(message) for message in it.last] == [f"{SUMMARY}\nTwo?"]


def received(home: Path) -> list[dict[str, Any]]:
    """Return the events that a hook got around compactions, in order."""
    path = home / "told.jsonl"
    return (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )


RECORD = {"command": "(cat; echo) >> told.jsonl"}
RECORDING = {"before_compaction": [RECORD], "after_compaction": [RECORD]}


async def test_hooks_do_not_run_before_a_compaction_with_nothing_to_compact(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, config={**NO_BACKGROUND, "hooks": RECORDING}) as it:
        await it.prompt("/compact")
        assert "There is nothing to compact yet." in it.agent.text()
        await it.prompt("Hi", Reply("Hello."))
        await it.prompt("/compact")
        assert "There is too little to compact" in it.agent.text()
        assert (it.asked, received(tmp_path)) == (0, [])


async def test_hooks_do_not_run_if_only_the_current_prompt_fills_the_window(
    tmp_path: Path,
) -> None:
    config = {"compaction": {"prepare": False}, "hooks": RECORDING}
    async with desk(tmp_path, config=config) as it:
        await it.prompt("Count these. " * 4_100, Reply("Yes."))
        assert (received(tmp_path), shown_compactions(it.agent)) == ([], [])


async def test_hooks_get_the_context_s_size_without_an_answer_since_the_last_compaction(
    tmp_path: Path,
) -> None:
    async with desk(
        tmp_path,
        Reply(SUMMARY),
        Reply(SUMMARY),
        config={**NO_BACKGROUND, "hooks": RECORDING},
    ) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("/compact")
        it.answers.append(Reply(hang=True))
        turn = await it.agent.start_prompt(it.session, f"Two? {LONG}")
        await it.server.wait_held()
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        await it.prompt("/compact")
        first, after, second, _ = received(tmp_path)
        assert first["input_tokens"] == after["input_tokens"] > 1_000
        assert (
            second["input_tokens"] == second["usage"]["current_context_window"] > 1_000
        )
