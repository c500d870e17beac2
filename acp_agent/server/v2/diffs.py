"""Changes of files as version 2 shows them: what became of which file, and the same as a patch in git's form.

A patch has absolute paths without prefixes, quoted as git quotes them.

ACP v2, "Tool Calls", "Diffs"; git-diff(1), "Generating patch text with -p".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from acp_agent.conversation.events import CallView, Diff, FileChange
from acp_agent.protocol import JsonObject
from acp_agent.protocol.v2 import content
from acp_agent.tools.text import whole_lines

_CONTEXT = 3
_TEXTS = ("application/javascript", "application/json", "application/xml", "image/svg+xml")
"""Types of text beside those that are called so: by its name alone, a `.ts` would be a video."""
_NO_NEWLINE = "\\ No newline at end of file\n"
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def diff_items(view: CallView) -> list[JsonObject]:
    """What a call has changed, or would change, as one item of its content; none where it changes nothing."""
    if not view.diffs:
        return []
    changes = [
        content.change(
            "add" if diff.old_text is None else "modify", diff.path, file_type="text", mime_type=mime_type(diff.path)
        )
        for diff in view.diffs
    ]
    first_lines = {place.path: place.line for place in view.locations if place.line is not None}
    return _item(changes, [patch(diff, first_lines.get(diff.path)) for diff in view.diffs])


def change_items(view: CallView) -> list[JsonObject]:
    """Which files a call has deleted, moved or copied, as one item of its content; none where it has not."""
    if not view.changes:
        return []
    changes = [
        content.change(
            each.operation,
            each.path,
            former=each.former,
            file_type=each.kind,
            mime_type=mime_type(each.path) if each.kind == "text" else None,
        )
        for each in view.changes
    ]
    return _item(changes, [_moving_patch(each) for each in view.changes])


def _item(changes: Sequence[JsonObject], sections: Sequence[str | None]) -> list[JsonObject]:
    text = "".join(section for section in sections if section is not None)
    return [content.diff(changes, git_patch=text or None)]


def mime_type(path: str) -> str | None:
    """The type that a text file's name says it has; None where the name says nothing, or something else than text."""
    from mimetypes import MimeTypes

    found, encoding = MimeTypes().guess_type(Path(path).name, strict=True)
    return found if found is not None and encoding is None and (found.startswith("text/") or found in _TEXTS) else None


def _moving_patch(change: FileChange) -> str | None:
    """A move or a copy as a section of a patch. Git has none of directories, and one of a deletion has the text."""
    if change.former is None or change.kind == "directory":
        return None
    verb = "rename" if change.operation == "move" else "copy"
    old, new = quoted(change.former), quoted(change.path)
    return f"diff --git {old} {new}\nsimilarity index 100%\n{verb} from {old}\n{verb} to {new}\n"


def patch(diff: Diff, line: int | None = None) -> str | None:
    """One file's section of a patch; None where not all of the change is known.

    :param line: the first line, from 1, that the change changes; None for a change of which the whole file is known.
    """
    if _is_cut(diff.new_text) or _is_cut(diff.old_text or ""):
        return None
    name = quoted(diff.path)
    old, new = whole_lines(diff.old_text or ""), whole_lines(diff.new_text)
    head = f"diff --git {name} {name}\n"
    if diff.old_text is None:
        head += "new file mode 100644\n"
    hunks = "".join(_hunks(old, new, _lines_before(old, new, line)))
    if not hunks:
        return head if diff.old_text is None else None
    before = "/dev/null" if diff.old_text is None else _labelled(name)
    return f"{head}--- {before}\n+++ {_labelled(name)}\n{hunks}"


def quoted(path: str) -> str:
    """A path as git writes it: in quotes with escapes where it holds what is not plain."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in (34, 92) for byte in raw):
        return path
    return f'"{"".join(_escaped(byte) for byte in raw)}"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return f"\\{_ESCAPES[byte]}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _labelled(name: str) -> str:
    # git ends a name with a space in it by a tab, so that the name's end is seen
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _is_cut(text: str) -> bool:
    """Whether only the beginning of a large change is there."""
    return text.endswith((" more characters)\n", " more character)\n")) and "… (" in text[text[:-1].rfind("\n") + 1 :]


def _lines_before(old: list[str], new: list[str], line: int | None) -> int:
    """How many lines of the file come before those that are known."""
    if line is None:
        return 0
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    return max(0, line - 1 - same)


def _hunks(old: list[str], new: list[str], before: int) -> Iterator[str]:
    from difflib import SequenceMatcher

    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        removed, added = _range(old_from, old_to, before), _range(new_from, new_to, before)
        yield f"@@ -{removed} +{added} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[i1:i2])
                continue
            yield from (_line("-", line) for line in old[i1:i2])
            yield from (_line("+", line) for line in new[j1:j2])


def _range(start: int, stop: int, before: int) -> str:
    count = stop - start
    first = before + start + (1 if count else 0)
    return f"{first}" if count == 1 else f"{first},{count}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{_NO_NEWLINE}"
