"""Every method of the official schemas is spoken, each by the model that the schema has
for it.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from acp_agent.jsonrpc.messages import CANCEL_METHOD
from acp_agent.protocol import methods
from acp_agent.server.agent import Agent
from acp_agent.server.v1.agent import AgentV1
from acp_agent.server.v2.agent import AgentV2
from support.schema import official_schema

NOT_HANDLED = {"initialize", CANCEL_METHOD}
"""By an agent: by its connection and its peer."""


def agent(version: int) -> Agent:
    return (AgentV1 if version == 1 else AgentV2)(cast("Any", None), cast("Any", None))


def test_the_names_are_those_of_the_schemas() -> None:
    named = {
        value
        for key, value in vars(methods).items()
        if key.isupper() and isinstance(value, str)
    }
    defined = [
        each
        for version in (1, 2)
        for each in official_schema(version)["$defs"].values()
    ]
    assert named | {CANCEL_METHOD} == {
        each["x-method"] for each in defined if "x-method" in each
    }


@pytest.mark.parametrize("version", [1, 2])
def test_every_method_of_an_agent_is_handled_with_the_model_of_its_params(
    version: int,
) -> None:
    models = {
        each["x-method"]: name
        for name, each in official_schema(version)["$defs"].items()
        if "x-method" in each
        and each["x-side"] != "client"
        and not name.endswith("Response")
    }
    made = agent(version)
    assert made.handlers().keys() == models.keys() - NOT_HANDLED
    for method, (model, _) in made.routes().items():
        assert model == models[method]
