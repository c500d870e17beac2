"""`acp-agent schema`: the JSON Schema of a file that people write."""

from __future__ import annotations

import argparse

from acp_agent.schemas import SCHEMA_NAMES, schema_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "name",
        choices=SCHEMA_NAMES,
        help="the user's config.yaml, a project's, the front matter of a recipe, or a rule among the hooks",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Print a schema."""
    print(schema_path(arguments.name).read_text(encoding="utf-8"), end="")
    return 0
