"""Masking of texts: known values wherever they stand, and what has the form of a secret.

Forms are judged by their place and their look, so that ordinary text stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from acp_agent.secrets.known import MASK, mask_known
from acp_agent.secrets.names import is_secret_name

# `forms` compiles its patterns for milliseconds and is imported with the first text, which a start does not have.

_MEMBER = re.compile(r"\"([A-Za-z_][\w-]{0,80})\"(\s{0,9}:\s{0,9}\")((?:[^\"\\]|\\.)+)")

_SHELL_OPTION = re.compile(r"-[a-z]*c")
_HEADER_OPTION = re.compile(r"-H|--(?:http-)?headers?", re.IGNORECASE)


def mask(text: str, secrets: Sequence[str]) -> str:
    """Mask known secrets and what has the form of one.

    :param secrets: known values, masked whatever they look like.
    """
    from acp_agent.secrets.forms import mask_forms

    return mask_forms(mask_known(text, secrets))


def mask_command(line: str, secrets: Sequence[str]) -> str:
    """Mask a shell command as `mask` does, and the values of its options and headers with the name of a secret."""
    from acp_agent.secrets.forms import mask_options

    return mask(mask_options(mask_known(line, secrets)), ())


def mask_argument(text: str, before: str, secrets: Sequence[str]) -> str:
    """Mask one argument of a program.

    :param before: the argument before it, which may be the option that this one is the value of.
    """
    from acp_agent.secrets.forms import is_given, mask_options

    if before.startswith("-") and "=" not in before and is_secret_name(before) and not text.startswith("-"):
        return MASK if is_given(text) else mask(text, secrets)
    if _HEADER_OPTION.fullmatch(before):
        return mask(mask_options(f'-H "{text}"')[4:-1], secrets)
    name, sign, value = text.partition("=")
    if sign and not _SHELL_OPTION.fullmatch(before) and is_secret_name(name) and " " not in name and is_given(value):
        return f"{mask(name, secrets)}={MASK}"
    return mask_command(text, secrets)


def mask_broken_json(text: str, secrets: Sequence[str]) -> str:
    """Mask a text of JSON that is not parsed: as `mask` does, and members named `value` or like a secret."""

    def member(found: re.Match[str]) -> str:
        is_secret = found[1] == "value" or is_secret_name(found[1])
        return f'"{found[1]}"{found[2]}{MASK}' if is_secret else found[0]

    return mask(_MEMBER.sub(member, mask_known(text, secrets)), ())
