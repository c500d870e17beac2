"""Whether what ran says that nothing failed, that there was no error or that nothing passed, where it prints no zero.

Few tools do: a run of tests that passed says how many passed, a compiler says nothing but its exit status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from acp_agent.compaction.ledger_programs import only_looks
from acp_agent.compaction.ledger_shell import command_line, read_shell
from acp_agent.conversation.messages import ToolCall

_PASSED = (
    r"\b\d+ (?:tests? )?(?:pass(?:ed|es|ing)?|ok|succeeded)\b|\bpass(?:ed|es|ing)?[:=] ?\d|(?-i:\bOK\b)|"
    r"\btest result: ok\b|^ok\s+\S+\s+[\d.]+s|(?-i:^PASS\b)|\ball (?:\d+ )?tests? (?:have )?pass(?:ed)?\b"
)
_ANY_PASSED = re.compile(_PASSED, re.IGNORECASE | re.MULTILINE)
_WELL = {
    "fail": re.compile(rf"{_PASSED}|\b(?:no|without|zero) (?:\w+ )?fail", re.IGNORECASE | re.MULTILINE),
    "error": re.compile(
        rf"{_PASSED}|\b(?:no|without|zero) (?:\w+ ){{0,2}}?(?:errors?|issues?|problems?|violations?)\b|"
        r"\bsucce(?:ss|eded)|\bchecks? passed\b|\bexit(?:ed)?(?: with)?(?: (?:code|status))?:? ?0\b|\bfinished\b",
        re.IGNORECASE | re.MULTILINE,
    ),
}
_COMMANDS = ("command", "cmd", "script")
_LOOKED_AT = ("path", "file_path", "pattern", "query", "url", "uri")
_ILL = re.compile(
    r"(?<![\d.])[1-9]\d*[^\w,;\n]{0,3}(?:tests? )?(?:err|fail)|(?:err|fail)\w*[:=] ?[1-9]|(?-i:\bFAILED\b)",
    re.IGNORECASE,
)
"""How the same line says that all did not go well."""
_ALL_ILL = re.compile(r"(?<![\d.])[1-9]\d* (?:tests? )?failed\b|\bno tests (?:ran|found)\b", re.IGNORECASE)


def says_none(results: Iterable[str], what: str) -> bool:
    """Whether some result says that there was none of these, in whatever words.

    :param results: what tools printed, and what is recorded of it.
    :param what: `fail`, `error` or `pass`; of all else it is never said.
    """
    if what == "pass":
        return any(_ALL_ILL.search(text) and not _ANY_PASSED.search(text) for text in results)
    return what in _WELL and any(_goes_well(text, what) for text in results)


def is_run(call: ToolCall | None) -> bool:
    """Whether a call runs something, as far as can be told: what stands in a file that it reads is no result.

    :param call: None where it is not known.
    """
    if call is None:
        return True
    line = next((line for name in _COMMANDS if (line := command_line(call.arguments.get(name)))), "")
    if not line:
        return not any(name in call.arguments for name in _LOOKED_AT)
    return not all(only_looks(part.words) for part in read_shell(line, "").parts)


def _goes_well(text: str, what: str) -> bool:
    match = _WELL[what].search(text)
    while match is not None:
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        if _ILL.search(text, text.rfind("\n", 0, match.start()) + 1, end) is None:
            return True
        match = _WELL[what].search(text, end)
    return False
