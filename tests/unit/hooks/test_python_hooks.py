"""Python files and packages as hooks: loading, errors, and how a function is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import cast

import anyio
import pytest

from acp_agent.errors import HookError
from acp_agent.hooks import Outcome, Services, hook
from acp_agent.hooks.contract import FoundHooks, Hook
from acp_agent.hooks.dispatcher import Dispatcher
from acp_agent.hooks.events import BeforeToolCall, HookEvent, SessionStart
from acp_agent.hooks.outcomes import NOTHING, Compact, Continue, Decision, Verdict
from acp_agent.hooks.python_hooks import Function, _hooks_of, load
from support.checkout import REPOSITORY
from support.hook_answers import AT
from support.hook_services import HookServices
from support.plugins import install

HEAD = "from acp_agent.hooks import BeforeToolCall, Outcome, Services, hook\n\n"


CALL = BeforeToolCall(
    AT, "call_1", "shell", {"command": "git push --force", "env": {"A": "1"}}
)
SERVICES = HookServices()


def loaded(folder: Path, text: str) -> FoundHooks:
    path = folder / "my hooks.py"
    path.write_text(HEAD + text)
    return load(path, "project")


def made(function: Function) -> Hook:
    [only] = _hooks_of(function)
    return only


async def dispatched(function: Function) -> tuple[Outcome, list[str]]:
    """Dispatch an event to a function. Return the outcome and the messages to the user."""
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    return await Dispatcher([made(function)], SERVICES, tell, tell).dispatch(CALL), told


async def answer(function: Function, event: HookEvent = CALL) -> Outcome:
    return await made(function).run(event, SERVICES)


async def test_the_marked_functions_of_a_file_become_hooks_in_order(
    tmp_path: Path,
) -> None:
    text = (
        "@hook('PreToolUse', 'agent_stop', matcher='shell|write', time_limit=3, on_error='block')\n"
        "async def first(event, services):\n    return Outcome.block('No.')\n\n"
        "def helper(event, services):\n    return None\n\n"
        "@hook('session_start')\ndef second(event, services):\n    return None\n\n"
        "same = first\n"
    )
    first, second = loaded(tmp_path, text).hooks
    assert (first.name, first.origin, first.time_limit, first.on_error) == (
        "first",
        "project",
        3,
        "block",
    )
    assert first.source == str(tmp_path / "my hooks.py")
    assert first.events == {"before_tool_call", "agent_stop"}
    assert (second.name, second.events, second.on_error) == (
        "second",
        {"session_start"},
        "ask",
    )
    assert await first.run(CALL, SERVICES) == Outcome(Decision("block", "No."))
    assert await second.run(SessionStart(AT, "new"), SERVICES) == NOTHING
    assert [path.name for path in tmp_path.iterdir()] == ["my hooks.py"]


async def test_each_session_runs_a_file_again_under_a_unique_module_name(
    tmp_path: Path,
) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from acp_agent.hooks import Outcome, hook\n\n"
        "@dataclass\nclass Seen:\n    calls: int = 0\n\nSEEN = Seen()\n\n"
        "@hook('before_tool_call')\ndef count(event, services):\n"
        "    SEEN.calls += 1\n    return Outcome(context=(f'{SEEN.calls}',))\n"
    )
    path = tmp_path / "json.py"
    path.write_text(text)
    [first], [second] = load(path, "user").hooks, load(path, "user").hooks
    assert [
        (await each.run(CALL, SERVICES)).context for each in (first, first, second)
    ] == [("1",), ("2",), ("1",)]
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import its_helper\n",
            "FILE:3: could not be loaded: SyntaxError: invalid syntax (its_helper.py, line 1)",
        ),
        ("def f(:\n", "FILE:3: is not valid Python: invalid syntax"),
        (
            "\nimport json\njson.loads('{')\n",
            "FILE:5: could not be loaded: JSONDecodeError: Expecting property name",
        ),
        ("import sys\nsys.exit(3)\n", "FILE:4: could not be loaded: SystemExit: 3"),
        ("raise KeyError\n", "FILE:3: could not be loaded: KeyError"),
        (
            "@hook('before_call')\nasync def f(e, s): ...\n",
            "FILE:3: In @hook, there is no event 'before_call'",
        ),
        (
            "@hook()\nasync def f(e, s): ...\n",
            "FILE:3: @hook needs the name of an event",
        ),
        (
            "@hook('turn_end', on_error='x')\ndef f(e, s): ...\n",
            "FILE:3: `on_error` should be 'ask',",
        ),
        (
            "@hook('turn_end', matcher='(')\ndef f(e, s): ...\n",
            "FILE:3: The matcher `(` is not a valid RE2 regular expression",
        ),
        ("def f(e, s): ...\n", "FILE: contains no hook. Mark a function with @hook"),
        ("x = '\0'\n", "FILE: is not a text file"),
    ],
)
def test_errors_in_a_file_are_returned_with_the_line_and_not_raised(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "its_helper.py").write_text("def (\n")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    before = set(sys.modules)
    found = loaded(tmp_path, text)
    error = str(found.errors[0]).replace(str(tmp_path / "my hooks.py"), "FILE")
    # A file that cannot be loaded may have guarded calls, so it fails at every call.
    assert [each.events for each in found.hooks] == (
        [] if "contains no hook" in said else [{"before_tool_call"}]
    )
    assert error.startswith(said)
    assert not [
        name for name in set(sys.modules) - before if name.startswith("acp_agent_hooks")
    ]


# --- calling a function ---


async def test_a_hook_function_can_be_plain_or_async_and_return_none() -> None:
    threads: list[threading.Thread] = []

    @hook("before_tool_call")
    def plain(event: BeforeToolCall, services: Services) -> Outcome:
        threads.append(threading.current_thread())
        return Outcome.ask("Really?")

    @hook("before_tool_call")
    async def nothing(event: BeforeToolCall, services: Services) -> None:
        threads.append(threading.current_thread())

    @hook("before_tool_call")
    def handed_on(event: BeforeToolCall, services: Services) -> Awaitable[None]:
        return nothing(event, services)

    assert await answer(plain) == Outcome(Decision("ask", "Really?"))
    assert await answer(nothing) == NOTHING
    assert await answer(handed_on) == NOTHING
    assert [thread is threading.main_thread() for thread in threads] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(context=cast("tuple[str, ...]", (1,))),
        Outcome(action=Continue(cast("tuple[str, ...]", (None,)))),
        Outcome(tool_input={"n": [float("nan")]}),
        Outcome(tool_input={"path": cast("str", Path("a"))}),
        Outcome(tool_output=cast("str", 3)),
        Outcome(action=cast("Compact", "compact")),
        Outcome(cast("Decision", "block")),
        Outcome(Decision(cast("Verdict", "no"))),
    ],
)
async def test_an_outcome_with_values_of_the_wrong_type_is_a_failure(
    outcome: Outcome,
) -> None:
    @hook("before_tool_call")
    async def wrong(event: BeforeToolCall, services: Services) -> Outcome:
        return outcome

    asked, told = await dispatched(wrong)
    assert asked.decision is not None
    assert asked.decision.verdict == "ask"
    assert len(told) == 1


@pytest.mark.parametrize("plain", [True, False])
async def test_a_hook_that_exits_the_process_is_a_failure(plain: bool) -> None:
    def leave(event: HookEvent, services: Services) -> None:
        sys.exit(1)

    async def leave_later(event: HookEvent, services: Services) -> None:
        sys.exit(1)

    with pytest.raises(HookError, match=r"sys\.exit"):
        await answer(hook("before_tool_call")(leave if plain else leave_later))


async def test_a_plain_function_is_abandoned_at_its_time_limit() -> None:
    release = threading.Event()
    ended = threading.Event()

    @hook("before_tool_call", time_limit=0.05, on_error="block")
    def stuck(event: BeforeToolCall, services: Services) -> Outcome:
        release.wait(30)
        ended.set()
        return Outcome.allow()

    with anyio.fail_after(5):
        outcome, told = await dispatched(stuck)
    assert not ended.is_set()
    release.set()
    assert outcome.blocks
    assert "within 0.05 seconds" in told[0]
    assert ended.wait(5)


# --- installed packages and lazy imports ---

LIST = """
import json
from acp_agent.hooks.python_hooks import installed
hooks = [(hook.name, hook.origin, hook.source) for hook in installed().hooks]
print(json.dumps([hooks, [str(error) for error in installed().errors]]))
"""


def printed_by(code: str, *folders: Path) -> str:
    path = os.pathsep.join(map(str, (REPOSITORY, *folders)))
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.process
def test_hooks_of_installed_packages_are_loaded_and_a_broken_package_is_named(
    tmp_path: Path,
) -> None:
    code = (
        HEAD
        + "@hook('turn_end')\ndef one(event, services): ...\n\n@hook('turn_end')\ndef two(event, services): ...\n"
    )
    install(tmp_path, "guards", code, "acp_agent.hooks", "guards:two")
    install(tmp_path, "many", code, "acp_agent.hooks", "many")
    install(tmp_path, "broken", "1 / 0\n", "acp_agent.hooks", "broken:one")
    install(tmp_path, "empty", HEAD, "acp_agent.hooks", "empty")
    hooks, errors = json.loads(printed_by(LIST, tmp_path))
    assert hooks == [
        ["broken (broken:one)", "user", "broken (broken:one)"],  # it might guard calls
        ["two", "user", "guards (guards:two)"],
        ["one", "user", "many (many)"],
        ["two", "user", "many (many)"],
    ]
    assert errors == [
        "broken (broken:one): could not be loaded: ZeroDivisionError: division by zero",
        "empty (empty): is neither a function with @hook nor a module with such functions.",
    ]


@pytest.mark.process
def test_public_names_are_loaded_on_first_use_and_hook_is_always_the_decorator() -> (
    None
):
    code = (
        "import sys, acp_agent.hooks as room\n"
        "assert not [name for name in sys.modules if name.startswith('acp_agent.hooks.')]\n"
        "import acp_agent.hooks.dispatcher, acp_agent.hooks.contract\n"
        "from acp_agent.hooks import *\nassert callable(hook) and hook is room.hook\n"
        "print(sorted(set(room.__all__) - set(globals())), 'pydantic' in sys.modules, 'yaml' in sys.modules)\n"
    )
    assert printed_by(code).strip() == "[] False False"
