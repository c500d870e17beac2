"""Models' ids as the built-in tables have them."""

from __future__ import annotations

import re

_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?")


def plain_name(model: str) -> str:
    """Return a model's id in lower case, without a router's `maker/` and a platform's prefix such as `us.anthropic.`.

    :param model: the provider's id.
    """
    name = model.rpartition("/")[2].lower()
    if "claude" in name:
        name = name[name.index("claude") :].replace(".", "-")
    return name


def gpt_version(name: str) -> tuple[int, int] | None:
    """Return the version in the id of one of OpenAI's GPT models; None for any other model.

    :param name: as `plain_name` returns it.
    """
    found = _GPT.match(name)
    return None if found is None else (int(found[1]), int(found[2] or 0))
