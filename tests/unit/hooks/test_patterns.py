"""Patterns from other people are matched in linear time, or refused with advice what to
write instead.
"""

from __future__ import annotations

import pytest

from acp_agent.patterns import PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("(?=a)b", "no lookaround"),
        ("(?!a)b", "no lookaround"),
        ("(?<=a)b", "no lookaround"),
        ("(?<!a)b", "no lookaround"),
        (r"(a)\1", "no backreferences"),
        ("(?P<a>x)(?P=a)", "no backreferences"),
        ("a++", "never backtracks"),
        ("(?>a)", "never backtracks"),
        ("a{1,2000}", "`maxLength`"),
        (r"a\Z", r"\z"),
        (r"\u20ac", r"\x{20ac}"),
    ],
)
def test_patterns_that_re2_does_not_support_are_refused_with_an_alternative(
    pattern: str, instead: str
) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern, multiline=True)
    assert str(caught.value).startswith(
        f"`{pattern}` is not a valid RE2 regular expression: "
    )
    assert instead in str(caught.value)


def test_flags_have_the_same_meaning_as_in_other_libraries() -> None:
    assert compile_pattern("^b$", multiline=True).search("ä\nb\n") == (3, 4)
    assert compile_pattern("^b$").search("a\nb\n") is None
    assert compile_pattern("Ä", ignore_case=True).search("ä") == (0, 2)
    assert compile_pattern("a.b", dot_all=True).search("a\nb") == (0, 3)
    assert compile_pattern(r"a\sb", within_lines=True).search("a\nb") is None
