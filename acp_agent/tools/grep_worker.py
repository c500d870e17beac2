"""Searches files for a regular expression, in a process of its own.

Python's `re` cannot be interrupted and holds the interpreter's lock, so that one pattern that backtracks for ever
(`(a+)+$`) would freeze the whole agent; a process can be killed. Run as a script with a `Request` in JSON on stdin.
Prints JSON, a line each: a string for each line found, as it finds them, then a `Summary`; or `{"error": …}`.

Imports the standard library alone, to be quick to start.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from typing import TypedDict


class Request(TypedDict):
    """What to search; `files` are pairs of the path to open and the name to print, sizes are bytes."""

    pattern: str
    ignore_case: bool
    context: int
    files: list[tuple[str, str]]
    most_lines: int
    longest_line: int
    largest_file: int


class Summary(TypedDict):
    """How it ended: files searched, files too large or unreadable, and whether there is more."""

    searched: int
    skipped: int
    cut: bool


class _Search:
    def __init__(self, request: Request, pattern: re.Pattern[str]) -> None:
        self._request = request
        self._pattern = pattern
        self._left = request["most_lines"]
        self._printed = False
        self.summary = Summary(searched=0, skipped=0, cut=False)

    def file(self, path: str, name: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > self._request["largest_file"]:
                    self.summary["skipped"] += 1
                    return
                data = file.read(self._request["largest_file"])
        except OSError:
            self.summary["skipped"] += 1
            return
        self.summary["searched"] += 1
        if b"\0" not in data[:8192]:
            lines = data.decode("utf-8", "replace").split("\n")
            self._lines(lines if lines[-1] else lines[:-1], name)

    def _lines(self, lines: list[str], name: str) -> None:
        context = self._request["context"]
        passed = 0  # index of the first line that is neither shown nor passed over
        after = 0  # context is shown up to here
        for index, line in enumerate(line.removesuffix("\r") for line in lines):
            if self._pattern.search(line):
                if self._left <= 0:
                    self.summary["cut"] = True
                    return
                first = max(passed, index - context)
                if context and self._printed and (first > passed or not passed):
                    _emit("--")
                for before in range(first, index):
                    self._show(name, before, "-", lines[before].removesuffix("\r"))
                self._show(name, index, ":", line)
                passed, after = index + 1, index + 1 + context
            elif index < after:
                self._show(name, index, "-", line)
                passed = index + 1

    def _show(self, name: str, index: int, mark: str, line: str) -> None:
        longest = self._request["longest_line"]
        if len(line) > longest:
            line = f"{line[:longest]}… [{len(line)} characters]"
        _emit(f"{name}{mark}{index + 1}{mark}{line}")
        self._printed = True
        self._left -= 1


def _main() -> None:
    request: Request = json.load(sys.stdin)
    try:
        pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as error:
        _emit({"error": str(error)})
        return
    search = _Search(request, pattern)
    for path, name in request["files"]:
        search.file(path, name)
        sys.stdout.flush()
        if search.summary["cut"]:
            break
    _emit(search.summary)


def _emit(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    _main()
