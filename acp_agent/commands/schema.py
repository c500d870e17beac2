"""`acp-agent schema`: the JSON Schema of a file that people write."""

from __future__ import annotations

import argparse

from acp_agent.schemas import schema_path


async def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    print(schema_path(arguments.name).read_text(encoding="utf-8"), end="")
    return 0
