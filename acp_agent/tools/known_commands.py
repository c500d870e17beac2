"""The commands of which it is known with what arguments they hand on neither code nor other programs.

Owns their table, and how much of a command line stands for all of its kind. What is not in the table is not known, and
nothing stands for it but the very line. Pure; knows nothing of who allows what.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from acp_agent.frozen import frozen
from acp_agent.tools.command_lines import may_grow_options, words_of
from acp_agent.tools.handed_on import could_hand_on, ends_options, handed_on, without_git_options

# With any arguments but those that `handed_on` finds. They do their own work, and overwrite nothing.
_WITH_ANY: Final = {
    "": "basename, cat, cmp, comm, cut, df, diff, dirname, du, echo, egrep, false, fd, fdfind, fgrep, find, grep, "
    "head, id, jq, ls, md5sum, mkdir, nl, od, paste, ps, pwd, readlink, realpath, rev, rg, seq, sha1sum, sha256sum, "
    "shasum, sleep, sort, stat, tac, tail, touch, tr, tree, true, type, uname, wc, which, whoami",
    "git": "add, blame, cat-file, check-ignore, commit, count-objects, describe, diff, diff-tree, for-each-ref, grep, "
    "log, ls-files, ls-tree, merge-base, name-rev, rev-list, rev-parse, shortlog, show, show-ref, stash list, status",
}
# With these options alone: each has others that run something, write somewhere, or come from a plugin. Behind `|` are
# the letters whose value may be attached, as in `-j4`.
_WITH_THESE: Final = {
    "black": "-S -q -v --check --color --diff --line-length --quiet --target-version --verbose | lt",
    "cargo: b, bench, build, c, check, clippy, d, doc, fmt, metadata, t, test, tree": "-q -r -v --all --all-features "
    "--all-targets --benches --bin --bins --check --color --doc --exact --example --examples --exclude --features "
    "--format-version --frozen --ignored --include-ignored --jobs --keep-going --lib --locked --message-format "
    "--no-default-features --no-deps --no-fail-fast --no-run --nocapture --offline --package --profile --quiet "
    "--release --show-output --skip --test --test-threads --tests --verbose --workspace | ADFWjp",
    "ctest": "-N -Q -V -VV --output-on-failure --parallel --rerun-failed --test-dir --verbose | ELRj",
    "docker: images, inspect, logs, ps, compose logs, compose ps": "-a -f -q -t --all --filter --follow --format "
    "--no-log-prefix --no-trunc --quiet --services --since --tail --timestamps --until | n",
    "eslint": "--cache --ext --fix --max-warnings --no-warn-ignored --quiet",
    "file": "-L -b -h -i -k --brief --mime --mime-encoding --mime-type",
    "gh: issue list, issue view, pr checks, pr diff, pr list, pr status, pr view, run list, run view": "--author "
    "--branch --comments --jq --json --label --limit --log --log-failed --name-only --patch --repo --search --state "
    "--workflow | LRqs",
    "go: build, doc, list, test, version, vet": "-bench -benchmem -benchtime -count -cover -deps -f -failfast -json "
    "-list -m -n -parallel -race -run -short -shuffle -skip -tags -timeout -u -v -versions -x",
    "jest": "-b -i --bail --ci --coverage --no-coverage --onlyChanged --passWithNoTests --runInBand --silent "
    "--testNamePattern --testPathPattern --testPathPatterns --verbose --watchAll | t",
    "kubectl: describe, get, logs, top": "-A -f -p -w --all-containers --all-namespaces --container --field-selector "
    "--follow --namespace --no-headers --output --previous --selector --show-labels --since --sort-by --tail "
    "--timestamps --watch | clno",
    "mypy": "-m -p -v --check-untyped-defs --ignore-missing-imports --no-color-output --no-error-summary --package "
    "--pretty --show-column-numbers --show-error-codes --strict --verbose --warn-unused-ignores",
    "npm: ls, outdated": "-a -g -l --all --depth --global --json --long --parseable",
    "pip: freeze, list, show": "-o -q -u -v --files --format --local --outdated --quiet --uptodate --user --verbose",
    "prettier": "-c -l -u -w --check --ignore-unknown --list-different --log-level --no-color --write",
    "pyright": "-p --level --outputjson --project --stats --verbose --warnings",
    "pytest": "-l -q -s -v -x --capture --co --collect-only --color --cov --deselect --disable-warnings --durations "
    "--durations-min --exitfirst --failed-first --ff --ignore --last-failed --lf --maxfail --new-first --nf --no-cov "
    "--no-header --no-summary --quiet --showlocals --stepwise --strict-markers --sw --tb --verbose | kmnr",
    "ruff: check, format": "-q -v --check --diff --exit-zero --fix --ignore --line-length --no-cache --output-format "
    "--preview --quiet --select --show-fixes --statistics --unsafe-fixes --verbose",
    "tsc": "-p -w --incremental --noEmit --pretty --project --skipLibCheck --strict --watch",
    "vitest: run": "--bail --coverage --passWithNoTests --project --silent --testNamePattern | t",
}
# What only finds one of these, and hands it all that follows.
_FINDING: Final = {
    "npx": "eslint jest prettier tsc vitest",
    "poetry run": "mypy pytest",
    "python -m": "mypy pip pytest",
    "python3 -m": "mypy pip pytest",
    "uv run": "mypy pytest",
}
_LONGEST: Final = 4
"""Words of the longest of these commands, such as `python3 -m pip list`."""


@frozen
class _Options:
    letters: str
    valued: str
    words: frozenset[str]

    def hold(self, word: str) -> bool:
        """Whether an argument is one of these options, or none at all."""
        if not word.startswith("-"):
            return not word.startswith("@")  # a file of further options
        if word in ("-", "--") or word.partition("=")[0] in self.words:
            return True
        for letter in word[1:]:
            if letter not in self.letters:
                return letter in self.valued
        return True


def kind_of(command: str) -> str | None:
    """What a command line begins with, such as `git log` or `ls`, where that may stand for every line of its kind.

    None of these lines hands its program code or another program to run: not this one either. None where that is not
    known of it.
    """
    words = words_of(command)
    if words is None:
        return None
    named = ["git", *without_git_options(words)] if words[0] == "git" else words
    beginnings = (tuple(named[:end]) for end in range(min(_LONGEST, len(named)), 0, -1))
    kind = next((beginning for beginning in beginnings if beginning in _table()), None)
    if kind is None:
        return None
    options = _table()[kind]
    if options is None:
        grows = could_hand_on(words) and may_grow_options(command, anywhere=not ends_options(words))
        is_known = not grows and not handed_on(words)
    else:
        is_known = not may_grow_options(command) and all(map(options.hold, named[len(kind) :]))
    return " ".join(kind) if is_known else None


@cache
def _table() -> dict[tuple[str, ...], _Options | None]:
    """By the words that a command begins with, its options; None where all may stand there that `handed_on` passes."""
    table: dict[tuple[str, ...], _Options | None] = {
        name: None for program, names in _WITH_ANY.items() for name in _named(f"{program}: {names}")
    }
    listed = {name: _read(row) for names, row in _WITH_THESE.items() for name in _named(names)}
    for finder, found in _FINDING.items():
        table |= {(*finder.split(), *name): listed[name] for name in listed if name[0] in found.split()}
    return table | listed


def _named(names: str) -> list[tuple[str, ...]]:
    """The words of `git log` and `git stash list` for `git: log, stash list`; of a program alone for itself."""
    program, _, subcommands = names.partition(": ")
    return [(*program.split(), *one.split()) for one in subcommands.split(", ")] if subcommands else [(program,)]


def _read(row: str) -> _Options:
    words, _, valued = row.partition(" | ")
    letters = "".join(word[1] for word in words.split() if len(word) == 2)
    return _Options(letters, valued, frozenset(word for word in words.split() if len(word) > 2))
