"""Sessions of earlier versions, whose logs do not say in which conversation reasoning
was made.
"""

from __future__ import annotations

from pathlib import Path

from acp_agent.conversation import messages as m
from acp_agent.conversation.events import (
    AssistantAnswered,
    InstructionsLoaded,
    TurnEnded,
)
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.session.models.requests import request_of
from support.log_builder import LogBuilder
from support.models import DialectName
from support.reasoning import (
    as_an_earlier_version,
    both_providers,
    compaction,
    thinking,
)

MODEL = "anthropic/claude-sonnet-5-5"


async def test_reasoning_of_an_earlier_version_is_sent_if_nothing_has_changed_since(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "anthropic") as it:
        await it.talk(3)
        as_an_earlier_version(it.stage.home)
        async with it.restarted() as later:
            await later.loop(calls=2)
            assert later.kept() == len(later.turns) - 1
            assert later.events("reasoning_withheld") == []


async def test_reasoning_of_an_earlier_version_is_withheld_from_models_whose_system_prompt_has_moved_since(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "openai", sound=False) as it:
        await it.talk(3)
        as_an_earlier_version(it.stage.home)
        async with it.restarted() as later:
            await later.loop(calls=2)
            assert later.kept() == 2
            assert len(later.events("reasoning_withheld")) == 1


@both_providers
async def test_reasoning_of_an_earlier_version_is_withheld_behind_a_compaction_and_that_is_told_once(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, config=compaction(strategy="summary")) as it:
        await it.grow()
        await it.say("/compact")
        as_an_earlier_version(it.stage.home)
        async with it.restarted() as later:
            await later.loop(calls=2)
            assert later.kept() == 2
            await later.loop(calls=2)
            assert later.kept() == 5
            assert later.warnings().count("of the model's earlier reasoning") <= 1


def test_reasoning_of_an_earlier_version_is_withheld_before_other_instructions_and_sent_after_them() -> (
    None
):
    log = LogBuilder()
    for number, more in enumerate(("", "Be brief.", "")):
        if more:
            log.add(InstructionsLoaded(more))
        log.prompt("Go on")
        data: m.JsonObject = {"type": "thinking", "signature": f"sealed-{number}"}
        parts = (m.Thinking("Hm.", "anthropic", data), m.Text("Fine."))
        log.add(
            AssistantAnswered(m.AssistantMessage(f"a{number}", parts, MODEL)),
            TurnEnded("end_turn"),
        )
    log.prompt("And now?")
    request = request_of(log.context, log.context.messages, MODEL)
    adapter = AnthropicAdapter(Endpoint("anthropic", "anthropic", "http://localhost"))
    call = adapter.call(request, ModelProfile(thinking="adaptive"), frozenset(), None)
    assert call.end is not None
    assert [(each.message_id, each.cause) for each in call.end.withheld] == [
        ("a0", "unknown")
    ]
    assert [
        b"sealed-0" in call.content,
        b"sealed-1" in call.content,
        b"sealed-2" in call.content,
    ] == [
        False,
        True,
        True,
    ]
