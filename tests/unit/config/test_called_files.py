"""What the hooks of a project run elsewhere in it: any change of that is a change of
the hooks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config import HookCommand
from acp_agent.config.called_files import MAX_CALLED, ProgramText, called_files
from acp_agent.config.trust import read_project_code


def project(tmp_path: Path, files: Mapping[str, str]) -> Path:
    folder = tmp_path / "project"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if name.startswith(".acp-agent/hooks/") or "/bin/" in name or "/.bin/" in name:
            path.chmod(0o755)
    return folder


def command(line: str) -> HookCommand:
    return HookCommand("before_tool_call", line, "guard", "project", "here")


MAKEFILE = "include more.mk\nlint:\n\t@sh tools/lint.sh\n"
PACKAGE = '{"scripts": {"lint": "node tools/lint.js && eslint ."}}'
RUNS: list[tuple[str, dict[str, str], str]] = [
    ("python3 scripts/check.py", {"scripts/check.py": ""}, "scripts/check.py"),
    ("./guard", {"guard": "#!/bin/sh\n"}, "guard"),
    (
        '"$CLAUDE_PROJECT_DIR"/scripts/check.sh',
        {"scripts/check.sh": ""},
        "scripts/check.sh",
    ),
    ("sh 'my tools/check it.sh'", {"my tools/check it.sh": ""}, "my tools/check it.sh"),
    ("D=tools; bash $D/check.sh", {"tools/check.sh": ""}, "tools/check.sh"),
    ("for each in checks/*; do $each; done", {"checks/one.sh": ""}, "checks/one.sh"),
    (
        "sh a.sh",
        {"a.sh": ". ./lib/b.sh", "lib/b.sh": "source c.sh", "lib/c.sh": ""},
        "lib/c.sh",
    ),
    (
        "python3 a.py",
        {"a.py": "import b", "b.py": "from pkg import (\n    c,\n)", "pkg/c.py": ""},
        "pkg/c.py",
    ),
    (
        "python3 a.py",
        {"a.py": "from lib.deep import x", "lib/deep/__init__.py": "from .x import y"},
        "lib/deep/x.py",
    ),
    ("python3 scripts/a.py", {"scripts/a.py": "import json"}, "scripts/json.py"),
    ("python3 -c 'import os'", {}, "os.py"),
    ("python3 -m checks.guard", {"checks/__init__.py": ""}, "checks/guard.py"),
    ("python3 -m checks", {"src/checks/__init__.py": ""}, "src/checks/__main__.py"),
    ("python3 -mchecks", {"checks.py": ""}, "checks.py"),
    ("make lint", {"Makefile": MAKEFILE, "more.mk": ""}, "Makefile"),
    ("make lint", {"Makefile": MAKEFILE, "more.mk": ""}, "more.mk"),
    ("make lint", {"Makefile": MAKEFILE, "tools/lint.sh": ""}, "tools/lint.sh"),
    ("make lint", {"Makefile": MAKEFILE}, "GNUmakefile"),
    ("npm run lint", {"package.json": PACKAGE}, "package.json"),
    (
        "npm run -s lint",
        {"package.json": PACKAGE, "tools/lint.js": ""},
        "tools/lint.js",
    ),
    (
        "pnpm lint",
        {"package.json": PACKAGE, "tools/lint.js": "require('../lib/rules')"},
        "lib/rules.js",
    ),
    (
        "npm run lint",
        {"package.json": PACKAGE, "node_modules/.bin/eslint": ""},
        "node_modules/.bin/eslint",
    ),
    ("npm run lint", {"package.json": PACKAGE}, "eslint.config.mjs"),
    (
        "node tools/a.mjs",
        {"tools/a.mjs": 'import x from "./b.mjs"', "tools/b.mjs": ""},
        "tools/b.mjs",
    ),
    (".venv/bin/python -c 1", {".venv/bin/python": "ELF"}, ".venv/bin/python"),
    (
        ".venv/bin/ruff .",
        {".venv/bin/ruff": "#!", ".venv/pyvenv.cfg": ""},
        ".venv/pyvenv.cfg",
    ),
    (
        ".venv/bin/python -c 1",
        {
            ".venv/bin/python": "ELF",
            ".venv/pyvenv.cfg": "",
            ".venv/lib/python3.12/site-packages/a.pth": "",
        },
        ".venv/lib/python3.12/site-packages/b.pth",
    ),
    ("just check", {"justfile": "check:\n  ./c.sh"}, "justfile"),
    ("uv run check", {"pyproject.toml": ""}, "pyproject.toml"),
    # Files that are run or read, whatever their suffix.
    ("bash a.sh", {"a.sh": ". tools/common", "tools/common": "X=1"}, "tools/common"),
    (
        "bash a.sh",
        {"a.sh": "source tools/config.env", "tools/config.env": "X=1"},
        "tools/config.env",
    ),
    (
        "bash a.sh",
        {"a.sh": "true; . tools/words.txt", "tools/words.txt": "X=1"},
        "tools/words.txt",
    ),
    (
        "bash a.sh",
        {"a.sh": ". ./tools/lib.inc", "tools/lib.inc": "X=1"},
        "tools/lib.inc",
    ),
    (
        "bash t/a.sh",
        {"t/a.sh": 'source "$(dirname "$0")/lib"', "t/lib": "X=1"},
        "t/lib",
    ),
    (
        "bash t/a.sh",
        {"t/a.sh": '. "$(cd "$(dirname "$0")" && pwd)/lib"', "t/lib": "X=1"},
        "t/lib",
    ),
    (
        "bash t/a.sh",
        {"t/a.sh": '. "${BASH_SOURCE[0]%/*}/lib.conf"', "t/lib.conf": "X=1"},
        "t/lib.conf",
    ),
    (
        ". tools/config.env; ./guard",
        {"tools/config.env": "X=1", "guard": "#!/bin/sh"},
        "tools/config.env",
    ),
    ("grep -q -f tools/words.txt", {"tools/words.txt": "one"}, "tools/words.txt"),
    (
        "bash a.sh",
        {"a.sh": "while read w; do :; done < t/words", "t/words": "one"},
        "t/words",
    ),
    ("bash a.sh", {"a.sh": 'eval "$(cat t/words)"', "t/words": "one"}, "t/words"),
    ("awk -f t/prog", {"t/prog": "{}"}, "t/prog"),
    ("jq --from-file t/prog", {"t/prog": "."}, "t/prog"),
    ("BASH_ENV=t/prog bash -c true", {"t/prog": ""}, "t/prog"),
    ("sh t/prog", {"t/prog": "true"}, "t/prog"),
    (
        "python3 a.py",
        {"a.py": "WORDS = open('t/words.txt').read()", "t/words.txt": "one"},
        "t/words.txt",
    ),
    (
        "python3 t/a.py",
        {
            "t/a.py": "W = (Path(__file__).parent / 'w.dat').read_text()",
            "t/w.dat": "one",
        },
        "t/w.dat",
    ),
    (
        "python3 t/a.py",
        {
            "t/a.py": "exec(open(os.path.join(HERE, 'code.inc')).read())",
            "t/code.inc": "",
        },
        "t/code.inc",
    ),
    ("node t/a.js", {"t/a.js": "require('./words')", "t/words": ""}, "t/words"),
    ("node t/a.js", {"t/a.js": "require('./words')", "t/words.js": ""}, "t/words"),
    (
        "node t/a.js",
        {
            "t/a.js": "fs.readFileSync(path.join(__dirname, 'words.dat'))",
            "t/words.dat": "",
        },
        "t/words.dat",
    ),
    (
        "NODE_PATH=lib node a.js",
        {"a.js": "require('words')", "lib/words.js": ""},
        "lib/words.js",
    ),
    (
        "node a.js",
        {
            "a.js": "require('./lib')",
            "lib/package.json": '{"main": "x"}',
            "lib/x.js": "",
        },
        "lib/package.json",
    ),
    (
        "ruby t/a.rb",
        {"t/a.rb": "require_relative 'words'", "t/words.rb": ""},
        "t/words.rb",
    ),
    (
        "perl t/a.pl",
        {"t/a.pl": "use lib 'lib';\nuse Guard::Words;", "lib/Guard/Words.pm": ""},
        "lib/Guard/Words.pm",
    ),
    ("perl t/a.pl", {"t/a.pl": "do './t/words';", "t/words": ""}, "t/words"),
    # Modules that Python finds instead of others.
    ("python3 t/a.py", {"t/a.py": "import json"}, "t/re.py"),
    ("python3 t/a.py", {"t/a.py": "import json"}, "t/re.pyc"),
    ("python3 t/a.py", {"t/a.py": "import json"}, "t/re.abi3.so"),
    ("python3 t/a.py", {"t/a.py": "import json"}, "t/re/__init__.py"),
    (
        "python3 t/a.py",
        {"t/a.py": "import json"},
        "t/_ctypes.cpython-311-x86_64-linux-gnu.so",
    ),
    ("python3 t/a.py", {"t/a.py": "import rules", "t/rules.py": ""}, "t/rules.abi3.so"),
    (
        "python3 t/a.py",
        {"t/a.py": "import rules", "t/rules.py": ""},
        "t/rules/__init__.py",
    ),
    ("python3 t/a.py", {"t/a.py": "import yaml"}, "t/_yaml.py"),
    ("python3 t/a.py", {"t/a.py": "from . import b", "t/b.py": ""}, "t/b.py"),
    ("python3 -c 'import json'", {}, "re.py"),
    # What a module that `python -m` runs imports and reads.
    (
        "python3 -m t.guard",
        {"t/guard/__main__.py": "from ..common import x", "t/common.py": ""},
        "t/common.py",
    ),
    (
        "python3 -m t.guard",
        {"t/guard/__main__.py": "from ... import x", "x.py": ""},
        "x.py",
    ),
    (
        "python3 -m t.guard.run",
        {
            "t/guard/run.py": "from .a import b",
            "t/guard/a/__init__.py": "from ..c import d",
            "t/guard/c/__init__.py": "from .d import e",
            "t/guard/c/d.py": "",
        },
        "t/guard/c/d.py",
    ),
    (
        "python3 -m t.guard",
        {
            "t/guard/__main__.py": "Path(__file__).parent.parent / 'rules' / 'a.txt'",
            "t/rules/a.txt": "",
        },
        "t/rules/a.txt",
    ),
    (
        "python3 -m t.guard",
        {
            "t/guard/__main__.py": "import_module('..more', __package__)",
            "t/more.py": "",
        },
        "t/more.py",
    ),
    ("python3 -m t.guard", {"t/guard/__main__.py": "import yaml"}, "_yaml.py"),
    ("python3 -m t.guard", {"t/guard/__main__.py": "import yaml"}, "yaml.py"),
    (
        "python3 a/b/c.py",
        {"a/b/c.py": "sys.path.append(ROOT / 'd' / 'e')\nimport f", "d/e/f.py": ""},
        "d/e/f.py",
    ),
]


@pytest.mark.parametrize(
    ("line", "files", "changed"),
    RUNS,
    ids=[f"{line}: {changed}" for line, _, changed in RUNS],
)
@pytest.mark.parametrize("form", ["command", "program", "module"])
def test_a_change_of_what_a_hook_runs_in_whatever_steps_is_a_change_of_the_hook(
    tmp_path: Path, line: str, files: dict[str, str], changed: str, form: str
) -> None:
    hook = {}
    commands = (command("true"),)
    if form == "command":
        commands = (command(line),)
    elif form == "program":
        hook = {".acp-agent/hooks/guard": f"#!/bin/sh\ncd ../..\n{line}\n"}
    else:
        hook = {
            ".acp-agent/hooks/guard.py": f"import subprocess\nsubprocess.run({line!r}, shell=True)\n"
        }
    folder = project(tmp_path, {**files, **hook, "unrelated.py": ""})
    before = read_project_code(folder / ".acp-agent", commands)
    assert before.hooks_are_same()
    (folder / "unrelated.py").write_text("changed")
    (folder / "made.txt").write_text("made")
    assert before.hooks_are_same()
    project(tmp_path, {changed: '{"scripts": {"lint": "evil"}}'})
    assert not before.hooks_are_same()
    assert read_project_code(folder / ".acp-agent", commands).digest != before.digest


READ_BY_COMMANDS = {
    "tools/guard": (
        "/bin/sh tools/guard", "/usr/bin/env bash tools/guard", "bash -o pipefail tools/guard",
        "bash -x -- tools/guard", "python3 -W ignore tools/guard", "/usr/bin/python3 tools/guard",
        "uv run tools/guard", "tsx tools/guard", "ts-node tools/guard", "nodejs tools/guard", "go run tools/guard",
        "tclsh tools/guard", "pwsh -File tools/guard", "cd tools && . ./guard", "\\\\. tools/guard",
        "env -S 'bash tools/guard'", "timeout 5 tools/guard", "busybox sh tools/guard",
        "node --import ./tools/guard x", "X=tools/guard run",
    ),
    "tools/words.txt": (
        "grep -qFf tools/words.txt", "grep -ftools/words.txt", "awk -ftools/words.txt", "sed -nf tools/words.txt",
        "sed -Ef tools/words.txt", "xargs -a tools/words.txt echo", "cat tools/words.txt",
        "cat tools/words.txt 2>/dev/null | check",
        "diff tools/words.txt x",
        'S=$(head -n1 tools/words.txt); grep -qF "$S"', "sort tools/words.txt | comm -12 - x",
        "check --words=tools/words.txt", "[ -s tools/words.txt ]", "if look tools/words.txt; then exit 2; fi",
    ),
    "tools/rules.json": (
        "jq -e '.deny[]' tools/rules.json", "yq .x tools/rules.json", "scan -c tools/rules.json",
    ),
    "tools/Makefile": ("make -C tools",),
}  # fmt: skip


@pytest.mark.parametrize("form", ["line", "script", "script of a script"])
@pytest.mark.parametrize(
    ("changed", "line"),
    [(path, line) for path, lines in READ_BY_COMMANDS.items() for line in lines],
)
def test_each_file_that_a_word_of_a_hook_s_commands_names_is_part_of_it(
    tmp_path: Path, changed: str, line: str, form: str
) -> None:
    files = {changed: "one\n"}
    command_line = line
    if form != "line":
        command_line = "/bin/sh checks/guard"
        files["checks/guard"] = f"{line}\n"
    if form == "script of a script":
        files["checks/guard"] = "timeout 5 bash checks/inner\n"
        files["checks/inner"] = f"#!/bin/sh\n{line}\n"
    folder = project(tmp_path, files)
    before = read_project_code(folder / ".acp-agent", (command(command_line),))
    assert before.hooks_are_same()
    (folder / changed).write_text("two\n")
    assert not before.hooks_are_same()


@pytest.mark.parametrize(
    "line",
    [
        'echo "do not change notes.txt" >&2',
        'case "$1" in notes.txt) exit 2;; b) ;; esac',
        '[ "$1" = notes.txt ] && exit 2',
        "git add notes.txt",
        "cp other notes.txt",
        "sed -i s/a/b/ notes.txt",
        "date > notes.txt",
    ],
)
def test_a_file_that_a_hook_s_command_only_mentions_or_writes_is_no_part_of_it(
    tmp_path: Path, line: str
) -> None:
    folder = project(tmp_path, {"guard.sh": f"{line}\n", "notes.txt": "one"})
    commands = (command(f"bash guard.sh; {line}"),)
    before = read_project_code(folder / ".acp-agent", commands)
    (folder / "notes.txt").write_text("two")
    assert before.hooks_are_same()


def test_the_modules_that_a_python_hook_imports_from_the_project_are_part_of_it(
    tmp_path: Path,
) -> None:
    tools = "Path(__file__).parents[2] / 'tools'"
    hook = f"import sys\nfrom pathlib import Path\nsys.path.insert(0, str({tools}))\nimport rules"
    folder = project(
        tmp_path, {".acp-agent/hooks/guard.py": hook, "tools/rules.py": "X = 1"}
    )
    before = read_project_code(folder / ".acp-agent")
    (folder / "tools" / "rules.py").write_text("X = 2")
    assert not before.hooks_are_same()


def test_where_the_session_s_directory_is_further_down_what_is_run_there_is_compared(
    tmp_path: Path,
) -> None:
    folder = project(tmp_path, {"packages/one/check.sh": ""})
    before = read_project_code(
        folder / ".acp-agent", (command("sh ./check.sh"),), folder / "packages" / "one"
    )
    (folder / "packages" / "one" / "check.sh").write_text("evil")
    assert not before.hooks_are_same()


def test_a_program_that_a_path_names_in_the_project_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, {"venv/bin/check": ""})
    monkeypatch.setenv("PATH", f"{folder}/venv/bin", prepend=os.pathsep)
    before = read_project_code(folder / ".acp-agent", (command("check ."),))
    (folder / "venv" / "bin" / "check").write_text("evil")
    assert not before.hooks_are_same()


@pytest.mark.parametrize("name", ["re.py", "sitecustomize.py", "rules.abi3.so"])
def test_a_module_in_a_folder_of_the_project_that_pythonpath_names_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = project(tmp_path, {"guard.py": "import json, rules", "src/rules.py": ""})
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere:{folder}/src")
    before = read_project_code(folder / ".acp-agent", (command("python3 guard.py"),))
    assert before.hooks_are_same()
    project(tmp_path, {f"src/{name}": ""})
    assert not before.hooks_are_same()


def test_data_that_a_hook_names_or_writes_and_new_dependencies_are_no_change_of_it(
    tmp_path: Path,
) -> None:
    line = "npm run lint && cat README.md data/list.csv > out/report.txt"
    files = {
        "package.json": PACKAGE,
        "README.md": "one",
        "data/list.csv": "1",
        "out/report.txt": "",
    }
    folder = project(tmp_path, files)
    before = read_project_code(folder / ".acp-agent", (command(line),))
    package = PACKAGE[:-1] + ', "dependencies": {"left-pad": "1"}}'
    project(
        tmp_path,
        {
            "package.json": package,
            "README.md": "two",
            "data/list.csv": "2",
            "out/report.txt": "x",
        },
    )
    assert before.hooks_are_same()


def test_files_that_a_hook_only_compares_or_writes_are_no_change_of_it(
    tmp_path: Path,
) -> None:
    guard = (
        "import json, sys\nBLOCKED = ('package-lock.json', '.env')\nlog = open('out/guard.log', 'a')\n"
        "if sys.argv[1].endswith('README.md') or sys.argv[1] == 'data/list.csv':\n    sys.exit(2)\n"
    )
    shell = 'case "$1" in package-lock.json) exit 2;; esac\necho "$1" >> out/calls.txt\ndate | tee -a out/times\n'
    written = (
        "package-lock.json",
        ".env",
        "out/guard.log",
        "README.md",
        "data/list.csv",
        "out/calls.txt",
        "out/times",
    )
    files = {
        "tools/guard.py": guard,
        "tools/guard.sh": shell,
        "tools/other.py": "",
        **dict.fromkeys(written, "1"),
    }
    folder = project(tmp_path, files)
    line = "python3 tools/guard.py; sh tools/guard.sh | tee out/report"
    before = read_project_code(folder / ".acp-agent", (command(line),))
    project(
        tmp_path,
        {
            **dict.fromkeys(written, "2"),
            "out/report": "2",
            "tools/another.py": "",
            "tools/other.py": "2",
        },
    )
    assert before.hooks_are_same()


STATES = (
    (
        "guard.py",
        """from pathlib import Path
STATE = Path(__file__).parent / "count"
STATE.write_text(str(int(STATE.read_text()) + 1))
""",
    ),
    (
        "guard.py",
        """HERE = Path(__file__).parent
calls = json.load(open(HERE / "count"))
with open(HERE / "count", "w") as file:
    json.dump(calls, file)
""",
    ),
    ("guard.py", "STATE = HERE / 'count'\nsqlite3.connect(STATE)\n"),
    ("guard.sh", "n=$(cat tools/count)\necho $((n + 1)) > tools/count\n"),
    (
        "guard.sh",
        'state="$(dirname "$0")/count"\nread -r n < "$state"\necho x >> "$state"\n',
    ),
    (
        "guard.js",
        """const file = path.join(__dirname, 'count')
fs.writeFileSync(file, fs.readFileSync(file) + 1)
""",
    ),
    ("guard.rb", "File.write('tools/count', File.read('tools/count'))\n"),
)


@pytest.mark.parametrize(("name", "text"), STATES)
def test_a_file_in_which_a_hook_remembers_something_is_no_part_of_it(
    tmp_path: Path, name: str, text: str
) -> None:
    folder = project(tmp_path, {f"tools/{name}": text, "tools/count": "1"})
    before = read_project_code(
        folder / ".acp-agent", (command(f"run tools/{name}; run tools/other"),)
    )
    project(tmp_path, {"tools/count": "2"})
    assert before.hooks_are_same()
    project(tmp_path, {f"tools/{name}": f"{text}\n"})
    assert not before.hooks_are_same()


NAMED = (
    ("guard.sh", 'settings=tools/words\n. "$settings"\n'),
    ("guard.sh", 'settings="$(dirname "$0")/words"\nsource "${settings}"\n'),
    ("guard.py", "WORDS = 'tools/words'\nwords = open(WORDS).read()\n"),
    ("guard.py", "WORDS = pathlib.Path('tools/words')\nwords = WORDS.read_text()\n"),
    ("guard.js", "const words = 'tools/words'\nfs.readFileSync(words)\n"),
)


@pytest.mark.parametrize(("name", "text"), NAMED)
def test_a_file_that_a_hook_reads_by_a_variable_is_part_of_it(
    tmp_path: Path, name: str, text: str
) -> None:
    folder = project(tmp_path, {f"tools/{name}": text, "tools/words": "1"})
    code = read_project_code(folder / ".acp-agent", (command(f"run tools/{name}"),))
    project(tmp_path, {"tools/words": "2"})
    assert not code.hooks_are_same()


def test_what_lies_outside_of_the_project_is_left_to_the_system(tmp_path: Path) -> None:
    folder = project(tmp_path, {"bin/x": ""})
    (folder / "bin" / "python").symlink_to(sys.executable)
    line = f"bin/python {sys.executable} ../outside.py /etc/passwd"
    (tmp_path / "outside.py").write_text("")
    code = read_project_code(folder / ".acp-agent", (command(line),))
    assert [(file.name, file.content) for file in code.files] == [
        ("../bin/python", "outside of the project")
    ]


@given(st.lists(st.text("ab./-_ \"'$*\\\n:=\0é", max_size=30), max_size=8))
def test_whatever_a_text_says_only_files_of_the_project_are_found(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = project(
        tmp_path_factory.getbasetemp(),
        {"a/b.sh": "../a", "b": "", "a/a/a.py": "import a.b"},
    )
    found = called_files(
        folder, [ProgramText(text, folder / "a") for text in texts]
    ).files
    allowed = {"a/b.sh", "a/a/a.py", "b"}
    assert {str(path.relative_to(folder)) for path in found} <= allowed


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12))
def test_a_program_is_found_whatever_its_name(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / f"{name}.sh").write_text("")
    assert called_files(folder, [ProgramText(f"sh ./{name}.sh --all")]).files == (
        folder / f"{name}.sh",
    )


def test_files_that_run_each_other_in_a_circle_or_without_end_are_found_up_to_a_limit(
    tmp_path: Path,
) -> None:
    folder = project(
        tmp_path,
        {f"s{n}.sh": f"sh s{n + 1}.sh; sh s0.sh" for n in range(MAX_CALLED + 50)},
    )
    assert len(called_files(folder, [ProgramText("sh s0.sh")]).files) == MAX_CALLED


@pytest.mark.parametrize(
    "piece", ["a", "a/", "a b ", '"', "'a", "-m ", "import a, ", "from ", "a/* ", "../"]
)
def test_a_hostile_text_asks_the_disk_for_no_more_the_longer_it_is(
    tmp_path: Path, piece: str
) -> None:
    folder = project(tmp_path, {"a/x": ""})
    counts = [
        len(called_files(folder, [ProgramText(piece * size)]).folders)
        for size in (1_000, 50_000)
    ]
    assert counts[1] <= counts[0] + 2
