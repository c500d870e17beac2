"""The method table is the official schema's."""

from __future__ import annotations

from acp_agent.protocol.v1.methods import METHODS
from support.schema import official_schema

WITHOUT_MODELS = {"mcp/message"}
"""What carries messages of another protocol."""
SIDES = {"agent": "agent", "client": "client", "protocol": "both"}


def test_every_method_of_the_schema_is_spoken() -> None:
    definitions = official_schema()["$defs"].values()
    assert METHODS.keys() == {definition["x-method"] for definition in definitions if "x-method" in definition}


def test_every_row_names_the_definitions_of_its_method() -> None:
    definitions = official_schema()["$defs"]
    for name, method in METHODS.items():
        assert definitions[method.params]["x-method"] == name
        assert SIDES[definitions[method.params]["x-side"]] == method.side
        assert method.params.endswith("Request" if method.result else "Notification")
        if method.result is not None:
            assert definitions[method.result]["x-method"] == name
            assert method.result.endswith("Response")
        if name in WITHOUT_MODELS:
            continue
        assert method.params_model().__name__ == method.params
