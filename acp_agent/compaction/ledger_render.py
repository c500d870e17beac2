"""The fact ledger as the model reads it: short Markdown under a budget.

Owns what is left out where the budget is small, and that nothing found in a command, an error or a file's name can
look like the frame around it. Knows no messages.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, Literal, TypeAlias

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.ledger_programs import only_looks
from acp_agent.conversation.memory import CommandFact, FileFact, Ledger
from acp_agent.frozen import frozen

Kind: TypeAlias = Literal[
    "test", "error", "change", "repository", "old test", "failed", "url", "command", "read", "look"
]

_TITLE: Final = "## Facts recorded from the tool calls so far"
# Kept in this order, and within a kind the newest first; so what only looked is the first to go.
_ORDER: Final[tuple[Kind, ...]] = (
    "repository", "test", "error", "change", "old test", "failed", "url", "command", "read", "look"
)  # fmt: skip
_HEADINGS: Final[dict[str, str]] = {
    "repository": "",
    "change": "### Files changed",
    "read": "### Files read",
    "test": "### Tests, last result",
    "command": "### Commands, last run",
    "error": "### Errors still open",
    "url": "### URLs",
}
_SECTION: Final[dict[Kind, str]] = {"old test": "test", "failed": "command", "look": "command"}
_NOUNS: Final[dict[str, str]] = {
    "repository": "repository",
    "change": "changed files",
    "read": "read files",
    "test": "test runs",
    "command": "commands",
    "error": "errors",
    "url": "URLs",
}
_FRESH_TESTS: Final = 10
_LONGEST_PATH: Final = 300
_LONGEST_SHOWN: Final = 700
_STALE_RUN: Final = "before later file changes"

_UNPRINTABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")
_FRAME: Final = re.compile(r"</?(?=[\s/]*\w*conversation)", re.IGNORECASE)
_JOINED: Final = re.compile(r"&&|;|\|\|")
_FRAME_NAME: Final = re.compile(r"(conversation)_(?=summary)", re.IGNORECASE)


@frozen
class _Item:
    kind: Kind
    text: str

    @property
    def section(self) -> str:
        return _SECTION.get(self.kind, self.kind)


def render_ledger(ledger: Ledger, max_tokens: int, cwd: str) -> str:
    """The ledger for the model.

    Where it does not fit, commands that only looked at something are left out first, then files that were only read,
    other commands that went well, URLs, commands that failed, older test runs; changed files, errors that are still
    open and the last test results stay longest. Within each kind the oldest goes first. A line says how many are left
    out.

    :param max_tokens: the most that the text takes, as `estimate_text` counts.
    :param cwd: paths in this directory are shown relative to it.
    :returns: Markdown; empty where there is nothing, or no room for anything.
    """
    items = _items(ledger, cwd)
    if not items:
        return ""
    by_rank = sorted(range(len(items)), key=lambda at: (_ORDER.index(items[at].kind), -at))
    if estimate_text(whole := _text(items, [])) <= max_tokens:
        return whole

    def shown(count: int) -> str:
        kept = set(by_rank[:count])
        left_out = [item for at, item in enumerate(items) if at not in kept]
        return _text([items[at] for at in sorted(kept)], left_out)

    fits, too_many = 0, len(items)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if estimate_text(shown(middle)) <= max_tokens:
            fits = middle
        else:
            too_many = middle
    return shown(fits) if fits else ""


def _items(ledger: Ledger, cwd: str) -> list[_Item]:
    items: list[_Item] = []
    if ledger.branch or ledger.head:
        branch = f"Branch {_code(ledger.branch)}" if ledger.branch else "No branch"
        items.append(_Item("repository", branch + (f", head {_code(ledger.head[:12])}" if ledger.head else "")))
    items += [_Item(_kind_of(file), f"- {_file(file, cwd)}") for file in ledger.files]
    tests = [fact for fact in ledger.commands if fact.is_test]
    fresh = {id(fact) for fact in tests[-_FRESH_TESTS:]}
    items += [_Item("test" if id(fact) in fresh else "old test", f"- {_run(fact)}") for fact in tests]
    for fact in ledger.commands:
        if not fact.is_test:
            kind: Kind = "failed" if fact.failed else "look" if _looks(fact) else "command"
            items.append(_Item(kind, f"- {_run(fact)}"))
    for error in ledger.errors:
        inside = error.subject.replace(f" {cwd}/", " ", 1) if cwd else error.subject
        items.append(_Item("error", f"- {_code(inside)}: {_safe(error.text)}"))
    items += [_Item("url", f"- {_safe(url)}") for url in ledger.urls]
    return items


def _kind_of(fact: FileFact) -> Kind:
    return "read" if fact.change == "none" and not fact.gone else "change"


def _looks(fact: CommandFact) -> bool:
    return not _JOINED.search(fact.command) and only_looks(fact.command.split()[:3])


def _text(items: list[_Item], left_out: list[_Item]) -> str:
    sections: dict[str, list[str]] = {name: [] for name in _HEADINGS}
    for item in items:
        sections[item.section].append(item.text)
    parts = [_TITLE]
    for name, lines in sections.items():
        if lines:
            heading = _HEADINGS[name]
            parts.append("\n".join((heading, *lines) if heading else lines))
    if left_out:
        counted = Counter(_NOUNS[item.section] for item in left_out)
        parts.append(f"(Left out for room: {', '.join(f'{number} {noun}' for noun, number in counted.items())}.)")
    return "\n\n".join(parts)


def _file(fact: FileFact, cwd: str) -> str:
    path = fact.path
    if cwd and path.startswith(cwd.rstrip("/") + "/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    notes: list[str] = [fact.change] if fact.change != "none" else []
    if fact.lines is not None:
        notes.append(f"lines {fact.lines[0]}-{fact.lines[1]} read")
    if fact.digest:
        notes.append(f"hash {_safe(fact.digest[:8])}")
    if fact.gone:
        notes.append("gone since, not by you")
    elif fact.stale:
        notes.append("but it is there again" if fact.change == "deleted" else "changed since you read it")
    shown = _code(path, _LONGEST_PATH)
    return f"{shown}: {', '.join(notes)}" if notes else shown


def _run(fact: CommandFact) -> str:
    status = "status unknown" if fact.exit_status is None else f"exit {fact.exit_status}"
    notes = [status]
    if fact.failed and not fact.exit_status:
        notes.append("but it failed" if fact.exit_status == 0 else "failed")
    if fact.result:
        notes.append(_safe(fact.result))
    if fact.stale and not _looks(fact):
        notes.append(f"stale ({_STALE_RUN})" if fact.is_test or fact.failed else "stale")
    return f"{_code(fact.command)}: {', '.join(notes)}"


def _safe(text: str, limit: int = _LONGEST_SHOWN) -> str:
    """One bounded line that cannot look like the frame around a summary."""
    line = _UNPRINTABLE.sub(" ", text[: 2 * limit]).strip()
    line = _FRAME_NAME.sub(r"\1-", _FRAME.sub("‹", line))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _code(text: str, limit: int = _LONGEST_SHOWN) -> str:
    line = _safe(text, limit) or " "
    if "`" not in line:
        return f"`{line}`"
    fence = "`" * (1 + max(len(run) for run in re.findall("`+", line)))
    return f"{fence} {line} {fence}"
