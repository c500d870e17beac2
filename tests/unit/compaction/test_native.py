"""The provider's own compaction, from `/compact` to the requests that follow, with a
text for every other provider.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.compactions import shown_compactions
from support.memory import desk
from support.models import MODELS, Reply, Request

LONG = "The cart adds prices. " * 200
NATIVE: dict[str, Any] = {
    "compaction": {"strategy": "native", "prepare": False, "wait": True}
}
ANTHROPIC = f"anthropic/{MODELS['anthropic']}"


def occurrences(call: Request, text: str) -> int:
    return json.dumps(call.body, ensure_ascii=False).count(text)


async def test_openai_compacts_the_sent_messages_and_all_providers_get_user_text(
    tmp_path: Path,
) -> None:
    script = [Reply(LONG)]
    for _ in range(3):
        script += [Reply("hidden"), Reply(LONG)]
    async with desk(
        tmp_path, env={}, config=NATIVE, script=lambda _: script.pop(0)
    ) as it:
        agent = it.agent
        session = it.session
        await agent.prompt(session, "/pin Rye alone.")
        await agent.prompt(session, "Which flour is the oldest?")
        await agent.prompt(session, "/compact")
        await agent.prompt(session, "Two? Never sell cakes.")
        await agent.prompt(session, "/unpin 1")
        await agent.prompt(session, "/compact")
        await agent.prompt(session, "Three?")
        await agent.prompt(session, "/compact")
        await agent.set_config_option(session, "model", ANTHROPIC)
        await agent.prompt(session, "Four?")
    assert [compaction.statuses[-1] for compaction in shown_compactions(agent)] == [
        "completed"
    ] * 3
    first, after_one, second, after_two, third, elsewhere = it.server.calls[1:]
    for call, sent in (
        (first, it.server.calls[0]),
        (second, after_one),
        (third, after_two),
    ):
        assert call.path == "/v1/responses"
        assert call.body["input"][-1] == {"type": "compaction_trigger"}
        assert call.body["input"][: len(sent.body["input"])] == sent.body["input"]
    # Once as it was told, which the provider keeps as it keeps all user messages, and
    # once as a pin.
    assert occurrences(after_one, "Rye alone.") == 2
    for call in (after_one, after_two):
        assert occurrences(call, "<carried_over>") == 1
        assert call.mentions("Which flour is the oldest?")
    # It is no pin any more, and the last that is said of it is that it was taken back.
    assert occurrences(after_two, "Rye alone.") == 2
    assert after_two.mentions("it does not hold any more:\n\nRye alone.")
    assert not elsewhere.mentions("Rye alone.")
    assert elsewhere.path == "/v1/messages"
    for request in ("Which flour is the oldest?", "Three?"):
        assert elsewhere.mentions(request)
    assert elsewhere.mentions("Never sell cakes.")
