"""Makes docs/inspect.png: the agent works against a scripted model until its context is
compacted, and a browser shows the page of `acp-agent inspect`.

    python .ci/make_screenshot.py

Needs Chromium (`apt-get install chromium`); asks no network.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import browser  # noqa: E402
from support.compactions import is_summary_request  # noqa: E402
from support.models import Reply, ToolCall, Usage, model_server  # noqa: E402
from support.terminal import run_command  # noqa: E402

PICTURE = ROOT / "docs" / "inspect.png"
MOST = 300_000
"""Bytes."""
PROMPTS = (
    "The tests of the cart fail. Find out why. Never touch prices.py.",
    "Now mend it, and run the tests.",
    "Add a discount of 10 % from three pieces on.",
    "Does the receipt show the discount?",
    "Write down in the changelog what has changed.",
)
LAST = "Which files did you change?"
CONFIG = """
models:
  openai/gpt-test:
    prices: {input: 1.25, cached_input: 0.125, output: 10}
"""
SUMMARY = """## Goal and requirements
Mend the cart; a discount of 10 % from three pieces on.
## Decisions
The discount is a function of its own.
## Files
`cart.py`, `discount.py`, `receipt.py`
## Commands and tests
None.
## Errors and fixes
The cart did not count the quantity.
## Current state
The cart counts.
## Open work
Show the discount on the receipt."""
FILES = ("cart.py", "discount.py", "receipt.py")


def answer(body: dict[str, Any]) -> Reply:
    """A model that reads three files in each turn, and then says so."""
    size = len(json.dumps(body)) // 4
    usage = Usage(size // 5, 240, cache_read=size * 4 // 5)
    if is_summary_request(body):
        return Reply(SUMMARY, usage=Usage(size // 10, 160, cache_read=size * 9 // 10))
    since = 0
    for message in reversed(body["input"]):
        if message.get("role") == "user":
            break
        since += message.get("type") == "function_call"
    if since < len(FILES):
        call = ToolCall("read", {"path": FILES[since]})
        return Reply("I look at the next file.", tool_calls=[call], usage=usage)
    return Reply("Done: the cart counts again, and the tests pass.", usage=usage)


async def main() -> None:
    """Play, and take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for number, name in enumerate(FILES):
            (home / name).write_text(
                "".join(f"line_{n} = {n * number}\n" for n in range(420))
            )
        async with model_server(answer, "openai") as server:
            (home / "state").mkdir(mode=0o700)
            (home / "state" / "config.yaml").write_text(CONFIG)
            env = {**server.env(), "ACP_AGENT_CONTEXT_WINDOW": "40000"}
            prompts = [
                ["run", prompt] if not number else ["run", "--follow", prompt]
                for number, prompt in enumerate(PROMPTS)
            ]
            for words in (*prompts, ["compact", "--follow"], ["run", "--follow", LAST]):
                ran = await run_command(home, *words, env=env)
                assert ran.code == 0, ran.err
            ran = await run_command(home, "inspect", "-o", "page.html", env=env)
            assert ran.code == 0, ran.err
        async with browser(1100, 1500) as page:
            await page.open((home / "page.html").as_uri())
            await page.until("document.documentElement.dataset.ready")
            await page.value(
                "document.querySelector('#compaction-list > :last-child summary').click()"
            )
            await page.until(
                "document.querySelectorAll('#compaction-list .block').length"
            )
            assert not page.errors, page.errors
            picture = await page.picture()
    assert len(picture) < MOST, f"{len(picture)} bytes"
    PICTURE.write_bytes(picture)


if __name__ == "__main__":
    anyio.run(main)
