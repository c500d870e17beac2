"""What holds for all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import cache
from inspect import unwrap
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
LANES = {
    "process": "starts a process (make test-e2e)",
    "clients": "drives the agent with a client of somebody else's, or a browser (make test-clients)",
}
CLIENTS = ("clients/", "contract/test_clients_", *(f"support/{name}.py" for name in ("aimock", "browser", "npm")))
"""Beginnings of paths in the folder of the tests."""
MEMORY = "support/memory.py"
STARTERS = {"subprocess", "forked", "open_process", "run_process"}

# How long an example takes says something of the machine, which may be busy, and nothing of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell starts what runs in the background with SIGINT ignored, and every process inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    for name, what in LANES.items():
        config.addinivalue_line("markers", f"{name}: {what}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("markexpr"):  # they are asked for; it takes a tenth of the time of collecting
        for item in items:
            if isinstance(item, pytest.Function) and (name := lane(item)):
                item.add_marker(name)


def lane(item: pytest.Function) -> str:
    """Name the lane of a test; "" where it starts no process.

    It belongs where the functions lead that it and its fixtures name: to `subprocess` or `anyio.run_process`.
    What the agent itself starts, such as hooks and commands, does not count.
    """
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # pyright: ignore[reportPrivateUsage]
    functions = [item.function, *(each[-1].func for each in fixtures)]
    used = {name for each in functions for name in _used(each)}
    return "clients" if "clients" in used else "process" if used & STARTERS else ""


@cache
def _used(found: FunctionType) -> frozenset[str]:
    """Return the names that a function of the tests uses, and those that it calls; for a class, of all its methods."""
    names, seen = set[str](), set[FunctionType]()
    waiting: list[object] = [found]
    while waiting:
        for function in _functions(waiting.pop()):
            if function not in seen:
                seen.add(function)
                names |= {"clients"} if _place(function.__code__).startswith(CLIENTS) else set()
                names |= _names(function.__code__)
                waiting += [function.__globals__.get(name) for name in _names(function.__code__)]
    return frozenset(names)


def _functions(found: object) -> list[FunctionType]:
    """Return the functions of the tests that this is made of; none for the agent in memory."""
    each = list(vars(found).values()) if isinstance(found, type) else [unwrap(found)] if callable(found) else []
    return [one for one in each if isinstance(one, FunctionType) and _place(one.__code__) not in ("", MEMORY)]


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
