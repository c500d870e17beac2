"""`acp-agent demo` as a person sees it, to its end."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from types import ModuleType

import pytest
import yaml

from acp_agent.cli import demo
from support.checkout import REPOSITORY, environment
from support.processes import marked


def pictures_script() -> ModuleType:
    spec = spec_from_file_location(
        "make_pictures", REPOSITORY / ".ci" / "make_pictures.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


pictures = pictures_script()


def in_order(text: str, *pieces: str) -> None:
    """Assert that a text holds these, each behind the one before."""
    position = 0
    for piece in pieces:
        found = text.find(piece, position)
        assert found >= 0, (
            f"{piece!r} does not come after character {position} of:\n{text}"
        )
        position = found + len(piece)


def without_measures(text: str) -> str:
    """Leave out what is another number on another machine: tokens and seconds."""
    text = re.sub(r"[\d,]+ → [\d,]+ tokens", "tokens", text)
    return re.sub(r"· (under )?[\d.]+ s ·", "· seconds ·", text)


@pytest.mark.process
def test_without_a_model_a_script_plays_all_of_it_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    scratch = tmp_path / "scratch"
    mark = str(tmp_path)
    home.mkdir()
    scratch.mkdir()
    # A server of the machine must not be found to be a model.
    env = {
        **environment(home),
        "TMPDIR": str(scratch),
        "DEMO_TEST_MARK": mark,
        "no_proxy": "*",
    }
    del env["ACP_AGENT_HOME"]
    command = [sys.executable, "-m", "acp_agent", "demo"]
    ran = subprocess.run(
        command,
        env=env,
        cwd=home,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        timeout=150,
        check=True,
    )
    assert "Traceback" not in ran.stdout
    assert [*scratch.iterdir(), *home.iterdir()] == []
    assert marked(mark) == set()
    assert "\x1b" not in ran.stdout  # this is no terminal
    in_order(
        ran.stdout,
        "A script plays the model",
        "1 of 4 tests fails",
        "-        return self.end - self.start - self.pause\n",
        "+        return (self.end - self.start) % DAY - self.pause\n",
        "All four tests pass.",
        "$ acp-agent compact",
        "## Goal and requirements",
        "## Open work",
        "'Now the test that I asked for.'",
        "+    def test_a_night_shift_may_have_a_break(self) -> None:",
        "✓ Tests: 1 of 4 tests fails → all 4 tests pass",
        "✓ Compaction",
        "✓ The requested test: all 5 tests pass",
    )
    assert "Not allowed" not in ran.stdout
    assert len(re.findall("^→ python3 -m unittest", ran.stdout, re.MULTILINE)) == 3
    shown = pictures.terminal_picture(pictures.compaction_in(ran.stdout))
    # Paths of this machine are in the conversation, and count.
    assert without_measures(shown) == without_measures(pictures.TERMINAL.read_text()), (
        "run .ci/make_pictures.py"
    )


@pytest.mark.parametrize("watched", [True, False])
def test_the_model_takes_its_time_only_where_somebody_watches(watched: bool) -> None:
    script = yaml.safe_load(demo._script(watched))
    assert (script.get("delay", 0) > 0) is watched


def test_the_picture_of_a_session_was_made_of_the_page_as_it_is() -> None:
    made_from = pictures.MADE_FROM + b"\0" + pictures.page_digest().encode()
    assert made_from in pictures.PAGE.read_bytes(), "run .ci/make_pictures.py"
