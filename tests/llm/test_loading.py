"""What is done before an SDK is needed, and that its import leaves the garbage collector as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from acp_agent.llm.connecting import certificates
from acp_agent.llm.loading import loading, prepare
from support.checkout import REPOSITORY

PREWARM = """
import sys
from pathlib import Path
import anyio
from acp_agent.config.settings import Settings
from acp_agent.llm.registry import Registry
keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
anyio.run(Registry(Settings(home=Path("/nowhere")), keys).prewarm, sys.argv[1])
print(*sys.modules)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as an installer leaves it that does not compile."""
    folder = tmp_path / "some_sdk"
    (folder / "types").mkdir(parents=True)
    for name in ("__init__.py", "types/__init__.py", "types/message.py"):
        (folder / name).write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return folder


def compiled(folder: Path) -> set[str]:
    """Its modules that need not be compiled any more."""
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*.py") if Path(cache_from_source(str(path))).exists()
    }


@pytest.mark.parametrize("model", ["anthropic/claude-test", "openai/gpt-test", "google/gemini-test"])
def test_before_a_prompt_all_is_loaded_that_is_small_and_no_sdk(model: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PREWARM, model], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=50
    )
    loaded = set(ran.stdout.split())
    assert {"httpx2", "pydantic", "acp_agent.llm.connecting"} <= loaded
    assert not loaded & {"anthropic", "openai"}


async def test_an_sdk_is_compiled_before_it_is_needed_and_not_imported(package: Path) -> None:
    await anyio.to_thread.run_sync(prepare.__wrapped__, package.name)
    assert compiled(package) == {"__init__.py", "types/__init__.py", "types/message.py"}
    assert package.name not in sys.modules


async def test_nothing_is_compiled_where_that_is_switched_off(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    await anyio.to_thread.run_sync(prepare.__wrapped__, package.name)
    assert compiled(package) == set()


def test_nothing_is_compiled_of_what_is_loaded_already(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ModuleType(package.name)
    loaded.__spec__ = find_spec(package.name)
    monkeypatch.setitem(sys.modules, package.name, loaded)
    prepare.__wrapped__(package.name)
    assert compiled(package) == set()


def test_an_sdk_that_is_not_installed_is_left_to_who_needs_it() -> None:
    prepare.__wrapped__("no_such_sdk")


def test_no_garbage_is_collected_while_an_sdk_is_loaded_and_what_stays_is_left_out_later() -> None:
    try:
        with loading("no_such_sdk"):
            assert not gc.isenabled()
            kept = [[] for _ in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() > len(kept)
    finally:
        gc.unfreeze()


def test_behind_the_first_time_garbage_is_collected_as_ever() -> None:
    frozen = gc.get_freeze_count()
    with loading("sys"):
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_the_certificates_are_read_once_for_all_clients_and_again_where_others_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    usual = certificates()
    assert certificates() is usual
    monkeypatch.setenv("SSL_CERT_FILE", str(Path(__file__).with_name("self_signed.pem")))
    assert certificates() is not usual
    assert len(certificates().get_ca_certs()) == 1
