"""The page: a template, its style sheet, its script and the data, in one text that needs nothing else.

A policy in it lets the browser run this script and no other, whatever a session's texts hold.
"""

from __future__ import annotations

import base64
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from acp_agent.commands.inspect.data import script_json
from acp_agent.protocol import JsonObject

MARK = "<!doctype html>\n<!-- a session of acp-agent, by `acp-agent inspect` -->\n"
"""How every page begins."""


def html_page(data: JsonObject, *, live: bool = False) -> str:
    """The whole page.

    :param data: see `data.page_data`.
    :param live: whether the page asks where it came from for what is new.
    """
    style, script = _asset("inspect.css"), _asset("inspect.js")
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )
    fields = {
        "POLICY": escape(policy),
        "TITLE": escape(str(data["title"] or data["session"])),
        "LIVE": " data-live" if live else "",
        "STYLE": style,
        "DATA": script_json(data),
        "SCRIPT": script,
    }
    # Split first: what is put in must not be looked through for further fields.
    first, *rest = _asset("inspect.html").split("@@")
    filled = "".join(fields[piece] if number % 2 == 0 else piece for number, piece in enumerate(rest))
    return f"{MARK}{first}{filled}"


@cache
def _asset(name: str) -> str:
    return files("acp_agent.commands.inspect").joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    digest = base64.b64encode(sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
