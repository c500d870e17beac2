"""Changes of files as version 2 shows them: the operation on each file, and the same as a patch in git's form.

A patch has absolute paths without prefixes.

ACP v2, "Tool Calls", "Diffs"; git-diff(1), "Generating patch text with -p".
"""

from __future__ import annotations

from acp_agent.conversation.events import CallView
from acp_agent.conversation.views import Diff
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.updates import given
from acp_agent.tools.text import common_length, whole_lines

_NO_NEWLINE = "\\ No newline at end of file\n"

_MAX_LINE_PAIRS = 100_000
"""Most pairs of equal lines that difflib may have to examine: the lines of one text times the mean number of times that
a line repeats in the other."""


def diff_items(view: CallView) -> list[JsonObject]:
    """Return the file changes of a call, made or proposed, as at most one item of its content."""
    if not view.diffs:
        return []
    changes: list[JsonValue] = [
        {"operation": "add" if diff.old_text is None else "modify", "path": diff.path, "fileType": "text"}
        for diff in view.diffs
    ]
    first_lines = {place.path: place.line for place in view.locations if place.line is not None}
    sections = [patch(diff, first_lines.get(diff.path)) for diff in view.diffs]
    text = "".join(section for section in sections if section is not None)
    whole: JsonValue = {"format": "git_patch", "text": text} if text else None
    return [{"type": "diff", "changes": changes, **given(patch=whole)}]


def change_items(view: CallView) -> list[JsonObject]:
    """Return the files that a call has deleted, moved or copied, as at most one item of its content."""
    if not view.changes:
        return []
    changes: list[JsonValue] = [
        {
            "operation": each.operation,
            **given(oldPath=each.former),
            "path": each.path,
            **given(fileType=each.kind),
        }
        for each in view.changes
    ]
    return [{"type": "diff", "changes": changes}]


def patch(diff: Diff, line: int | None = None) -> str | None:
    """Return one file's section of a patch.

    Return None if a text was truncated, git would quote the name, or lines repeat so often that difflib would take
    seconds.

    :param line: the number of the first changed line, from 1; None if the texts are the whole file.
    """
    from difflib import unified_diff

    name = diff.path
    is_plain = name.isprintable() and not {'"', "\\"} & {*name}  # git would write it in quotes, with escapes
    if not is_plain or _is_cut(diff.new_text) or _is_cut(diff.old_text or ""):
        return None
    old, new = whole_lines(diff.old_text or ""), whole_lines(diff.new_text)
    if len(old) * len(new) > _MAX_LINE_PAIRS * len({*new}):
        return None
    head = f"diff --git {name} {name}\n"
    if diff.old_text is None:
        head += "new file mode 100644\n"
    skipped = 0 if line is None else max(0, line - 1 - common_length(old, new))
    named = f"{name}\t" if " " in name else name  # git marks the end of such a name by a tab
    changed = unified_diff(old, new, "/dev/null" if diff.old_text is None else named, named)
    hunks = "".join(_patch_line(each, skipped) for each in changed)
    return head + hunks if hunks or diff.old_text is None else None


def _is_cut(text: str) -> bool:
    """Return whether `text` is only the beginning of a large change."""
    return text.endswith((" more characters)\n", " more character)\n")) and "… (" in text[text[:-1].rfind("\n") + 1 :]


def _patch_line(line: str, skipped: int) -> str:
    """Return a line of difflib's patch as git writes it.

    :param skipped: the number of lines of the file before the texts that were compared.
    """
    if line.startswith("@@"):
        _, removed, added, _ = line.split()
        return f"@@ {_shifted(removed, skipped)} {_shifted(added, skipped)} @@\n"
    return line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _shifted(lines: str, before: int) -> str:
    """Move a range of lines, such as `-3,7`, down by `before` lines."""
    start, comma, count = lines[1:].partition(",")
    return f"{lines[0]}{int(start) + before}{comma}{count}"
