"""What a hook may want at which event, and how long its texts may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import Text
from acp_agent.hooks.events import (
    EVENT_NAMES,
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.outcomes import (
    LIMIT,
    NOTHING,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
    SwapContext,
)
from acp_agent.hooks.possible import POSSIBLE, bounded, impossible, without
from acp_agent.hooks.rule_schema import POSSIBLE as RULES


async def transcript() -> str:
    return "/nowhere"


AT = Moment("s", "/shop", transcript)
CALL = BeforeToolCall(AT, "call_1", "shell", {"command": "ls"})


EVENTS: tuple[HookEvent, ...] = (
    SessionStart(AT, "new"),
    UserMessageSend(AT, "One?"),
    CALL,
    AfterToolCall(AT, "call_1", "shell", {}, ()),
    TurnEnd(AT, "# Goal", is_summary=True),
    AgentStop(AT, "Done."),
    BeforeCompaction(AT, "manual", 0, 0, 0),
    AfterCompaction(AT, "manual", 0, 0, 0, ""),
    SessionEnd(AT, "close"),
)


def test_each_answer_is_possible_where_the_table_says_and_nowhere_else() -> None:
    wanted = {
        "decision: block": Outcome(Decision("block")),
        "decision: ask": Outcome(Decision("ask")),
        "continue: false": Outcome(stop=""),
        "systemMessage": Outcome(notices=("a",)),
        "context": Outcome(context=("a",)),
        "tool_input": Outcome(tool_input={}),
        "tool_output": Outcome(tool_output=""),
        "message": Outcome(message=""),
        "action: compact": Outcome(action=Compact()),
        "action: summary": Outcome(action=Summarize()),
        "action: continue": Outcome(action=Continue(("a",))),
        "action: replace": Outcome(action=Replace(())),
        "action: swap_context": Outcome(action=SwapContext("a")),
        "summary": Outcome(summary="a"),
    }
    assert wanted.keys() == POSSIBLE.keys()
    assert [event.name for event in EVENTS] == [*EVENT_NAMES.values()]
    for word, outcome in wanted.items():
        for event in EVENTS:
            assert impossible(event, outcome) == (() if event.name in POSSIBLE[word] else (word,))
        assert without(outcome, [word]) == NOTHING
        assert without(Outcome.allow("Why not."), [word]).decision == (
            None if word.startswith("decision") else Decision("allow", "Why not.")
        )


def test_what_rules_can_do_is_possible() -> None:
    words = {"block": "decision: block", "ask": "decision: ask", "stop": "continue: false", "notice": "systemMessage"}
    words |= {word: f"action: {word}" for word in ("compact", "summary", "continue")}
    for key, names in RULES.items():
        if key != "allow":
            assert {*names} <= {*POSSIBLE[words.get(key, key)]}


# --- texts ---

texts = st.lists(st.sampled_from(["", " ", "a", "x" * LIMIT, "y" * (LIMIT // 2)]), max_size=4).map(tuple)


@given(context=texts, messages=texts, output=texts, event=st.sampled_from([CALL, TurnEnd(AT, "Done.")]))
def test_what_a_hook_adds_has_no_blank_texts_and_a_bound(
    context: tuple[str, ...], messages: tuple[str, ...], output: tuple[str, ...], event: HookEvent
) -> None:
    outcome = Outcome(context=context, action=Continue(messages), tool_output="".join(output))
    fitted = bounded(event, outcome)
    note = len(f"\n[{LIMIT * 4:,} more characters of this hook were left out]")
    said = fitted.action.messages if isinstance(fitted.action, Continue) else ()
    for before, after in ((context, fitted.context), (messages, said)):
        kept = [text for text in before if text.strip()]
        assert all(text.strip() for text in after)
        assert sum(map(len, after)) <= LIMIT + note
        if sum(map(len, kept)) <= LIMIT:
            assert [*after] == kept
        else:
            assert "left out]" in "".join(after) or len(after) < len(kept)
    assert (fitted.action is None) == (not any(text.strip() for text in messages))
    assert len(fitted.tool_output or "") <= LIMIT + note


@given(texts)
def test_whatever_else_a_hook_says_has_the_same_bound(said: tuple[str, ...]) -> None:
    text, note = "".join(said), len(f"\n[{LIMIT * 4:,} more characters of this hook were left out]")
    outcome = bounded(CALL, Outcome(Decision("block", text), summary=text, stop=text, notices=said))
    assert outcome.stop is not None
    assert bounded(CALL, Outcome()).stop is None
    assert sum(map(len, outcome.notices)) <= LIMIT + note
    actions = [bounded(CALL, Outcome(action=kind(text))).action for kind in (Compact, Summarize, SwapContext)]
    told = [action.instructions for action in actions if isinstance(action, Compact | Summarize)]
    told += [action.summary for action in actions if isinstance(action, SwapContext)]
    assert len(told) == 2 + bool(text.strip())
    for each in (outcome.reason, outcome.stop, outcome.summary or "", *told):
        assert len(each) <= LIMIT + note
        assert "left out]" in each if len(text) > LIMIT else each in (text, "")


def test_what_takes_the_place_of_a_long_text_may_be_as_long() -> None:
    result = "r" * (3 * LIMIT)
    event = AfterToolCall(AT, "call_1", "read", {}, (Text(result),))
    assert bounded(event, Outcome(tool_output=result)).tool_output == result
    prompt = UserMessageSend(AT, result)
    assert bounded(prompt, Outcome(message=f"{result} Be brief.")).message == f"{result} Be brief."
    assert "left out]" in (bounded(prompt, Outcome(message=result * 2)).message or "")
