"""Modes and config options: what may be chosen, how a choice is told, and what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.editors import CODECOMPANION, ZED, Editor
from support.memory import stage
from support.replies import Reply

MODES = ["ask", "accept-edits", "plan", "full-access"]


def current(options: list[dict[str, Any]]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


async def test_every_way_of_opening_answers_both_modes_and_options_with_the_same_mode(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as it:
        await it.agent.set_config_option(it.session, "mode", "plan")
        await it.agent.load(it.session, it.folder)
        loaded = it.agent.opened[it.session]
        await it.agent.resume(it.session, it.folder)
        resumed = it.agent.opened[it.session]
        async with it.restarted() as later:
            restarted = await later.agent.resume(it.session, it.folder)
        for result in (loaded, resumed, restarted):
            assert [mode["id"] for mode in result["modes"]["availableModes"]] == MODES
            assert result["modes"]["currentModeId"] == "plan"
            options = {option["id"]: option for option in result["configOptions"]}
            assert {id: option.get("category") for id, option in options.items()} == {
                "mode": "mode",
                "model": "model",
                "thought_level": "thought_level",
                "auto_compaction": None,
            }
            switch = options.pop("auto_compaction")
            assert (switch["type"], switch["currentValue"]) == ("boolean", True)
            for option in options.values():
                assert option["type"] == "select"
                assert option["currentValue"] in [
                    choice["value"] for choice in option["options"]
                ]
            assert [choice["value"] for choice in options["mode"]["options"]] == MODES
            assert options["mode"]["currentValue"] == "plan"


async def test_unknown_modes_options_and_values_are_invalid_and_change_nothing(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as it:
        agent = it.agent
        before = it.agent.opened[it.session]["configOptions"]
        requests: list[tuple[str, dict[str, Any], str]] = [
            ("session/set_mode", {"modeId": "yolo"}, "yolo"),
            ("session/set_mode", {"modeId": ""}, "mode"),
            (
                "session/set_config_option",
                {"configId": "colour", "value": "red"},
                "colour",
            ),
            (
                "session/set_config_option",
                {"configId": "mode", "value": "yolo"},
                "yolo",
            ),
            (
                "session/set_config_option",
                {"configId": "model", "value": "claude"},
                "claude",
            ),
            (
                "session/set_config_option",
                {"configId": "thought_level", "value": "extreme"},
                "extreme",
            ),
            (
                "session/set_config_option",
                {"configId": "mode", "type": "boolean", "value": True},
                "mode",
            ),
            (
                "session/set_config_option",
                {"configId": "mode", "type": "boolean", "value": "plan"},
                "boolean",
            ),
            ("session/set_config_option", {"configId": "mode", "value": 3}, "value"),
            (
                "session/set_config_option",
                {"configId": "auto_compaction", "value": "perhaps"},
                "perhaps",
            ),
        ]
        for method, params, word in requests:
            with pytest.raises(AgentError) as error:
                await agent.request(method, {"sessionId": it.session, **params})
            assert error.value.code == -32602
            assert word in f"{error.value.message} {error.value.data}"
        assert (await agent.load(it.session, it.folder))["configOptions"] == before


@pytest.mark.parametrize("editor", [ZED, CODECOMPANION], ids=["switch", "menu"])
async def test_automatic_compaction_is_switched_off_for_a_session_and_stays_off(
    tmp_path: Path, editor: Editor
) -> None:
    switches = editor is ZED
    off, kind = (False, "boolean") if switches else ("off", "select")
    replies = [Reply("One. " * 400), Reply("Two. " * 400), Reply("Three.")]
    config = {"context_window": 6_000, "compaction": {"threshold": 0.3}}
    async with stage(tmp_path, *replies, editor=editor, config=config) as it:
        params = {"sessionId": it.session, "configId": "auto_compaction", "value": off}
        answer = await it.agent.request(
            "session/set_config_option",
            params | ({"type": "boolean"} if switches else {}),
        )
        [option] = [
            option
            for option in answer["configOptions"]
            if option["id"] == "auto_compaction"
        ]
        assert (option["type"], option["currentValue"]) == (kind, off)
        assert (
            it.agent.updates(kind="config_option_update")[-1]["configOptions"]
            == answer["configOptions"]
        )
        await it.prompt()
        await it.prompt()
        await it.prompt("/compact status")
        assert "Automatic compaction: off" in it.agent.text()
        # Nobody was asked for a summary, also not in the background.
        assert len(it.server.calls) == 2
        async with it.restarted() as later:
            resumed = await later.agent.resume(it.session, it.folder)
            assert current(resumed["configOptions"])["auto_compaction"] == off
            await later.agent.set_config_option(it.session, "auto_compaction", "on")
            await later.prompt("/compact status")
            assert "Automatic compaction: at 30%" in later.agent.text()
