"""Which texts a project's Python hook can run with `exec` and `eval`."""

from __future__ import annotations

import builtins
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.hooks.trusted_code import TrustedCode

STATEMENTS = st.lists(
    st.sampled_from(["x = 1", "x = 'a'", "def f(): pass", "y = [1, 2]"]), min_size=1
).map("\n".join)


def own(*trusted: bytes, source: bytes = b"") -> dict[str, Any]:
    """Return the built-in names of a hook whose user trusted these files."""
    names: dict[str, Any] = dict(vars(builtins))
    code = TrustedCode([hashlib.sha256(each).hexdigest() for each in trusted], names)
    names.update(code.names)
    code.add(source)
    return names


@given(st.text())
def test_text_of_unknown_origin_is_not_run(text: str) -> None:
    names = own(b"x = 1\n")
    for function in ("exec", "eval"):
        with pytest.raises(ImportError, match="not among the sources"):
            names[function](text, {})


@given(STATEMENTS, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_the_text_of_a_trusted_file_is_run_regardless_of_how_it_was_read(
    text: str, end: str, has_mark: bool, is_bytes: bool
) -> None:
    content = (b"\xef\xbb\xbf" if has_mark else b"") + text.replace("\n", end).encode()
    names = own(content)
    read = (
        content if is_bytes else text
    )  # as read with `utf-8-sig` and universal newlines
    found: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    exec(text, expected)
    names["exec"](read, found)
    assert found.keys() == expected.keys()
    assert found["__builtins__"] is names


@given(STATEMENTS)
def test_only_strings_in_a_trusted_source_are_run(text: str) -> None:
    names = own(source=f"exec({text!r})".encode())
    names["exec"](text, {})
    with pytest.raises(ImportError):
        names["exec"](f"{text}\npass", {})
    compiled = names["compile"](f"{text}\npass", "x", "exec")
    with pytest.raises(ImportError):
        names["exec"](compiled, {})
    names["exec"](names["compile"](text, "x", "exec"), {})
