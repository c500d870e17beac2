"""Of which commands "Always allow" covers more than the line: known ones, and none of them hands anything on."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.tools import handed_on, known_commands
from acp_agent.tools.known_commands import kind_of
from acp_agent.tools.shell import subject_of
from support.checkout import REPOSITORY

UNKNOWN = """
    docker run x sh -c y|docker exec c sh|docker compose run web sh|docker container exec -it c sh|podman run x
    docker-compose exec web sh|nerdctl run x|kubectl exec p -- sh|kubectl -n shop run p --image=x|kubectl debug p
    oc rsh p|apptainer exec x sh|poetry run x|poetry -C sub run x|pdm run x|hatch run x|hatch -e test run x
    pipenv run x|rye run x|pixi run x|conda run -n base x|mamba run x|bundle exec x|bundle e x
    nix-shell -p hello --run x|nix-shell --ru x|nix-shell -p x|nix run nixpkgs#x|nix develop -c x|xvfb-run x
    xvfb-run -a x|cross-env A=1 x|valgrind x|valgrind --leak-check=full x|hyperfine x|hyperfine -w 3 'rm x'|nodejs -e 1
    nodejs -pe 1|node --ev 1|luajit -e 1|lua5.4 -e 1|tsx -e 1|tsx --eval=1|ts-node -e 1|ts-node -pe 1|Rscript -e 1
    R -e 1|julia -e 1|julia -qE 1|ipython -c 1|ipython3 --c=1|py -c 1|python3.12 -Ic 1|python3 -m timeit 1
    python3 -mtimeit 1|swift -e 1|gdb -ex 'shell rm x' a|gdb --args x|lldb -o x|vim -c '!rm x' a|nvim +x a|ex -c x a
    ed a|emacs --eval x|less +!x a|sqlite3 a.db '.shell rm x'|sqlite3 a.db 'select 1'|duckdb a.db
    mysql -e 'system rm x'|mysql -uroot -e x|mysql --exec=x db|mariadb -e x|psql -c x|psql -d db -c x|psql --comm=x
    mongosh --eval x|cmake -E rm x|cmake -E env A=1 x|mvn exec:exec|./mvnw -q exec:java|rails runner x|rails r x
    nodemon x|concurrently x y|dotenv run x|direnv exec . x|torsocks x|ltrace x|perf stat x|caffeinate x|chronic x
    ansible all -a x|vagrant ssh -c x|gh alias set x '!rm x'|zip -TT x a.zip a|gcc -wrapper x a.c|elixir -e x
    mix run -e x|scala -e 1|clojure -Sdeps x|guile -c 1|perl -we 1|ruby -ne 1|php -r 1|php8.3 -r 1|bun -e 1|deno eval 1
    erl -noshell -eval x|pipx run x|rustup run nightly x|mise exec -- x|rbenv exec x|opam exec -- x|stack exec x
    composer exec x|just -c x|brew sh -c x|apt-get -o A::B=x update|op run -- x|sops exec-env a x
    bazel run --run_under=x :a|helm --post-renderer x|latexmk -e x a.tex|pdflatex -shell-escape a.tex|nc -e x a 1
    fzf --preview=x|tox exec -- x|socat a b|proxychains4 x|su-exec u x|/usr/bin/docker run x
    php --define auto_prepend_file=x y.php|php -v|php -d a=b x.php|yarn node -e 1|yarn --version|yarn test|pnpm sh -c x
    pnpm node -e x|kubectl create job x --image=busybox -- sh -c id|kubectl get pods --kubeconfig=x|kubectl get -k x
    kubectl config set-credentials x --exec-command=sh|deno run data:x|R CMD sh -c id|R -d x|npm docs --browser=x
    npm pkg set scripts.test=id|npm test -- -e x|npm test|npm ls --script-shell=x|make test|make --eval x
    gtimeout 5 rm x|gtime rm x|gsed '1e id' f|gmake --eval x|genv rm x|gxargs rm|gnohup rm x|ghci -e x|ocaml -e x
    swipl -g x|emacsclient -e x|hg --config alias.x=!id x|bsdtar --use-compress-program id -cf x y|ksh93 -c id
    rake -e x|irb -r x|java -XX:OnError=id -version|sshpass -p x ssh h id|tcpdump -z id -r f|docker logs --x
    docker --config x ps|docker -H x ps|docker compose -f x ps|git push x y|git fetch x|git pull|git clone x
    git checkout .|git reset --hard|git -C x status|git -c a.b=x status|git stash drop|git reflog expire
    git branch --edit-description|git submodule status|pytest -p x|pytest --pdbcls=x:y|pytest -o addopts=-p|pytest -c x
    pytest --basetemp=/x|pytest --junitxml=/x|pytest --tx popen//python=x -d|pytest -xp y|pytest @x|pytest --rootdir x
    python3 -m pytest -p x|uv run pytest -p x|uv run --with x pytest|poetry -C x run pytest|npx --yes tsc|npx -c x tsc
    npx x|eslint --config x|eslint -f x|eslint --plugin x|prettier --plugin=x a|prettier --config x a|jest --config x
    jest --testRunner=x|jest -c x|vitest --run|vitest run --reporter=x|mypy --python-executable=x|mypy --config-file x
    mypy @x|pyright --pythonpath x|ruff check --config x|ruff check -o x|ruff check --output-file=x|black -c x
    tsc --plugins x|tsc @x|cargo test --config x|cargo +x test|cargo clippy -- -C linker=x|cargo clippy -- -Clinker=x
    cargo test -Zx|cargo run|cargo install x|cargo x|go test -exec x|go test -args -x|go vet -vettool=x
    go list -toolexec x|go build -o x|go -C x test|go generate|ctest -S x|ctest --build-and-test x|file -C -m x
    file -z x|gh pr view --web|gh pr checks -w|gh api x|find . -exec x|find . -name *.py|rg --pre=x y|rg *|sort -o x y
    sort *|git log --output=x|git log *|pytest *|tree -o x|fd -x y|./git status|./ls|/usr/bin/ls|bin/pytest|LS
    python3 '-m pytest' -cx|python3 -m 'pip list' x|git 'stash list'|rm x|cp a b|mv a b|chmod +x a|tee x|curl x|wget x
    ssh h|terraform plan|gradle test|mvn test|xyz --foo bar|xyz|ls; x|ls $(x)|ls > x|ls && x|A=1 ls|sudo ls|time ls
"""
KNOWN = {
    "git log": "git log|git log --oneline -20|git --no-pager log -p|git -P log -S'foo bar'|git log -- '*.py'",
    "git status": "git status|  git   status -sb|git --no-optional-locks status",
    "git diff": "git diff --stat HEAD~1|git diff HEAD^ -- a|git diff -U3 src/*.py",
    "git add": "git add .|git add -A|git add *.py",
    "git commit": "git commit -m 'a; b > c'|git commit -am x|git commit --amend",
    "git grep": "git grep -In -Couter",
    "git stash list": "git stash list",
    "ls": "ls|ls -la src|ls *.py|ls -xo",
    "cat": "cat a 'b c'",
    "find": "find . -name '*.py' -not -path './x/*'|find . -maxdepth 2",
    "rg": "rg -n TODO -g '*.py'",
    "grep": "grep -rnoE x .",
    "sort": "sort -uk2,2 a",
    "jq": "jq . a",
    "pytest": "pytest|pytest -xq -k 'a and not b' tests/a.py::b|pytest -n4 --lf --tb=short",
    "python3 -m pytest": "python3 -m pytest -x",
    "uv run pytest": "uv run pytest -q",
    "cargo test": "cargo test|cargo test -p x foo::bar -- --nocapture",
    "cargo clippy": "cargo clippy --all-targets -- -D warnings|cargo clippy -- -Dwarnings",
    "cargo build": "cargo build --release -j4",
    "go test": "go test ./...|go test -run exec -count=1 -race .",
    "go vet": "go vet ./...",
    "npx tsc": "npx tsc --noEmit -p .",
    "npx vitest run": "npx vitest run -t x",
    "ruff check": "ruff check --fix .",
    "mypy": "mypy --strict a",
    "eslint": "eslint --fix a",
    "docker ps": "docker ps -a",
    "docker compose logs": "docker compose logs -f web",
    "kubectl get": "kubectl get pods -n shop -o wide|kubectl get pods -A",
    "gh pr view": "gh pr view 3 --json title",
    "python3 -m pip list": "python3 -m pip list --outdated",
}


def _lines(text: str) -> list[str]:
    return [line.strip() for part in text.strip().splitlines() for line in part.split("|")]


BENIGN = [(kind, line) for kind, lines in KNOWN.items() for line in _lines(lines)]


@pytest.mark.parametrize("line", _lines(UNKNOWN))
def test_a_line_of_which_nothing_is_known_is_only_allowed_as_it_stands(line: str) -> None:
    assert kind_of(line) is None
    assert subject_of(line) == f"shell: {line}"


@pytest.mark.parametrize(("kind", "line"), BENIGN)
def test_a_line_of_a_known_kind_is_allowed_with_all_of_its_kind(kind: str, line: str) -> None:
    assert subject_of(line) == f"shell: {kind}"
    assert subject_of(line, away=True) == f"shell outside: {kind}"


TABLE = known_commands._table()
WORDS = st.lists(st.from_regex(r"-{0,2}[a-zA-Z0-9.@/=-]{1,12}", fullmatch=True), max_size=4)


@settings(deadline=None, max_examples=500)
@given(st.from_regex(r"[a-z][a-z0-9.+-]{0,11}", fullmatch=True), WORDS)
def test_of_a_program_in_no_table_nothing_but_the_line_is_allowed(program: str, arguments: list[str]) -> None:
    if (program,) not in TABLE and not any(kind[0] == program for kind in TABLE):
        assert kind_of(shlex.join([program, *arguments])) is None


@settings(deadline=None, max_examples=500)
@given(st.sampled_from(sorted(TABLE)), WORDS, WORDS, st.from_regex(r"--?[a-zA-Z][a-zA-Z-]{1,11}", fullmatch=True))
def test_an_option_that_is_not_listed_is_only_allowed_as_it_stands(
    kind: tuple[str, ...], before: list[str], after: list[str], option: str
) -> None:
    options = TABLE[kind]
    words = [*kind, *before, option, *after]
    if options is None:
        assert kind_of(shlex.join(words)) is None or not handed_on.handed_on(words)
    elif option not in options.words and (option.startswith("--") or option[1] not in options.letters + options.valued):
        assert kind_of(shlex.join(words)) is None


@settings(deadline=None, max_examples=500)
@given(st.sampled_from(sorted(TABLE)), WORDS)
def test_what_is_allowed_stands_for_itself_and_for_its_kind_alone(kind: tuple[str, ...], arguments: list[str]) -> None:
    line = shlex.join([*kind, *arguments])
    found = kind_of(line)
    assert found is None or f"{line} ".startswith(f"{found} ")
    assert subject_of(line) == f"shell: {found or line}"


def test_the_page_names_the_commands_that_are_known() -> None:
    page = (REPOSITORY / "docs" / "permissions.md").read_text()
    listed = page.partition("```text\n")[2].partition("```")[0]
    named: set[tuple[str, ...]] = set()
    for line in listed.splitlines():
        program, _, rest = line.partition(": ")
        named |= (
            {(*program.split(), *one.split()) for one in rest.split(", ")}
            if rest
            else {(one,) for one in program.split()}
        )
    finders = {tuple(finder.split()) for finder in known_commands._FINDING}
    assert named == {kind for kind in TABLE if not any(kind[: len(finder)] == finder for finder in finders)}
