"""Lists of claims: a test that may be left out of a run proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.manifests import check_tests, skipping_in

FILE = """
import pytest
linux = pytest.mark.skipif(True, reason="x")
def picture(): return pytest.importorskip("PIL")
def through(): return picture()
def skip_nothing(): return 1
@linux
def test_by_a_mark(): pass
@pytest.mark.xfail
async def test_that_may_fail(): pass
def test_by_a_helper(): through()
def test_by_a_call(): pytest.skip("x")
def test_that_runs(): skip_nothing()
"""


def test_what_may_be_skipped_is_found_and_what_always_runs_is_not(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(FILE)
    assert {name for name in skipping_in(file) if name.startswith("test_")} == {
        "test_by_a_mark",
        "test_that_may_fail",
        "test_by_a_helper",
        "test_by_a_call",
    }
    whole = tmp_path / "test_whole.py"
    whole.write_text(f"{FILE}\npytestmark = pytest.mark.skipif(True, reason='x')\n")
    assert "test_that_runs" in skipping_in(whole)


def test_a_skipped_test_is_no_proof() -> None:
    with pytest.raises(AssertionError, match="proves nothing where it is skipped"):
        check_tests(
            {
                "tests": [
                    "tests/acp/test_attachments.py::test_an_image_is_scaled_to_what_the_model_takes_and_shown_again_as_it_was"
                ]
            }
        )
    check_tests({"tests": ["tests/acp/test_attachments.py::test_more_images_than_the_model_takes_at_once_are_refused"]})
