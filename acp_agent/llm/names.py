"""Converts model ids to the form used in the built-in tables."""

from __future__ import annotations

import re

_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
_MAKERS = {
    "claude": "Claude ",
    "gpt": "GPT-",
    "gemini": "Gemini ",
    "grok": "Grok ",
    "deepseek": "DeepSeek ",
}
"""How the ids of each family begin, and how its vendor writes the name."""
_PLAIN_ID = re.compile(r"[a-z]+(-[a-z]+|-\d+(\.\d+)?[a-z]?)+")
_DATE = re.compile(r"-(20\d{6}|20\d\d-\d\d-\d\d)\Z")
_VERSION = re.compile(r"(?<=-)(\d{1,2})-(\d{1,2})(?=-|\Z)")


def plain_name(model: str) -> str:
    """Return a model's id in lower case, without a router's `maker/` or a platform's
    prefix such as `us.anthropic.`.

    :param model: the provider's id of the model.
    """
    name = model.rpartition("/")[2].lower()
    if "claude" in name:
        name = name[name.index("claude") :].replace(".", "-")
    return name


def gpt_version(name: str) -> tuple[int, int] | None:
    """Return the version of an OpenAI GPT model from its id; None for any other model.

    :param name: a name from `plain_name`.
    """
    found = _GPT.match(name)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def display_name(model: str) -> str:
    """Return a model's name as its vendor writes it, such as "Claude Haiku 4.5" for
    `claude-haiku-4-5-20251001`.

    :param model: the provider's id of the model.
    :returns: the id itself, if its family or form is unknown.
    """
    undated = _DATE.sub("", model)
    family, _, rest = undated.partition("-")
    if family not in _MAKERS or not _PLAIN_ID.fullmatch(undated):
        return model
    words = _VERSION.sub(r"\1.\2", f"-{rest}").removeprefix("-").split("-")
    return _MAKERS[family] + " ".join(
        word.capitalize() if word.isalpha() else word for word in words
    )
