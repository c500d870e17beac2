"""DeepSeek refuses a call without the reasoning that it had, whatever was compacted in
between.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.models import Binding
from support.reasoning import compaction, thinking


@pytest.mark.parametrize("strategy", ["summary", "excerpts"])
async def test_deepseek_gets_the_reasoning_of_every_call_back_before_and_after_a_compaction(
    tmp_path: Path, strategy: str
) -> None:
    config = compaction(strategy=strategy)
    async with thinking(
        tmp_path, "chat", binding=Binding(chat="deepseek"), config=config, sound=False
    ) as it:
        await it.loop("Look", 10)
        await it.talk(3)
        it.model.says = "Short."
        await it.talk(2)
        await it.say("/compact")
        await it.loop("Look again", 10)
        async with it.restarted() as later:
            await later.loop(calls=2)
    assert (it.server.refusals, it.server.violations) == ([], [])
    called = [
        message for message in it.last.body["messages"] if message.get("tool_calls")
    ]
    assert len(called) > 12  # some of them are from before the compaction
    assert all(message["reasoning_content"] for message in called)
