"""Rules: valid files, error messages for mistakes, and when a rule fires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config.hook_events import EventName
from acp_agent.conversation.messages import Text
from acp_agent.hooks.contract import Hook
from acp_agent.hooks.events import (
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    Moment,
    SessionStart,
    TokenUsage,
    TurnEnd,
    UserMessageSend,
    changed,
)
from acp_agent.hooks.outcomes import (
    NOTHING,
    Compact,
    Continue,
    Decision,
    Outcome,
    Summarize,
)
from acp_agent.hooks.rules import When, _BoundRule, load
from support.hook_services import HookServices

SERVICES = HookServices()


async def transcript() -> str:
    return "/nowhere"


def at(used: int = 0, mode: str = "ask") -> Moment:
    return Moment(
        "s",
        "/shop",
        transcript,
        mode=mode,
        usage=TokenUsage(current_context_window=used, max_context_window=100),
    )


def ran(command: str, *, used: int = 0, is_error: bool = False) -> AfterToolCall:
    return AfterToolCall(
        at(used), "c", "shell", {"command": command}, (Text("done"),), is_error=is_error
    )


def stop(used: int = 0) -> AgentStop:
    return AgentStop(at(used), "Done.")


def rules(folder: Path, text: str) -> tuple[Hook, ...]:
    (folder / "my.yaml").write_text(text)
    found = load(folder / "my.yaml", "project")
    assert found.errors == ()
    return found.hooks


async def fired(rule: Hook | _BoundRule, *events: HookEvent) -> list[bool]:
    return [await rule.run(event, SERVICES) != NOTHING for event in events]


SAMPLES: dict[EventName, HookEvent] = {
    "session_start": SessionStart(at(), "new"),
    "user_message_send": UserMessageSend(at(), "Hi"),
    "before_tool_call": BeforeToolCall(at(), "c", "shell", {}),
    "after_tool_call": ran("ls"),
    "turn_end": TurnEnd(at(), "Done."),
    "agent_stop": stop(),
    "before_compaction": BeforeCompaction(at(), "manual", 0, 0, 0),
}

# --- parsing ---


async def test_a_file_contains_one_rule_or_a_list_of_rules(tmp_path: Path) -> None:
    [rule] = rules(
        tmp_path,
        "# When it is late\non: Stop\nwhen: {usage: 70%}\nthen: compact\non_error: block\n",
    )
    assert (rule.name, rule.origin, rule.source) == (
        "my",
        "project",
        f"{tmp_path / 'my.yaml'}:2",
    )
    assert (rule.events, rule.on_error) == ({"agent_stop"}, "block")
    assert await rule.run(stop(70), SERVICES) == Outcome(action=Compact())
    first, second = rules(
        tmp_path,
        "- on: [turn_end, agent_stop]\n  then: summary\n\n- on: session_start\n  then: {context: Hi}\n",
    )
    assert [
        (rule.name, rule.source.rpartition(":")[2]) for rule in (first, second)
    ] == [("my 1", "1"), ("my 2", "4")]
    assert first.events == {"turn_end", "agent_stop"}


@pytest.mark.parametrize(
    ("event", "then", "outcome"),
    [
        ("after_tool_call", "compact", Outcome(action=Compact())),
        ("turn_end", "summary", Outcome(action=Summarize())),
        (
            "agent_stop",
            "{action: continue, messages: [Test it.]}",
            Outcome(action=Continue(("Test it.",))),
        ),
        ("agent_stop", "{block: Not yet.}", Outcome(Decision("block", "Not yet."))),
        ("before_tool_call", "{allow: ''}", Outcome(Decision("allow"))),
        (
            "before_tool_call",
            "{ask: 'Sure?', notice: A push.}",
            Outcome(Decision("ask", "Sure?"), notices=("A push.",)),
        ),
        ("session_start", "{context: Be brief.}", Outcome(context=("Be brief.",))),
        (
            "before_compaction",
            "{block: Not yet.}",
            Outcome(Decision("block", "Not yet.")),
        ),
        ("user_message_send", "{stop: Enough.}", Outcome(stop="Enough.")),
    ],
)
async def test_each_key_of_then_becomes_an_outcome(
    event: str, then: str, outcome: Outcome, tmp_path: Path
) -> None:
    [rule] = rules(tmp_path, f"on: {event}\nthen: {then}\n")
    [name] = rule.events
    assert await rule.run(SAMPLES[name], SERVICES) == outcome


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("on: agent_stop\n", "FILE:1: then: is required"),
        (
            "- on: agent_stop\n  then: compact\n- then: compact\n",
            "FILE:3: on: is required",
        ),
        (
            "on: agent_stopp\nthen: compact\n",
            "FILE:1: on: there is no event 'agent_stopp'; did you mean `agent_stop`?",
        ),
        (
            "on: agent_stop\nwhen:\n  used: 3\nthen: compact\n",
            "FILE:3: when.used: unknown key; did you mean `usage`?",
        ),
        (
            "on: agent_stop\nwhen: {usage: 70}\nthen: compact\n",
            "FILE:2: when.usage: should be a share of the window",
        ),
        (
            "on: agent_stop\nwhen: {usage: 170%}\nthen: compact\n",
            "FILE:2: when.usage: should be a share of the window",
        ),
        (
            "on: agent_stop\nwhen: {since: 10}\nthen: compact\n",
            "FILE:2: when.since: should be a time, such as 30s",
        ),
        (
            "on: agent_stop\nwhen: {tool: []}\nthen: compact\n",
            "FILE:2: when.tool: Value should have at least 1 item",
        ),
        (
            "on: agent_stop\nwhen: {mode: fast}\nthen: compact\n",
            "FILE:2: when.mode.0: should be 'plan', 'ask'",
        ),
        (
            "on: agent_stop\nwhen: {source: new}\nthen: compact\n",
            "FILE:2: when.source: is known only at session_start",
        ),
        (
            "on: turn_end\nwhen: {prompt: x}\nthen: compact\n",
            "FILE:2: when.prompt: is known only at user_message_send",
        ),
        (
            "on: turn_end\nwhen: {reason: hook}\nthen: compact\n",
            "FILE:2: when.reason: is known only at before_compact",
        ),
        (
            "on: session_end\nthen: {notice: x}\n",
            "FILE:1: on: a rule cannot do anything at session_end",
        ),
        (
            "on: session_start\nthen: compact\n",
            "FILE:2: then: compact is possible only at user_message_send",
        ),
        (
            "on: Stop\nthen:\n  notice: x\n  allow: x\n",
            "FILE:4: then.allow: allow is possible only at before_tool_call",
        ),
        (
            "on: turn_end\nthen: stop\n",
            "FILE:2: then.action: should be 'compact', 'summary' or 'continue'",
        ),
        (
            "on: turn_end\nthen: continue\n",
            "FILE:2: then: `action: continue` requires `messages`",
        ),
        (
            "on: PreToolUse\nthen: {block: x, ask: y}\n",
            "FILE:2: then: has more than one of block, allow and ask",
        ),
        ("on: turn_end\nthen: {}\n", "FILE:2: then: does nothing"),
        ("on: turn_end\nwhen: {tool: *}\nthen: compact\n", "FILE:2: is not valid YAML"),
        ("- compact\n", "FILE:1: should be a mapping: `key: value` lines"),
        ("compact\n", "FILE:1: should be a mapping: `key: value` lines"),
        ("", "FILE:1: on: is required"),
    ],
)
def test_a_mistake_is_reported_with_line_and_key_and_other_rules_still_work(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    found = load(path, "user")
    [error] = found.errors
    assert str(error).replace(str(path), "FILE").startswith(said)
    assert len(found.hooks) == (text.count("on: agent_stop\n  then: compact"))


# --- firing ---


async def test_at_the_end_of_a_turn_calls_since_the_rule_last_fired_count(
    tmp_path: Path,
) -> None:
    [rule] = rules(
        tmp_path,
        "on: agent_stop\nwhen: {usage: 70%, command: git commit*}\nthen: compact\n",
    )
    assert rule.events == {"agent_stop", "after_tool_call"}
    assert await fired(rule, stop(90)) == [False]
    assert await fired(rule, ran("git commit -m x", is_error=True), stop(90)) == [
        False,
        False,
    ]
    assert await fired(
        rule,
        ran("cd a && git commit -m 'x; y'"),
        ran("ls"),
        stop(69),
        stop(70),
        stop(90),
    ) == [
        *(False, False, False),
        *(True, False),
    ]
    assert await fired(rule, ran("git commit", used=90), stop(90)) == [False, True]


async def test_at_a_tool_call_the_conditions_are_about_this_call(
    tmp_path: Path,
) -> None:
    [rule] = rules(
        tmp_path,
        "on: [before_tool_call, after_tool_call]\nwhen: {tool: [shell, web*]}\nthen: {stop: x}\n",
    )
    assert rule.events == {"before_tool_call", "after_tool_call"}
    call = BeforeToolCall(at(), "c", "shell", {})
    assert await fired(
        rule, call, replace(call, tool="read"), replace(call, tool="web_search")
    ) == [True, False, True]
    assert await fired(rule, ran("make", is_error=True), ran("make")) == [True, True]


async def test_since_is_the_time_since_the_rule_last_fired() -> None:
    now = 1_000.0
    rule = _BoundRule(
        frozenset({"agent_stop"}),
        When.model_validate({"since": "10m"}),
        Outcome.block("x"),
        lambda: now,
    )
    heard = [await fired(rule, stop())]
    for passed in (599.0, 1.0, 1.0):
        now += passed
        heard.append(await fired(rule, stop()))
    assert heard == [[True], [False], [True], [False]]


async def test_source_reason_and_prompt_are_compared_at_the_events_that_have_them(
    tmp_path: Path,
) -> None:
    [rule] = rules(
        tmp_path,
        "on: session_start\nwhen: {source: [load, resume]}\nthen: {context: x}\n",
    )
    assert await fired(rule, SessionStart(at(), "load"), SessionStart(at(), "new")) == [
        True,
        False,
    ]
    [rule] = rules(
        tmp_path,
        "on: before_compaction\nwhen: {reason: threshold}\nthen: {block: Later.}\n",
    )
    compaction = BeforeCompaction(at(), "manual", 0, 0, 0)
    assert await fired(rule, compaction, replace(compaction, reason="threshold")) == [
        False,
        True,
    ]
    [rule] = rules(
        tmp_path,
        "on: UserPromptSubmit\nwhen: {prompt: '*deploy*'}\nthen: {context: x}\n",
    )
    heard = await fired(
        rule,
        *(UserMessageSend(at(), text) for text in ("Please\nDeploy it", "Look at it")),
    )
    assert heard == [True, False]


async def test_a_path_is_resolved_like_in_the_tools_even_after_a_hook_changed_it(
    tmp_path: Path,
) -> None:
    [rule] = rules(
        tmp_path,
        "on: before_tool_call\nwhen: {path: migrations/}\nthen: {block: No.}\n",
    )
    assert rule.events == {"before_tool_call"}
    shop = tmp_path / "shop"
    (shop / "migrations").mkdir(parents=True)
    (shop / "link").symlink_to("migrations")
    moment = replace(at(), cwd=str(shop))

    async def blocked(path: str) -> bool:
        call = changed(
            BeforeToolCall(moment, "c", "write", {}), Outcome(tool_input={"path": path})
        )
        return await fired(rule, call) == [True]

    inside = [
        "migrations/1.sql",
        "./app/../migrations/a/b",
        f"{shop}/migrations/1",
        f"file://{shop}/migrations/1",
    ]
    assert [await blocked(path) for path in (*inside, "link/1.sql")] == [True] * 5
    assert [
        await blocked(path)
        for path in ("migrations", "app/1.sql", "/migrations.txt", "", "~")
    ] == [False] * 5


@pytest.mark.parametrize(
    ("command", "fits"),
    [
        ("git commit", True),
        ("git commit -m 'a\nb'", True),
        ("git add . && git commit -qm x", True),
        ("cd a; (git commit)", True),
        ("true |\n git commit --amend", True),
        ("echo 'x; git commit'", False),
        ('echo "x && git commit"', False),
        ("echo \\; git commit", False),
        ("git committed", True),
        ("git log", False),
    ],
)
def test_a_command_matches_anywhere_in_the_line(command: str, fits: bool) -> None:
    assert When(command=["git commit*"]).fit(ran(command)) == fits


# --- laws ---

WORDS = st.sampled_from(
    [
        "shell",
        "write",
        "git commit -m x",
        "ls",
        "a/b.py",
        "migrations/1.sql",
        "Deploy",
        "x",
    ]
)
GLOBS = st.lists(
    st.sampled_from(["*", "git*", "sh*", "*.py", "a/", "migrations/", "*deploy*", "x"]),
    min_size=1,
    max_size=2,
)
MOMENTS = st.builds(at, st.integers(0, 120), st.sampled_from(["ask", "plan"]))
EVENTS: st.SearchStrategy[HookEvent] = st.one_of(
    st.builds(SessionStart, MOMENTS, st.sampled_from(["new", "load"])),
    st.builds(UserMessageSend, MOMENTS, WORDS),
    st.builds(
        lambda moment, tool, command, path: BeforeToolCall(
            moment, "c", tool, {"command": command}, (f"/shop/{path}",)
        ),
        MOMENTS,
        *([WORDS] * 3),
    ),
    st.builds(
        lambda moment, tool, command, path, failed: AfterToolCall(
            moment,
            "c",
            tool,
            {"command": command},
            (),
            is_error=failed,
            paths=(f"/shop/{path}",),
        ),
        *(MOMENTS, WORDS, WORDS, WORDS, st.booleans()),
    ),
    st.builds(AgentStop, MOMENTS, WORDS),
    st.builds(
        BeforeCompaction,
        MOMENTS,
        st.sampled_from(["manual", "threshold"]),
        *([st.just(0)] * 3),
    ),
)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("tool", "path", "command", "prompt"), GLOBS),
        "usage": st.floats(0.01, 1),
        "source": st.just(["new"]),
        "reason": st.just(["manual"]),
        "mode": st.just(["ask"]),
        "since": st.integers(0, 10).map("{}s".format),
    },
).map(When.model_validate)
NAMES = [*When.model_fields]
NAMED: list[EventName] = [
    "session_start",
    "user_message_send",
    "before_tool_call",
    "after_tool_call",
    "agent_stop",
]
ON = st.frozensets(st.sampled_from(NAMED), min_size=1)


def without(when: When, names: Sequence[str]) -> When:
    """Return a copy without these conditions."""
    return when.model_copy(update=dict.fromkeys(names))


@settings(deadline=None)
@given(ON, CONDITIONS, st.lists(st.sampled_from(NAMES)), st.lists(EVENTS, max_size=12))
async def test_an_additional_condition_never_makes_a_rule_fire_more_often(
    on: frozenset[EventName],
    when: When,
    fewer: Sequence[str],
    events: Sequence[HookEvent],
) -> None:
    counts: list[int] = []
    for each in (when, without(when, fewer)):
        rule = _BoundRule(on, each, Outcome.block("No."))
        times = 0
        for second, event in enumerate(events):
            rule.clock = lambda now=float(second): now
            times += sum(await fired(rule, event))
        counts.append(times)
    assert counts[0] <= counts[1]
