"""The JSON Schemas of the package."""

from __future__ import annotations

import json
from typing import Any

from acp_agent.schemas import SchemaName, schema_path


def schema_of(name: SchemaName) -> dict[str, Any]:
    return json.loads(schema_path(name).read_text(encoding="utf-8"))
