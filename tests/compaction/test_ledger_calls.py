"""Calls of this agent's tools and of other agents' are read alike, and how they went by more than the exit status."""

from __future__ import annotations

import json

import pytest

from acp_agent.compaction.ledger_calls import Happening, read_call
from acp_agent.conversation.messages import JsonObject, ToolCall

OURS_OK = "exit status: 0\nstdout:\nfine\nstderr: (empty)"


def happened(name: str, arguments: JsonObject, result: str = "", is_error: bool = False) -> Happening:
    done = read_call(ToolCall("call_1", name, arguments), result, is_error, "/shop")
    assert done is not None
    return done


def shell(command: str, result: str, is_error: bool = False) -> Happening:
    return happened("shell", {"command": command}, result, is_error)


@pytest.mark.parametrize(
    ("name", "arguments", "result", "expected"),
    [
        ("read", {"path": "a.py"}, "1\tx\n2\ty", ("read", "/shop/a.py", (1, 2))),
        ("read", {"path": "a.py", "offset": 3}, "3\tx\n4\ty\n(lines 3 to 4 of 9)", ("read", "/shop/a.py", (3, 4))),
        ("read", {"path": "file:///etc/my%20hosts"}, "1\tx", ("read", "/etc/my hosts", (1, 1))),
        ("write", {"path": "a.py"}, "Made a.py (1 line).", ("write", "/shop/a.py", None)),
        ("edit", {"path": "./b/../a.py", "edits": []}, "Edited a.py", ("write", "/shop/a.py", None)),
        ("Read", {"file_path": "/shop/a.py"}, "     5→x\n     6→y", ("read", "/shop/a.py", (5, 6))),
        ("Read", {"file_path": "/shop/a.py", "offset": 5, "limit": 3}, "gone", ("read", "/shop/a.py", (5, 7))),
        ("Write", {"file_path": "/shop/a.py", "content": ""}, "ok", ("write", "/shop/a.py", None)),
        ("MultiEdit", {"file_path": "/shop/a.py", "edits": []}, "ok", ("write", "/shop/a.py", None)),
        ("NotebookEdit", {"notebook_path": "/shop/a.ipynb"}, "ok", ("write", "/shop/a.ipynb", None)),
        ("str_replace_editor", {"command": "view", "path": "/shop/a.py", "view_range": [2, 9]}, "x",
         ("read", "/shop/a.py", (2, 9))),
        ("Bash", {"command": "sed -n '1,5p' a.py"}, "text", ("read", "/shop/a.py", (1, 5))),
        ("shell", {"command": ["bash", "-lc", "cat a.py"], "workdir": "/shop/x"}, "t", ("read", "/shop/x/a.py", None)),
        ("exec_command", {"cmd": "rm a.py"}, "Process exited with code 0\n", ("delete", "/shop/a.py", None)),
        ("bash", {"command": "rm a.py"}, "<returncode>0</returncode>", ("delete", "/shop/a.py", None)),
    ],
)  # fmt: skip
def test_every_agents_tools_are_read_alike(
    name: str, arguments: JsonObject, result: str, expected: tuple[str, str, tuple[int, int] | None]
) -> None:
    [touch] = happened(name, arguments, result).touches
    assert (touch.kind, touch.path, touch.lines) == expected


def test_a_patch_names_its_files() -> None:
    actions = ("Begin Patch", "Add File: new.py", "Update File: old.py", "Move to: moved.py", "Delete File: gone.py")
    patch = "\n".join(f"*** {action}" for action in actions)
    done = happened("apply_patch", {"input": patch}, "Success")
    assert [(touch.kind, touch.path, touch.made) for touch in done.touches] == [
        ("write", "/shop/new.py", "created"),
        ("write", "/shop/old.py", "edited"),
        ("delete", "/shop/old.py", None),
        ("create", "/shop/moved.py", None),
        ("delete", "/shop/gone.py", None),
    ]


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (OURS_OK, 0),
        ("exit status: 3\nstdout: (empty)\nstderr: (empty)", 3),
        ("exit status: none, ended by SIGKILL\nstdout: (empty)\nstderr: (empty)", None),
        ("<returncode>4</returncode>\n<output>\n</output>", 4),
        ("Exit code 5\nboom", 5),
        ("Exit code: 6\nWall time: 1 seconds\nOutput:\nboom", 6),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 7\nOutput:\n", 7),
        (json.dumps({"output": "boom", "metadata": {"exit_code": 8}}), 8),
        ("boom\n[Command finished with exit code 9]", 9),
        ("all went well", None),
    ],
)
def test_the_exit_status_is_found_in_every_form(result: str, status: int | None) -> None:
    done = shell("./build.sh", result, bool(status))
    assert done.command is not None
    assert done.command.exit_status == status
    assert bool(done.error) == bool(status)


@pytest.mark.parametrize(
    ("command", "output", "counted", "failed"),
    [
        ("pytest", "F.\nFAILED t.py::a\n=== 1 failed, 1 passed in 0.1s ===", "1 failed, 1 passed in 0.1s", True),
        ("pytest", "..\n=== 2 passed, 1 xfailed in 0.1s ===", "2 passed, 1 xfailed in 0.1s", False),
        ("python -m unittest", "Ran 2 tests in 0.1s\n\nFAILED (failures=1)",
         "Ran 2 tests in 0.1s: FAILED (failures=1)", True),
        ("python -m unittest", "Ran 2 tests in 0.1s\n\nOK", "Ran 2 tests in 0.1s: OK", False),
        ("npx jest", "Test Suites: 1 failed\nTests:       1 failed, 2 passed, 3 total\nTime: 1 s",
         "Tests:       1 failed, 2 passed, 3 total", True),
        ("npx vitest run", " Test Files  1 passed (1)\n      Tests  3 passed (3)", "Tests  3 passed (3)", False),
        ("go test ./...", "--- FAIL: TestA\nFAIL\tx/a\t0.1s\nok  \tx/b\t0.1s", "FAIL\tx/a\t0.1s", True),
        ("go test ./...", "ok  \tx/a\t0.1s", "ok  \tx/a\t0.1s", False),
        ("cargo test", "test result: FAILED. 1 passed; 1 failed; 0 ignored\ntest result: ok. 3 passed; 0 failed",
         "test result: FAILED. 1 passed; 1 failed; 0 ignored", True),
        ("ctest", "100% tests passed, 0 tests failed out of 3", "100% tests passed, 0 tests failed out of 3", False),
        ("rspec", "5 examples, 0 failures", "5 examples, 0 failures", False),
        ("phpunit", "OK (3 tests, 5 assertions)", "OK (3 tests, 5 assertions)", False),
        ("mvn test", "Tests run: 3, Failures: 1, Errors: 0", "Tests run: 3, Failures: 1, Errors: 0", True),
        ("gradle test", "BUILD FAILED in 3s", "BUILD FAILED in 3s", True),
    ],
)  # fmt: skip
def test_the_last_line_of_counts_says_how_tests_went_whatever_the_status(
    command: str, output: str, counted: str, failed: bool
) -> None:
    done = shell(f"{command} 2>&1 | tail -20", f"exit status: 0\nstdout:\n{output}\nstderr: (empty)")
    assert done.command is not None
    assert done.command.is_test
    assert done.command.result == " ".join(counted.split())
    assert done.command.failed is failed
    assert bool(done.error) is failed


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no cart'


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (f"starting\n{TRACEBACK}", "ValueError: no cart"),
        ("cc a.c\na.c:1:2: error: no cart\n1 error generated.\nmake: *** [a.o] Error 1", "a.c:1:2: error: no cart"),
        ("error[E0425]: no cart\nsome\nmore", "error[E0425]: no cart"),
        ("bash: line 1: ed: command not found", "bash: line 1: ed: command not found"),
    ],
)
def test_a_failure_that_is_plainly_printed_is_none_the_less_for_exit_status_0(output: str, line: str) -> None:
    done = shell("./build.sh | tail -5", f"exit status: 0\nstdout:\n{output}\nstderr: (empty)")
    assert done.command is not None
    assert (done.command.failed, done.error) == (True, line)


def test_a_file_that_holds_a_traceback_is_no_failure() -> None:
    assert not shell("cat log.txt", f"exit status: 0\nstdout:\n{TRACEBACK}\nstderr: (empty)").error


@pytest.mark.parametrize(
    "command", ["grep x a.py", "cat a.py | grep x", "diff a b", "test -f a", "[ -f a ]", "git grep x"]
)
def test_a_status_that_is_an_answer_is_no_error(command: str) -> None:
    assert not shell(command, "exit status: 1\nstdout: (empty)\nstderr: (empty)", True).error
    assert shell(command, "exit status: 2\nstdout: (empty)\nstderr:\nno", True).error


@pytest.mark.parametrize(
    "result",
    [
        "The user did not allow this call.",
        "The user could not be asked, so nothing was done. The editor has no such method.",
        "Nobody is here to ask, so nothing was done. Do not try it in another way; say what you would do.",
        "Please always provide EXACTLY ONE action in",
        "The user cancelled this call",
    ],
)
def test_a_call_that_never_ran_leaves_nothing(result: str) -> None:
    for name, arguments in (("shell", {"command": "rm a.py"}), ("edit", {"path": "a.py"}), ("mcp", {})):
        assert read_call(ToolCall("call_1", name, dict(arguments)), result, True, "/shop") is None


@pytest.mark.parametrize(
    ("command", "result", "paths"),
    [
        ("sed -i s/a/b/ a.py", "exit status: 1\nstdout: (empty)\nstderr:\nsed: bad", []),
        ("sed -i s/a/b/ a.py && pytest", "exit status: 1\nstdout:\n1 failed\nstderr: (empty)", ["/shop/a.py"]),
        ("python fix.py && rm fix.py", "exit status: 1\nstdout: (empty)\nstderr:\nValueError: x", []),
        ("python fix.py; rm fix.py", "exit status: 1\nstdout: (empty)\nstderr:\nValueError: x", ["/shop/fix.py"]),
        ("cat a.py b.py", "exit status: 1\nstdout:\nx\nstderr:\ncat: b.py: No such file or directory", ["/shop/a.py"]),
        ("rm a.py b.py", "exit status: 1\nstdout: (empty)\nstderr:\nrm: cannot remove 'b.py': No such file",
         ["/shop/a.py"]),
    ],
)  # fmt: skip
def test_a_failure_leaves_out_what_is_doubtful(command: str, result: str, paths: list[str]) -> None:
    assert [touch.path for touch in shell(command, result, True).touches] == paths


def test_hostile_outputs_are_read_in_bounded_parts() -> None:
    for output in ("x" * 3_000_000, "a " * 1_000_000, "\n" * 1_000_000, "(" * 1_000_000, "Error" * 500_000):
        done = shell("./build.sh", f"exit status: 1\nstdout:\n{output}\nstderr:\n{output}", True)
        assert len(done.error) <= 300
        done = shell(f"./build.sh {output}", "exit status: 1\nstdout: (empty)\nstderr: (empty)", True)
        assert len(done.subject) <= 300
