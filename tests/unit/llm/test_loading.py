"""What is imported when, and that the import of an SDK leaves the garbage collector as
it was.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import REPOSITORY

pytestmark = pytest.mark.process

LOADED = """
import gc, sys
from pathlib import Path
import anyio, anyio.to_thread
from acp_agent.config.settings import Settings
from acp_agent.llm.registry import Registry

async def main(name):
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    registry = Registry(Settings(home=Path("/nowhere")), keys)
    await anyio.to_thread.run_sync(registry.load, name)
    print(*sys.modules)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(registry.prepare, name)
    print(*sys.modules)
    print(gc.isenabled(), gc.get_freeze_count())
    await registry.aclose()

anyio.run(main, sys.argv[1])
"""


def test_a_model_is_loaded_without_its_sdk_and_prepared_with_it_alone_whose_objects_are_never_collected() -> (
    None
):
    env = {"HTTPS_PROXY": "http://127.0.0.1:9", "PATH": ""}
    command = [sys.executable, "-c", LOADED, "anthropic/claude-test"]
    ran = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    loaded, prepared, collector = ran.stdout.splitlines()
    assert "acp_agent.llm.client" in loaded.split()
    assert not set(loaded.split()) & {"anthropic", "openai", "httpx2"}
    assert {"anthropic", "openai", "httpx2"} & set(prepared.split()) == {
        "anthropic",
        "httpx2",
    }
    collects, frozen = collector.split()
    assert collects == "True"
    assert int(frozen) > 50_000


CERTIFICATES = """
import ssl, sys
from pathlib import Path
import anyio
from acp_agent.config.settings import Settings
from acp_agent.llm.registry import Registry

load = ssl.SSLContext.load_verify_locations

def counted(context, *args, **options):
    print("read")
    load(context, *args, **options)

ssl.SSLContext.load_verify_locations = counted

async def main():
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    registries = [Registry(Settings(home=Path("/nowhere")), keys) for _ in range(10)]
    async with anyio.create_task_group() as tasks:
        for registry in registries:
            tasks.start_soon(registry.prepare, "anthropic/claude-test")
            tasks.start_soon(registry.prepare, "openai/gpt-test")
    for registry in registries:
        await registry.aclose()

anyio.run(main)
"""


def test_clients_that_are_made_at_once_read_the_certificates_once(
    tmp_path: Path,
) -> None:
    # In a process of its own, since threads of other tests may read certificates as
    # well.
    env = {"PATH": "", "SSL_CERT_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CERTIFICATES]
    ran = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert ran.stdout.split() == ["read"]
