"""The page of a session: whatever is in the session, the page is ours alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.cli.inspect.page import HEIGHT, WIDTH, Level, html_page, page_data
from acp_agent.cli.inspect.story import Story
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.conversation.events import CompactionFailed, LoggedEvent, TitleChanged
from acp_agent.conversation.messages import Usage
from support.inspection import inspected
from support.logs import LogBuilder, legal_logs

HOSTILE = (
    "</script><script>bad()</script>",
    "</script \n x",
    "<!--<script>",
    '"><img src=x onerror=bad()>',
    "' onload='bad()",
    "<!-- <script> ]]>",
    "@@SCRIPT@@ @@DATA@@",
    "\x1b[31mred\x1b]8;;http://bad\x07link\x1b]8;;\x07\x00\x07",
    "\ud800 half",
    "\u202etxt.exe",
    "javascript:bad()",
    "\u2028\u2029",
)
LEVELS: dict[Level, int] = {"window": 1_000, "threshold": 800, "prepare": 700}
SECRET = "very-secret-value"
ENV = {"SHOP_API_KEY": SECRET}


class Structure(HTMLParser):
    """The elements of a page with their attributes, and what is in its data block."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.data = ""
        self._in_data = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(attrs)))
        self._in_data = ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data


def page_of(
    log: tuple[LoggedEvent, ...], env: Mapping[str, str] = ENV
) -> tuple[str, dict[str, Any]]:
    """The page of a log, and what was put into it."""
    seen = inspected(log)
    data = page_data(seen, "sess_1", LEVELS, safe_for(env))
    return html_page(data), data


def picture_of(seen: Story) -> str:
    """The picture of a story, as SVG."""
    return str(page_data(seen, "sess_1", LEVELS, safe_for({}))["plot"])


def a_log(text: str) -> LogBuilder:
    """A session in which a text stands wherever somebody else's may."""
    log = LogBuilder(f"/{text}")
    log.prompt(text, sent=f"Recipe: {text}")
    log.step(text, calls=1, usage=Usage(10, 1))
    log.end()
    log.swap(summary=text)
    log.add(
        TitleChanged(text), CompactionFailed("compaction_x", "manual", "failed", text)
    )
    log.prompt(text)
    return log


@given(
    st.text()
    | st.sampled_from(HOSTILE)
    | st.lists(st.sampled_from(HOSTILE)).map("".join)
)
def test_no_text_of_a_session_changes_what_the_page_is_made_of(text: str) -> None:
    page, data = page_of(a_log(text).logged)
    harmless = Structure(page_of(a_log("harmless").logged)[0])
    seen = Structure(page)
    assert seen.tags == harmless.tags
    assert json.loads(seen.data) == data
    assert not set(seen.data) & set("<>&")
    page.encode()  # no half of a surrogate pair is left
    assert ET.fromstring(data["plot"]) is not None
    assert not set(page) & {"\x1b", "\x00", "\u202e"}


def test_a_page_brings_all_that_it_needs_and_lets_nothing_else_run() -> None:
    page, _ = page_of(a_log("</script><script>bad()</script>").logged)
    tags = Structure(page).tags
    assert not [
        tag
        for tag in tags
        if {name for name, _ in tag[1]}
        & {"src", "srcset", "onclick", "onload", "style"}
    ]
    assert all(
        value.startswith("#")
        for _, attrs in tags
        for name, value in attrs
        if name == "href" and value
    )
    [policy] = [
        dict(attrs)["content"] for tag, attrs in tags if dict(attrs).get("http-equiv")
    ]
    assert policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>bad()" not in page


def test_secrets_are_masked_wherever_they_stand() -> None:
    page, _ = page_of(a_log(f"it is {SECRET}, and sk-{'a1' * 12}").logged)
    assert SECRET not in page
    assert "a1" * 12 not in page
    assert "it is ***, and ***" in page


@given(legal_logs())
def test_the_picture_of_every_session_is_within_its_frame(
    log: tuple[LoggedEvent, ...],
) -> None:
    seen = inspected(log)
    svg = picture_of(seen)
    assert bool(svg) == bool(seen.points)
    if not svg:
        return
    root = ET.fromstring(svg)
    links = [each.get("href") for each in root.iter("{http://www.w3.org/2000/svg}a")]
    assert links == [
        f"#compaction-{each.number}"
        for each in seen.compactions
        if each.status == "completed"
    ]
    [path] = root.iter("{http://www.w3.org/2000/svg}path")
    places = [
        tuple(map(float, place.split()))
        for place in re.split("[ML]", path.get("d") or "")[1:]
    ]
    assert len(places) == len(seen.points)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    assert [x for x, _ in places] == sorted(x for x, _ in places)


def test_the_picture_has_the_lines_at_which_compactions_are_due_and_each_drop_with_its_words() -> (
    None
):
    seen = inspected(a_log("Hi").logged)
    root = ET.fromstring(picture_of(seen))
    words = [
        "".join(each.itertext())
        for each in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"window 1,000", "compaction 800", "prepared from here 700"} <= set(words)
    title = next(root.iter("{http://www.w3.org/2000/svg}title"))
    assert (title.text or "").endswith(", with 1 compaction")
    [drop] = root.iter("{http://www.w3.org/2000/svg}a")
    assert drop.get("aria-label") == "Compaction 1: 1,000 to 100 tokens, manual"
    seen.compactions[0].trigger = '"/><script>&'
    [drop] = ET.fromstring(picture_of(seen)).iter("{http://www.w3.org/2000/svg}a")
    assert drop.get("aria-label") == 'Compaction 1: 1,000 to 100 tokens, "/><script>&'
