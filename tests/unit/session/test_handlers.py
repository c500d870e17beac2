"""The built-in handlers of a recipe, from the editor to the model and back."""

from __future__ import annotations

from pathlib import Path

from support.background import OUT_OF_ROOM, SUMMARY
from support.compactions import (
    RECIPE_TEXT,
    asked_last,
    is_summary_request,
    shown_compactions,
)
from support.memory import desk
from support.models import Reply
from support.stage import conversation

WHOLE = f"""\
---
description: Make it short
hooks:
  user_message_send: {{handler: append_context, params: {{text: Prices are in cents.}}, once: true}}
  turn_end:
    handlers:
    - {{handler: append_context, params: {{text: The week ends on Friday., file: rules.md}}}}
    - external
    - swap_context
  agent_stop: {{handler: export_markdown, params: {{path: short.md}}}}
---
{RECIPE_TEXT}
"""
LONG = "The cart adds prices. " * 900


async def test_a_compacting_recipes_handlers_run_whatever_started_the_compaction(
    tmp_path: Path,
) -> None:
    recipe = tmp_path / "state" / "recipes" / "compact.md"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(WHOLE)
    (tmp_path / "rules.md").write_text("No tax.\n")
    own = {
        "turn_end": [
            {
                "command": "grep -q 'A cart' && echo '{\"context\": \"Eggs are out.\"}'; true"
            }
        ]
    }
    config = {
        "compaction": {"prepare": False, "wait": True},
        "hooks": {**own, "Stop": [{"command": "echo x >> stops"}]},
    }
    async with desk(tmp_path, Reply(SUMMARY), Reply(SUMMARY), config=config) as it:
        for number, begin in enumerate(("by hand", "at the threshold"), start=1):
            if begin == "by hand":
                await it.prompt("One?", Reply(LONG))
                await it.prompt("/compact")
            else:
                await it.filled(OUT_OF_ROOM)
                # A count that jumps like this is believed only the second time.
                await it.filled(OUT_OF_ROOM)
            await it.prompt("Two?", Reply("Yes."))
            assert [each.statuses[-1] for each in shown_compactions(it.agent)] == [
                "completed"
            ] * number
            request = [
                call.body for call in it.server.calls if is_summary_request(call.body)
            ][-1]
            assert (
                asked_last(request).count(f"{RECIPE_TEXT}\n\nPrices are in cents.") == 1
            )
            # The text added after the answer follows the summary once, together with
            # the texts of other hooks.
            texts = [text for _, text in conversation({"messages": it.last})]
            [added] = [
                n for n, text in enumerate(texts) if "The week ends on Friday." in text
            ]
            assert '<file path="rules.md">\nNo tax.\n</file>' in texts[added]
            assert "A cart." in "".join(texts[: added + 1])
            assert "Eggs are out." in str(it.last)
            export = tmp_path / "short.md"
            assert "A cart." in export.read_text()
            export.unlink()
        # No other hook gets an event for the end of a turn.
        assert len((tmp_path / "stops").read_text().splitlines()) == 5
