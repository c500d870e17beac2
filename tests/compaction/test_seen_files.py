"""Which files the model may still edit after a compaction: those of which it sees the contents, and no others."""

from __future__ import annotations

from pathlib import Path

from support.models import Reply, ToolCall
from support.stage import results, stage

FILES = {
    "old.txt": "An old line of the shop.\n" * 800 + "one\n",
    "new.txt": "A new line of the shop.\n" * 40 + "one\n",
}
"""Files of 5,000 and 240 tokens; by hand, the tail is a tenth of the conversation."""


def read(name: str) -> ToolCall:
    return ToolCall("read", {"path": name})


def edit(name: str, old: str, new: str) -> ToolCall:
    return ToolCall("edit", {"path": name, "edits": [{"old_text": old, "new_text": new}]})


async def test_a_file_whose_result_was_masked_is_read_again_before_it_is_edited_and_one_still_seen_is_not(
    tmp_path: Path,
) -> None:
    script = [
        *(Reply(tool_calls=[read("old.txt")]), Reply("Read the old one.")),
        *(Reply(tool_calls=[read("new.txt")]), Reply("Read the new one.")),
        *(Reply(tool_calls=[edit("old.txt", "one", "1"), edit("new.txt", "one", "1")]), Reply("Edited one.")),
        Reply(tool_calls=[read("old.txt")]),
        *(Reply(tool_calls=[edit("old.txt", "one", "1")]), Reply("Edited the other.")),
    ]
    config = {"compaction": {"prepare": False, "strategy": "mask"}}
    env = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
    async with stage(
        tmp_path, *script, files=FILES, config=config, env=env, mode="full-access", dialect="anthropic"
    ) as it:
        await it.prompt("Read the old file.")
        await it.prompt("Read the new file.")
        await it.prompt("/compact")
        await it.prompt("Edit both.")
        last = it.server.calls[-1]
        assert not last.mentions("An old line"), "the read of the old file was masked"
        refused, edited = results(last.body)
        assert refused.is_error
        assert "was not read in this context" in refused.text
        assert not edited.is_error
        assert (it.folder / "old.txt").read_text() == FILES["old.txt"]
        assert (it.folder / "new.txt").read_text().endswith("1\n")
        await it.prompt("Read and edit it.")
        assert (it.folder / "old.txt").read_text().endswith("1\n")
