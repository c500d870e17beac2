"""Real programs as hooks: the input, directory and limits with which they run, and how
they are found.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from acp_agent.config import Settings, load_settings
from acp_agent.config.hook_events import EVENT_NAMES, OnError
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Hook
from acp_agent.hooks.discovery import discover
from acp_agent.hooks.dispatcher import Dispatcher
from acp_agent.hooks.events import (
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionEnd,
    SessionStart,
)
from acp_agent.hooks.executables import OUTPUT_LIMIT, _program_run
from acp_agent.hooks.outcomes import NOTHING, Outcome
from support.hook_answers import AT, moment
from support.hook_services import HookServices

SERVICES = HookServices()


def call(cwd: Path, command: str = "ls") -> BeforeToolCall:
    return BeforeToolCall(moment(cwd), "call_1", "shell", {"command": command})


def hook(command: str | tuple[str, ...], project: str = "", **more: Any) -> Hook:
    events = frozenset(EVENT_NAMES.values())
    return Hook(
        "guard",
        "user",
        "/hooks/guard",
        events,
        _program_run(command, project, "user"),
        **more,
    )


def program(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


async def run(command: str | tuple[str, ...], event: HookEvent, **more: Any) -> Outcome:
    with anyio.fail_after(20):
        return await hook(command, **more).run(event, SERVICES)


# --- running programs ---


async def test_a_program_gets_the_event_the_session_s_directory_and_the_project(
    tmp_path: Path,
) -> None:
    line = 'read -r told; printf "%s\\n%s\\n%s" "$PWD" "$CLAUDE_PROJECT_DIR" "$ACP_AGENT_PROJECT_DIR" > seen'
    assert await run(line, call(tmp_path), project="/project") == NOTHING
    assert (tmp_path / "seen").read_text().splitlines() == [
        str(tmp_path),
        "/project",
        "/project",
    ]
    await run(line, call(tmp_path))
    assert (tmp_path / "seen").read_text().splitlines()[1] == str(tmp_path)
    assert await run(("tee", "told"), call(tmp_path, "caf\u00e9 \ud800")) == NOTHING
    told = json.loads((tmp_path / "told").read_text())
    assert told["tool_input"]["command"] == "caf\u00e9 ?"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_program_that_prints_endlessly_is_stopped(
    tmp_path: Path, stream: str
) -> None:
    target = "" if stream == "stdout" else ">&2"
    with pytest.raises(HookError) as error:
        await run(f"echo $$ > pid; exec yes {target}", call(tmp_path))
    assert (
        str(error.value)
        == f"It printed more than {OUTPUT_LIMIT // 1024} KiB on {stream} and was stopped."
    )
    assert not alive(int((tmp_path / "pid").read_text()))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (
        status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"
    )


@pytest.mark.parametrize("on_error", ["allow", "block"])
async def test_a_program_and_its_processes_are_stopped_at_the_time_limit(
    tmp_path: Path, on_error: OnError
) -> None:
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    slow = hook(
        "sleep 600 & echo $! > child; echo $$ > parent; wait",
        time_limit=1.0,
        on_error=on_error,
    )
    with anyio.fail_after(20):
        outcome = await Dispatcher([slow], SERVICES, tell, tell).dispatch(
            call(tmp_path)
        )
    assert outcome.blocks == (on_error == "block")
    assert "did not answer within 1 seconds" in told[0]
    for name in ("child", "parent"):
        assert not alive(int((tmp_path / name).read_text()))


async def test_cancellation_stops_a_program_and_its_processes(
    tmp_path: Path,
) -> None:
    children: list[int] = []
    os.mkfifo(tmp_path / "child")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "sleep 600 & echo $! > child; wait", call(tmp_path))
            children.append(
                int(await anyio.to_thread.run_sync((tmp_path / "child").read_text))
            )
            assert alive(children[0])
            tasks.cancel_scope.cancel()
    assert not alive(children[0])


# --- matchers ---


@pytest.mark.parametrize(
    ("matcher", "tools"),
    [
        ("", {"shell", "edit", "read", "recall"}),
        ("*", {"shell", "edit", "read", "recall"}),
        ("Bash", {"shell"}),
        ("shell", {"shell"}),
        ("Edit|Write|MultiEdit", {"edit"}),
        ("Multi.*", {"edit"}),
        ("Re", set[str]()),
        ("^[Rr]e", {"read", "recall"}),
        ("bash", set[str]()),
    ],
)
def test_a_matcher_is_compared_with_our_names_and_claude_code_s(
    matcher: str, tools: set[str]
) -> None:
    bound = hook("true", matcher=matcher)
    names = ("shell", "edit", "read", "recall")
    assert {
        name for name in names if bound.wants(BeforeToolCall(AT, "c", name, {}))
    } == tools


def test_a_matcher_is_compared_with_sources_and_reasons_and_ignored_elsewhere() -> None:
    assert hook("true", matcher="startup").wants(SessionStart(AT, "new"))
    assert hook("true", matcher="load").wants(SessionStart(AT, "load"))
    assert not hook("true", matcher="resume|load").wants(SessionStart(AT, "compact"))
    assert hook("true", matcher="auto").wants(BeforeCompaction(AT, "overflow", 1, 1, 1))
    assert not hook("true", matcher="manual").wants(
        BeforeCompaction(AT, "overflow", 1, 1, 1)
    )
    for word in ("exit", "prompt_input_exit", "other"):
        assert hook("true", matcher=word).wants(SessionEnd(AT, "exit"))
    assert hook("true", matcher="other").wants(SessionEnd(AT, "delete"))
    assert not hook("true", matcher="prompt_input_exit|exit").wants(
        SessionEnd(AT, "close")
    )
    assert hook("true", matcher="Bash").wants(AgentStop(AT, "Done."))


# --- finding programs ---

ANSWERS = (
    '#!/bin/sh\n[ "$1" = hook ] && {{ {}; exit; }}\necho \'{{"context": "run"}}\'\n'
)


def settings(root: Path) -> Settings:
    home = root / "home"
    project = root / "project" / ".acp-agent"
    for folder in (home, project):
        folder.mkdir(parents=True, exist_ok=True)
    return load_settings({"ACP_AGENT_HOME": str(home)}, project.parent)


async def test_programs_name_their_events_and_run_at_them(
    tmp_path: Path,
) -> None:
    user = tmp_path / "home" / "hooks"
    project = tmp_path / "project" / ".acp-agent" / "hooks"
    program(user / "b.sh", ANSWERS.format("echo PreToolUse, agent_stop"))
    program(user / "a", ANSWERS.format('printf "turn_end\\nStop\\n"'))
    program(project / "0", ANSWERS.format("echo session_start"))
    program(user / "off", ANSWERS.format("touch ran; echo Stop"))
    (user / "off.disable").touch()
    for name in ("old.disable", "README.md", ".hidden"):
        program(user / name, ANSWERS.format("touch ran; echo Stop"))
    # These files are read instead of run, even if they are executable.
    for name in (
        "x.py",
        "x.yaml",
        "x.yml",
    ):
        program(user / name, ANSWERS.format("touch ran; echo Stop"))
    program(user / "notes", "not a program", 0o644)
    (user / "folder").mkdir()
    (user / "z.py").symlink_to(user / "gone")  # may have been a guard
    (tmp_path / "home" / "config.yaml").write_text(
        "hooks: {Stop: [{command: 'true', timeout: 3, on_error: block}]}\n"
    )
    found = await discover(settings(tmp_path))
    wrong = [Path(str(error).split(":")[0]).name for error in found.errors]
    assert wrong == ["x.py", "x.yaml", "x.yml", "z.py"]
    assert [(hook.name, hook.origin, hook.events) for hook in found.hooks] == [
        ("true", "config", {"agent_stop"}),
        ("a", "user", {"turn_end", "agent_stop"}),
        ("b.sh", "user", {"before_tool_call", "agent_stop"}),
        # They cannot be loaded, and might guard calls.
        (
            "x.py",
            "user",
            {"before_tool_call"},
        ),
        ("z.py", "user", {"before_tool_call"}),
        ("0", "project", {"session_start"}),
    ]
    assert (found.hooks[0].time_limit, found.hooks[0].on_error) == (3, "block")
    assert not list(tmp_path.rglob("ran"))
    outcome = await found.hooks[1].run(SessionStart(moment(tmp_path), "new"), SERVICES)
    assert outcome == Outcome(context=("run",))


async def test_a_program_can_print_its_on_error_with_its_events(
    tmp_path: Path,
) -> None:
    user = tmp_path / "home" / "hooks"
    program(user / "a", ANSWERS.format('printf "PreToolUse\non_error: block\n"'))
    program(user / "b", ANSWERS.format("echo on_error=allow, Stop"))
    program(user / "c", ANSWERS.format("echo Stop"))
    found = await discover(settings(tmp_path))
    assert found.errors == ()
    assert [(hook.events, hook.on_error) for hook in found.hooks] == [
        ({"before_tool_call"}, "block"),
        ({"agent_stop"}, "allow"),
        ({"agent_stop"}, "ask"),
    ]
