"""Converts model ids to the form used in the built-in tables."""

from __future__ import annotations

import re

_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?")


def plain_name(model: str) -> str:
    """Return a model's id in lower case, without a router's `maker/` or a platform's prefix such as `us.anthropic.`.

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
