"""A provider that breaks one of its own rules: it is noticed, told, logged, and not
asked for again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from support.client import AgentError
from support.compactions import shown_compactions
from support.models import DialectName, ModelServer, Reply
from support.reasoning import (
    SUMMARY,
    Thinking,
    betas,
    both_providers,
    compaction,
    compaction_blocks,
    strict,
    thinking,
    thoughts,
)
from support.stored import damage_texts

BINDING_BETA = "thinking-binding-controls-2026-08-01"
LEFT_OUT = "of the model's earlier reasoning"


def notices(it: Thinking) -> int:
    return it.warnings().count(LEFT_OUT)


@both_providers
@pytest.mark.parametrize("reason", ["", "a_reason_of_next_year"])
async def test_reasoning_that_the_provider_drops_unforeseen_is_told_once_and_never_sent_again(
    tmp_path: Path, dialect: DialectName, reason: str
) -> None:
    binding = strict(other_reason=reason)
    async with thinking(tmp_path, dialect, binding=binding, sound=False) as it:
        await it.talk(2)
        binding.drop_more = True
        await it.talk(1)
        [event] = it.events("reasoning_withheld")
        assert event["pieces"]
        assert len(event["messages"]) == 1
        assert notices(it) == 1
        await it.talk(1)
        async with it.restarted() as later:
            await later.talk(1)
            assert notices(later) == 0
        assert [violation.outcome for violation in it.server.violations] == ["dropped"]
        assert it.server.refusals == []
        assert it.kept() == len(it.turns) - 2  # all but the dropped one
        assert len(it.events("reasoning_withheld")) == 1


@pytest.mark.parametrize("refused", ["header", "field"])
@pytest.mark.parametrize("account", ["new", "old"])
async def test_refused_controls_are_logged_and_left_out_for_this_session_and_after_a_restart(
    tmp_path: Path, refused: Literal["header", "field"], account: Literal["new", "old"]
) -> None:
    binding = strict(account=account, refuse_header=refused)
    async with thinking(tmp_path, "anthropic", binding=binding, sound=False) as it:
        await it.talk(2)
        [event] = it.events("feature_refused")
        assert (event["model"], event["feature"]) == (it.server.model, "controls")
        assert [refusal.call for refusal in it.server.refusals] == [1]
        async with it.restarted() as later:
            await later.talk(1)
        assert [BINDING_BETA in betas(call) for call in it.server.calls] == [True] + [
            False
        ] * (len(it.turns) - 1)
        assert len(it.server.refusals) == 1
        assert it.kept() == len(it.turns) - 2  # the first request was asked twice
        # Another session of the same process, and model, is not touched.
        binding.refuse_header = None
        other = await it.stage.agent.new_session(it.stage.folder)
        await it.stage.agent.prompt(other, "Hi")
        assert BINDING_BETA in betas(it.last)
    assert it.server.violations == []


@both_providers
async def test_a_compaction_that_the_provider_does_not_take_back_is_sent_as_text_from_then_on(
    tmp_path: Path, dialect: DialectName
) -> None:
    binding = strict()
    async with thinking(
        tmp_path,
        dialect,
        binding=binding,
        config=compaction(strategy="native"),
        sound=False,
    ) as it:
        await it.grow()
        await it.say("/compact")
        binding.refuse_compaction = True
        await it.talk(1)
        [event] = it.events("feature_refused")
        assert event["feature"] == "compaction"
        assert [violation.outcome for violation in it.server.violations] == []
        assert len(it.server.refusals) == 1
        assert compaction_blocks(it.last.body) == []
        assert it.last.mentions(
            SUMMARY if dialect == "anthropic" else "was compacted by openai"
        )
        async with it.restarted() as later:
            await later.talk(1)
            assert later.kept() > 1
        assert len(it.server.refusals) == 1


@both_providers
async def test_reasoning_that_is_refused_is_withheld_from_the_named_piece_on_and_the_request_repeated_once(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, sound=False) as it:
        await it.talk(3)
        before = thoughts(it.last.body)
        at = {"anthropic": "messages.7.content.0", "openai": before[3].get("id")}[
            dialect
        ]
        it.model.first = [refusal(at)]
        await it.say()
        assert thoughts(it.last.body) == before[:3]
        assert len(it.turns) == 8  # one more than answers
        [event] = it.events("reasoning_withheld")
        assert event["pieces"]
        assert len(event["messages"]) == 3
        assert notices(it) == 1
        async with it.restarted() as later:
            await later.talk(1)
            assert thoughts(later.last.body)[:3] == before[:3]
            assert notices(later) == 0
        assert (it.server.refusals, it.server.violations) == ([], [])


async def test_a_provider_that_refuses_one_piece_of_reasoning_after_the_other_is_soon_asked_without_any(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "anthropic", sound=False) as it:
        await it.talk(3)
        asked = len(it.turns)
        it.model.first = [refusal(f"messages.{at}.content.0") for at in (11, 9, 7, 5)]
        await it.say()
        assert len(it.turns) == asked + 5
        assert thoughts(it.last.body) == []
        assert it.model.first == []


@both_providers
async def test_a_refused_compaction_goes_on_with_a_summary_says_so_and_is_not_asked_for_again(
    tmp_path: Path, dialect: DialectName
) -> None:
    env = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
    async with thinking(tmp_path, dialect, env=env, config=compaction()) as it:
        it.model.native = Reply(http_status=400)
        for _ in range(2):
            swaps = len(it.events("context_swapped"))
            it.model.says = "The cart adds prices. " * 400
            while len(it.events("context_swapped")) == swaps:
                await it.loop(calls=1)
            it.model.says = "Short."
        assert [event["strategy"] for event in it.events("context_swapped")] == [
            "summary",
            "summary",
        ]
        assert (
            "refused the request (status 400)"
            in shown_compactions(it.stage.agent)[0].receipt
        )
        asked = [
            call
            for call in it.server.calls
            if call.path.endswith("/compact") or "compaction" in call.body
        ]
        assert len(asked) == 1
        [event] = it.events("feature_refused")
        assert event["feature"] == "compaction"
        await it.loop(calls=1)


async def test_a_compaction_that_is_refused_without_a_name_after_a_restart_switches_nothing_else_off(
    tmp_path: Path,
) -> None:
    async with thinking(
        tmp_path, "anthropic", config=compaction(strategy="native")
    ) as it:
        await it.set("thought_level", "high")
        await it.grow()
        kept = it.kept()
        async with it.restarted() as later:
            later.model.native = Reply(
                http_status=400, body={"message": "invalid beta flag"}
            )
            with pytest.raises(AgentError, match="invalid beta flag"):
                await later.say("/compact")
            assert {event["feature"] for event in it.events("feature_refused")} <= {
                "compaction"
            }
            await later.loop(calls=1)
            assert later.kept() == kept + 2


@both_providers
async def test_reasoning_behind_a_place_that_changed_in_the_log_is_withheld_before_it_is_refused_and_told_once(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, sound=False) as it:
        await it.talk(3)
        before = thoughts(it.last.body)
        damage_texts(it.stage.home, "Question 1?", "Question X?")
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert thoughts(later.last.body) == [
                *before[:2],
                thoughts(later.last.body)[-1],
            ]
            assert notices(later) == 1
            [event] = later.events("reasoning_withheld")
            assert not event["pieces"]
        async with it.restarted() as latest:
            await latest.loop(calls=1)
            assert notices(latest) == 0
        assert (it.server.refusals, it.server.violations) == ([], [])


async def test_a_gateway_gets_no_betas_keeps_reasoning_and_what_it_refuses_is_withheld(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "anthropic", sound=False) as it:
        gateway(it.server, it.stage.home)
        async with it.stage.restarted(
            env={**it.stage.options["env"], "ACP_AGENT_MODEL": MODEL}
        ) as other:
            session = await other.agent.new_session(other.folder)
            later = Thinking(other, it.model)
            for _ in range(3):
                it.model.calls = 1
                await other.agent.prompt(session, "Look")
            assert later.kept() == 5
            assert [betas(call) for call in it.turns] == [[]] * 6
            assert "block_binding" not in str(later.last.body)
            await other.agent.set_config_option(session, "thought_level", "low")
            await other.agent.prompt(session, "Go on")
            assert later.kept() == 6
            it.model.first = [refusal("messages.5.content.0")]
            await other.agent.prompt(session, "Go on")
            assert later.kept() == 2
            assert len(it.events("reasoning_withheld")) == 1
    assert (it.server.refusals, it.server.violations) == ([], [])


MODEL = "proxy/claude-sonnet-5-5"


def refusal(place: str) -> Reply:
    """The 400 for reasoning that is bound to another conversation, in the words of both
    providers.
    """
    if place.startswith("messages"):
        said = f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
    else:
        said = f"The encrypted content for item {place} could not be verified."
    error = {
        "type": "invalid_request_error",
        "message": said,
        "code": None,
        "param": None,
    }
    return Reply(http_status=400, body={"type": "error", "error": error})


def gateway(server: ModelServer, home: Path) -> None:
    """The same server, as a gateway under a name that the tables do not know."""
    key = {
        "kind": "anthropic",
        "base_url": server.base_url,
        "api_key_env": "ANTHROPIC_API_KEY",
    }
    server.write_config(home, {"providers": {"proxy": key}})
