"""The pages of the documentation: their examples by info string, their sections and the
rows of their tables.
"""

from __future__ import annotations

import re
from pathlib import Path

from support.checkout import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted(
    [
        REPOSITORY / "README.md",
        *DOCS.glob("*.md"),
        *(REPOSITORY / "editors").rglob("*.md"),
    ]
)
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


def examples(info: str, page: Path | None = None) -> list[tuple[str, str]]:
    """The examples with this info string, of one page or of all: the page's name and
    the text.
    """
    return [
        (
            path.name,
            "\n".join(
                line.removeprefix(found["indent"])
                for line in found["text"].splitlines()
            )
            + "\n",
        )
        for path in (PAGES if page is None else [page])
        for found in FENCE.finditer(path.read_text())
        if found["info"] == info
    ]


def section(page: str, heading: str) -> str:
    return (
        (DOCS / page)
        .read_text("utf-8")
        .partition(f"\n## {heading}\n")[2]
        .partition("\n## ")[0]
    )
