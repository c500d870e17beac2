"""The outcomes of the built-in handlers, and the files that they write."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.conversation.messages import JsonObject, JsonValue, Text
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Hook, Services
from acp_agent.hooks.dispatcher import Dispatcher
from acp_agent.hooks.events import (
    AfterToolCall,
    BeforeToolCall,
    HookEvent,
    Moment,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.handlers import MARK, bound_handler, known_handlers
from acp_agent.hooks.outcomes import NOTHING, Outcome, SwapContext
from acp_agent.hooks.parameters import form_fault, schema_fault
from acp_agent.recipes.model import Known
from acp_agent.recipes.parser import parse_recipe
from acp_agent.session.hooks import _recipe_hooks
from acp_agent.storage.store import SessionStore
from support.hook_services import HookServices
from support.stores import opened

CART: JsonObject = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"items": {"type": "integer"}}},
}


async def transcript() -> str:
    return "/nowhere"


async def handle(
    name: str, event: HookEvent, params: JsonObject, services: Services | None = None
) -> Outcome:
    hook = bound_handler(name, event.name, "recipe.md", params=params)
    return await hook.run(event, services or HookServices())


def answered(text: str, cwd: Path | str = "/shop") -> TurnEnd:
    return TurnEnd(Moment("s", str(cwd), transcript), text, is_summary=True)


def read(output: str, tool: str = "read", *, is_error: bool = False) -> AfterToolCall:
    return AfterToolCall(
        Moment("s", "/shop", transcript), "c", tool, {}, (Text(output),), is_error
    )


def other(answer: Outcome) -> tuple[Hook, list[HookEvent]]:
    """Return a hook that does not belong to the recipe, and the events that it gets."""
    received: list[HookEvent] = []

    async def run(event: HookEvent, services: Services) -> Outcome:
        received.append(event)
        return answer

    return Hook("other", "user", "hooks/other", frozenset({"turn_end"}), run), received


async def run_in_order(handlers: str, *others: Hook) -> tuple[Outcome, list[str]]:
    text = f"---\nhooks:\n  turn_end: {{handlers: {handlers}}}\n---\nx\n"
    recipe = parse_recipe(
        text,
        name="n",
        source=Path("/r/n.md"),
        origin="user",
        known=Known(known_handlers()),
    )
    last, first = _recipe_hooks(recipe)
    shown: list[str] = []

    async def tell(text: str) -> None:
        shown.append(text)

    dispatcher = Dispatcher(others, HookServices(), tell, tell)
    return await dispatcher.dispatch(answered("Done."), last, recipe_first=first), shown


async def test_a_recipe_decides_whether_its_handlers_run_before_or_after_other_hooks() -> (
    None
):
    swapping, received = other(Outcome(action=SwapContext("Mine.")))
    for handlers, words in (
        ("[swap_context]", "Mine."),
        ("[external, swap_context]", "Mine."),
        ("[swap_context, external]", "Done."),
    ):
        outcome, _ = await run_in_order(handlers, swapping)
        assert outcome.action == SwapContext(words)
    wanted = "{handler: validate_output, params: {schema: {type: object}}}"
    outcome, _ = await run_in_order(f"[{wanted}, external, swap_context]", swapping)
    # If a handler refuses before the other hooks, they do not run.
    assert (outcome.blocks, outcome.action, len(received)) == (True, None, 3)


async def test_a_handler_with_once_runs_only_at_the_first_answer() -> None:
    moments = [
        Moment("s", "/shop", transcript, answer_number=number) for number in (1, 2)
    ]
    first, second = (TurnEnd(moment, "Done.", is_summary=True) for moment in moments)
    services = HookServices()
    for once, later in ((True, None), (False, SwapContext("Done."))):
        hook = bound_handler(
            "swap_context", "turn_end", "compact.md", params={}, once=once
        )
        assert (await hook.run(first, services)).action == SwapContext("Done.")
        assert (await hook.run(second, services)).action == later
    assert await hook.run(replace(first, response=" \n"), services) == NOTHING


async def test_a_failed_handler_is_reported_with_its_place_and_the_others_run() -> None:
    outcome, shown = await run_in_order(
        "[{handler: append_context, params: {file: none.txt}}, swap_context]"
    )
    assert outcome.action == SwapContext("Done.")
    [failure] = shown
    assert failure.startswith(
        "The hook append_context (/r/n.md: hooks.turn_end.append_context) failed at turn_end. "
    )
    assert failure.endswith(
        "The file /shop/none.txt does not exist. The hook is ignored."
    )


async def test_the_parameters_of_swap_context_become_options_of_the_swap() -> None:
    params: JsonObject = {
        "preserve_system_prompt": True,
        "max_summary_tokens": 900,
        "keep_tail_tokens": 0,
    }
    outcome = await handle("swap_context", answered("A cart."), params)
    assert outcome.action == SwapContext("A cart.", True, 900, 0)


async def test_a_text_and_a_file_of_the_project_are_added(tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text("Be brief.\n")
    event = UserMessageSend(Moment("s", str(tmp_path), transcript), "Hi")
    outcome = await handle(
        "append_context", event, {"text": "Mind these:", "file": "rules.md"}
    )
    assert outcome == Outcome(
        context=('Mind these:\n\n<file path="rules.md">\nBe brief.\n</file>',)
    )
    (tmp_path / "out").symlink_to("/etc/hosts")
    with pytest.raises(HookError, match="is a link to a file outside"):
        await handle("append_context", event, {"file": "out"})


VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 2]))
def test_json_is_found_bare_and_in_a_fence(
    value: JsonValue, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)
    for answer in (
        f"\n{text} ",
        f"Here:\n\n```json\n{text}\n```\nThat is all.",
        f"```py\n[1]\n```\n\n~~~\n[2]\n~~~\n\n```JSON\n{text}\n```\n\n```sh\nls\n```",
    ):
        assert form_fault(answer, {"const": value}) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("It is done.", "contains no code fence"),
        ("", "contains no code fence"),
        ("[NaN]", "NaN is no JSON"),
        ("```json\n{\n```", "its last code fence"),
        ("```sh\n{}\n```", "contains no code fence"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_invalid_json_is_reported_with_its_place(answer: str, words: str) -> None:
    assert words in (form_fault(answer, {}) or "")


@pytest.mark.parametrize(
    "mark", ["```" + " " * 400_000, "~" * 400_000, "```\n" * 20_000]
)
def test_an_answer_with_very_many_fences_and_blanks_is_checked_quickly(
    mark: str,
) -> None:
    """A pattern with a backreference would take hours for such an answer."""
    assert "JSON" in (form_fault(f"Here:\n{mark}x", {}) or "")


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ('{"items": [1]}', None),
        ('Yes.\n```json\n{"items": [1]}\n```', None),
        (
            '{"items": ["a", 2, "b"]}',
            "$.items[0]: 'a' is not of type 'integer'; $.items[2]: 'b' is not of type",
        ),
        ("{}", "$: 'items' is a required property"),
        ("Done.", "it is not valid JSON"),
    ],
)
async def test_an_answer_in_the_wrong_format_lets_the_agent_continue(
    answer: str, wrong: str | None, tmp_path: Path
) -> None:
    (tmp_path / "cart.json").write_text(json.dumps(CART))
    for params in ({"schema": CART}, {"file": "cart.json"}):
        outcome = await handle(
            "validate_output", answered(answer, tmp_path), cast(JsonObject, params)
        )
        if wrong is None:
            assert outcome == NOTHING
        else:
            assert outcome.blocks
            assert wrong in outcome.reason


def test_a_schema_can_refer_only_to_itself() -> None:
    tree: JsonObject = {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
    }
    assert schema_fault(tree) is None
    assert form_fault("[[], [[]]]", tree) is None
    assert form_fault("[[1]]", tree) == "$[0][0]: 1 is not of type 'array'"
    assert schema_fault({"items": [{"$ref": "other.json"}]}) is not None
    assert (
        form_fault(json.dumps(["x"] * 9), {"items": {"type": "null"}}) or ""
    ).endswith("; and 4 more")


async def export(folder: Path, path: str, *, overwrite: bool = False) -> None:
    """Export the session `s`, whose log is empty."""
    with TemporaryDirectory() as home:
        async with opened(lambda: SessionStore.open(Path(home) / "s.db")) as store:
            await store.create("s", str(folder), (), ())
            await handle(
                "export_markdown",
                answered("Done.", folder),
                {"path": path, "overwrite": overwrite},
                HookServices(store=store),
            )


async def test_an_export_replaces_only_an_earlier_export(tmp_path: Path) -> None:
    mine = tmp_path / "mine.md"
    ours = tmp_path / "a" / "b.md"
    mark = MARK.format("s")
    for _ in range(2):
        await export(tmp_path, "a/b.md")
        assert ours.read_text().startswith(mark)
        ours.write_text(mark)
    mine.write_text("mine")
    with pytest.raises(
        HookError, match=r"is not an export of this session\. It was not changed"
    ):
        await export(tmp_path, "mine.md")
    assert mine.read_text() == "mine"
    await export(tmp_path, "mine.md", overwrite=True)
    assert mine.read_text().startswith(mark)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b.md", "mine.md"]


async def test_an_export_stays_in_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    outside = tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "link").symlink_to(outside)
    (outside / "a.md").write_text(MARK)
    (project / "a.md").symlink_to(outside / "a.md")
    (project / "folder.md").mkdir()
    for name, words in (
        ("link/b.md", "is outside"),
        ("a.md", "cannot be"),
        ("folder.md", "already exists"),
    ):
        with pytest.raises(HookError, match=words):
            await export(project, name, overwrite=True)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [
        ("a.md", MARK)
    ]


async def test_calls_are_logged_in_a_private_file_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", 'quo"ted-secret')
    at = Moment("s", "/shop", transcript, invoked_by="fix")
    before = BeforeToolCall(
        at,
        "c",
        "shell",
        {"command": ['echo quo"ted-secret sk-a1b2c3d4e5f6a7b8', "é" * 3_000]},
    )
    await handle("log_tool_usage", before, {}, HookServices(tmp_path))
    await handle("log_tool_usage", read("four"), {}, HookServices(tmp_path))
    path = tmp_path / "logs" / "tool-usage.jsonl"
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["at"].endswith("+00:00")
    expected = {
        "event": "before_tool_call",
        "session_id": "s",
        "cwd": "/shop",
        "recipe": "fix",
        "tool": "shell",
    }
    assert expected.items() <= first.items()
    assert first["input"]["command"] == [
        "echo *** ***",
        f"{'é' * 2_000}… (3,000 characters)",
    ]
    assert {
        "event": "after_tool_call",
        "is_error": False,
        "output_characters": 4,
    }.items() <= second.items()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_log_stays_in_the_agent_s_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    outside = tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (home / "link").symlink_to(outside)
    (home / "a.jsonl").symlink_to(outside / "a")
    with pytest.raises(HookError, match="is outside"):
        await handle(
            "log_tool_usage", read("x"), {"path": "link/a.jsonl"}, HookServices(home)
        )
    with pytest.raises(HookError, match="cannot be written"):
        await handle(
            "log_tool_usage", read("x"), {"path": "a.jsonl"}, HookServices(home)
        )
    assert not list(outside.iterdir())
