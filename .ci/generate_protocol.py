"""Regenerates _words.py and _models.py of acp_agent/protocol/v1 and v2 from the pinned
official schemas of ACP.

    python .ci/generate_protocol.py                        write the modules from each room's schema.json
    python .ci/generate_protocol.py --check                change nothing; fail where something is out of date
    python .ci/generate_protocol.py --schema PATH --unstable PATH --version X.Y.Z [--protocol 2]
                                                           first take over a new schema from the package's own file,
                                                           and what UNSTABLE names from its unstable one

There are models of what an agent reads; what it writes, tests check against the schemas
themselves. Version 2 imports from version 1 what is the same there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from protocol_models import Generator
from protocol_pin import PACKAGE, take_over
from protocol_spoken import METHODS, UNSTABLE, V2_METHODS

ROOMS = Path(__file__).parents[1] / "acp_agent" / "protocol"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 where a file is out of date",
    )
    parser.add_argument(
        "--schema",
        type=Path,
        help=f"schema/vN/schema.json of the npm package {PACKAGE}",
    )
    parser.add_argument(
        "--unstable",
        type=Path,
        help="schema/vN/schema.unstable.json of the same package",
    )
    parser.add_argument("--version", help="version of that package, for a new pin")
    parser.add_argument(
        "--protocol", choices=("1", "2"), default="1", help="the N of that schema"
    )
    options = parser.parse_args()
    files: dict[Path, str] = {}
    if options.schema:
        files |= take_over(
            options.schema.read_bytes(),
            ROOMS / f"v{options.protocol}",
            options.version,
            options.unstable,
        )
    generator: Generator | None = None
    for version, methods in (("v1", METHODS + UNSTABLE), ("v2", V2_METHODS + UNSTABLE)):
        room = ROOMS / version
        path = room / "schema.json"
        schema = json.loads(files.get(path) or path.read_text(encoding="utf-8"))
        generator = Generator(schema["$defs"], version, methods, first=generator)
        files[room / "_words.py"] = formatted(generator.words())
        files[room / "_models.py"] = formatted(generator.models())
    stale = [
        path
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if options.check:
            print(
                f"{shown(path)} is out of date; run python .ci/generate_protocol.py",
                file=sys.stderr,
            )
        else:
            path.write_text(files[path], encoding="utf-8")
            print(f"wrote {shown(path)}")
    return 1 if options.check and stale else 0


def shown(path: Path) -> str:
    return path.relative_to(ROOMS).as_posix()


def formatted(text: str) -> str:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--line-length",
        "88",
        "--stdin-filename",
        "generated.py",
        "-",
    ]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
