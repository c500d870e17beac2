"""Says what a release still lacks; `make release-check` fails while there is something.

python .ci/release_check.py [FOLDER]
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(root: Path) -> int:
    found = list(lacking(root))
    for sentence in found:
        print(f"- {sentence}")
    print(
        "Not to be published yet."
        if found
        else "Nothing is lacking that can be seen from here."
    )
    return 1 if found else 0


def lacking(root: Path) -> Iterator[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    entry = json.loads(
        (root / "editors" / "registry" / "acp-agent" / "agent.json").read_text(
            encoding="utf-8"
        )
    )
    [version] = re.findall(
        r'^__version__ = "(.*)"',
        (root / "acp_agent" / "__init__.py").read_text(),
        re.MULTILINE,
    )
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    readme = (root / "README.md").read_text(encoding="utf-8")
    if not project.get("urls", {}).get("Repository", "").startswith("https://"):
        yield "pyproject.toml: [project.urls] has no `Repository`, the public address of the source."
    if entry.get("repository", "") != project.get("urls", {}).get("Repository", ""):
        yield "editors/registry/acp-agent/agent.json: `repository` is not the `Repository` of pyproject.toml."
    if entry["distribution"]["uvx"]["package"] != f"{project['name']}=={version}":
        yield f"editors/registry/acp-agent/agent.json: `package` is not {project['name']}=={version}."
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        yield f"CHANGELOG.md: there is no heading `## [{version}] - YEAR-MONTH-DAY`."
    if re.search(r"^## \[Unreleased\]\n+(?!## )\S", changelog, re.MULTILINE):
        yield "CHANGELOG.md: there is something under `[Unreleased]`, which belongs to a version."
    if "not published yet" in readme:
        yield "README.md: it says that the package is not published yet."


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]) if sys.argv[1:] else ROOT))
