"""What a summary states that its source does not contain."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.provenance import Flag, Source, check, cited, mark, unknown_citations
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)

OUTPUT = """\
$ cd /srv/shop && ls src/billing
invoice.py  rows.py  Makefile
/srv/shop/src/billing/invoice.py:118: class InvoiceView(ListView):
/srv/shop/src/billing/invoice.py:140:     def get_queryset(self):
1,284 rows in 12.5ms (limit 30s), peak 2048 MiB; total 7 000 000; offset 0x1f; retry after 95%
Python 3.11.4, psycopg v3.2.1, listening on 127.0.0.1:8443
commit 9f3c2ab41d7e8890aa12bc34de56f7890abc1234 on 2026-03-17
FAILED tests/test_rows.py::TestRows::test_join - AssertionError: expected “two queries”, got 51
See https://docs.example.org/orm/joins?lang=en#select_related for more.
rows.py:9:1: E1103 not-callable (PROJ-78, cve-2031-40123); error TS2345: Found 5 errors
14 passed, 3 failed; FAILED (failures=4); exit status: 1
"""
SOURCE = Source.of(
    [
        Entry(
            1,
            UserMessage(
                "u1", (Text("Make **it** fast, please: *no* cache!"), ResourceLink("file:///w/a%20b.md", "notes"))
            ),
        ),
        Entry(
            2,
            AssistantMessage(
                "a1",
                (
                    Thinking("Maybe `prefetch_rows()` helps."),
                    ToolCall(
                        "c1",
                        "shell",
                        {"command": 'grep -rn "def  load" --include="*.py" src', "limits": [{"timeout": 600}]},
                    ),
                    ToolCall("c2", "edit", invalid="{'path': 'lib/broken.ts'"),
                ),
            ),
        ),
        Entry(3, ToolResult("c1", (Text(OUTPUT),))),
    ],
    extra=[
        "Working directory: /srv/shop",
        'Earlier: `old_name` [unverified] was in "two odd words" [unverified], `kept_name` not.',
    ],
)


def _flags(summary: str) -> list[tuple[str, str]]:
    return [(flag.kind, flag.text) for flag in check(summary, SOURCE)]


@pytest.mark.parametrize(
    "honest",
    [
        # Paths: absolute, relative, of a directory, made of directory and listed name, with lines, in emphasis.
        "`/srv/shop/src/billing/invoice.py`, src/billing/invoice.py, ./src/billing/, **billing/invoice.py**",
        "src/billing/rows.py and `/srv/shop/src/billing/rows.py`",
        "`src/billing/Makefile`",
        "`invoice.py:118`, invoice.py:118-140, `src/billing/invoice.py#L118-L140`",
        "`tests/test_rows.py::TestRows::test_join` fails (see tests/test_rows.py).",
        "`/w/a b.md`",
        "lib/broken.ts",
        # Identifiers: calls, methods of classes, flags, commits.
        "`InvoiceView.get_queryset()` and InvoiceView, get_queryset(), `class InvoiceView`",
        "prefetch_rows(), _kept_ is emphasis, `kept_name`",
        "`--include` and --include",
        "commit 9f3c2ab",
        '`AssertionError`: `expected "two queries", got 51`',
        # Numbers: separators of thousands, units, versions, ports, dates, ranges, percents.
        "1284, 1,284, 1.284 or 1_284 rows",
        "7,000,000 and 7000000",
        "12.5 ms, 30 s, 30 seconds, 2,048 MiB, 600 s, 95 %",
        "Python 3.11, v3.11.4, 3.2.1, v3.2, port 8443, 127.0.0.1:8443, 2026-03-17, 118-140",
        # Results of tests, exit statuses, codes of errors and tickets.
        "14 passed, 3 failed, **3** of 14 tests failed, failures=4, 4 tests failed, Failed: 3, 5 errors, 5 type errors",
        "exit code 1, exited with 1, exit status: 1; 1 error; step 7 failed, attempt 2 failed",
        "exited with 1, return code 1, return code: 1, returned status 1, rc=1, the build returned 1",
        "The script returned 4 rows, `f` returned 5, the tests of it returned 6 pages.",
        "7 files with errors, UTF-8, SHA-256, SHA256, UTC-8, ES2022, L118, E1103, TS2345, PROJ-78, CVE-2031-40123",
        # Addresses, also the beginning of one.
        "<https://docs.example.org/orm/joins?lang=en#select_related>, https://docs.example.org/orm/joins.",
        "[docs](https://docs.example.org/orm/joins?lang=en#select_related) (https://docs.example.org/orm/).",
        # Quotes: white space, quotation marks, case, emphasis, a part left out.
        '"make it fast, please: no cache!", “make it fast”, „No Cache“, «expected "two queries"»',
        '`grep -rn "def load" --include="*.py" src`, `grep … src`, `grep ... src`',
        "```\n$ cd /srv/shop && ls src/billing\n```\n~~~py\n    def get_queryset(self):\n~~~",
        # What is no piece at all.
        "1. First and/or second, client/server, e.g. the 2nd of 3 files; a well-known API. JavaScript on GitHub.",
        "## 12. Plan for 2031 (section_two)\n\n12. item\n3) item",
        "It was \"done\", the 'new one' -- see below - with 5 steps… `x` `==` `{}` `7`",
        "Found so [#12] and so [#12-#20], [#3, #77].",
        "None.",
        "",
    ],
)
def test_what_the_source_contains_is_not_flagged(honest: str) -> None:
    assert _flags(honest) == []


@pytest.mark.parametrize(
    ("summary", "flags"),
    [
        ("Edited `src/billing/cache.py`.", [("path", "src/billing/cache.py")]),
        ("Edited src/billing/cache.py, then invoice.js.", [("path", "src/billing/cache.py"), ("path", "invoice.js")]),
        (
            "See /srv/other/invoice.py and billing/shop/rows.py",
            [("path", "/srv/other/invoice.py"), ("path", "billing/shop/rows.py")],
        ),
        ("`voice.py`", [("path", "voice.py")]),
        ("tests/billing/rows.py", [("path", "tests/billing/rows.py")]),
        ("`invoice.py:119`", [("path", "invoice.py:119")]),
        ("invoice.py:119", [("number", "119")]),
        ("### Changes in `made/up.py` of 1999", [("path", "made/up.py")]),
        (
            "`InvoiceForm` and InvoiceForm.save, get_rows()",
            [("identifier", "InvoiceForm"), ("identifier", "InvoiceForm.save"), ("identifier", "get_rows")],
        ),
        (
            "snake_case, camelCase, MAX_SIZE, `redis`",
            [
                ("identifier", "snake_case"),
                ("identifier", "camelCase"),
                ("identifier", "MAX_SIZE"),
                ("identifier", "redis"),
            ],
        ),
        ("`Invoiceview`", [("identifier", "Invoiceview")]),
        ("pass --exclude", [("identifier", "--exclude")]),
        ("commit 9f3c2ac", [("identifier", "9f3c2ac")]),
        (
            "1285 rows, 12.6 ms, 13 ms, 12 ms",
            [("number", "1285"), ("number", "12.6"), ("number", "13"), ("number", "12")],
        ),
        (
            "8 ms, 99%, 3.12, v3.11.5, port 8080",
            [("number", "8"), ("number", "99"), ("number", "3.12"), ("number", "3.11.5"), ("number", "8080")],
        ),
        ("28 and 284 and 2026-03-18, 118-141", [("number", "28"), ("number", "2026-03-18"), ("number", "141")]),
        ("14 passed, 7 failed, 3 passed", [("number", "7"), ("number", "3")]),
        ("14 passed, 0 failed, **0 errors**, failures: 0", [("number", "0")] * 3),
        ("**2** of the 14 tests failed; failures: 9", [("number", "2"), ("number", "9")]),
        ("9 errors, 7 unit tests passed", [("number", "9"), ("number", "7")]),
        ("exit code 2, exited with status 0, exit 12", [("number", "2"), ("number", "0"), ("number", "12")]),
        ("return code 2, rc=3, return code: 4", [("number", "2"), ("number", "3"), ("number", "4")]),
        (
            "The build returned 5, the last script returned **6**, and L119 of it failed.",
            [("number", "5"), ("number", "6"), ("number", "119")],
        ),
        ("0 passed", [("number", "0")]),
        ("error E1101, `TS2346`", [("identifier", "E1101"), ("identifier", "TS2346")]),
        (
            "ERR42, CVE-2024-1234, PROJ-77",
            [("identifier", "ERR42"), ("identifier", "CVE-2024-1234"), ("identifier", "PROJ-77")],
        ),
        ("https://docs.example.org/orm/cache.", [("url", "https://docs.example.org/orm/cache")]),
        ("[docs](https://evil.example/a_(b)) now", [("url", "https://evil.example/a_(b)")]),
        ('It said "three queries were run".', [("quote", "three queries were run")]),
        ("„nur eine Abfrage“ and «deux requêtes»", [("quote", "nur eine Abfrage"), ("quote", "deux requêtes")]),
        ('"make it slow, see made_up.py"', [("quote", "make it slow, see made_up.py")]),
        ('Ran `grep -rn "def save" src`.', [("quote", 'grep -rn "def save" src')]),
        ("```py\nreturn made_up(self)\nplain words here\n```", [("identifier", "made_up")]),
        ("- a\n- b `nope_1`\n  more `nope_2`\n", [("identifier", "nope_1"), ("identifier", "nope_2")]),
        ("| a | nope_1 |\n|---|---|\n| b | 4711 |", [("identifier", "nope_1"), ("number", "4711")]),
        ("`a ``b` nope_1", [("quote", "a ``b"), ("identifier", "nope_1")]),
    ],
)
def test_what_the_source_does_not_contain_is_flagged(summary: str, flags: list[tuple[str, str]]) -> None:
    assert _flags(summary) == flags


def test_what_an_earlier_summary_marked_is_no_source_and_what_it_did_not_mark_is() -> None:
    assert _flags('`old_name`, "two odd words", `kept_name`') == [
        ("identifier", "old_name"),
        ("quote", "two odd words"),
    ]
    earlier = UserMessage("s1", (Text("Read lib/odd.py [unverified] and lib/even.py."),))
    source = Source.of([Entry(9, earlier, summary=True)])
    assert [flag.text for flag in check("lib/odd.py, lib/even.py", source)] == ["lib/odd.py"]
    assert check("lib/odd.py", Source.of([Entry(9, earlier)])) == ()


def test_a_name_of_a_class_and_a_method_must_meet_in_one_text() -> None:
    apart = [
        Entry(1, ToolResult("a", (Text("class Order:"),))),
        Entry(2, ToolResult("b", (Text("def refund(self):"),))),
    ]
    assert [flag.text for flag in check("`Order.refund`", Source.of(apart))] == ["Order.refund"]
    assert (
        check("`Order.refund`", Source.of([Entry(1, ToolResult("a", (Text("class Order:\n  def refund(self):"),)))]))
        == ()
    )


def test_flags_come_in_order_and_their_offsets_cut_the_summary() -> None:
    summary = 'The user wants `x_1` gone.\nSee nope_2 and "nothing like nope_3 here"; 4711.\n'
    flags = check(summary, SOURCE)
    assert [flag.kind for flag in flags] == ["user_claim", "identifier", "quote", "number"]
    assert flags[0] == Flag("user_claim", "The user wants `x_1` gone.", 0, 26)
    assert all(summary[flag.start : flag.end] == flag.text for flag in flags)


def test_citations_are_read_outside_code_each_once_and_of_ranges_both_ends() -> None:
    summary = "A [#12], B [#20-#31; #12] and [#40–44].\n`[#1]` [#2](x) [3] #4\n```\n[#5]\n```\n"
    assert cited(summary) == (12, 20, 31, 40, 44)
    assert unknown_citations(summary, {12, 20, 44}) == (31, 40)
    assert check(summary.split("\n", maxsplit=1)[0], Source.of([])) == ()


WORDS = st.sampled_from(OUTPUT.split())
HOSTILE = st.lists(
    st.sampled_from(
        [
            "`",
            "``",
            "```",
            "~~~",
            "\n",
            " ",
            '"',
            "“",
            "”",
            "(",
            ")",
            "[",
            "](",
            "]",
            "<",
            ">",
            "https://a",
            "x.py",
            "a/b/",
            "foo_bar",
            "The user wants ",
            "12",
            ".",
            "- ",
            "## ",
            "> ",
            "[unverified]",
            "\u2028",
            "\x00",
            "[#1]",
            "|",
            "*",
            "'",
        ]
    ),
    max_size=25,
).map("".join)
ANY = st.text(max_size=80) | HOSTILE


@given(st.lists(WORDS, max_size=20))
def test_text_made_of_the_sources_words_is_never_flagged(words: list[str]) -> None:
    assert [flag for flag in check("\n\n".join(words), SOURCE) if flag.kind != "user_claim"] == []


@given(ANY, ANY)
def test_any_text_can_be_checked_against_any_and_flags_are_sorted_apart_and_exact(summary: str, text: str) -> None:
    flags = check(summary, Source.of([Entry(1, UserMessage("u", (Text(text),)))], extra=[text], user_texts=[text]))
    assert all(summary[flag.start : flag.end] == flag.text != "" for flag in flags)
    assert all(one.end <= other.start for one, other in pairwise(flags))


@given(st.lists(WORDS, min_size=1, max_size=12), st.integers(0, 12))
def test_a_planted_name_is_flagged_wherever_it_stands(words: list[str], at: int) -> None:
    line = [word for word in words if not set(word) & set("“”\"'`$<>()[]&")]
    line.insert(at, "planted_name_zq")
    assert "planted_name_zq" in [flag.text for flag in check(" ".join(line), SOURCE)]


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "`",
        "a/",
        "[",
        '"',
        "1,",
        "a.b",
        " \t>",
        "user ",
        "the user ",
        "if the user asks ",
        "the user did not say ",
        "not asked by the user ",
        "we were asked ",
        "7 failed, ",
        "exit code 7 ",
        "7 tests ",
        "A-1",
        "[#1, ",
        "https://",
        "``` ",
        "der Nutzer ",
        "(",
        "_a",
        "[unverified] ",
        "\n [unverified]",
        "\n",
        "1-",
        "1. ",
        "`a` ",
        "“",
        "a: ",
        "a_b ",
        "<a:",
    ],
)
def test_very_long_lines_are_checked_and_marked_in_time(unit: str) -> None:
    line = unit * (150_000 // len(unit))
    mark(line, check(line, SOURCE))
    earlier = Entry(1, UserMessage("s", (Text(line),)), summary=True)
    for source in (Source.of([Entry(1, ToolResult("c", (Text(line),)))]), Source.of([earlier])):
        check('aa, a/a, 11, "a a", `a a`, a_a, https://a', source)
