"""The sections that a recipe requires of a summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.sections import blocks, missing_sections

SUMMARY = """\
Preface without a heading.

## Goal and requirements
- Make it fast.

## Decisions
None.

### Files
| path | state |

## Errors & fixes ##

## Current state

-

## Open work
```
## Fenced
do this
```
"""


def test_sections_that_are_there_with_something_under_them_are_not_missing() -> None:
    assert missing_sections(SUMMARY, ["Goal and requirements", "Decisions", "Files", "Open work"]) == ()


def test_missing_and_empty_sections_are_named_as_the_recipe_names_them_and_in_its_order() -> None:
    required = ["Tests", "Current state", "Decisions", "Errors & fixes"]
    assert missing_sections(SUMMARY, required) == ("Tests", "Current state", "Errors & fixes")


def test_a_heading_in_fenced_code_is_none() -> None:
    assert missing_sections(SUMMARY, ["Fenced"]) == ("Fenced",)
    assert missing_sections("~~~~\n# A\n~~~\ntext\n~~~~\n# B\ntext", ["A", "B"]) == ("A",)
    assert missing_sections("- ```\n  # A\n  text\n  ```\n# B\ntext", ["A", "B"]) == ("A",)


@pytest.mark.parametrize(
    "heading",
    [
        "# Open work",
        "###### open WORK",
        "##   Open   work  ##",
        "## **Open work**",
        "## _Open work_:",
        "## 7. Open work",
        "Open work\n---------",
        "**Open** work\n===",
    ],
)
@pytest.mark.parametrize("required", ["Open work", "## Open work", "open work:"])
def test_level_case_white_space_emphasis_and_a_colon_do_not_count(heading: str, required: str) -> None:
    assert missing_sections(f"text\n\n{heading}\n\n1. Release.\n", [required]) == ()


def test_a_line_that_begins_with_a_number_sign_but_no_space_is_no_heading() -> None:
    assert missing_sections("#Files\ntext\n", ["Files"]) == ("Files",)


def test_what_stands_under_a_deeper_heading_belongs_to_the_section_and_what_stands_under_the_next_does_not() -> None:
    assert missing_sections("## Files\n### New\n`a.py`\n", ["Files", "New"]) == ()
    assert missing_sections("## Files\n### New\n## Errors\nOne.\n", ["Files", "New"]) == ("Files", "New")


def test_one_of_two_sections_of_the_same_name_is_enough() -> None:
    assert missing_sections("## Files\n\n## Errors\nx\n\n## Files\n`a.py`\n", ["Files"]) == ()


@given(st.text(st.sampled_from("# \t`~->*1.|\n\rab=_"), max_size=60) | st.text(max_size=60))
def test_any_text_falls_into_blocks_in_order_that_lie_inside_it(text: str) -> None:
    at = 0
    for block in blocks(text):
        after = len(text) if block.after is None else block.after
        assert at <= block.outer <= block.start <= block.end <= len(text)
        assert block.end <= after <= len(text)
        at = max(block.end, after)


@given(st.lists(st.text("abc xyz", min_size=1).filter(str.strip), unique_by=lambda title: " ".join(title.split())))
def test_all_sections_that_were_written_are_found(titles: list[str]) -> None:
    summary = "".join(f"## {title}\nNone.\n\n" for title in titles)
    assert missing_sections(summary, titles) == ()
    assert missing_sections("", titles) == tuple(titles)
