"""What `make bench` prints."""

from __future__ import annotations

from benchmarks.table import Failure, Figure, render


def test_a_line_has_ours_the_target_whether_it_is_met_and_each_peers_median_with_the_ratio() -> (
    None
):
    slow = Figure(
        "cancel",
        "ms",
        [5.0, 4.0, 9.0],
        3,
        {"quick-acp": [2.0], "slow-acp": [40.0, 20.0, 10.0]},
    )
    outcomes = [
        slow,
        Figure("start", "ms", [30.0], 41),
        Failure("eof", "it stayed", "slow-acp"),
    ]

    head, _, missed, met, failed = render(
        outcomes, ["quick-acp", "slow-acp", "third-acp"]
    ).splitlines()

    assert head.split() == [
        "measure",
        "median",
        "min",
        "runs",
        "target",
        "quick-acp",
        "slow-acp",
        "third-acp",
    ]
    assert missed.split() == [
        "cancel",
        "5",
        "ms",
        "4",
        "3",
        "3",
        "ms",
        "MISSED",
        "2",
        "(2.50)",
        "20",
        "(0.25)",
        "-",
    ]
    assert met.split() == ["start", "30", "ms", "30", "1", "41", "ms", "met"]
    assert failed == "slow-acp eof: it stayed"
