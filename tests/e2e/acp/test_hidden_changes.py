"""A question about an edit or a write shows every line that it adds, whatever is around
these lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.called import call_command
from support.memory import second_agent, stage
from support.models import model_server
from support.replies import Reply, ToolCall

PAYLOAD = "import os; os.system('PAYLOAD')\n"
LIKE_A_CUT = "# … (9 more characters)\n"
FILLER = "".join(f"# generated {number} {'-' * 40}\n" for number in range(1_500))
EQUAL = "    pass\n" * 1_500
TABLE = [
    f"row {number} of the table, with some text to make it long\n"
    for number in range(4_000)
]


@dataclass(frozen=True, slots=True)
class Case:
    """A change with the payload in it.

    :ivar before: the text of the file; None for a new one.
    """

    name: str
    before: str | None
    edits: Sequence[tuple[str, str]] = field(default=())
    content: str = ""

    @property
    def calls(self) -> list[ToolCall]:
        arguments: dict[str, Any] = {"path": self.name}
        read = [] if self.before is None else [ToolCall("read", arguments)]
        if not self.edits:
            return [*read, ToolCall("write", {**arguments, "content": self.content})]
        edits = [{"old_text": old, "new_text": new} for old, new in self.edits]
        return [*read, ToolCall("edit", {**arguments, "edits": edits})]


CASES = (
    Case("cut.py", None, content=f"x = 1\n{PAYLOAD}{LIKE_A_CUT}"),
    Case("cut_edit.py", "x = 1\n", [("x = 1\n", f"x = 1\n{PAYLOAD}{LIKE_A_CUT}")]),
    Case("was_cut.py", f"x = 1\n{LIKE_A_CUT}", [("x = 1\n", f"x = 1\n{PAYLOAD}")]),
    Case("equal.py", f"{EQUAL}x = 1\n", [("x = 1\n", f"x = 1\n{PAYLOAD}")]),
    Case(
        "equal_around.py",
        f"a = 1\n{EQUAL}x = 1\n",
        [("a = 1\n", "a = 2\n"), ("x = 1\n", PAYLOAD)],
    ),
    Case(
        "lines.py",
        None,
        content="".join(f"# {number}\n" for number in range(300)) + PAYLOAD,
    ),
    Case('quote"d.py', None, content=PAYLOAD),
    Case("back\\slash.py", None, content=PAYLOAD),
    Case("far.py", "".join(TABLE), [("row 5 of", "row 5 in"), (TABLE[3_990], PAYLOAD)]),
    Case("long.py", "x = 1\n", [("x = 1\n", f"{FILLER}{PAYLOAD}{FILLER}")]),
    Case("new.py", None, content=f"{FILLER}{PAYLOAD}{FILLER}"),
    Case(
        "one_line.py", None, content=f"{'#' * 70_000}{PAYLOAD.strip()}{'#' * 70_000}\n"
    ),
    Case("whole.py", FILLER, content=f"{FILLER}{PAYLOAD}"),
)
REPLIES = (
    Reply(tool_calls=[call for case in CASES for call in case.calls[:-1]]),
    Reply(tool_calls=[case.calls[-1] for case in CASES]),
    Reply("Done."),
)
CONFIG = {"context_window": 4_000_000}
FILES = {case.name: case.before for case in CASES if case.before is not None}


def without_arguments(value: Any) -> Any:
    """A message as an editor shows it, which shows no raw input."""
    if isinstance(value, Mapping):
        return {
            name: without_arguments(each)
            for name, each in value.items()
            if name != "rawInput"
        }
    return [*map(without_arguments, value)] if isinstance(value, list) else value


def check(questions: Sequence[Mapping[str, Any]]) -> None:
    assert len(questions) == len(CASES)
    for params, case in zip(questions, CASES, strict=True):
        shown = json.dumps(without_arguments(params))
        assert "PAYLOAD" in shown, (case.name, shown[:2_000])


async def test_a_question_shows_each_added_line_of_a_change(tmp_path: Path) -> None:
    async with stage(tmp_path, *REPLIES, files=FILES, config=CONFIG) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt(timeout=60)
        check(it.agent.desk.permissions)


async def test_a_question_in_version_2_shows_each_added_line_of_a_change(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    folder = tmp_path / "project"
    for each in (home, folder):
        each.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    async with model_server(REPLIES, "openai") as model:
        model.write_config(home, CONFIG)
        async with second_agent(home=home, env=model.env("openai")) as it:
            it.agent.permission_answer = "reject_once"
            session = await it.open(folder)
            await it.answer(session, "Go on.")
            check(it.agent.desk.permissions)


async def test_a_question_at_the_terminal_shows_each_added_line_of_a_change(
    tmp_path: Path,
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    async with model_server(REPLIES, "openai") as model:
        model.write_config(tmp_path, CONFIG)
        ran = await call_command(tmp_path, "run", "Go on.", env=model.env())
    questions = ran.err.split("[y] Allow")[:-1]
    assert len(questions) == len(CASES), ran.err
    for shown, case in zip(questions, CASES, strict=True):
        assert "PAYLOAD" in shown, (case.name, shown[-2_000:])


async def test_a_question_names_the_hidden_characters_of_added_lines_although_the_text_had_them_elsewhere(
    tmp_path: Path,
) -> None:
    old = "a = 1  # \u202e\u2066 in a fixture\nis_admin = False\n"
    new = 'a = 1  # in a fixture\nis_admin = "x\u202e\u2066 # check"\n'
    moved = Case("moved.py", old, [(old, new)])
    kept = Case("kept.py", old, [("is_admin = False", "is_admin = True")])
    replies = [
        *(Reply(tool_calls=[call]) for case in (moved, kept) for call in case.calls),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies, files={"moved.py": old, "kept.py": old}) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        asked = [
            json.dumps(without_arguments(params))
            for params in it.agent.desk.permissions
        ]
    assert ["U+202E" in each for each in asked] == [True, False]
    assert "U+2066" in asked[0]


async def test_a_question_says_how_much_of_a_huge_change_it_leaves_out(
    tmp_path: Path,
) -> None:
    old, new = (f"{letter * 59}\n" * 12_000 for letter in "ab")
    huge = Case("huge.py", old, content=f"{new}LAST\n")
    replies = [*(Reply(tool_calls=[call]) for call in huge.calls), Reply("Done.")]
    async with stage(tmp_path, *replies, files={"huge.py": old}, config=CONFIG) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        [asked] = [
            json.dumps(without_arguments(params))
            for params in it.agent.desk.permissions
        ]
    assert "12,001 added, 12,000 removed" in asked
    assert " lines left out: `acp-agent inspect` shows the whole call" in asked
    assert "+LAST" in asked
