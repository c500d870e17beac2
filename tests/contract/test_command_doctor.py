"""`acp-agent doctor`: whether the agent can be used as it is."""

from __future__ import annotations

import pytest
from pathlib import Path

from support.doctor import doctor, of
from support.models import Reply, model_server

pytestmark = pytest.mark.process


async def test_where_all_is_well_it_asks_the_model_once_and_offline_nobody(tmp_path: Path) -> None:
    async with model_server([Reply("OK")], "openai") as server:
        ran, found = await doctor(tmp_path, env=server.env())
        assert (ran.code, len(server.calls)) == (0, 1)
        assert [level for level, _ in of(found, "model")] == ["ok"]
        ran, _ = await doctor(tmp_path, "--offline", env=server.env())
        assert (ran.code, len(server.calls)) == (0, 1)


async def test_a_key_that_is_refused_and_one_that_is_missing_fail_and_no_key_is_printed(tmp_path: Path) -> None:
    async with model_server([Reply(http_status=401)], "openai") as server:
        for env in (server.env(), {**server.env(), "OPENAI_API_KEY": ""}):
            ran, found = await doctor(tmp_path, env=env)
            assert ran.code == 1
            assert any(finding["level"] == "fail" for finding in found)
            assert server.env()["OPENAI_API_KEY"] not in ran.out + ran.err
