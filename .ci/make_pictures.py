"""Makes the pictures of the documentation from real runs of the agent.

    python .ci/make_pictures.py

docs/compaction.svg shows what `acp-agent demo` prints of its compaction, and
docs/inspect.png shows the page of `acp-agent inspect` after a session with two
compactions. A scripted model answers in both. The second picture needs Chromium
(`apt-get install chromium`); neither needs a network.

Tests compare the pictures with the program, so that they are made again when it
changes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import browser  # noqa: E402
from support.compactions import is_summary_request  # noqa: E402
from support.models import Reply, ToolCall, Usage, model_server  # noqa: E402
from support.terminal import run_command  # noqa: E402

TERMINAL = ROOT / "docs" / "compaction.svg"
PAGE = ROOT / "docs" / "inspect.png"
PAGE_SOURCES = ("inspect.html", "inspect.css", "inspect.js")
"""The files of acp_agent/cli/inspect that decide what the page looks like."""
MADE_FROM = b"Source"
"""Keyword of the PNG's text that holds the digest of those files."""
MOST = 300_000
"""Bytes."""
SIZE = {"width": 1100, "height": 1500, "deviceScaleFactor": 1, "mobile": False}
"""Size of the page in pixels."""
LINE_HEIGHT = 19
CHARACTER_WIDTH = 8.1
MARGIN = 16
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


def compaction_in(demo: str) -> list[str]:
    """Return the lines that the demo printed of its compaction, without what differs
    between two runs.

    :param demo: the output of `acp-agent demo`.
    """
    found = re.search(
        r"^\$ acp-agent compact.*?(?=^sess_)", demo, re.DOTALL | re.MULTILINE
    )
    assert found is not None, demo
    text = re.sub(r"\d+\.\d s\b", "1.0 s", found[0])
    return text.rstrip().splitlines()


def terminal_picture(lines: list[str]) -> str:
    """Return an SVG picture of a terminal with these lines."""
    width = round(max(map(len, lines)) * CHARACTER_WIDTH) + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows: list[str] = []
    for number, line in enumerate(lines, 1):
        kind = ""
        if line.startswith("$ "):
            kind = ' class="typed"'
        elif line.startswith("## "):
            kind = ' class="heading"'
        elif "messages replaced" in line:
            kind = ' class="receipt"'
        y = MARGIN + number * LINE_HEIGHT - 5
        rows.append(f'<text x="{MARGIN}" y="{y}"{kind}>{html.escape(line)}</text>')
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<style>
rect {{ fill: #1e1e2e; }}
text {{ fill: #cdd6f4; font: 13.5px ui-monospace, Menlo, Consolas, monospace; white-space: pre; }}
.typed {{ fill: #a6e3a1; font-weight: bold; }}
.receipt {{ fill: #f9e2af; }}
.heading {{ fill: #89b4fa; font-weight: bold; }}
</style>
<rect width="100%" height="100%" rx="8"/>
{chr(10).join(rows)}
</svg>
"""


def page_digest() -> str:
    """Return the digest of the files that decide what the page of `inspect` looks like."""
    folder = ROOT / "acp_agent" / "cli" / "inspect"
    return hashlib.sha256(
        b"".join((folder / name).read_bytes() for name in PAGE_SOURCES)
    ).hexdigest()


def with_text(png: bytes, text: str) -> bytes:
    """Return a PNG image with a text behind its header.

    Source: PNG specification, section 11.3.3.2 (tEXt).
    """
    data = b"tEXt" + MADE_FROM + b"\0" + text.encode("latin-1")
    chunk = (
        struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    )
    header = 8 + 4 + 4 + 13 + 4  # signature, then the chunk IHDR
    return png[:header] + chunk + png[header:]


async def picture_of_page() -> bytes:
    """Work until the context has been compacted, and return a picture of the session's
    page.
    """
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
        async with browser() as page:
            await page.call("Emulation.setDeviceMetricsOverride", **SIZE)
            await page.open((home / "page.html").as_uri())
            await page.until("document.documentElement.dataset.ready")
            await page.value(
                "document.querySelector('#compaction-list > :last-child summary').click()"
            )
            await page.until(
                "document.querySelectorAll('#compaction-list .block').length"
            )
            assert not page.errors, page.errors
            taken = await page.call("Page.captureScreenshot", format="png")
            return base64.b64decode(taken["data"])


def main() -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "acp_agent", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # where the receipt goes
        text=True,
        check=True,
        cwd=ROOT,
    )
    TERMINAL.write_text(terminal_picture(compaction_in(demo.stdout)))
    picture = with_text(anyio.run(picture_of_page), page_digest())
    assert len(picture) < MOST, f"{len(picture)} bytes"
    PAGE.write_bytes(picture)


if __name__ == "__main__":
    main()
