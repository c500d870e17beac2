"""The JSON Schemas of the files that people write.

The files in this folder are generated from the models that validate such files, by
.ci/generate_reference.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

SchemaName: TypeAlias = Literal["config", "project", "recipe", "rule"]
"""`config` is the user's config.yaml, `project` a project's, `recipe` the front matter
of a recipe, `rule` a file of hooks in YAML.
"""

SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)


def schema_path(name: SchemaName) -> Path:
    """Return where a schema is on this machine. Touches no disk."""
    return Path(__file__).resolve().with_name(f"{name}.schema.json")
