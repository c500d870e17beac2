"""How the parts of a conversation look. Colours are the terminal's own sixteen, which fit its background."""

from __future__ import annotations

from prompt_toolkit.styles import Style

STYLE = Style.from_dict(
    {
        "you": "bold",
        "heading": "bold",
        "code": "ansicyan",
        "thought": "ansibrightblack italic",
        "dim": "ansibrightblack",
        "call": "ansiblue",
        "warning": "ansiyellow",
        "error": "ansired",
        "question": "bold ansiyellow",
        "file": "bold",
        "place": "ansicyan",
        "added": "ansigreen",
        "removed": "ansired",
        "same": "",
        "meter": "reverse",
    }
)
