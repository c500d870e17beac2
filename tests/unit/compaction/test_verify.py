"""The check of a summary: names that are not in the conversation, and missing sections."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import date, time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.evidence import Evidence
from acp_agent.compaction.frame import frame_summary, missing_sections
from acp_agent.compaction.state import CompactionPolicy, ConversationState, Workspace
from acp_agent.compaction.strategy import Task
from acp_agent.compaction.verify import (
    _mend_request,
    index_of,
    mark,
    unverified,
    verify,
)
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
)
from acp_agent.conversation.swaps import Memory, Pin
from acp_agent.errors import ModelError
from acp_agent.llm.provider import ModelEvent, ModelRequest

OUTPUT = """\
$ cd /srv/shop && ls src/billing
invoice.py  rows.py  Makefile
/srv/shop/src/billing/invoice.py:118: class InvoiceView(ListView):
/srv/shop/src/billing/invoice.py:140:     def get_queryset(self):
1,284 rows in 12.53ms (limit 30s), peak 2048 MiB; 7 000 000 of 13234.9; retry after 95% at 4.76e-09
Python 3.11.4, psycopg v3.2.1, pytest-8.1.1, 5.2.dev287+g65009 listening on 127.0.0.1:8443
commit 9f3c2ab41d7e8890aa12bc34de56f7890abc1234 on 2026-03-17
FAILED tests/test_rows.py::TestRows::test_join - AssertionError: expected “two queries”, got 51
See https://docs.example.org/orm/joins?lang=en#select_related for more.
rows.py:9:1: E1103 not-callable; error TS2345; "log": "first line\\nsecond_line\\tthird"
14 passed, 37/40 done; max_y 0.33749
"""
MESSAGES: tuple[Message, ...] = (
    UserMessage(
        "u1",
        (
            Text("Make **it** fast, please: *no* cache!"),
            ResourceLink("file:///w/a%20b.md", "notes"),
        ),
    ),
    AssistantMessage(
        "a1",
        (
            Thinking("Maybe `prefetch_rows()` helps."),
            ToolCall(
                "c1",
                "shell",
                {
                    "command": 'grep -rn "def  load" --include="*.py" src',
                    "limits": [{"wait": 600}],
                },
            ),
            ToolCall("c2", "edit", invalid="{'path': 'lib/broken.ts'"),
            ToolCall(
                "c3",
                "edit",
                {"path": "lib/new.ts", "new": "const a_b = 1\nconst c_d = 2\n"},
            ),
        ),
    ),
    ToolResult("c1", (Text(OUTPUT),)),
)
STATE = ConversationState.of(
    MESSAGES, window=100_000, system="You are in `prompt_dir`.", cwd="/srv/shop"
)
KNOWN = index_of(STATE)
EMPTY = Evidence.of([])


def flagged(summary: str, known: Evidence = KNOWN) -> list[str]:
    return [piece.text for piece in unverified(summary, known)]


def marked(summary: str, known: Evidence = EMPTY) -> str:
    return mark(summary, unverified(summary, known))


@pytest.mark.parametrize(
    "honest",
    [
        "`/srv/shop/src/billing/invoice.py`, src/billing/invoice.py, ./src/billing/, **billing/invoice.py**",
        "src/billing/rows.py, `/srv/shop/src/billing/rows.py` and `src/billing/Makefile`, lib/new.ts, lib/broken.ts",
        "`invoice.py:118`, invoice.py:118-140, lines 118–140, L118, `src/billing/invoice.py#L118-L140`",
        "`tests/test_rows.py::TestRows::test_join` fails (see tests/test_rows.py), so does `test_rows.py`.",
        "`/w/a b.md`",
        "`InvoiceView.get_queryset()` and InvoiceView, InvoiceViews, `billing.InvoiceView`, invoiceview",
        "TestRows.log and InvoiceView.log()",
        "prefetch_rows(), _rows_ is emphasis; `second_line`, c_d, `--include` and --include",
        "commit 9f3c2ab, `AssertionError`, E1103, TS2345",
        "1284, 1,284, 1'284 or 1_284 rows",
        "12.5 ms, 12.53ms, 30 s, 30s, 30 seconds, 2,048 MiB, 600 s, 95 %, 4.8e-09, 0.337, 0.3374…, more than 13,000",
        "Python 3.11, v3.11.4, 3.2.1, v3.2, pytest 8.1.1, port 8443, 127.0.0.1:8443, 2026-03-17, 5.2.dev287+g65009",
        "14 of 51, 37/40, 3 of them, 7 files, 2nd, 1. First",
        "<https://docs.example.org/orm/joins?lang=en#select_related>, https://docs.example.org/orm/joins/.",
        "[docs](https://docs.example.org/orm/joins?lang=en#other) (https://docs.example.org/orm/).",
        '"make it fast, please: no cache!", “make it fast”, „it fast … no Cache“, «expected "two queries"»',
        "`grep -rn load src`, `grep … src`, client/server, and/or, a well-known API, e.g. the one",
        "The \"quick\" way: `x` `==` `{}` `7`, the 'new one'",
        "12. item\n34) item\n\n## 56. Plan",
        "Found so [#12] and so [#11-#33], [#22, #33].",
        "`prompt_dir`, `prompt_dir/rows.py`",
        "```\n$ cd /srv/shop && ls src/billing\n```\n~~~py\n    def get_queryset(self):\n~~~",
        "None.",
        "",
    ],
)
def test_text_from_the_conversation_is_not_flagged(honest: str) -> None:
    assert flagged(honest) == []


@pytest.mark.parametrize(
    ("summary", "pieces"),
    [
        (
            "Edited `src/billing/cache.py`, then invoice.js.",
            ["src/billing/cache.py", "invoice.js"],
        ),
        (
            "See /srv/other/invoice.py and billing/shop/rows.py",
            ["/srv/other/invoice.py", "billing/shop/rows.py"],
        ),
        (
            "`voice.py`, Makefile.py, InvoiceView.fit",
            ["voice.py", "Makefile.py", "InvoiceView.fit"],
        ),
        ("`invoice.py:119`", ["119"]),
        ("### Changes in `made/up.py`", ["made/up.py"]),
        (
            "`InvoiceForm`, InvoiceForm.save, get_rows(), made()",
            ["InvoiceForm", "InvoiceForm.save", "get_rows", "made"],
        ),
        (
            "snake_case, camelCase, MAX_SIZE, `redis`",
            ["snake_case", "camelCase", "MAX_SIZE", "redis"],
        ),
        ("pass --exclude or --includes", ["--exclude", "--includes"]),
        (
            "commit 9f3c2ac, E1101, `TS2346`, ConvertError",
            ["9f3c2ac", "E1101", "TS2346", "ConvertError"],
        ),
        (
            "1285 rows, 12.6 ms, 28.0, 13,400 and 250,000",
            ["1285", "12.6", "28.0", "13,400", "250,000"],
        ),
        ("99 %, 46 tests, 43/47, a 33-second wait.", ["99", "46", "43", "47", "33"]),
        (
            "3.12, v3.11.5, 3.2.1.4, pytest-8.1.2, psycopg==3.3",
            ["3.12", "v3.11.5", "3.2.1.4", "pytest-8.1.2", "3.3"],
        ),
        ("https://docs.example.org/orm/cache.", ["https://docs.example.org/orm/cache"]),
        ("[docs](https://evil.example/a) now", ["https://evil.example/a"]),
        ('It said "three queries were run".', ["three queries were run"]),
        (
            "„nur eine einzige Abfrage“, «deux requêtes de trop»",
            ["nur eine einzige Abfrage", "deux requêtes de trop"],
        ),
        ('"make it slow, see made_up.py"', ["make it slow, see made_up.py"]),
        ("Ran `grep -rn save src/ghost.py`.", ["save", "src/ghost.py"]),
        ("```py\nreturn made_up(self)\nplain words here\n```", ["made_up"]),
        ("| a | nope_1 |\n|---|---|\n| b | 4711 |", ["nope_1", "4711"]),
    ],
)
def test_text_that_is_not_in_the_conversation_is_flagged(
    summary: str, pieces: list[str]
) -> None:
    assert flagged(summary) == pieces


CODE = """\
The width of a shape is an order of magnitude; its border has a colour. Shape area and centre are cached. No shadow.
class Shape(Base):
    scale_: float
    def area(self): return self.width * self._centre
shape->fill(); Shape::parse; {"border": 1, 'line.style': "solid"}; opts["depth"] = 2; --no-outline
private _Frame next; interface Canvas { title: string; toHex(): string }
"""


@pytest.mark.parametrize(
    "honest",
    [
        "`Shape.area()`, Shape.area, `Base.width`, `Shape._centre`, `Shape.scale_` and _Shape.area_",
        "`Shape._Frame`, `shape.fill()`, `Shape.parse`, `canvas.title`, `Canvas.toHex()`",
        "`opts.border`, `opts['line.style']`, `line.style`, `opts['depth']`, `opts.outline` and `shape.width[0]`",
        "The area is done. The border, too (cached).",
    ],
)
def test_a_dotted_name_may_combine_separate_names(honest: str) -> None:
    assert flagged(honest, Evidence.of([CODE])) == []


@pytest.mark.parametrize(
    "invented",
    [
        "Shape.magnitude",  # a word of a sentence
        "shape.colour",
        "Shape.centre",  # beside each other in a sentence
        "Shape._area",  # another underscore
        "Base.parse._fill",
        "shape.shadow",
    ],
)
@pytest.mark.parametrize(
    "form", ["`{}`", "`{}()`", "`opts['{}']`", "it is {} now", "`x = {}(1)`"]
)
def test_a_dotted_name_may_not_end_with_a_word_of_prose(
    invented: str, form: str
) -> None:
    assert flagged(form.format(invented), Evidence.of([CODE, "opts x"])) == [invented]


APART = """\
$ git log --oneline | head; git stash list; make lint
The docs of the cache are by Jane Example, support for the api is internal; see jane.doe@shop.example.org and
https://docs.example.org/orm, db-01.internal:5432, 10.0.0.17; build of Mar 17 2026 at 09:30:15, 2026-01-30T14:23:17Z
===== 12 passed, 3 skipped in 0.42s ===== and later ===== 1 failed, 14 passed in 0.51s =====
worker pool, redis queue, deploy key; dry run and read-only; screenList screenReader screenTarget
"""


@pytest.mark.parametrize(
    "honest",
    [
        "`git log --oneline | head`, `git stash list`, `make lint`, `git log`, `git stash` and ``git `log` list``",
        "`git checkout <branch>`, `make {target}` and `git stash … list`",
        "docs.example.org, `docs.example.org/orm`, example.org, db-01.internal, shop.example.org",
        "jane.doe@shop.example.org and <mailto:jane.doe@shop.example.org>",
        "2026-03-17, 09:30:15, 9:30:15, 2026-01-30, 14:23:17 and 2026-01-30T14:23:17Z",
        "12 passed, 14 passed, 3 skipped, 1 failed and 14 tests passed",
        "screenList/screenReader/screenTarget, cache/docs/api",
        "`read-only`",
    ],
)
def test_a_quotation_of_consecutive_words_is_not_flagged(honest: str) -> None:
    assert flagged(honest, Evidence.of([APART, "checkout"])) == []


@pytest.mark.parametrize(
    ("summary", "pieces"),
    [
        (
            "Ran `git bisect list`, then `make lint everything`.",
            ["bisect", "everything"],
        ),
        ("``git `log` frobnicate``", ["frobnicate"]),
        (
            "`git push --force` and `git log main..topic`",
            ["push", "--force", "main..topic"],
        ),
        (
            "It is at api.example.org or cache.internal.example.org/orm.",
            ["api.example.org", "cache.internal.example.org"],
        ),
        (
            "Ask support@example.org or jane@shop.example.org.",
            ["support@example.org", "jane@shop.example.org"],
        ),
        ("[mail](mailto:support@example.org)", ["support@example.org"]),
        (
            "docs.internal.cloud and redis-queue.internal",
            ["docs.internal.cloud", "redis-queue.internal"],
        ),
        ("Since 2026-03-30, at 14:30:15.", ["2026-03-30", "14:30:15"]),
        ("14 failed, 12 skipped; 3 passed", ["14 failed", "12 skipped", "3 passed"]),
        ("`redis-cache-key`, `worker-queue`", ["redis-cache-key", "worker-queue"]),
    ],
)
def test_words_that_only_occur_apart_are_flagged_if_quoted_together(
    summary: str, pieces: list[str]
) -> None:
    assert flagged(summary, Evidence.of([APART])) == pieces


HOSTS = st.from_regex(
    r"[a-z]{2,8}(-[a-z]{2,8})?\.[a-z]{3,8}\.(com|org|dev|io|internal)", fullmatch=True
)


@given(
    HOSTS,
    st.dates(),
    st.times(),
    st.integers(2, 99_999),
    st.sampled_from(["{} {} {} {}", "`{}` ({}) {}; **{}**."]),
)
def test_hosts_dates_times_and_counts_must_occur_as_a_whole(
    host: str, day: date, clock: time, count: int, form: str
) -> None:
    said = (host, f"{day}", f"{clock:%H:%M:%S}", f"{count} passed")
    summary = form.format(*said)
    assert (
        flagged(
            summary,
            Evidence.of([f"{host}:80 on {day}T{clock:%H:%M:%S}Z: {count} passed"]),
        )
        == []
    )
    parts = re.findall(r"\w+", " ".join(said))
    apart = f"7 passed, {' and '.join([*parts, *(f'0{part}' for part in parts)])}"
    assert set(said) - set(flagged(summary, Evidence.of([apart]))) <= (
        {said[3]} if count == 7 else set()
    )


def test_plan_pins_workspace_attachments_and_a_providers_block_are_sources() -> None:
    entries = (
        Entry(
            1,
            UserMessage("u1", (CompactedBlock("m", {}, "see `block_name`"),)),
            summary=True,
        ),
        Entry(
            2,
            UserMessage(
                "u2", (Resource("file:///w/notes.md", "with `attached_name`"),)
            ),
        ),
    )
    state = ConversationState(
        entries,
        STATE.request,
        STATE.budget,
        memory=Memory((Pin(1, "keep `pinned_name`"),)),
        plan=(PlanEntry("do `planned_step`", "pending", "medium"),),
        workspace=Workspace(cwd="/srv/cart", branch="topic_branch", head="abc1234"),
    )
    names = "block_name attached_name notes.md pinned_name planned_step /srv/cart topic_branch abc1234 other_name"
    assert flagged(names, index_of(state)) == ["other_name"]


def earlier(summary: str) -> Evidence:
    """Return what a later summary may rest on where this one, as its check marked it,
    is all that is left.
    """
    parts: tuple[UserPart, ...] = frame_summary(summary, recall=True)
    return index_of(
        ConversationState(
            (Entry(1, UserMessage("s1", parts), summary=True),),
            STATE.request,
            STATE.budget,
        )
    )


def test_only_unmarked_text_of_an_earlier_summary_is_a_source() -> None:
    summary = 'lib/odd.py, `old_name`, "three odd words".\n\n```\nghost_1\n```\n\n`kept_name` and lib/even.py'
    known = Evidence.of(["kept_name and lib/even.py"])
    odd = ["lib/odd.py", "old_name", "three odd words", "ghost_1"]
    assert flagged(summary, known) == odd
    assert flagged(summary, earlier(marked(summary, known))) == odd


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("See src/a.py.", "See src/a.py [unverified]."),
        ("See `src/a.py`, ok.", "See `src/a.py` [unverified], ok."),
        ("See **`src/a.py`** now", "See **`src/a.py` [unverified]** now"),
        ('It said "three odd words".', 'It said "three odd words" [unverified].'),
        ('It said "see a_b now".', 'It said "see a_b now" [unverified].'),
        ("Hier „drei alte Worte“, so.", "Hier „drei alte Worte“ [unverified], so."),
        (
            "[the docs](https://a.example/b) say",
            "[the docs](https://a.example/b) [unverified] say",
        ),
        ("[`foo_bar`][ref] says", "[`foo_bar`][ref] [unverified] says"),
        ("<https://a.example/b> says", "<https://a.example/b> [unverified] says"),
        ("`foo_bar`(new) is", "`foo_bar`(new) [unverified] is"),
        ("foo_bar() is", "foo_bar() [unverified] is"),
        (
            "- x\n  ```\n  foo_bar\n  ```\n- y",
            "- x\n  ```\n  foo_bar [unverified]\n  ```\n- y",
        ),
        ("`grep -r abc_d efg_h`", "`grep -r abc_d efg_h` [unverified]"),
        ("Nothing at all.", "Nothing at all."),
    ],
)
def test_a_mark_directly_follows_its_piece_and_breaks_no_markdown(
    summary: str, expected: str
) -> None:
    assert marked(summary) == expected
    assert marked(expected) == expected


WORDS = st.sampled_from(OUTPUT.split())
LINES = st.sampled_from(
    [*OUTPUT.splitlines(), "Make **it** fast, please: *no* cache!", "const a_b = 1"]
)
INSERTED = re.compile(r"(?: |\n[ \t>]*)\[unverified\]")
PIECES = [
    *(
        "`",
        "``",
        "```",
        "~~~\n",
        "\n",
        "\n\n",
        " ",
        '"',
        "“",
        "”",
        "«",
        "»",
        "(",
        ")",
        "[",
        "](",
        "]",
        "<",
        ">",
        "|",
        "*",
    ),
    *(
        "https://a.b/c",
        "x.py",
        "a/b/",
        "foo_bar",
        "12",
        "1,234",
        ". ",
        "- ",
        "## ",
        "> ",
        "\u2028",
        "\x00",
        "\r\n",
    ),
    *(
        "[#1]",
        "|",
        "*",
        "  ",
        "[unverified]",
        " [unverified]",
        "three odd words",
        "…",
        "'",
        "ẞ_x",
        "é",
    ),
]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(st.lists(LINES, max_size=6))
def test_a_sentence_copied_from_the_conversation_is_never_flagged(
    lines: list[str],
) -> None:
    assert flagged("\n\n".join(lines)) == []
    assert flagged("- " + "\n- ".join(lines)) == []


@given(st.text(max_size=80) | HOSTILE)
@example('/A"/A"')
def test_marking_only_inserts_text_and_flagged_pieces_are_in_the_summary(
    summary: str,
) -> None:
    found = unverified(summary, EMPTY)
    assert all(summary[piece.start : piece.end] == piece.text != "" for piece in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    text = mark(summary, found)
    characters = iter(text)
    assert all(character in characters for character in summary)
    assert INSERTED.sub("", text) == INSERTED.sub("", summary)
    assert mark(text, unverified(text, EMPTY)) == text


@given(st.lists(WORDS, min_size=1, max_size=12), st.integers(0, 12))
def test_an_invented_name_is_flagged_anywhere_in_a_summary(
    words: list[str], at: int
) -> None:
    line = [word for word in words if not set(word) & set("“”\"'`$<>()[]&")]
    line.insert(at, "planted_name_zq")
    assert "planted_name_zq" in flagged(" ".join(line))


@given(
    st.integers(100, 10**9),
    st.sampled_from(
        ["{}", "{:,}", "{:_}", "L{}", "x.py:{}", "({})", "{}/{}", "~{}", "**{}**"]
    ),
)
def test_a_number_is_found_in_every_notation_and_others_are_flagged(
    number: int, form: str
) -> None:
    said = form.format(number, number)
    assert flagged(f"It is {said}.", Evidence.of([f"x.py, {number}"])) == []
    if "_" not in form:
        assert flagged(f"It is {said}.", Evidence.of([f"x.py, {number * 3 + 1}"]))


MEND = CompactionPolicy("Summarise.", verify="mend", sections=("Goal", "Files"))
CUT = Cut(STATE.entries, (), ())
GHOST = "## Goal\nIt is in `src/ghost.py`.\n## Files\nNone."
HONEST = "## Goal\nIt is in `src/billing`.\n## Files\nNone."


def _task(policy: CompactionPolicy) -> Task:
    async def asked(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise AssertionError("no model may be asked")
        yield

    return Task(STATE, policy, 1_000, ModelCalls(asked))


def answering(*texts: str) -> Callable[[], Awaitable[str]]:
    answers = iter(texts)

    async def write() -> str:
        return next(answers)

    return write


def mending(text: str) -> Callable[[str], Awaitable[str]]:
    async def mend(_: str) -> str:
        return text

    return mend


async def no_mending(_: str) -> str:
    raise ModelError("It is overloaded.")


async def test_a_correction_is_used_if_it_lacks_no_more_sections() -> None:
    verified = await verify(_task(MEND), CUT, answering(GHOST), mending(HONEST))
    assert (verified.summary, verified.unverified) == (HONEST, ())
    for other in ("Sorry, all is corrected.", ""):
        verified = await verify(_task(MEND), CUT, answering(GHOST), mending(other))
        assert verified.unverified == ("src/ghost.py",)


async def test_a_failed_correction_keeps_the_first_summary_with_marks() -> None:
    verified = await verify(_task(MEND), CUT, answering(GHOST), no_mending)
    assert verified.summary == GHOST.replace("`.", "` [unverified].")


def test_a_correction_request_lists_each_piece_and_missing_section_once() -> None:
    text = _mend_request(
        unverified("`a_1`, `a_1`, src/b.py", EMPTY), ["Open work", "Files"]
    )
    assert text.count("a_1") == 1
    assert {"- name: a_1", "- path: src/b.py", "- Open work", "- Files"} <= {
        *text.splitlines()
    }
    assert "only the complete corrected summary" in text


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


def test_sections_with_content_are_not_missing() -> None:
    assert (
        missing_sections(
            SUMMARY, ["Goal and requirements", "Decisions", "Files", "Open work"]
        )
        == ()
    )


def test_missing_sections_have_the_recipes_names_and_order() -> None:
    required = ["Tests", "Current state", "Decisions", "Errors & fixes"]
    assert missing_sections(SUMMARY, required) == (
        "Tests",
        "Current state",
        "Errors & fixes",
    )


@pytest.mark.parametrize(
    "heading",
    [
        "# Open work",
        "###### open WORK",
        "##   Open   work  ##",
        "## **Open work**",
        "## _Open work_:",
        "## 7. Open work",
    ],
)
@pytest.mark.parametrize("required", ["Open work", "## Open work", "open work:"])
def test_headings_may_differ_in_level_case_space_emphasis_and_colon(
    heading: str, required: str
) -> None:
    assert missing_sections(f"text\n\n{heading}\n\n1. Release.\n", [required]) == ()


def test_text_below_a_subheading_belongs_to_the_section() -> None:
    assert missing_sections("## Files\n### New\n`a.py`\n", ["Files", "New"]) == ()
    assert missing_sections(
        "## Files\n### New\n## Errors\nOne.\n", ["Files", "New"]
    ) == ("Files", "New")


@given(
    st.lists(
        st.text("abc xyz", min_size=1).filter(str.strip),
        unique_by=lambda title: " ".join(title.split()),
    )
)
def test_all_written_sections_are_found(titles: list[str]) -> None:
    summary = "".join(f"## {title}\nNone.\n\n" for title in titles)
    assert missing_sections(summary, titles) == ()
    assert missing_sections("", titles) == tuple(titles)
