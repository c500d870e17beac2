"""The JSON Schemas of the files that people write: where they are, and the line that an editor finds them by.

The files beside this module are generated from the models that read such files (.ci/generate_reference.py). Knows none
of those models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

SchemaName: TypeAlias = Literal["config", "project", "recipe", "rule"]
"""`config` is the user's config.yaml, `project` a project's, `recipe` the front matter of a recipe, `rule` a file of
hooks in YAML."""

SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)


def schema_path(name: SchemaName) -> Path:
    """Where a schema is on this machine. Touches no disk."""
    return Path(__file__).resolve().with_name(f"{name}.schema.json")


def modeline(name: SchemaName) -> str:
    """The comment at the top of a YAML document that tells editors with the YAML language server its schema.

    :returns: one line without a line end. In a recipe it stands below the first `---`.
    """
    return f"# yaml-language-server: $schema={schema_path(name).as_uri()}"
