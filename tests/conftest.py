"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support import client, forked, trust

TESTS = Path(__file__).parent
LANES = {
    "unit": "is of a room of the package, and starts no process (make test-unit)",
    "process": "starts a process, or needs the agent to be one",
    "clients": "drives the agent with a client of somebody else's, or a browser (make test-clients)",
    "soak": "takes minutes up to an hour; left out unless the mark is asked for (make soak)",
    "live": "asks real providers, with keys of the environment; left out unless the mark is asked for (make live)",
}
"""The marks that say what a test needs. A test has at most one of them: its own, or
else that of its folder.
"""
APART = ("soak", "live")
"""Folders whose tests are left out unless their mark is asked for."""
CONTRACT = "contract"
"""Folder of the tests whose agents run in memory, except with the mark `process`."""
EVERYWHERE = bool(os.environ.get("ACP_AGENT_TEST_PROCESSES"))

# How long an example takes says something of the machine, which may be busy, and
# nothing of the code.
settings.register_profile(
    "everyday",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=25,
)
settings.register_profile("quick", settings.get_profile("everyday"), max_examples=15)
settings.register_profile(
    "thorough", settings.get_profile("everyday"), max_examples=1000
)
settings.load_profile("everyday")

# A shell starts what runs in the background with SIGINT ignored, and every process
# inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    for name, what in LANES.items():
        config.addinivalue_line("markers", f"{name}: {what}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    folder = collection_path.name if collection_path.parent == TESTS else ""
    return True if folder in APART and config.getoption("markexpr") != folder else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if lane(item):
            continue
        folder = _folder(item)
        if folder == CONTRACT and item.path.name.startswith("test_clients_"):
            item.add_marker("clients")
        elif folder == "unit":
            item.add_marker("unit")
        elif folder in ("clients", *APART):
            item.add_marker(folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: half a million objects, which
    stay, would be looked through again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test of the contract with agents in memory where it needs no process.

    The contract and its helpers import nothing of the agent; so what does is put in
    here, and by its name. With `ACP_AGENT_TEST_PROCESSES=1` in the environment it is
    left out, and all of them have processes.
    """
    may_start = lane(item) not in ("", "unit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked, "allowed", lambda: may_start or EVERYWHERE)
        if _folder(item) == CONTRACT and not may_start and not EVERYWHERE:
            memory = import_module("support.memory")
            patch.setattr(client, "in_memory", memory.start_agent)
            patch.setattr(trust, "in_memory", memory.trust)
        return (yield)


def lane(item: pytest.Item) -> str:
    """Return the mark that says what a test needs; empty if it needs nothing.

    `support.forked` fails a test that starts a process without such a mark.
    """
    marks = {mark.name for mark in item.iter_markers()}
    return next((name for name in LANES if name in marks), "")


def _folder(item: pytest.Item) -> str:
    """Return the name of the folder of `tests/` in which a test is."""
    return item.path.relative_to(TESTS).parts[0]
