"""What becomes of a summary that says what nobody said: the recipe's `verify`, in requests and in the editor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.compactions import RECIPE_FILE, asked_last, bare, both_editors, messages, shown_compactions
from support.editors import ZED_BETA, Editor
from support.layers import layers
from support.models import Reply, ToolCall
from support.stage import Stage, stage

SECTIONS = (
    "Goal and requirements",
    "Decisions",
    "Files",
    "Commands and tests",
    "Errors and fixes",
    "Current state",
    "Open work",
)
PROSE = "The cart adds up what the lines cost. " * 60
HONEST = "The user asked for the bug in `a.txt`. It has three lines [#3]."
FABRICATED = (
    'It is in `src/ghost.py`, at 4711 lines, see https://ghost.example/plan. It says "drop the whole database".'
)
MARKED = (
    "It is in `src/ghost.py` [unverified], at 4711 [unverified] lines, see https://ghost.example/plan [unverified]. "
    'It says "drop the whole database" [unverified].'
)
INVENTED = (
    "src/ghost.py",
    "4711",
    "https://ghost.example/plan",
    "drop the whole database",
)


def summary(said: str, without: Sequence[str] = ()) -> str:
    """A whole summary that says this under its first heading."""
    first, *others = (title for title in SECTIONS if title not in without)
    return "\n\n".join([f"## {first}\n{said}", *(f"## {title}\nNone." for title in others)])


def recipe(home: Path, verify: str) -> None:
    """The built-in recipe, with another `verify`."""
    folder = home / "state" / "recipes"
    folder.mkdir(parents=True, mode=0o700)
    (home / "state").chmod(0o700)
    (folder / "compact.md").write_text(RECIPE_FILE.read_text().replace("verify: mark", f"verify: {verify}"))


@asynccontextmanager
async def compacting(tmp_path: Path, verify: str, *written: str | Reply, editor: Editor = ZED_BETA):
    """A session with something to summarise, for which the model writes this."""
    recipe(tmp_path / "home", verify)
    read = ToolCall("read", {"path": "a.txt"})
    talk = (Reply("I look.", tool_calls=[read]), Reply(f"Three lines. {PROSE}"))
    replies = (*talk, *(Reply(one) if isinstance(one, str) else one for one in written))
    async with stage(tmp_path, *replies, editor=editor) as it:
        await it.prompt("Find the bug in a.txt.")
        yield it


async def read_after(it: Stage) -> str:
    """The summary as the next request holds it, without its frame."""
    it.server.add(Reply("Going on."))
    await it.prompt("Go on.")
    return layers(it.server.calls[-1].body)["conversation_summary"].partition("\n\n")[2]


@both_editors
async def test_what_is_invented_is_marked_in_the_context_and_named_in_the_receipt(
    tmp_path: Path, editor: Editor
) -> None:
    async with compacting(tmp_path, "mark", summary(f"{HONEST} {FABRICATED}"), editor=editor) as it:
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        # The last word carries the whole text, since what streamed had no marks.
        assert compaction.text == await read_after(it) == summary(f"{HONEST} {MARKED}")
        told = compaction.receipt.splitlines()[1]
        assert told == f"Not found in the conversation: {', '.join(f'`{piece}`' for piece in INVENTED)}"
        assert len(it.server.calls) == 4


async def test_what_could_not_be_verified_does_not_become_true_in_the_next_summary(tmp_path: Path) -> None:
    written = summary(f"{HONEST} {FABRICATED}")
    async with compacting(tmp_path, "mark", written) as it:
        await it.prompt("/compact")
        assert await read_after(it) == summary(f"{HONEST} {MARKED}")
        it.server.add(Reply(f"More. {PROSE}"), Reply(written))
        await it.prompt("More?")
        await it.prompt("/compact")
        assert await read_after(it) == summary(f"{HONEST} {MARKED}"), "and [#3] may be cited for ever"


async def test_nothing_is_checked_where_the_recipe_says_off(tmp_path: Path) -> None:
    written = summary(f"{HONEST} {FABRICATED}")
    async with compacting(tmp_path, "off", written) as it:
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.text == await read_after(it) == written
        assert "Not found" not in compaction.receipt


@both_editors
async def test_the_model_is_asked_once_to_mend_and_its_second_text_is_used(tmp_path: Path, editor: Editor) -> None:
    bad, good = summary(f"{HONEST} {FABRICATED}", without=["Decisions", "Files"]), summary(HONEST)
    async with compacting(tmp_path, "mend", bad, good, editor=editor) as it:
        await it.prompt("/compact")
        asked, again = (bare(call.body) for call in it.server.calls[2:])
        assert again["messages"][: len(asked["messages"])] == asked["messages"], "the same prefix, so it is cached"
        request = asked_last(it.server.calls[3].body)
        for piece in (*INVENTED, "- Decisions", "- Files"):
            assert piece in request
        assert "a.txt" not in request
        [compaction] = shown_compactions(it.agent)
        assert editor is not ZED_BETA or compaction.chunks == bad, "the second text is shown at the end alone"
        assert compaction.text == await read_after(it) == good
        assert "Not found" not in compaction.receipt
        assert "lacks" not in compaction.receipt


@pytest.mark.parametrize(
    "again", [summary(f"{HONEST} {FABRICATED}"), "Sorry, all is corrected.", Reply(http_status=400)], ids=str
)
async def test_what_is_not_mended_at_the_first_attempt_is_marked(tmp_path: Path, again: str | Reply) -> None:
    async with compacting(tmp_path, "mend", summary(f"{HONEST} {FABRICATED}"), again) as it:
        await it.prompt("/compact")
        assert len(it.server.calls) == 4
        assert await read_after(it) == summary(f"{HONEST} {MARKED}")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        assert "Not found in the conversation: `src/ghost.py`" in compaction.receipt


@both_editors
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (summary(f"{HONEST} {FABRICATED}"), "it says what the conversation does not contain (`src/ghost.py`"),
        (summary(HONEST, without=["Open work"]), "it lacks the sections Open work"),
    ],
    ids=["invented", "incomplete"],
)
async def test_a_rejected_summary_leaves_the_history_as_it_was(
    tmp_path: Path, written: str, reason: str, editor: Editor
) -> None:
    async with compacting(tmp_path, "reject", written, editor=editor) as it:
        begun = len(it.agent.lines)
        assert await it.prompt("/compact") == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "failed"
        assert reason in compaction.text
        assert reason in it.agent.text(since=begun)
        assert "The history is unchanged" in compaction.text
        it.server.add(Reply("Going on."))
        await it.prompt("Go on.")
        before, after = bare(it.server.calls[2].body), bare(it.server.calls[3].body)
        go_on = {"role": "user", "content": [{"type": "text", "text": "Go on."}]}
        assert after == {**before, "messages": [*before["messages"][:-1], go_on]}


async def test_an_honest_summary_passes_the_strictest_recipe(tmp_path: Path) -> None:
    async with compacting(tmp_path, "reject", summary(HONEST)) as it:
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        assert await read_after(it) == summary(HONEST)


async def test_missing_sections_are_named_in_the_receipt(tmp_path: Path) -> None:
    async with compacting(tmp_path, "mark", summary(HONEST, without=["Decisions", "Open work"])) as it:
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        assert "the summary lacks: Decisions, Open work" in compaction.receipt


async def test_the_summary_request_numbers_the_entries_that_may_be_cited(tmp_path: Path) -> None:
    async with compacting(tmp_path, "mark", summary(HONEST)) as it:
        await it.prompt("/compact")
        table = asked_last(it.server.calls[2].body).partition("Entries, by number:\n")[2].splitlines()
        assert [line.partition(" ")[2] for line in table[:2]] == ["user: Find the bug in a.txt.", "you: I look."]
        cited = int(table[0].removeprefix("[#").partition("]")[0])
        it.server.add(
            Reply(tool_calls=[ToolCall("recall", {"entry": cited})]),
            Reply("Found."),
        )
        await it.prompt("What did I ask first?")
        assert "Find the bug in a.txt." in str(messages(it.server.calls[-1].body)[-1])
