"""The built-in handlers of a recipe, from the editor to the model and back."""

from __future__ import annotations

import json
from pathlib import Path

from support.background import OUT_OF_ROOM, SUMMARY
from support.compactions import RECIPE_TEXT, asked_last, is_summary_request, shown_compactions
from support.memory import desk, stage
from support.models import Reply, ToolCall
from support.stage import conversation, results

LIST = """\
---
allowed_tools: [read]
hooks:
  user_message_send:
    handler: append_context
    params: {text: Prices are in cents., file: rules.md}
  PreToolUse: {handler: log_tool_usage}
  after_tool_call:
    handlers:
    - log_tool_usage
    - handler: validate_tool_output
      params: {tool: read, pattern: three}
  turn_end:
    handlers:
    - handler: validate_output
      params:
        schema: {type: array, items: {type: integer}}
    - {handler: append_context, params: {text: The prices are listed.}}
    - external
    - export_markdown
    - handler: export_markdown
      params: {path: rules.md}
---
List the prices as JSON.
"""
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


async def test_a_recipes_handlers_add_check_log_and_export(tmp_path: Path) -> None:
    files = {"a.txt": "one\ntwo\n", "rules.md": "No tax.\n", ".acp-agent/recipes/prices.md": LIST}
    replies = [
        Reply("I read.", tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        Reply("They are 1 and 2."),
        Reply('["1", 2]'),
        Reply("```json\n[1, 2]\n```"),
    ]
    async with stage(tmp_path, *replies, Reply("Next."), files=files, trusted=True) as it:
        assert await it.prompt("/prices") == {"stopReason": "end_turn"}
        asked = conversation(it.server.calls[0].body)[-1][1]
        assert asked.startswith("List the prices as JSON.")
        assert 'Prices are in cents.\n\n<file path="rules.md">\nNo tax.\n</file>' in asked
        # The result, with what is wrong with it.
        [result] = results(it.server.calls[1].body)
        assert "two" in result.text
        assert "A hook objects to this result." in result.text
        assert "nothing in it matches the pattern three" in result.text
        # Two answers of another form, each with what is wrong with it.
        assert it.server.calls[2].mentions("it is no JSON")
        assert it.server.calls[3].mentions("$[0]: '1' is not of type 'integer'")
        assert len(it.server.calls) == 4

        [export] = (it.folder / ".acp-agent" / "exports").iterdir()
        document = export.read_text()
        assert export.name.startswith(f"{it.session}-")
        said = ["## User\n\n/prices\n", "I read.", "`read` was called:", "They are 1 and 2.", "```json\n[1, 2]\n```"]
        assert [document.index(words) for words in said] == sorted(document.index(words) for words in said)
        # What it did not write stays, and the user is told.
        assert (it.folder / "rules.md").read_text() == "No tax.\n"
        await it.prompt("And now?")
        told = [update for update in it.agent.updates() if "is no export of this session" in json.dumps(update)]
        assert len(told) == 1
        # What is added behind an answer is read with the next prompt.
        assert [call.mentions("The prices are listed.") for call in it.server.calls[3:]] == [False, True]

        lines = [
            json.loads(line) for line in (it.home / "state" / "logs" / "tool-usage.jsonl").read_text().splitlines()
        ]
        assert [(line["event"], line["tool"], line["recipe"]) for line in lines] == [
            ("before_tool_call", "read", "prices"),
            ("after_tool_call", "read", "prices"),
        ]


async def test_the_handlers_of_a_recipe_that_compacts_are_asked_however_it_came_about(tmp_path: Path) -> None:
    recipe = tmp_path / "state" / "recipes" / "compact.md"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(WHOLE)
    (tmp_path / "rules.md").write_text("No tax.\n")
    own = {"turn_end": [{"command": "grep -q 'A cart' && echo '{\"context\": \"Eggs are out.\"}'; true"}]}
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
            await it.prompt("Two?", Reply("Yes."))
            assert [each.statuses[-1] for each in shown_compactions(it.agent)] == ["completed"] * number
            request = [call.body for call in it.server.calls if is_summary_request(call.body)][-1]
            assert asked_last(request).count(f"{RECIPE_TEXT}\n\nPrices are in cents.") == 1
            # What was added behind the answer stands behind the summary, once, what other hooks added with it.
            texts = [text for _, text in conversation({"messages": it.last})]
            [added] = [n for n, text in enumerate(texts) if "The week ends on Friday." in text]
            assert '<file path="rules.md">\nNo tax.\n</file>' in texts[added]
            assert "A cart." in "".join(texts[: added + 1])
            assert "Eggs are out." in str(it.last)
            export = tmp_path / "short.md"
            assert "A cart." in export.read_text()
            export.unlink()
        # Nobody else is told that a turn ends.
        assert len((tmp_path / "stops").read_text().splitlines()) == 4
