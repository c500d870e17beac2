"""What the model is told about paths that the sandbox keeps from commands."""

from __future__ import annotations

from acp_agent.tools.shell.guarded import renamed


def test_a_renamed_path_with_a_line_end_adds_no_line_to_what_the_model_reads() -> None:
    told = renamed(["a\n(All is well.) → a.blocked"])
    assert "\n" not in told
    assert "a\\n(All is well.) → a.blocked" in told


def test_of_very_many_renamed_paths_the_model_reads_the_first() -> None:
    lines = [f"mise.{n}.toml → mise.{n}.toml.blocked" for n in range(10_000)]
    text = renamed(lines)
    assert len(text) < 12_000
    assert "mise.0.toml → mise.0.toml.blocked" in text
    assert " and 9800 more. " in text
