"""Which options of a program run another one or write a file, however they are written."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.tools import handed_on as table
from acp_agent.tools.handed_on import handed_on
from acp_agent.tools.shell import subject_of

RUNNING = """
    git push --e=CMD ../rem main|git push --ex=x|git push --receive-pack x|git rebase -x CMD HEAD~1|git rebase -qx CMD
    git rebase --ex CMD HEAD~1|git rebase --exec=CMD|git clone -u CMD x y|git clone -qu CMD x|git clone -c a.b=c x
    git clone -qc a.b=c x|git clone --conf a.b=c x|git clone --templ=x y|git -c alias.x=!CMD x|git -calias.x=!CMD x
    git --config-env=alias.x=X x|git --config-env alias.x=X x|git --exec-path=/x log|git --git-dir=x log|git -C /x log
    git --no-pager -c core.pager=x log|git -p --work-tree x -c a.b=c log|git archive -o x HEAD|git archive -vox HEAD
    git archive --output x HEAD|git archive --exec=CMD --remote=x HEAD|git archive --e CMD|git difftool -x CMD
    git difftool -yx CMD|git difftool --extcmd=CMD|git difftool|git log -p --ext|git log --output=x|git diff --ou x
    git show --textc|git stash show -p --output=x|git blame --output=x a|git shortlog --outp=x|git rev-list --output=x
    git cherry-pick --output=x HEAD|git grep -O x|git grep -nOless x|git grep --open x|git grep --op=CMD x
    git fetch --upload-pack=CMD|git fetch --upl CMD|git ls-remote --exec=CMD x|git pull --upload-pack CMD
    git format-patch -o /tmp HEAD~1|git format-patch -1o/tmp|git bisect run CMD|git submodule foreach CMD
    git config alias.x !CMD|git mergetool|git filter-branch --tree-filter CMD|git merge-index CMD -a
    git init --templ x|git send-email --smtp-server=CMD|git cat-file --textconv HEAD:a|git cat-file --filters HEAD:a
    git hook run x|fd -x CMD|fd -X CMD|fd -Hx CMD|fd -HIX CMD|fd -tfX CMD|fd -xCMD|fd . --exec CMD|fd --exec-batch=CMD
    fdfind . -x CMD|/usr/bin/fdfind -HX CMD|rg --pre=CMD x|rg --pre CMD x|rg --hostname-bin=CMD x
    rg --hostname-bin CMD x|sort -o x a|sort -uo x a|sort -ox a|sort --output=x a|sort --outp x a
    sort --compress-program=CMD a|sort --compress-p CMD a|sort -no x a|gsort -o x a|find . -delete|find . -exec CMD
    find . -execdir CMD|find . -okdir x|find . -fprintf x y|find . -fls x|tar xfI a CMD|tar -xIf CMD a
    tar --to-c=CMD -xf a|tar --use-compress=CMD -xf a|tar --checkpoint-a=exec=CMD -xf a|rsync -ave CMD x y
    rsync --rsh=CMD x y|tree -ao x|ag --pager=CMD x|npm exec x|npm --prefix a x y|pnpm dlx x|yarn dlx x
    go test -exec CMD|go vet --vettool=CMD|cargo --config a.b=c test|pip --python CMD install x
    curl -o x http://a|curl -sSLo x http://a|curl -#O http://a|curl --outp=x http://a|curl -K x|curl -w x http://a
    wget -qO x http://a|wget --use-ask=CMD http://a|wget -e use_askpass=CMD http://a|shuf -o x a|shuf --out=x a
    split --filter=CMD a|split --filt CMD a|iconv -f utf-8 -t ascii -o x a|sdiff -so x a b|sdiff --diff-program=CMD a b
    scp -S CMD a b:|scp -qo ProxyCommand=CMD a b:|scp -FX a b:|man -P CMD ls|man --pag=CMD ls|man -aH ls|yq -i .a x
    yq --inplace .a x|npm config set script-shell CMD|npm conf set a b|npm c set a b|npm set a=b|npm init x
    npm create x|npm explore x -- CMD|npm --userconfig=x test|pnpm config set a b|pnpm create x|yarn config set a b
    yarn init x|yarn create x|pip config set a.b c|pip3 --log x list|go run x.go|go env -w CC=CMD|go generate
    go tool x|go build -o x|go build --o=x|go build -ldflags=-extld=CMD|go test --coverprofile=x ./...
    pnpm sh -c x|pnpm node -e x|pnpm -r tsx -e x|pnpm --filter x sh -c y|yarn node -e 1|yarn tsx -e 1|yarn run node -e 1
    yarn --cwd x node -e 1|pnpm exec x|tar -tf a --index-file=/x|tar -tf a --volno-file x|tar -tf b:a --rmt-command=x
    tar -tf a -g x|rsync --log-file=x a b|rsync -av --write-batch=x a b|rsync -aM--log-file=x a b:
    rsync --only-write-batch x a b|rsync --remote-opt x a b
    go test -test.cpuprofile x|cargo run|cargo +nightly run x|git bugreport -o x|git bugreport --outp=x
    git fast-export --export-m=x HEAD|git diagnose -so -o x
"""
HARMLESS = """
    git status|git status -s|git status -sb|git status -uno|git status --short --branch|git status --porcelain=v2
    git status --untracked-files=no|git diff|git diff -U3|git diff --stat|git diff --stat HEAD~1|git diff HEAD^ -- a
    git diff -w|git diff --cached|git diff --staged --name-only|git diff --text|git diff -a|git diff --no-ext-diff
    git diff --no-color|git diff --word-diff=color|git diff -M -C --find-renames|git diff main...HEAD -- src
    git diff --no-textconv|git diff --diff-filter=ACMR|git diff -Oorder|git diff --exit-code|git log|git log -u
    git log -p|git log --oneline -20|git log -n 5|git log -5 --format='%h %s'|git log --pretty=format:%h
    git log -S'foo bar'|git log -Sout|git log -Gexec|git log --grep='a.b' --extended-regexp
    git log --graph --all --decorate|git log --since=2.weeks --author=Ann|git log --follow -- a.py|git log -L 1,5:a.py
    git log -x|git log --exclude=x|git show HEAD:a|git show --stat|git show -s --format=%B|git show HEAD^ -- '*.py'
    git blame -L 1,20 a.py|git blame -w -C a.py|git branch|git branch -a|git branch -vv|git branch --show-current
    git branch --contains HEAD|git rev-parse HEAD|git rev-parse --show-toplevel|git rev-parse --abbrev-ref HEAD
    git ls-files|git ls-files -o|git ls-files --others --exclude-standard|git grep -n out|git grep -e -x
    git grep -In -Couter|git grep -eOut|git grep -A3 out|git grep --untracked x|git remote -v|git tag -l
    git describe --tags|git merge-base main HEAD|git stash list|git shortlog -sn|git reflog -5
    git rev-list --count HEAD|git cat-file -p HEAD|git fetch --prune --tags|git fetch -u|git fetch --update-head-ok
    git pull --rebase|git push|git push origin main|git push -u origin HEAD|git push --force-with-lease
    git push --repo=x|git push -o ci.skip|git clone --depth 1 x|git clone -bdocs x|git commit -m"no n"
    git commit -uno -m x|git commit -m 'Count every piece, x and o'|git commit -am x|git commit -ox
    git commit --template=x|git commit -cHEAD|git rebase main|git rebase -i HEAD~3|git rebase --onto a b
    git archive HEAD|git --no-pager log|git --no-pager diff -U0|git -P log -3|git --version
    git --no-optional-locks status|rg foo|rg -n TODO -g '*.py'|rg -l x src|rg --pretty x|rg -tpy x|rg --hidden x
    rg -oN x|rg --pcre2 x|rg -e '--x'|fd|fd -e py|fd -exml|fd -etxt|fd --extension py|fd --exclude x|fd -t x|fd -td
    fd -H -I foo|fd -Eexample|fdfind -a x|find . -name 'x*'|find . -type f -not -path './node/*'
    find . -maxdepth 2 -executable|find -newer x|find . -empty|sort -u a|sort -k2,2 -n a|sort -to a|sort -t: -k3 a
    sort -rh a|sort -To a|sort --reverse a|ls|ls -la src|ls -xo|tar tzf a|tar -tzf Foo.tar.gz|tar xzf a -C Out
    tree -L 2|tree -a|pytest -x -q|pytest -k 'x and not y' tests|pytest -o cache_dir=x|cargo test foo::bar
    cargo build --release|npm test|npm run build|npm install express|npm test -- -x|go test ./...|go vet ./...
    go test -run exec|pip list|rsync -av x y|wc -l a|cat a|head -n 5 a|grep -rnoE x .|make -C sub test
    curl -fsSL http://a|curl -XPOST -H 'a: o' -d 'o=1' http://a|curl -I http://a|curl -uroot:o http://a|wget -q http://a
    wget -nv -c http://a|wget -t 2 http://a|shuf -n 5 a|shuf -in a|split -l 5 a|split --bytes 5 a|iconv -f a -t o b
    sdiff -s a b|scp -r a b:|scp -Cq -P 22 a b:|man ls|man 3 printf|man -k o|yq .a x|yq -o json .a x|yq -oi .a x
    npm ci|npm install --global express|npm --silent run lint|npm view express version|pnpm install|pnpm run build
    yarn add x|yarn test|pip list --local|pip install -r requirements.txt|go build ./...
    go test -short -cover -count=1 ./...|go vet .
    go list -f '{{.Dir}}' ./...|go mod tidy|go doc fmt.Printf|cargo clippy|git fast-export HEAD
    git bugreport -so
    python3 -c 'print(1)'|uv run pytest|sed -n 5p a|jq . a|diff -u a b
"""


def _lines(text: str) -> list[str]:
    return [line.strip() for part in text.strip().splitlines() for line in part.split("|")]


@pytest.mark.parametrize("line", _lines(RUNNING))
def test_an_option_that_runs_or_writes_something_is_found(line: str) -> None:
    assert handed_on(shlex.split(line)) != ()
    assert subject_of(line) == f"shell: {line}"


@pytest.mark.parametrize("line", _lines(HARMLESS))
def test_everyday_options_are_none_of_them(line: str) -> None:
    assert handed_on(shlex.split(line)) == () or line.startswith(("pnpm ", "yarn "))


COMMANDS = sorted(
    [(name,) for names in table._LOOKING for name in names.split()]
    + [("git", name) for names in table._GIT for name in (*names.split(), "unheard-of")]
)
ROWS: dict[tuple[str, ...], str] = {(name,): row for names, row in table._LOOKING.items() for name in names.split()} | {
    ("git", name): row for names, row in table._GIT.items() for name in names.split()
}
PLAIN = st.lists(st.sampled_from(["-v", "a", "--", "b.py", "HEAD~1", "--quiet", "-n", "5"]), max_size=3)


@st.composite
def spelled(draw: st.DrawFn, commands: list[tuple[str, ...]]) -> tuple[tuple[str, ...], list[str]]:
    """A program, and arguments that hold one of its options in one of the ways to write it."""
    command = draw(st.sampled_from(commands))
    listed, _, valued = ROWS.get(command, table._ANY_GIT).partition("|")
    options = [option for option in listed.split() if option not in "*:"]
    if not options:
        return command, []
    option, value = draw(st.sampled_from(options)), draw(st.sampled_from(["CMD", "!x", "--", "-v"]))
    if option.startswith("--"):
        abbreviated = [option[:end] for end in range(3, len(option) + 1)]
        spelling = draw(st.sampled_from([word for word in abbreviated if word not in table._OTHERS]))
        words = draw(st.sampled_from([[spelling, value], [f"{spelling}={value}"]]))
    elif len(option) == 2 and option.startswith("-"):
        flags = draw(st.text("".join(sorted(set("abhlnqsvzHINZ0") - set(valued) - set(option))), max_size=3))
        spelling = f"-{flags}{option[1]}"
        words = draw(st.sampled_from([[spelling, value], [spelling + value], [f"{spelling}q", value]]))
    elif option.startswith("-"):
        words = [option + draw(st.sampled_from(["", "=CMD"])), value]
    else:
        words = [option, value]
    return command, [*draw(PLAIN), *words, *draw(PLAIN)]


def test_each_program_has_one_row() -> None:
    names = [name for names in table._LOOKING for name in names.split()]
    assert len(names) == len(set(names))
    assert [table._name(name) for name in names] == names


@settings(deadline=None, max_examples=600)
@given(spelled(COMMANDS))
def test_each_spelling_of_a_listed_option_is_found(made: tuple[tuple[str, ...], list[str]]) -> None:
    command, arguments = made
    if arguments:
        words = [*command, *arguments]
        assert handed_on(words) != ()
        assert subject_of(shlex.join(words)) == f"shell: {shlex.join(words)}"


@pytest.mark.parametrize(
    "line",
    [
        "git push -q --e='touch made; git-receive-pack' ../origin HEAD:other",
        "git rebase -qx 'touch made' HEAD~1",
        "git rebase --ex 'touch made' HEAD~1",
        "git clone -qu 'touch made; git-upload-pack' ../origin copy",
        "git -c alias.x='!touch made' x",
        "git archive -omade HEAD",
        "git log --output=made",
        "git shortlog --output=made HEAD",
        "git difftool -yx 'touch made' HEAD~1",
        "git grep -O'touch made;' a",
        "sort -uomade a",
        "find . -fprint made",
    ],
)
def test_what_is_found_does_run_or_write_something(tmp_path: Path, line: str) -> None:
    here = tmp_path / "project"
    here.mkdir()
    made = subprocess.run(
        "git init -q -b main . && git config user.name n && git config user.email e@x && echo a > a && git add a"
        " && git commit -qm one && echo a >> a && git commit -qam two && git clone -q --bare . ../origin;" + line,
        check=False,
        shell=True,
        cwd=here,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (here / "made").exists(), made.stderr
    assert handed_on(shlex.split(line)) != ()
