"""By which of its options a program runs another one, or writes a file, and whether a command line has any of them.

Owns the one table of these options, and how programs let them be written: abbreviated, attached to their values,
combined with other letters. Errs on the side of finding one. Pure; knows nothing of what is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import Final

from acp_agent.frozen import frozen

# By program, or by `git` and its subcommand. `--long` stands for each of its abbreviations as well, `-x` for the letter
# in any group such as `-Hx`, `-word` and a word for themselves, `*` for every command line, `:` for whatever
# is named first. Behind `|` are the letters whose value ends a group: in `-exml` of fd no letter but `e` is an option.
_PROFILES: Final = ("blockprofile", "coverprofile", "cpuprofile", "memprofile", "mutexprofile", "outputdir", "trace")
_LOOKING: Final = {
    "ack ag": "--pager",
    "cargo": "--config run r rustc rustdoc watch",
    "curl": "-c -D -J -K -o -O -w --alt-svc --config --cookie-jar --dump-header --engine --etag-save --hsts --libcurl "
    "--output --output-dir --remote-header-name --remote-name --remote-name-all --stderr --trace --trace-ascii "
    "--write-out | AbCdeEFHmPQrtTuUxXyYz",
    "fd fdfind": "-x -X --exec --exec-batch | cdejCES",
    "find gfind": "-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir",
    # No letters of it are a group: each but `-o` begins the name of an option.
    "go": "run env generate tool -o --o -exec --exec -toolexec --toolexec -vettool --vettool -ldflags --ldflags "
    "-gcflags --gcflags -asmflags --asmflags -gccgoflags --gccgoflags -overlay --overlay -modfile --modfile "
    f"{' '.join(f'-{name} --{name} -test.{name} --test.{name}' for name in _PROFILES)} | abcdefghijklmnpqrstuvwxyz",
    "iconv": "-o --output | ft",
    "man": "-C -H -P --config-file --html --pager | eELmMprRsS",
    "npm": "exec exe x config confi conf con c set init ini innit create creat crea cre cr explore explor explo edit "
    "--editor --git --globalconfig --node-options --script-shell --shell --userconfig --viewer",
    "pip": "config --local-log --log --log-file --python --report",
    "pnpm yarn": ": config c set init create --script-shell",
    "rg": "--pre --hostname-bin",
    "rsync": "-M -e --config --daemon --dparam --log-file --only-write-batch --remote-option --rsh --rsync-path "
    "--write-batch | BTf",
    "scp sftp": "-b -D -F -o -S | ciJlPX",
    "sdiff gsdiff": "-o --diff-program --output | IWw",
    "shuf gshuf": "-o --output | in",
    "split gsplit": "--filter",
    "sort gsort": "-o --output --compress-program | kStTy",
    "tar gtar": "-F -I -g --checkpoint-action --index-file --info-script --listed-incremental --new-volume-script "
    "--remove-files --rmt-command --rsh-command --to-command --use-compress-program --volno-file",
    "tree": "-o -R",
    "wget": "-a -e -o -O -P --append-output --config --directory-prefix --execute --hsts-file --output-document "
    "--output-file --rejected-log --save-cookies --use-askpass --warc-file | ABDGIilQRtTUwX",
    "yq": "-i -s --in-place --inplace --split-exp --split-exp-file | Iop",
}
_DIFFERENCES: Final = "--output --ext-diff --textconv"
_GIT: Final = {
    "add branch checkout ls-files merge merge-base mv remote reset rev-parse rm status switch tag": "",
    "annotate blame diff diff-files diff-index diff-tree log range-diff reflog rev-list shortlog show stash "
    "whatchanged": _DIFFERENCES,
    "archive": "-o --output --exec",
    "bisect": "* run",
    "bugreport diagnose": "-o --output-directory | s",
    "cat-file": "--textconv --filters",
    "checkout-index": "--prefix",
    "clone": "-c -u --config --template --upload-pack | bjo",
    "commit": "| cmtuCFS",
    "config daemon filter-branch for-each-repo hook instaweb merge-index mergetool remote-ext send-email": "*",
    "difftool": f"* -x --extcmd {_DIFFERENCES}",
    "fast-export": f"--export-marks {_DIFFERENCES}",
    "fetch pull": "--upload-pack",
    "fetch-pack ls-remote": "--exec --upload-pack",
    "format-patch": f"-o --output-directory {_DIFFERENCES}",
    "grep": "-O --open-files-in-pager --textconv | efmABC",
    "init": "--template",
    "push send-pack": "--exec --receive-pack",
    "rebase": "-x --exec",
    "restore": "| sU",
    "submodule": "* foreach",
}
_ANY_GIT: Final = f"--exec --extcmd --open-files-in-pager --receive-pack --upload-pack {_DIFFERENCES}"
"""What is looked for with any other subcommand."""
_HARMLESS_GIT: Final = {
    *("--help", "--html-path", "--icase-pathspecs", "--info-path", "--literal-pathspecs", "--man-path", "--no-advice"),
    *("--no-lazy-fetch", "--no-optional-locks", "--no-pager", "--no-replace-objects", "--paginate", "--version"),
    *("-P", "-h", "-p", "-v"),
}
"""All that may stand before the subcommand: the others are settings, and directories with settings of their own."""
_VALUED_GIT: Final = {
    *("--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree", "-C", "-c"),
}
_HARMLESS_PACKAGING: Final = {"--help", "--recursive", "--silent", "--version", "-h", "-r", "-s", "-v"}
"""The same of pnpm and yarn."""
_OTHERS: Final = frozenset(("--", "--checkpoint", "--filter", "--global", "--local", "--text"))
"""They look like an abbreviation, and are not, but where they are listed themselves."""
_SIGNS: Final = "#:"
"""Options of curl that a group may have beside letters."""


@frozen
class _Options:
    """The options of one program.

    :ivar whole: each command line counts.
    :ivar names_programs: its first argument may be the name of any program, and is one of them.
    """

    letters: str = ""
    valued: str = ""
    longs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    whole: bool = False
    names_programs: bool = False


@frozen
class Handed:
    """One of the options, as it stands in a command line.

    :ivar option: which one it is, however it was written.
    :ivar word: the word that holds it.
    """

    option: str
    word: str


def handed_on(words: Sequence[str]) -> tuple[Handed, ...]:
    """The options of a command by which it runs something else or writes a file, in their order.

    :param words: the program and its arguments, at least one.
    """
    return tuple(_found(words))


def could_hand_on(words: Sequence[str]) -> bool:
    """Whether one more argument could be such an option.

    :param words: see `handed_on`.
    """
    return replace(_options_of(words), valued="") != _Options()


def ends_options(words: Sequence[str]) -> bool:
    """Whether no option of a command stands behind `--`.

    :param words: see `handed_on`.
    """
    return _name(words[0]) not in ("find", "gfind")


def without_git_options(words: Sequence[str]) -> Sequence[str]:
    """The arguments of git from its subcommand on.

    :param words: see `handed_on`.
    """
    return _split_git(words[1:])[1]


def _options_of(words: Sequence[str]) -> _Options:
    name = _name(words[0])
    return _of_git(_split_git(words[1:])[1][:1]) if name == "git" else _programs().get(name, _Options())


def _found(words: Sequence[str]) -> Iterator[Handed]:
    name, arguments = _name(words[0]), words[1:]
    if name == "git":
        before, arguments = _split_git(arguments)
        yield from (Handed(word.partition("=")[0], word) for word in before if word not in _HARMLESS_GIT)
        name, options, arguments = "".join(arguments[:1]).rstrip("*"), _of_git(arguments[:1]), arguments[1:]
    else:
        options = _programs().get(name, _Options())
    if options.names_programs:
        before = [*takewhile(lambda word: word.startswith("-"), arguments)]
        yield from (Handed(word.partition("=")[0], word) for word in before if word not in _HARMLESS_PACKAGING)
        # A pattern may end in the middle of a word here, too.
        yield from (Handed(word.rstrip("*") or word, word) for word in arguments[len(before) : len(before) + 1])
    if options.whole:
        yield Handed(name, name)
    if name in ("tar", "gtar") and arguments and not arguments[0].startswith("-"):
        # Its first argument is a group of letters, with or without a dash.
        yield from (Handed(f"-{letter}", arguments[0]) for letter in arguments[0] if letter in options.letters)
    for word in arguments:
        yield from (Handed(option, word) for option in _options_in(word, options))


def _options_in(word: str, options: _Options) -> Iterator[str]:
    """Which of a program's options a word stands for."""
    if word.partition("=")[0] in options.words:
        yield word.partition("=")[0]
    if word.startswith("--"):
        named = word.partition("=")[0].replace("_", "-")
        if named not in _OTHERS or named in options.longs:
            yield from (long for long in options.longs if long.startswith(named))
    elif word.startswith("-"):
        for letter in word[1:]:
            if letter in options.letters:
                yield f"-{letter}"
                return
            if letter in options.valued or not (letter.isalnum() or letter in _SIGNS):
                return  # what stands behind is a value, or all of it is one, as in `-m "- no more"`


def _split_git(arguments: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """The options before git's subcommand, without their values, and all from the subcommand on."""
    before: list[str] = []
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        before.append(arguments[at])
        at += 2 if arguments[at] in _VALUED_GIT else 1
    return before, arguments[at:]


def _of_git(subcommand: Sequence[str]) -> _Options:
    # A pattern may end in the middle of a word, as `git log*` does.
    return _subcommands().get("".join(subcommand).rstrip("*"), _read(_ANY_GIT))


def _name(program: str) -> str:
    return program.rpartition("/")[2].lower().rstrip("0123456789.")


@cache
def _programs() -> dict[str, _Options]:
    return {name: _read(row) for names, row in _LOOKING.items() for name in names.split()}


@cache
def _subcommands() -> dict[str, _Options]:
    return {name: _read(row) for names, row in _GIT.items() for name in names.split()}


@cache
def _read(row: str) -> _Options:
    listed, _, valued = row.partition("|")
    words = listed.split()
    letters = [word[1] for word in words if len(word) == 2 and word.startswith("-")]
    return _Options(
        letters="".join(letters),
        valued=valued.strip(),
        longs=tuple(word for word in words if word.startswith("--")),
        words=tuple(word for word in words if word not in "*:" and word[:2] != "--" and word[1:] not in letters),
        whole="*" in words,
        names_programs=":" in words,
    )
