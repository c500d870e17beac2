"""The fact ledger: the same however a history is cut, true to what was done to files, bounded, and honest about age."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from acp_agent.compaction.ledger import (
    MAX_COMMANDS,
    MAX_ERRORS,
    MAX_FILES,
    MAX_URLS,
    refresh_ledger,
    update_ledger,
)
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.memory import ErrorFact, FileFact, Ledger
from acp_agent.conversation.messages import AssistantMessage, JsonObject, Text, ToolCall, ToolResult, UserMessage
from support.logs import legal_logs

CWD = "/shop"


class History:
    """Entries of a session, as its log would number them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def call(self, name: str, arguments: JsonObject, result: str, is_error: bool = False) -> None:
        """One call and its result."""
        call = ToolCall(f"call_{len(self.entries)}", name, arguments)
        self._add(AssistantMessage(f"msg_{len(self.entries)}", (call,)))
        self._add(ToolResult(call.id, (Text(result),), is_error))

    def shell(self, command: str, status: int = 0, output: str = "") -> None:
        """A command of this agent's shell."""
        result = f"exit status: {status}\nstdout:\n{output}\nstderr: (empty)"
        self.call("shell", {"command": command}, result, status != 0)

    def says(self, text: str, user: bool = False) -> None:
        """A message without calls."""
        id = f"msg_{len(self.entries)}"
        self._add(UserMessage(id, (Text(text),)) if user else AssistantMessage(id, (Text(text),)))

    def ledger(self, files: dict[str, str | None] | None = None) -> Ledger:
        """All of it in a ledger."""
        return update_ledger(Ledger(), self.entries, files or {}, CWD)

    def _add(self, message: UserMessage | AssistantMessage | ToolResult) -> None:
        self.entries.append(Entry(len(self.entries) + 1, message))


def cuts(entries: Sequence[Entry]) -> list[int]:
    """Where entries may be parted: before anything but a tool's result."""
    return [at for at, entry in enumerate(entries) if not isinstance(entry.message, ToolResult)] + [len(entries)]


PATHS = st.sampled_from(["a.py", "b.py", "src/c.py", "src/d.py"])
RUNS = st.sampled_from(["pytest", "pytest src", "make", "ls", "python run.py | tail -3", "rm -r src", "git checkout ."])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["read", "write", "edit"]), PATHS, st.booleans()),
    st.tuples(
        st.sampled_from(["cat {}", "sed -i s/a/b/ {}", "rm {}", "echo x > {}", "git checkout {}"]), PATHS, st.booleans()
    ),
    st.tuples(RUNS, st.just(""), st.booleans()),
    st.tuples(st.sampled_from(["see https://x.test/{}.", "(http://y.test/{})"]), PATHS, st.booleans()),
)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 12) -> History:
    """Sessions of file tools, commands and words, some of which fail."""
    history = History()
    for what, path, fails in draw(st.lists(STEPS, max_size=max_size)):
        if what in ("read", "write", "edit"):
            history.call(what, {"path": path}, "no" if fails else "1\tx\n2\ty", fails)
        elif "://" in what:
            history.says(what.format(path), user=fails)
        else:
            history.shell(what.format(path), int(fails), "== 1 failed ==" if fails else "== 1 passed ==")
    return history


@given(histories(), st.data(), st.sampled_from(["/shop", ""]))
def test_a_ledger_made_in_pieces_is_the_ledger_made_at_once(history: History, data: st.DataObject, cwd: str) -> None:
    entries = history.entries
    files = data.draw(st.dictionaries(PATHS.map(lambda path: f"/shop/{path}"), st.sampled_from(["d1", "d2", None])))
    at = data.draw(st.sampled_from(cuts(entries)))
    first = update_ledger(Ledger(), entries[:at], files, cwd)
    assert update_ledger(first, entries[at:], files, cwd) == update_ledger(Ledger(), entries, files, cwd)


@given(histories(), st.data())
def test_what_a_ledger_knows_it_does_not_read_again(history: History, data: st.DataObject) -> None:
    entries, whole = history.entries, history.ledger()
    at = data.draw(st.sampled_from(cuts(entries)))
    assert update_ledger(whole, entries, {}, CWD) == whole
    assert update_ledger(update_ledger(Ledger(), entries[:at], {}, CWD), entries, {}, CWD) == whole


@given(legal_logs(), st.data())
def test_a_ledger_of_any_log_is_cumulative_and_never_counts_twice(
    log: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    context = Context.from_log(log)
    entries = [entry for entry in context.entries if not entry.summary]
    whole = update_ledger(Ledger(), context.entries, context.files, CWD)
    at = data.draw(st.sampled_from(cuts(entries)))
    first = update_ledger(Ledger(), entries[:at], context.files, CWD)
    assert update_ledger(first, entries[at:], context.files, CWD) == whole
    assert update_ledger(first, entries, context.files, CWD) == whole
    assert update_ledger(whole, context.entries, context.files, CWD) == whole
    results = [entry for entry in entries if isinstance(entry.message, ToolResult) and not entry.message.is_error]
    assert bool(whole.files) == bool(results)
    assert all(fact.digest == context.files.get(fact.path) for fact in whole.files)


@given(histories())
def test_a_ledger_goes_through_json_unchanged(history: History) -> None:
    adapter = TypeAdapter(Ledger)
    ledger = history.ledger({"/shop/a.py": "d1"})
    assert adapter.validate_json(adapter.dump_json(ledger)) == ledger


OPERATIONS = st.tuples(st.sampled_from(["read", "write", "edit", "sed", "rm", "cat", "mv"]), PATHS, st.booleans())


@given(st.lists(OPERATIONS, max_size=20))
def test_files_are_what_was_done_to_them(operations: list[tuple[str, str, bool]]) -> None:
    """Against a plain model: what exists, and what the session made of it."""
    history = History()
    expected: dict[str, str] = {}
    for action, name, fails in operations:
        path = f"/shop/{name}"
        match action:
            case "read":
                history.call("read", {"path": name}, "no" if fails else "1\tx", fails)
            case "write" | "edit":
                history.call(action, {"path": name}, "no" if fails else "Made it" if action == "write" else "ok", fails)
            case "sed":
                history.shell(f"sed -i s/a/b/ {name}", int(fails))
            case "cat":
                history.shell(f"cat {name}", 0, "x")
            case "mv":
                history.shell(f"mv {name} {name}.old", int(fails))
            case _:
                history.shell(f"rm {name}", int(fails))
        if fails and action != "cat":
            continue
        before = expected.pop(path, None)
        if action in ("read", "cat"):
            expected[path] = before if before not in (None, "deleted") else "none"
        elif action in ("rm", "mv"):
            expected[path] = "deleted"
            if action == "mv":
                old = expected.pop(f"{path}.old", None)
                expected[f"{path}.old"] = "edited" if old == "edited" else "created"
        else:
            fresh = "created" if action == "write" else "edited"
            expected[path] = fresh if before in (None, "deleted") else "created" if before == "created" else "edited"
    assert [(fact.path, fact.change) for fact in history.ledger().files] == list(expected.items())


def test_summaries_are_no_facts() -> None:
    entry = Entry(7, UserMessage("msg_1", (Text("See https://x.test/"),)), summary=True)
    assert update_ledger(Ledger(), (entry,), {}, CWD) == Ledger()


def test_the_range_and_the_version_that_were_read_last_are_kept() -> None:
    history = History()
    history.call("read", {"path": "a.py"}, "1\tx\n2\ty\n(lines 1 to 2 of 9; read on with offset 3)")
    history.call("read", {"path": "a.py", "offset": 3}, "3\tx\n4\ty")
    [fact] = history.ledger({"/shop/a.py": "d2"}).files
    assert fact == FileFact("/shop/a.py", lines=(3, 4), digest="d2", seq=4)


def test_a_test_run_before_a_later_change_is_stale_and_one_after_it_is_not() -> None:
    history = History()
    history.shell("pytest", 1, "== 1 failed, 2 passed in 0.1s ==")
    assert not history.ledger().commands[0].stale
    history.call("edit", {"path": "a.py"}, "Edited a.py")
    [run] = history.ledger().commands
    assert (run.stale, run.failed, run.result) == (True, True, "1 failed, 2 passed in 0.1s")
    history.shell("  pytest ", 0, "== 3 passed in 0.1s ==")
    [run] = history.ledger().commands
    assert (run.stale, run.failed, run.result, run.exit_status) == (False, False, "3 passed in 0.1s", 0)


def test_an_error_is_open_until_the_same_subject_succeeds() -> None:
    history = History()
    history.shell("make", 2, "a.c:1: error: no cart\nmake: *** [all] Error 1")
    history.call("edit", {"path": "a.py"}, "a.py was not edited. No such text.", True)
    history.call("mcp_find", {"q": "x"}, "server is down", True)
    history.shell("make other")
    history.call("edit", {"path": "b.py"}, "Edited b.py")
    assert history.ledger().errors == (
        ErrorFact("make", "a.c:1: error: no cart", 2),
        ErrorFact("edit /shop/a.py", "a.py was not edited. No such text.", 4),
        ErrorFact('mcp_find {"q": "x"}', "server is down", 6),
    )
    history.call("mcp_find", {"q": "x"}, "found")
    history.shell("sed -i s/a/b/ a.py")
    history.shell("make")
    assert history.ledger().errors == ()


def test_urls_come_from_people_and_arguments_and_not_from_outputs() -> None:
    history = History()
    history.says("Look at https://x.test/a_(b)?c=1#d, then <https://x.test/e>.", user=True)
    history.says("As http://y.test/ says. And https://me:secret@z.test/.")
    history.call("fetch", {"deep": [{"url": "https://x.test/f"}]}, "https://no.test/")
    history.says("Again https://x.test/e")
    expected = (
        "https://x.test/a_(b)?c=1#d",
        "http://y.test/",
        "https://z.test/",
        "https://x.test/f",
        "https://x.test/e",
    )
    assert history.ledger().urls == expected


def test_deleting_and_restoring_a_directory_means_the_known_files_in_it() -> None:
    history = History()
    for path in ("src/a.py", "src/b.py", "c.py"):
        history.call("edit", {"path": path}, f"Edited {path}")
    history.shell("rm src/*.py")
    assert [(fact.path, fact.change) for fact in history.ledger().files] == [
        ("/shop/c.py", "edited"), ("/shop/src/a.py", "deleted"), ("/shop/src/b.py", "deleted")
    ]  # fmt: skip
    history.shell("git checkout .")
    assert {(fact.change, fact.stale) for fact in history.ledger().files} == {("none", True)}


def test_the_ledger_is_bounded_and_keeps_changed_files_and_tests_longest() -> None:
    history = History()
    history.call("edit", {"path": "kept.py"}, "Edited kept.py")
    history.shell("pytest kept", 0, "== 1 passed in 0.1s ==")
    for number in range(MAX_FILES + 10):
        history.call("read", {"path": f"{number}.py"}, "1\tx")
        history.shell(f"./run {number}", number % 2, "error: no")
        history.says(f"https://x.test/{number}")
    ledger = history.ledger()
    assert (len(ledger.files), len(ledger.commands)) == (MAX_FILES, MAX_COMMANDS)
    assert (len(ledger.errors), len(ledger.urls)) == (MAX_ERRORS, MAX_URLS)
    assert ledger.files[0].path == "/shop/kept.py"
    assert ledger.commands[0].command == "pytest kept"
    assert (ledger.files[-1].path, ledger.urls[-1]) == (f"/shop/{MAX_FILES + 9}.py", f"https://x.test/{MAX_FILES + 9}")


def test_refreshing_marks_what_the_disk_has_otherwise() -> None:
    facts = [FileFact(f"/shop/{name}", digest="d1") for name in ("same", "other", "gone", "unasked")]
    unknown, deleted = FileFact("/shop/unknown"), FileFact("/shop/deleted", "deleted")
    ledger = Ledger(files=(*facts, unknown, deleted))
    current = {
        "/shop/same": "d1",
        "/shop/other": "d2",
        "/shop/gone": None,
        "/shop/unknown": "d3",
        "/shop/deleted": "d4",
    }
    fresh = refresh_ledger(ledger, current, "main", "1234abc")
    assert {fact.path[6:] for fact in fresh.files if fact.stale} == {"other", "gone", "deleted"}
    assert {fact.path[6:] for fact in fresh.files if fact.gone} == {"gone"}
    assert (fresh.branch, fresh.head) == ("main", "1234abc")
    again = refresh_ledger(fresh, {"/shop/other": "d1", "/shop/gone": "d1"}, "", "")
    assert {fact.path[6:] for fact in again.files if fact.stale or fact.gone} == {"deleted"}
