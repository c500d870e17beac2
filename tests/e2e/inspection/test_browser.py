"""The page of a session in a real browser."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from acp_agent.conversation.events import AssistantAnswered, CallView, ToolReturned
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from acp_agent.storage.store import SessionStore
from support.browser import browser
from support.called import call_command
from support.logs import LogBuilder
from support.terminal import at_a_terminal

pytestmark = pytest.mark.clients

HOSTILE = "</script><script>document.title = 'bad'</script><img src=x onerror=\"document.title='bad'\">\x1b[31m\x00"
READY = "document.documentElement.dataset.ready"


def a_log() -> LogBuilder:
    """Two turns around a compaction, with words that mean something to HTML and to
    terminals.
    """
    log = LogBuilder()
    log.prompt(f"Mend the cart {HOSTILE}")
    log.step("I look.", calls=2, usage=Usage(1_000, 10, 3_000, 0, 0.25))
    kept = log.step(f"Done. {HOSTILE}", usage=Usage(500, 5, 5_500, 0, 0.25))
    log.end()
    log.swap(keep_from=kept, summary=f"A **summary**. {HOSTILE}")
    log.prompt("And now the needle")
    log.step("Found.")
    log.end()
    return log


async def stored(home: Path, log: LogBuilder, session: str = "sess_1") -> SessionStore:
    """A session with this log, in the state that `call_command` gives the agent; to be
    closed.
    """
    (home / "state").mkdir(mode=0o700)
    store = await SessionStore.open(home / "state" / "sessions.db")
    await store.create(session, str(home), (), log.events)
    return store


async def written(home: Path, log: LogBuilder) -> str:
    """The address of the page of a session with this log."""
    await (await stored(home, log)).aclose()
    ran = await call_command(home, "inspect", "sess_1", "-o", str(home / "page.html"))
    assert (ran.code, ran.out) == (0, f"{home / 'page.html'}\n")
    return (home / "page.html").as_uri()


async def test_a_page_from_a_file_shows_the_session_and_asks_the_network_for_nothing(
    tmp_path: Path,
) -> None:
    address = await written(tmp_path, a_log())
    async with browser() as page:
        await page.open(address)
        await page.until(READY)
        assert (await page.value("document.title")).startswith(
            "Mend the cart </script>"
        )
        assert (
            await page.value(
                "document.querySelectorAll('img, script:not([type]) ~ script').length"
            )
            == 0
        )
        totals = await page.value(
            "document.querySelector('#totals').innerText.replace(/\\s+/g, ' ')"
        )
        assert "Turns 2" in totals
        assert "Steps 2 Tool calls 2 Compactions 1" in totals
        assert "From the cache 85 % Cost $1.00 For compactions $0.50" in totals
        models = await page.value(
            "[...document.querySelectorAll('#models tbody tr')].map((row) => row.textContent)"
        )
        assert [row.rpartition("$")[2] for row in models] == ["0.50", "0.50"]
        assert models[-1].startswith("for compactions")

        await page.value(
            "document.querySelectorAll('.turn').forEach((turn) => (turn.open = true))"
        )
        await page.until("document.querySelectorAll('.item').length >= 7")
        said = await page.value(
            "[...document.querySelectorAll('.turn > summary, .item > summary')].map((row) => row.textContent)"
        )
        assert any("#1" in row for row in said)
        assert not [
            row
            for row in said
            if any(word in row for word in ("NaN", "undefined", "[object"))
        ]

        # What the model saw, side by side; the drop in the picture leads there.
        await page.value("document.querySelector('#plot svg a').focus()")
        await page.press("Enter")
        await page.until("document.querySelector('#compaction-1').open")
        sides = await page.value(
            "[...document.querySelectorAll('#compaction-1 .side > section')].map((side) =>"
            " [side.getAttribute('aria-label'), ...[...side.querySelectorAll('.block')].map((one) => one.className)])"
        )
        fixed = "block layer-fixed"
        replaced = "block layer-replaced"
        tail = "block layer-tail"
        assert sides == [
            ["Before", fixed, *[replaced] * 4, tail],
            ["After", fixed, "block layer-summary", tail],
        ]
        # What is said of the parts is what is said of the whole.
        sums = await page.value(
            "[...document.querySelectorAll('#compaction-1 .side > section')].map((side) =>"
            " [...side.querySelectorAll('h3, .block .chip')]"
            ".map((one) => one.textContent.match(/([\\d,]+) tokens/)[1]))"
        )
        for whole, *parts in (
            [int(size.replace(",", "")) for size in side] for side in sums
        ):
            assert whole == sum(parts)
        colours = await page.value(
            "[...document.querySelectorAll('#compaction-1 .block')].map((b) => getComputedStyle(b).borderLeftColor)"
        )
        assert len(set(colours)) == 4

        # By keyboard alone: to the search, to what it finds.
        await page.value("document.activeElement.blur()")
        await page.press("/")
        await page.write("NEEDLE")
        assert (
            await page.until("document.querySelector('#found').textContent")
            == "1 entry"
        )
        assert (
            await page.value("document.querySelector('#results mark').textContent")
            == "needle"
        )
        await page.press("Tab")  # to the kinds
        await page.press("Tab")  # to the first result
        await page.press("Enter")
        assert await page.until("document.activeElement.closest('.item.prompt')?.open")
        assert "And now the needle" in await page.value(
            "document.querySelector('.here').innerText"
        )

        named = await page.named(
            "button", "link", "searchbox", "combobox", "DisclosureTriangle", "group"
        )
        assert all(name.strip() for role, name in named if role != "group")
        await page.colours("light")
        light = await page.value("getComputedStyle(document.body).backgroundColor")
        await page.colours("dark")
        assert (
            await page.value("getComputedStyle(document.body).backgroundColor") != light
        )
        assert (page.errors, page.requests) == ([], [address])


async def test_a_page_that_is_served_shows_what_is_added_and_leaves_open_what_is_open(
    tmp_path: Path,
) -> None:
    log = a_log()
    store = await stored(tmp_path, log)
    try:
        async with (
            at_a_terminal(tmp_path, "inspect", "sess_1", "--serve", env={}) as person,
            browser() as page,
        ):
            with anyio.fail_after(30):
                await person.until("Ctrl-c ends it.")
            await page.open(person.shown.split()[0])
            await page.until(READY)
            await page.value("document.querySelector('#compaction-1').open = true")
            await page.until("document.querySelector('#compaction-1 .block')")

            async def add() -> None:
                """Store what was added to the log, and wait until the page has it."""
                head = (await store.record("sess_1")).head
                await store.append("sess_1", head, log.events[head:])
                await page.until(f"{READY} === '{log.head}'")

            log.prompt("What came later")
            call = ToolCall("call_x", "read", {"path": "a.txt"})
            log.add(
                AssistantAnswered(
                    AssistantMessage(
                        "msg_x", (call,), "scripted/one", "tool_use", Usage(100, 1)
                    )
                )
            )
            await add()
            await page.value(
                "document.querySelectorAll('#turns > details')[3].open = true"
            )
            await page.value("document.querySelector('#item-3-1').open = true")
            await page.value("document.querySelector('#item-3-0').kept = true")
            log.add(
                ToolReturned(
                    ToolResult("call_x", (Text("What was in it."),)),
                    CallView("Read a.txt"),
                )
            )
            log.step("An answer to it.")
            await add()
            # What has changed is made anew and stays open; what has not is left alone.
            assert await page.until(
                "document.querySelector('#item-3-1').textContent.includes('What was in it.')"
            )
            assert await page.value("document.querySelector('#item-3-1').open")
            assert await page.value("document.querySelector('#item-3-0').kept")
            assert "An answer to it." in await page.value(
                "document.querySelector('#item-3-2').textContent"
            )
            titles = await page.value(
                "[...document.querySelectorAll('.turn .what')].map((one) => one.textContent)"
            )
            assert "Turn 3: What came later" in titles
            assert await page.value(
                "document.querySelector('#compaction-1').open && !!document.querySelector('.block')"
            )
            assert page.errors == []
            assert (
                await page.value("document.querySelector('#still').textContent") == ""
            )
            person.type("\x03")
            assert await person.ended() == 130
            assert "not followed any more" in await page.until(
                "document.querySelector('#still').textContent"
            )
    finally:
        await store.aclose()
