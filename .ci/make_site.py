"""Gathers the pages of the documentation's site in a folder, with the configuration of
its generator.

    python .ci/make_site.py build/site

The pages keep their places relative to each other, so that links lead where they lead
in the checkout, and README.md is the first. Their order is that of README.md's list.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    "LICENSE",
    ".github/SECURITY.md",
)
FOLDERS = ("docs", "editors", "recipes", "benchmarks")
MARK = re.compile(r"^<!-- (?:generated: .*|end) -->$", re.MULTILINE)
"""The generator takes what follows a comment without a blank line for a part of it."""
INFO = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
"""It knows no second word behind a fence, such as the one by which the tests find an
example.
"""
HIDDEN = re.compile(r"(?:\.\./)?\.github/(SECURITY\.md)")
"""It skips hidden folders."""


def main(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    sources = [ROOT / name for name in TOP]
    sources += [
        path for name in FOLDERS for path in (ROOT / name).rglob("*") if shown(path)
    ]
    for source in sources:
        target = (
            pages / source.relative_to(ROOT)
            if source.name != "SECURITY.md"
            else pages / source.name
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md" or "recipes" in source.parts:
            shutil.copy(source, target)
            continue
        text = INFO.sub(r"\1", MARK.sub("", source.read_text(encoding="utf-8")))
        up = "../" if len(target.relative_to(pages).parts) > 1 else ""
        target.write_text(HIDDEN.sub(rf"{up}\1", text), encoding="utf-8")
    (folder / "zensical.toml").write_text(configuration(), encoding="utf-8")
    return 0


def shown(path: Path) -> bool:
    """Of the benchmarks the texts alone."""
    return (
        path.is_file()
        and "__pycache__" not in path.parts
        and ("benchmarks" not in path.parts or path.suffix == ".md")
    )


def configuration() -> str:
    """The generator's; each page once, by its title."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    groups = re.findall(r"^\| \*\*(\w+)\*\* \| (.+) \|$", readme, re.MULTILINE)
    editors = [
        "editors/README.md",
        *(f"editors/{path.parent.name}/README.md" for path in editor_pages()),
    ]
    sections = [
        entry("About", "README.md"),
        *(
            entry(name, re.findall(r"\((docs/[\w-]+\.md)\)", row))
            for name, row in groups
        ),
        entry("Editors", editors),
        entry("Project", ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]),
    ]
    lines = [
        "[project]",
        'site_name = "acp-agent"',
        'docs_dir = "pages"',
        'site_dir = "html"',
        "use_directory_urls = false",
        f"nav = [{', '.join(sections)}]",
        "[project.theme]",
        "font = false",  # nothing is loaded from elsewhere
    ]
    return "\n".join(lines) + "\n"


def editor_pages() -> list[Path]:
    return sorted((ROOT / "editors").glob("*/README.md"))


def entry(title: str, pages: str | list[str]) -> str:
    """An entry of the navigation, in TOML."""
    return f"{{{json.dumps(title)} = {json.dumps(pages)}}}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
