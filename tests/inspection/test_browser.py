"""The page of a session in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextSwapped,
    PartialAnswer,
    Receipt,
    SessionForked,
    ToolReturned,
    TurnEnded,
)
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage
from acp_agent.storage.sqlite import SqliteStore
from support.browser import Page, browser
from support.logs import LogBuilder
from support.terminal import at_a_terminal, run_command

HOSTILE = "</script><script>document.title = 'bad'</script><img src=x onerror=\"document.title='bad'\">\x1b[31m\x00"
READY = "document.documentElement.dataset.ready"


def a_log() -> LogBuilder:
    """Two turns around a compaction, with words that mean something to HTML and to terminals."""
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


async def stored(home: Path, log: LogBuilder, session: str = "sess_1") -> SqliteStore:
    """A session with this log, in the state that `run_command` gives the agent; to be closed."""
    (home / "state").mkdir(mode=0o700)
    store = await SqliteStore.open(home / "state" / "sessions.db")
    await store.create(session, str(home), (), log.events)
    return store


async def written(home: Path, log: LogBuilder) -> str:
    """The address of the page of a session with this log."""
    await (await stored(home, log)).aclose()
    ran = await run_command(home, "inspect", "sess_1", "-o", str(home / "page.html"))
    assert (ran.code, ran.out, ran.err) == (0, f"{home / 'page.html'}\n", "")
    return (home / "page.html").as_uri()


async def test_a_page_from_a_file_shows_the_session_and_asks_the_network_for_nothing(tmp_path: Path) -> None:
    address = await written(tmp_path, a_log())
    async with browser() as page:
        await page.open(address)
        await page.until(READY)
        assert (await page.value("document.title")).startswith("Mend the cart </script>")
        assert await page.value("document.querySelectorAll('img, script:not([type]) ~ script').length") == 0
        totals = await page.value("document.querySelector('#totals').innerText.replace(/\\s+/g, ' ')")
        assert "Turns 2" in totals
        assert "Steps 2 Tool calls 2 Compactions 1" in totals
        assert "From the cache 85 % Cost $1.00 For compactions $0.50" in totals

        # What the model saw, side by side; the drop in the picture leads there.
        await page.value("document.querySelector('#plot svg a').focus()")
        await page.press("Enter")
        await page.until("document.querySelector('#compaction-1').open")
        sides = await page.value(
            "[...document.querySelectorAll('#compaction-1 .side > section')].map((side) =>"
            " [side.getAttribute('aria-label'), ...[...side.querySelectorAll('.block')].map((one) => one.className)])"
        )
        fixed, replaced, tail = "block layer-fixed", "block layer-replaced", "block layer-tail"
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
        for whole, *parts in ([int(size.replace(",", "")) for size in side] for side in sums):
            assert whole == sum(parts)
        colours = await page.value(
            "[...document.querySelectorAll('#compaction-1 .block')].map((b) => getComputedStyle(b).borderLeftColor)"
        )
        assert len(set(colours)) == 4

        # By keyboard alone: to the search, to what it finds.
        await page.value("document.activeElement.blur()")
        await page.press("/")
        await page.write("NEEDLE")
        assert await page.until("document.querySelector('#found').textContent") == "1 entry"
        assert await page.value("document.querySelector('#results mark').textContent") == "needle"
        await page.press("Tab")  # to the kinds
        await page.press("Tab")  # to the first result
        await page.press("Enter")
        assert await page.until("document.activeElement.closest('.item.prompt')?.open")
        assert "And now the needle" in await page.value("document.querySelector('.here').innerText")

        named = await page.named("button", "link", "searchbox", "combobox", "DisclosureTriangle", "group")
        assert all(name.strip() for role, name in named if role != "group")
        await page.colours("light")
        light = await page.value("getComputedStyle(document.body).backgroundColor")
        await page.colours("dark")
        assert await page.value("getComputedStyle(document.body).backgroundColor") != light
        assert (page.errors, page.requests) == ([], [address])


async def found(page: Page, words: str, kind: str = "") -> list[str]:
    """What the search of the page finds, each with where it stands."""
    await page.value(
        f"document.querySelector('#query').value = {json.dumps(words)},"
        f" document.querySelector('#kind').value = {json.dumps(kind)},"
        " document.querySelector('#search').dispatchEvent(new Event('submit', { cancelable: true }))"
    )
    return await page.value("[...document.querySelectorAll('#results li')].map((one) => one.innerText)")


async def test_the_search_is_over_all_of_the_log_and_leads_there(tmp_path: Path) -> None:
    log = LogBuilder()
    log.prompt("Mend the cart")
    log.step("I look.", calls=1, usage=Usage(1_000, 10, 3_000))
    log.add(TurnEnded("error", "The provider refused the request (status 400)."))
    receipt = Receipt(requests=2, unverified=("prices.py",), notes=("The first try was too long.",))
    sent = (Text("<carried_over>\nNever touch it.\n</carried_over>"), Text("The gist of it all."))
    log.add(
        ContextSwapped(
            "cmp_17", "msg_swap", "manual", "The gist.", sent, log.head + 1, log.context.carried(), 900, 90,
            recipe="short", receipt=receipt,
        )
    )  # fmt: skip
    log.prompt("And now?")
    log.end("cancelled")
    address = await written(tmp_path, log)
    async with browser() as page:
        await page.open(address)
        await page.until(READY)
        for words, where in {
            "status 400": "end of turn 1",
            "cancelled": "end of turn 2",
            "cmp_17": "compaction",
            "recipe short": "compaction",
            "2 model calls": "compaction",
            "first try was too long": "compaction",
            "prices.py": "compaction",
            "never touch": "compaction",
            "msg_1": "prompt",
            "call_3": "call",
            "text of /shop": "call",
        }.items():
            assert [where in each for each in await found(page, words)] == [True], words
        assert [each.split()[1] for each in await found(page, "scripted/one")] == ["setting", "answer", "call"]
        assert len(await found(page, "", "error")) == 1
        await page.value("document.querySelector('#results a').click()")
        assert "(status 400)" in await page.value("document.querySelector('.here').innerText")
        assert page.errors == []


async def test_the_figures_of_a_fork_are_those_since_it_was_made_wherever_they_stand(tmp_path: Path) -> None:
    log = a_log()
    log.add(SessionForked("sess_0", log.head, str(tmp_path)))
    log.prompt("In the fork")
    log.step("Here.", usage=Usage(100, 7, 300, 0, 0.125))
    address = await written(tmp_path, log)
    async with browser() as page:
        await page.open(address)
        await page.until(READY)
        totals = await page.value("document.querySelector('#totals').innerText.replace(/\\s+/g, ' ')")
        assert "Steps 1 (2 before the fork)" in totals
        assert "Sent 400 tokens Answered 7 tokens From the cache 75 % Cost $0.13 For compactions –" in totals
        cells = "[...document.querySelectorAll('#models tbody td')].map((cell) => cell.innerText)"
        assert await page.value(cells) == ["scripted/one", "1", "400", "300", "75 %", "0", "7", "$0.13"]


async def test_a_session_of_ten_thousand_entries_stays_usable(tmp_path: Path) -> None:
    log = LogBuilder()
    log.prompt("All in one turn")
    while log.head < 10_000:
        log.step("A step.", calls=2)
        if log.head % 1_000 < 3:
            log.swap(keep_from=log.cuts()[-3])
    log.step("The very last words.")
    address = await written(tmp_path, log)
    async with browser() as page:
        await page.open(address)
        assert int(await page.until(READY)) == log.head
        # A part of it is made at once, and more only when somebody looks there.
        assert await page.value("document.querySelectorAll('*').length") < 10_000
        await page.press("/")
        await page.write("very last words")
        assert await page.until("document.querySelector('#found').textContent") == "1 entry"
        await page.value("document.querySelector('#results a').click()")
        assert "The very last words." in await page.value("document.querySelector('.here').innerText")
        assert page.errors == []


async def test_a_page_that_is_served_shows_what_is_added_and_leaves_open_what_is_open(tmp_path: Path) -> None:
    log = a_log()
    store = await stored(tmp_path, log)
    try:
        async with at_a_terminal(tmp_path, "inspect", "sess_1", "--serve", env={}) as person, browser() as page:
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
            log.add(AssistantAnswered(AssistantMessage("msg_x", (call,), "scripted/one", "tool_use", Usage(100, 1))))
            await add()
            await page.value("document.querySelectorAll('#turns > details')[3].open = true")
            await page.value("document.querySelector('#item-3-1').open = true")
            await page.value("document.querySelector('#item-3-0').kept = true")
            log.add(ToolReturned(ToolResult("call_x", (Text("What was in it."),)), CallView("Read a.txt")))
            log.step("An answer to it.")
            await add()
            # What has changed is made anew and stays open; what has not is left alone.
            assert await page.until("document.querySelector('#item-3-1').textContent.includes('What was in it.')")
            assert await page.value("document.querySelector('#item-3-1').open")
            assert await page.value("document.querySelector('#item-3-0').kept")
            assert "An answer to it." in await page.value("document.querySelector('#item-3-2').textContent")
            titles = await page.value("[...document.querySelectorAll('.turn .what')].map((one) => one.textContent)")
            assert "Turn 3: What came later" in titles
            assert await page.value(
                "document.querySelector('#compaction-1').open && !!document.querySelector('.block')"
            )
            assert page.errors == []
            person.type("\x03")
            assert await person.ended() == 130
    finally:
        await store.aclose()


async def test_an_answer_grows_on_a_page_that_is_served_without_the_beginning_of_a_secret(tmp_path: Path) -> None:
    secret = "hunter2-7c1f09aa55de"
    log = a_log()
    log.prompt("Say it")
    store = await stored(tmp_path, log)
    try:
        at_work = at_a_terminal(tmp_path, "inspect", "sess_1", "--serve", env={"SHOP_TOKEN": secret})
        async with at_work as person, browser() as page:
            with anyio.fail_after(30):
                await person.until("Ctrl-c ends it.")
            await page.open(person.shown.split()[0])
            await page.until(READY)
            for piece in ("Here it", f" is: {secret[:12]}", f"{secret[12:]}, and more"):
                log.add(PartialAnswer("msg_x", piece))
                await store.append("sess_1", log.head - 1, log.events[-1:])
                await page.until(f"{READY} === '{log.head}'")
                shown = await page.value("document.querySelector('#item-3-1').textContent")
                assert "Here " in shown
                assert secret[:7] not in shown
            assert "***, and" in shown
            assert page.errors == []
    finally:
        await store.aclose()


async def test_a_page_that_is_followed_no_more_says_so(tmp_path: Path) -> None:
    store = await stored(tmp_path, a_log())
    await store.aclose()
    async with browser() as page:
        async with at_a_terminal(tmp_path, "inspect", "sess_1", "--serve", env={}) as person:
            with anyio.fail_after(30):
                await person.until("Ctrl-c ends it.")
            await page.open(person.shown.split()[0])
            await page.until(READY)
            assert await page.value("document.querySelector('#still').textContent") == ""
            person.type("\x03")
            assert await person.ended() == 130
        assert "not followed any more" in await page.until("document.querySelector('#still').textContent")
        assert await page.value("document.querySelector('#timeline').innerText.includes('needle')")


@pytest.mark.parametrize("address", ["0.0.0.0:80", "example.org:80", "192.168.0.1", "127.0.0.1:x"])
async def test_nothing_but_loopback_is_served(tmp_path: Path, address: str) -> None:
    ran = await run_command(tmp_path, "inspect", "--serve", address)
    assert (ran.code, ran.out) == (1, "")
    assert "127.0.0.1" in ran.err
