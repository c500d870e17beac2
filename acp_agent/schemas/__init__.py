"""The JSON Schemas of the files that people write: where they are, their copies, and the line that names one.

The files in this folder are generated from the models that validate such files, by .ci/generate_reference.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

SchemaName: TypeAlias = Literal["config", "project", "recipe", "rule"]
"""`config` is the user's config.yaml, `project` a project's, `recipe` the front matter of a recipe, `rule` a file of
hooks in YAML."""

SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)


def schema_path(name: SchemaName) -> Path:
    """Return where a schema is on this machine. Touches no disk."""
    return Path(__file__).resolve().with_name(f"{name}.schema.json")


def put_copy(name: SchemaName, folder: Path) -> Path:
    """Put a copy of a schema into a folder, in the place of an older one. A link in its place is not followed.

    :returns: the copy.
    :raises OSError: it cannot be written.
    """
    text, copy = schema_path(name).read_bytes(), folder / schema_path(name).name
    if copy.is_symlink() or not copy.exists() or copy.read_bytes() != text:
        folder.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        with copy.open("xb") as file:
            file.write(text)
    return copy


def modeline(schema: Path, document: Path) -> str:
    """Return the comment at the top of a YAML document that tells the YAML language server its schema, by a relative
    path: the same on every machine to which both are copied.

    :returns: one line without a line end. In a recipe it stands below the first `---`.
    """
    return f"# yaml-language-server: $schema={Path(os.path.relpath(schema, document.parent)).as_posix()}"
