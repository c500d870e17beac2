"""What becomes of a summary that says what nobody said: the recipe's `verify`, in requests and in the editor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from support.compactions import RECIPE_FILE, both_editors, shown_compactions
from support.editors import ZED_BETA, Editor
from support.layers import layers
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import Stage

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
