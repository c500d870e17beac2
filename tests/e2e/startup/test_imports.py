"""What is loaded when: heavy imports would delay the editor's first answer. Asserted by
module, not by milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest

from support.checkout import REPOSITORY
from support.client import AgentError, start_agent
from support.mcp import mcp_program
from support.models import model_server

pytestmark = pytest.mark.process

HEAVY = (
    "anthropic",
    "openai",
    "mcp",
    "pydantic",
    "anyio",
    "asyncio",
    "jsonrpcserver",
    "jsonschema",
    "yaml",
    "jinja2",
)
AFTER_A_NEW_SESSION = {
    *(
        "pydantic",
        "pydantic_core",
        "importlib.metadata",
        "yaml",
        "jinja2",
        "_hashlib",
        "re2",
    ),
    *(
        "acp_agent.compaction.excerpts.selection",
        "acp_agent.compaction.facts",
        "acp_agent.hooks.outcomes",
    ),
    *(
        "acp_agent.hooks.events",
        "acp_agent.hooks.handlers",
        "acp_agent.session.hooks",
    ),
}
"""Each takes milliseconds that the first session's answer need not wait for; pydantic
and our models a third of all.
"""


def in_order(importtime: str) -> list[str]:
    """Modules named in the interpreter's import report, as they were ready."""
    lines = importtime.splitlines()
    return [
        line.rpartition("|")[2].strip()
        for line in lines
        if line.startswith("import time:")
    ]


def imported(importtime: str) -> set[str]:
    """Top-level packages named there."""
    return {name.partition(".")[0] for name in in_order(importtime)}


def pss(pid: int) -> float:
    """MiB of a process's memory, shared pages in parts."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(
        int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")
    )


LOADED = """
import sys
import acp_agent.jsonrpc.descriptors, acp_agent.server.handshake
print(*sys.modules)
import acp_agent.app
print(*sys.modules)
import acp_agent.server.v1.agent
modules = [module for name, module in [*sys.modules.items()] if name.startswith("acp_agent")]
classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
found = [cls for cls in classes if "__dataclass_params__" in vars(cls)]
print(len(found) > 100, *(cls for cls in found if cls.__dataclass_params__.frozen))
"""


def test_the_handshake_needs_the_standard_library_and_serving_not_what_only_later_requests_need() -> (
    None
):
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=REPOSITORY, timeout=30
    )
    first, then, compiled = done.stdout.splitlines()
    assert not {name.partition(".")[0] for name in first.split()} & set(HEAVY)
    loaded = set(then.split())
    assert "acp_agent.session.factory" in loaded
    assert not loaded & {
        *AFTER_A_NEW_SESSION,
        "acp_agent.recipes",
        "acp_agent.protocol.wire",
        "rich",
        "shtab",
    }
    assert not {
        name
        for name in loaded
        if name.startswith(("acp_agent.server.web", "starlette", "uvicorn"))
    }
    assert compiled == "True", "no class has its methods compiled one by one"


@pytest.mark.parametrize(
    ("name", "other"), [("anthropic", "openai"), ("openai", "anthropic")]
)
async def test_behind_the_answer_to_a_new_session_the_sdk_of_its_model_is_loaded_and_no_other(
    tmp_path: Path, name: Literal["anthropic", "openai"], other: str
) -> None:
    async with model_server([]) as server:
        env = {**server.env(name), "PYTHONPROFILEIMPORTTIME": "1"}
        async with start_agent(home=tmp_path, env=env, laws=False) as agent:
            await agent.initialize()
            await agent.new_session(tmp_path)
            with anyio.fail_after(20):
                while name not in in_order(agent.stderr):  # noqa: ASYNC110 - stderr wakes nobody
                    await anyio.sleep(0.05)
            order = in_order(agent.stderr)
            answered = next(
                at
                for at, module in enumerate(order)
                if module.startswith("acp_agent.recipes")
            )
            assert not {module.partition(".")[0] for module in order[:answered]} & {
                name,
                "httpx2",
                "pydantic",
            }
            assert other not in imported(agent.stderr)
            if sys.platform == "linux":
                assert pss(agent.pid) < 90
    assert server.requests == [], "nobody is asked before there is a prompt"


@pytest.mark.parametrize("servers", [False, True])
async def test_a_new_session_is_answered_before_what_only_its_servers_and_its_turns_need_is_loaded(
    tmp_path: Path, servers: bool
) -> None:
    server = mcp_program(tmp_path, "files", tools=[], results={})
    async with start_agent(
        home=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"}, laws=False
    ) as agent:
        await agent.initialize()
        await agent.new_session(tmp_path, mcpServers=[server.entry] if servers else [])
        # The recipes are the first that is loaded once the response is on its way;
        # these are their names.
        await agent.wait_update("available_commands_update")
        if servers:
            await server.noted("initialize")
        agent.kill()
        await agent.wait_exit()
        order = in_order(agent.stderr)
        answered = next(
            at for at, name in enumerate(order) if name.startswith("acp_agent.recipes")
        )
        before = set(order[:answered])
        after = set(order[answered:])
        assert {"sqlite3", "acp_agent.server.v1.agent"} <= before
        assert not {name.partition(".")[0] for name in before} & {
            "mcp",
            "mcp_types",
            "anthropic",
            "openai",
            "httpx2",
        }
        # What names servers is read with pydantic's models.
        assert servers or not before & AFTER_A_NEW_SESSION
        assert ("mcp" if servers else "pydantic") in after


DAMAGED = """
import sys

class Damaged:
    def find_spec(self, name, path=None, target=None):
        if name == "anthropic":
            raise {error}("half of it is missing")

sys.meta_path.insert(0, Damaged())
"""


@pytest.mark.parametrize("error", ["ImportError", "AttributeError"])
async def test_a_damaged_sdk_is_named_with_what_to_do(
    tmp_path: Path, error: str
) -> None:
    (damaged := tmp_path / "damaged").mkdir()
    (damaged / "sitecustomize.py").write_text(DAMAGED.format(error=error))
    async with model_server([], "anthropic") as server:
        env = {
            **server.env(),
            "PYTHONPATH": os.pathsep.join([str(damaged), str(REPOSITORY)]),
        }
        async with start_agent(home=tmp_path, env=env) as agent:
            await agent.initialize()
            session = await agent.new_session(tmp_path)
            with pytest.raises(
                AgentError,
                match=r"anthropic.* cannot be imported \(half of it is missing\); reinstall",
            ):
                await agent.prompt(session, "Hello")
