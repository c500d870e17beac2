"""Regenerates the JSON Schemas in acp_agent/schemas and the reference tables in docs/
from the models that read.

    python .ci/generate_reference.py            write the schemas, and what stands between the marks in the pages
    python .ci/generate_reference.py --check    change nothing; fail where something is out of date

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`. Its words are the
descriptions in the models and the helps of the command line, so that a page, a schema
and `--help` cannot say different things.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from reference_schemas import SCHEMAS  # noqa: E402
from reference_tables import TABLES  # noqa: E402

from acp_agent.schemas import schema_path  # noqa: E402

BLOCK = re.compile(
    r"(?P<begin>^<!-- generated: (?P<name>[\w.-]+) -->\n)(?P<text>.*?)(?P<end>^<!-- end -->$)",
    re.MULTILINE | re.DOTALL,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 where a file is out of date",
    )
    check = parser.parse_args().check
    stale = [
        path
        for path, text in wanted().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if not check:
        for path in stale:
            path.write_text(wanted()[path], encoding="utf-8")
        return 0
    for path in stale:
        print(
            f"{path.relative_to(ROOT)} is out of date: run .ci/generate_reference.py",
            file=sys.stderr,
        )
    return 1 if stale else 0


def wanted() -> dict[Path, str]:
    """Every generated file, and every page that has generated parts, as they should be."""
    files = {
        schema_path(name): json.dumps(make(), indent=2, ensure_ascii=False) + "\n"
        for name, make in SCHEMAS.items()
    }
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if BLOCK.search(text):
            files[page] = BLOCK.sub(
                lambda found: (
                    f"{found['begin']}{TABLES[found['name']]()}{found['end']}"
                ),
                text,
            )
    return files


if __name__ == "__main__":
    sys.exit(main())
