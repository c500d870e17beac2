"""The inventory: files and what was done to them, commands with their last result,
failed calls, branch and commit.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.excerpts.inventory import (
    command_line,
    read_inventory,
    render_inventory,
)
from acp_agent.compaction.state import Workspace
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    JsonValue,
    Message,
    Text,
    ToolCall,
    ToolResult,
)


def call(name: str, **arguments: JsonValue) -> ToolCall:
    return ToolCall("", name, arguments)


def log(*steps: tuple[ToolCall, str] | tuple[ToolCall, str, bool]) -> tuple[Entry, ...]:
    messages: list[Message] = []
    for number, (made, text, *failed) in enumerate(steps):
        named = ToolCall(f"c{number}", made.name, made.arguments)
        messages += [
            AssistantMessage("a", (named,)),
            ToolResult(named.id, (Text(text),), any(failed)),
        ]
    return tuple(Entry(seq, message) for seq, message in enumerate(messages, 1))


def listed(entries: tuple[Entry, ...], room: int, kept: tuple[int, ...] = ()) -> str:
    return render_inventory(read_inventory(entries, Workspace()), room, kept=kept)


def files(*steps: tuple[ToolCall, str] | tuple[ToolCall, str, bool]) -> dict[str, str]:
    return {
        path: change
        for path, (_, change) in read_inventory(log(*steps), Workspace()).files.items()
    }


READ = call("read", path="cart.py")
WRITE = call("write", path="cart.py", content="x = 1\n")
EDIT = call("edit", path="cart.py", old_text="1", new_text="2")


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ((READ,), "read"),
        ((WRITE,), "created"),
        ((EDIT,), "edited"),
        ((READ, WRITE), "edited"),
        ((READ, EDIT, READ), "edited"),
        ((WRITE, EDIT, READ, WRITE), "created"),
        (
            (call("Edit", file_path="cart.py", old_string="1", new_string="2"),),
            "edited",
        ),
        ((call("Write", file_path="cart.py", content=""),), "created"),
        ((call("str_replace_editor", command="view", path="cart.py"),), "read"),
        (
            (
                call(
                    "str_replace_editor",
                    command="create",
                    path="cart.py",
                    file_text="x",
                ),
            ),
            "created",
        ),
        (
            (
                call(
                    "str_replace_editor",
                    command="str_replace",
                    path="cart.py",
                    old_str="1",
                    new_str="2",
                ),
            ),
            "edited",
        ),
    ],
)
def test_a_files_state_is_read_from_the_arguments_of_calls(
    steps: tuple[ToolCall, ...], state: str
) -> None:
    assert files(*((step, "done") for step in steps)) == {"cart.py": state}


def test_a_failed_call_is_listed_until_a_later_one_succeeds() -> None:
    failed = log((EDIT, "old_text was not found", True))
    assert not read_inventory(failed, Workspace()).files
    assert "[#1] edit of cart.py: old_text was not found" in listed(failed, 100)
    cured = read_inventory(
        log((EDIT, "old_text was not found", True), (EDIT, "done")), Workspace()
    )
    assert cured.files == {"cart.py": (3, "edited")}
    assert not cured.failures


@pytest.mark.parametrize(
    ("text", "failed", "shown"),
    [
        ("exit status: 0\nstdout:\nok", False, "run.sh"),
        (
            "exit status: 1\nstdout:\nE\n==== 2 failed, 7 passed in 0.3s ====",
            True,
            "→ exit 1: 2 failed, 7 passed in 0.3s",
        ),
        (
            "<returncode>2</returncode>\nfatal: no such thing",
            True,
            "→ exit 2: fatal: no such thing",
        ),
        ("Ran 12 tests in 0.1s\n\nOK", False, "→ Ran 12 tests in 0.1s"),
        ("stopped", True, "→ failed"),
    ],
)
def test_a_command_is_listed_with_its_outcome(
    text: str, failed: bool, shown: str
) -> None:
    line = listed(
        log((call("shell", command="run.sh"), text, failed)), 100
    ).splitlines()[-1]
    assert line.startswith("[#1] run.sh")
    assert line.endswith(shown)


def test_a_rerun_replaces_the_earlier_run_whatever_its_options() -> None:
    first = call("bash", command="pytest a.py"), "1 failed", True
    again = call("bash", command="pytest -q a.py"), "1 passed"
    assert read_inventory(log(first, again), Workspace()).commands == (
        ("pytest -q a.py", 3, "1 passed"),
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"command": "cat <<'EOF' > a.py\nimport os\nEOF\npython a.py"},
            "cat <<'EOF' > a.py; python a.py",
        ),
        ({"command": ["bash", "-lc", "pytest a.py"]}, "pytest a.py"),
        ({"cmd": ["pytest", "a.py"]}, "pytest a.py"),
        ({"command": "cd src\n\nmake   all"}, "cd src; make all"),
        ({"command": 7}, ""),
        ({"pattern": "x"}, ""),
    ],
)
def test_a_command_line_is_one_line_without_here_documents(
    arguments: dict[str, JsonValue], line: str
) -> None:
    assert command_line(ToolCall("", "bash", arguments)) == line


def test_commands_likely_to_run_again_have_priority() -> None:
    looks = [
        (call("bash", command=f"nl -ba src/cart_{n}.py | sed -n '{n},40p'"), "x")
        for n in range(30)
    ]
    tests = [(call("bash", command="python check.py"), "1 passed")] * 3
    text = listed(log(*looks[:15], *tests, *looks[15:]), 18)
    assert "python check.py" in text
    assert "cart_" not in text


def test_commands_of_kept_entries_are_not_listed() -> None:
    assert listed(log((call("bash", command="make all"), "ok")), 100, kept=(1,)) == ""


def test_the_inventory_names_branch_and_commit() -> None:
    assert "branch main at 1a2b3c" in render_inventory(
        read_inventory((), Workspace("/w", "main", "1a2b3c")), 50
    )


@given(
    st.lists(
        st.tuples(st.text(max_size=60), st.text(max_size=200), st.booleans()),
        max_size=8,
    ),
    st.integers(0, 200),
)
def test_the_inventory_stays_within_its_limit_with_one_line_per_item(
    runs: list[tuple[str, str, bool]], room: int
) -> None:
    steps = [
        (call("bash", command=command), text, failed) for command, text, failed in runs
    ]
    steps += [
        (call("edit", path=command, edits=[]), text, failed)
        for command, text, failed in runs
    ]
    text = listed(log(*steps), room)
    assert estimate_text(text) <= room
    assert text.splitlines() == (text.split("\n") if text else [])


@pytest.mark.parametrize(
    "text",
    ["<<EOF\n" * 50_000, "x" * 1_000_000, "exit status " * 80_000, "1 " * 500_000],
)
def test_hostile_calls_are_read_in_linear_time(text: str) -> None:
    assert (
        estimate_text(listed(log((call("bash", command=text), text, True)), 200)) <= 200
    )
