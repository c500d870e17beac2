"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from functools import cache
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis import HealthCheck, settings

from support import client, forked, trust

TESTS = Path(__file__).parent
LANES = {
    "unit": "is of a room of the package, and starts no process (make test-unit)",
    "process": "starts a process",
    "clients": "drives the agent with a client of somebody else's, or a browser (make test-clients)",
    "soak": "takes minutes up to an hour; left out unless the mark is asked for (make soak)",
    "live": "asks real providers, with keys of the environment; left out unless the mark is asked for (make live)",
}
APART = ("soak", "live")
"""Folders whose tests have their mark, and are left out unless it is asked for."""
CLIENTS = (
    "clients/",
    "contract/test_clients_",
    *(f"support/{name}.py" for name in ("aimock", "browser", "npm")),
)
"""Beginnings of paths in the folder of the tests."""
UNCOUNTED = ("", *(f"support/{name}.py" for name in ("memory", "processes", "repo")))
"""Where no process counts: outside the tests, the agent in memory, the list of
processes, git that makes a folder.
"""
STARTERS = {"subprocess", "forked", "open_process", "run_process"}
CONTRACT = "contract/"
"""Its agents run in memory, but for a test that uses what only a process has, or that
is named below.
"""
OF_A_PROCESS = {"kill", "pid", "send_signal", "wait_exit"}
PROCESSES = (
    "contract/test_conformance_environment.py",  # the start with an environment
    "contract/test_conformance_initialize.py",  # the start
    "contract/test_environment_of_commands.py",  # what commands inherit
    "contract/test_sessions_list.py::test_a_deleted_session_is_gone_for_good_also_for_another_process",
    "contract/test_sessions_titles.py::test_the_status_says_whether_a_session_is_open_here_and_opens_none",
    "contract/test_v2_versions.py",  # the start
)
"""Beginnings of the names of those tests."""
EVERYWHERE = bool(os.environ.get("ACP_AGENT_TEST_PROCESSES"))
REPLACED = frozenset[object]({unwrap(client.start_agent), trust.trust})
"""What does in memory what it does with a process otherwise."""

# How long an example takes says something of the machine, which may be busy, and
# nothing of the code.
settings.register_profile(
    "everyday",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=50,
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


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    # They are asked for; it takes a tenth of the time of collecting.
    if config.getoption("markexpr"):
        for item in items:
            if isinstance(item, pytest.Function):
                is_unit = _place(item.function.__code__).startswith("unit/")
                if name := lane(item) or ("unit" if is_unit else ""):
                    item.add_marker(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test of the contract with agents in memory where it needs no process.

    The contract and its helpers import nothing of the agent; so what does is put in
    here, and by its name. With `ACP_AGENT_TEST_PROCESSES=1` in the environment it is
    left out, and all of them have processes.
    """
    if not isinstance(item, pytest.Function):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked, "allowed", lambda: bool(lane(item)))
        if _place(item.function.__code__).startswith(CONTRACT) and not lane(item):
            memory = import_module("support.memory")
            patch.setattr(client, "in_memory", memory.start_agent)
            patch.setattr(trust, "in_memory", memory.trust)
        return (yield)


def lane(item: pytest.Function) -> str:
    """Name the lane of a test; "" where it starts no process.

    It belongs where the functions lead that it and its fixtures name: to `subprocess`
    or `anyio.run_process`. What the agent itself starts, such as hooks and commands,
    does not count. `support.forked` fails where this missed it.
    """
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # pyright: ignore[reportPrivateUsage]
    functions = [item.function, *(each[-1].func for each in fixtures)]
    reached = {one for each in functions for one in _reached(each)}
    used = {name for one in reached - REPLACED for name in _names(one.__code__)}
    if any(_place(one.__code__).startswith(CLIENTS) for one in reached):
        return "clients"
    place = _place(item.function.__code__)
    if (folder := place.partition("/")[0]) in APART:
        return folder
    if used & STARTERS or f"{place}::{item.originalname}".startswith(PROCESSES):
        return "process"
    own = {
        name
        for one in reached
        if _place(one.__code__) == place
        for name in _names(one.__code__)
    }
    in_memory = place.startswith(CONTRACT) and not own & OF_A_PROCESS and not EVERYWHERE
    return "process" if reached & REPLACED and not in_memory else ""


@cache
def _reached(found: FunctionType) -> frozenset[FunctionType]:
    """Return a function of the tests and those that it calls; for a class, all of its
    methods.
    """
    seen = set[FunctionType]()
    waiting = list[object]([found])
    while waiting:
        for function in _functions(waiting.pop()):
            if function not in seen:
                seen.add(function)
                if function in REPLACED:
                    continue
                waiting += [
                    function.__globals__.get(name) for name in _names(function.__code__)
                ]
                waiting += [
                    *(function.__defaults__ or ()),
                    *(function.__kwdefaults__ or {}).values(),
                ]
    return frozenset(seen)


def _functions(found: object) -> list[FunctionType]:
    """Return the functions of the tests that this is made of; none for the agent in
    memory.
    """
    if hypothesis := getattr(found, "hypothesis", None):
        found = hypothesis.inner_test
    each = (
        list(vars(found).values())
        if isinstance(found, type)
        else [unwrap(found)]
        if callable(found)
        else []
    )
    return [
        one
        for one in each
        if isinstance(one, FunctionType) and _place(one.__code__) not in UNCOUNTED
    ]


@cache
def _place(code: CodeType) -> str:
    """Return the path in the folder of the tests; "" for what is elsewhere."""
    path = Path(code.co_filename)
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


@cache
def _names(code: CodeType) -> frozenset[str]:
    def all_of(code: CodeType) -> Iterator[str]:
        yield from code.co_names
        for each in code.co_consts:
            if isinstance(each, CodeType):
                yield from all_of(each)

    return frozenset(all_of(code))
