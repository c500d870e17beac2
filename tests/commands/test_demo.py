"""`acp-agent demo` as a person sees it who has configured nothing."""

from __future__ import annotations

import re

import pytest

from support.demo import in_order, place, run_demo


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints where no model is configured."""
    where = place(tmp_path_factory.mktemp("demo"))
    done = run_demo(where)
    assert (done.returncode, done.stderr) == (0, "")
    where.nothing_left()
    assert list(where.home.iterdir()) == []
    return done.stdout


def test_without_a_model_the_demo_says_in_one_line_that_a_script_plays_it(shown: str) -> None:
    assert [line for line in shown.splitlines() if "script" in line] == [
        "No model is configured, so a script plays the model; files, tools, tests and token counts are real."
    ]


def test_the_tests_of_the_scratch_program_fail_are_mended_and_pass(shown: str) -> None:
    in_order(
        shown,
        "1 of 4 tests fails",
        "✗ python3 -m unittest",
        "exit 1 · failed",
        "AssertionError: -960 != 480",
        "FAILED (failures=1)",
        "✓ Edit timesheet.py",
        "✓ python3 -m unittest",
        "exit 0 · completed",
        "Ran 4 tests",
        "1 of 4 tests fails → all 4 tests pass",
    )


def test_a_change_is_shown_as_a_diff_with_the_question_whether_it_is_allowed_and_the_answer(shown: str) -> None:
    in_order(
        shown,
        "? Allow this? Edit timesheet.py",
        "edit · pending",
        "-        return self.end - self.start - self.pause\n",
        "+        return (self.end - self.start) % DAY - self.pause\n",
        "[Allow]  [Always allow edit]  [Reject]",
        "→ Allow\n",
        "✓ Edit timesheet.py",
        "timesheet.py:30 · edit · completed",
    )
    assert "Permission  3 asked for, 3 given" in shown


def test_a_program_that_was_allowed_for_good_is_asked_for_once_even_over_a_restart(shown: str) -> None:
    assert shown.count("? Allow this? python3 -m unittest") == 1
    assert len(re.findall(r"[✓✗] python3 -m unittest", shown)) == 3


def test_the_plan_moves_step_by_step(shown: str) -> None:
    steps = re.findall(r"^ {6}([○▸✓]) (?:Find out|Mend the|Run the)", shown, re.MULTILINE)

    assert [steps[at : at + 3] for at in range(0, len(steps), 3)] == [
        ["▸", "○", "○"],
        ["✓", "▸", "○"],
        ["✓", "✓", "▸"],
        ["✓", "✓", "✓"],
    ]


def test_the_summary_streams_and_the_meter_is_clearly_lower_after_it(shown: str) -> None:
    in_order(
        shown,
        "Before   [",
        "› /compact",
        "Compaction in progress",
        "│ ## Goal and requirements",
        "│ ## Open work",
        "✓ Compaction completed",
        "After    [",
    )
    before, after, resumed = (int(used.replace(",", "")) for used in re.findall(r"\] ([\d,]+) / 20,000 tokens", shown))
    assert after < 0.65 * before
    assert after < resumed < 0.8 * before
    pieces = re.search(r"the summary streamed in (\d+) pieces", shown)
    assert pieces is not None
    assert int(pieces[1]) > 10


def test_after_a_kill_another_process_lists_the_session_resumes_it_and_goes_on_from_the_summary(shown: str) -> None:
    agents = re.findall(r"process (\d+)", shown)
    assert len(set(agents)) == 2
    session = re.search(r"Session +(\S+)", shown)
    assert session is not None

    in_order(
        shown,
        f"Killed the agent, process {agents[0]}",
        f"Started another one, process {agents[-1]}",
        session[1],
        "Resumed it",
        "› Now the test that I asked for.",
        "+    def test_a_night_shift_may_have_a_break(self) -> None:",
        "Ran 5 tests",
        "it knew the test that was meant: all 5 tests pass",
    )


def test_output_that_is_not_a_terminal_has_no_colours(shown: str) -> None:
    assert "\x1b" not in shown
