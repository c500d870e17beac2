"""Finds the names of files that a script runs or reads, by their position in its source.

A script mentions many files, but only some of them decide what it does:
`. tools/settings` runs a file, and `grep -f tools/words.txt` reads one, whereas
`case "$path" in package-lock.json)` only compares a name. This module finds names of the
first two kinds, whatever the suffix of the file. Files that a script writes are left out.

No list of the programs that read files could be complete. So for shell scripts and
command lines, `words_of_commands` returns all arguments, except those of programs that
only print, compare or write.

Source: bash(1), "." and "REDIRECTION"; grep(1), awk(1) and sed(1), `-f`; Python's `open`
and `pathlib`; nodejs.org/api, "fs" and "modules"; Ruby's Kernel, `require_relative` and
`load`; perlfunc(1), `do` and `require`
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_RUNNERS = re.compile(
    r"(?:^|(?<=[\s;&|(`{\"']))(?:(\.|source|exec|eval)|sh|bash|dash|zsh|ksh|fish|python[\d.]{0,5}|node|bun|deno|ruby|perl|"
    r"php|lua|Rscript)[ \t]",
    re.MULTILINE,
)
"""Words that the name of a file to run follows. After a word in the first group, any
word of the command may name such a file.
"""
_OPTIONS = re.compile(
    r"(?<=\s)(?:-f|--(?:from-)?file|--rcfile|--init-file|--env-file|--config|--require|-r)[= \t]{1,4}(\S{1,1000})"
)
_INPUTS = re.compile(r"(?<!<)<[ \t]{0,4}([^\s<>&;|()]+)")
_VARIABLES = re.compile(
    r"\b(?:BASH_ENV|ENV|PYTHONSTARTUP|NODE_OPTIONS|RUBYOPT|PERL5OPT)=(\S+)"
)
_CONCATENATED = re.compile(r"\bcat[ \t]([^\n;&|<>()]{1,1000})[|)]")
_CALLS = re.compile(
    r"(?:\b(?:open|Path|join|joinpath|resolve|require\w{0,20}|load\w{0,20}|import\w{0,20}|include\w{0,20}|read\w{0,20}|"
    r"createReadStream|exec\w{0,20}|run\w{0,20}|eval\w{0,20}|do|dofile|slurp|with_name)(?:[ \t]{0,4}\()?|/|"
    r"\b(?:join|joinpath|resolve|get_data|open_text|open_binary|read_text|read_binary|resource_\w{1,20}|"
    r"spec_from_file_location)\([^\n()]{1,100},)[ \t]{0,4}[rRbBfFuU]{0,2}"
    r"[\"']([^\"'\n]{1,300})[\"'](?![ \t]{0,4},[ \t]{0,4}[\"'][wax])"
    r"(?!\)\.(?:write|touch|mkdir|unlink|exists|is_file|is_dir))"
)
"""Calls that take the name of a file, and names that are joined to a folder."""
_PERL = re.compile(
    r"^[ \t]{0,40}(?:use|require)[ \t]{1,4}([A-Za-z_][\w:]{0,200})", re.MULTILINE
)
_FOLDERS = re.compile(
    r"\b(?:NODE_PATH|PYTHONPATH|RUBYLIB|PERL5LIB)=[\"']?([^\s\"';&|]+)"
)
_WRITTEN = re.compile(
    r">{1,2}[|&]?[ \t]{0,4}([^\s<>&;|()]{1,1000})|\btee[ \t]{1,4}(?:-a[ \t]{1,4})?(\S{1,1000})|"
    r"(?<=\s)(?:-o|--output[\w-]{0,20})[= \t]{1,4}(\S{1,1000})"
)
_WRITING = (
    re.compile(
        r"\b(?:writeFile\w{0,10}|appendFile\w{0,10}|createWriteStream|File\.write|"
        r"FileHandler|connect)\([ \t]{0,4}[\"']([^\"'\n]{1,300})[\"']"
    ),
    re.compile(
        r"[\"']([^\"'\n]{1,300})[\"'](?:[ \t]{0,4},[ \t]{0,4}[\"'][wax]|"
        r"\){1,2}\.(?:write|open\([\"'][wax]))"
    ),
)
"""Calls that write the file that they name."""
_ASSIGNED = re.compile(
    r"^[ \t]{0,40}(?:(?:export|local|readonly|const|let|var)[ \t]{1,4})?"
    r"([A-Za-z_]\w{0,60})[ \t]{0,4}=[ \t]{0,4}([^=\s][^\n]{0,500})",
    re.MULTILINE,
)
_STRING = re.compile(r"[^\"'\s]{1,300}")
_VARIABLE = r"([A-Za-z_]\w{0,60})"
_READ_VARIABLES = re.compile(
    rf"\b(?:open|Path|require|load\w{{0,20}}|read\w{{0,20}})\([ \t]{{0,4}}{_VARIABLE}|"
    rf"\b{_VARIABLE}(?=\.(?:read|open\())|\$\{{?{_VARIABLE}"
)
_WRITTEN_VARIABLES = re.compile(
    r"\b(?:writeFile\w{0,10}|appendFile\w{0,10}|createWriteStream|File\.write|"
    rf"FileHandler|connect)\([ \t]{{0,4}}{_VARIABLE}|"
    rf"\b{_VARIABLE}(?=\.write|\.open\([\"'][wax]|[ \t]{{0,4}},[ \t]{{0,4}}[\"'][wax])|"
    rf">{{1,2}}[|&]?[ \t]{{0,4}}\"?\$\{{?{_VARIABLE}"
)
_COMMAND = re.compile(r"([^;|&()`\n]*)([;|&()`\n]|\Z)")
_ARGUMENT = re.compile(r"[^\s\"'<>]+")
_READS_NOTHING = frozenset(
    (
        "echo", "printf", "case", "for", "select", "exit", "return", "git", "ls", "rm", "mkdir", "rmdir", "touch",
        "chmod", "cp", "mv", "ln", "install", "tee", "truncate",
    )
)  # fmt: skip
"""Programs and shell keywords whose arguments either have no influence on what a script
does, or name files that the script writes.
"""
_TESTS = frozenset(("[", "[[", "test"))
_PREFIXES = frozenset(
    ("!", "{", "if", "then", "elif", "else", "while", "until", "do", "time")
)
_TO_A_FILE = re.compile(r"(?<![\d&])>{1,2}\|?[ \t]{0,4}[^\s>]")
"""Matches a redirection of standard output to a file, but not to another stream."""
_LONGEST = 2000
"""Maximum number of characters of a command after the word that runs a file."""


def names_read(text: str) -> Iterator[str]:
    """Yield pieces of a text with the names of the files that it runs or reads. A piece
    may contain other words too.
    """
    for found in _RUNNERS.finditer(text):
        yield _command(text, found.end(), whole=found[1] is not None)
    for pattern in (_OPTIONS, _INPUTS, _VARIABLES, _CONCATENATED, _CALLS):
        yield from (found[1] for found in pattern.finditer(text))
    yield from _values(text, _READ_VARIABLES)


def words_of_commands(text: str) -> Iterator[str]:
    """Yield the words of a shell script that may name files that its commands read.
    This includes values that directly follow a short option, as in `-fwords.txt`.
    """
    depth = 0
    for found in _COMMAND.finditer(text):
        command, operator = found.groups()
        is_pattern = operator == ")" and depth == 0  # of `case`
        depth += (operator == "(") - (operator == ")" and depth > 0)
        if not is_pattern:
            for word in _arguments(command):
                yield word
                yield from _ends(word)


def perl_modules(text: str) -> Iterator[str]:
    """Yield the files of the Perl modules that a text loads, relative to a folder of
    modules.
    """
    yield from (f"{found[1].replace('::', '/')}.pm" for found in _PERL.finditer(text))


def folders_of_modules(text: str) -> Iterator[str]:
    """Yield the folders that a text sets as module folders for other programs."""
    for found in _FOLDERS.finditer(text):
        yield from found[1].split(":")


def names_written(text: str) -> Iterator[str]:
    """Yield the names of files that a text writes, possibly in quotation marks."""
    for found in _WRITTEN.finditer(text):
        yield (found[1] or found[2] or found[3]).strip("\"'")
    for pattern in _WRITING:
        yield from (found[1] for found in pattern.finditer(text))
    yield from _values(text, _WRITTEN_VARIABLES)


def _arguments(command: str) -> Iterator[str]:
    """Yield the arguments of a command that may name files that it reads, and the
    variable assignments before the command.
    """
    words = _ARGUMENT.findall(command)
    rest = iter(words)
    program = ""
    for word in rest:
        if "=" in word and not word.startswith("-"):
            yield word
        elif word not in _PREFIXES:
            program = word
            break
    is_copied = program == "cat" and _TO_A_FILE.search(command)
    is_changed = program == "sed" and any(word.startswith("-i") for word in words)
    if program in _READS_NOTHING or is_copied or is_changed:
        return
    before = ""
    for word in rest:
        # A test reads only the operand of an option, as in `[ -s words.txt ]`.
        if program not in _TESTS or before.startswith("-"):
            yield word
        before = word


def _ends(option: str) -> Iterator[str]:
    """Yield the possible values in a word such as `-fwords.txt`, in which a value
    follows short options without a space.
    """
    if option.startswith("-") and not option.startswith("--"):
        for start in range(2, min(len(option), 10)):
            yield option[start:]
            if not option[start].isalpha():
                break


def _values(text: str, uses: re.Pattern[str]) -> Iterator[str]:
    """Yield the words and strings that a text assigns to the variables that it uses in
    this way.
    """
    used: set[str] = set()
    for found in uses.finditer(text):
        used.update(name for name in found.groups() if name)
    for found in _ASSIGNED.finditer(text):
        if found[1] in used:
            yield from _STRING.findall(found[2])


def _command(text: str, start: int, *, whole: bool) -> str:
    """Return the rest of a shell command. It ends at an operator outside of parentheses,
    or at the end of the line.

    :param whole: whether to return all of it; otherwise only its options and the first
        word after them.
    """
    depth = 0
    word = start
    quote = ""
    end = start
    while end < min(len(text), start + _LONGEST):
        char = text[end]
        if char == "\n" or (char in ";&|" and depth == 0):
            break
        if char in " \t" and depth == 0 and not quote:
            if not whole and end > word and text[word] != "-":
                break
            word = end + 1
        elif char in "\"'" and depth == 0:
            quote = "" if char == quote else quote or char
        depth += (char == "(") - (char == ")" and depth > 0)
        end += 1
    return text[start:end]
