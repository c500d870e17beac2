"""A project's Python hook imports only the sources of the project that the user trusted."""

from __future__ import annotations

import importlib.util
import marshal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_agent.config.trust import read_project_code
from acp_agent.hooks.contract import FoundHooks
from acp_agent.hooks.python_hooks import load

HEAD = "import sys\nfrom pathlib import Path\nfrom acp_agent.hooks import hook\n\nPROJECT = Path(__file__).parents[2]\n"
TAIL = "\n\n@hook('turn_end')\ndef guard(event, services):\n    return None\n"
INSERT = "sys.path.insert(0, str(PROJECT / 'tools'))\n"
ROOT = "sys.path.insert(0, str(PROJECT))\n"


@pytest.fixture(autouse=True)
def unchanged_path() -> object:
    before = list(sys.path)
    yield
    assert sys.path == before


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def imported(
    project: Path, text: str, spoil: Callable[[], object] = lambda: None
) -> FoundHooks:
    """Load a project's hook after the project was trusted and then changed.

    :param spoil: changes the project.
    """
    path = project / ".acp-agent" / "hooks" / "guard.py"
    write(project, {".acp-agent/hooks/guard.py": HEAD + text + TAIL})
    code = read_project_code(project / ".acp-agent")
    spoil()
    return load(path, "project", code)


def evil(tmp_path: Path) -> str:
    return f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).write_text('it ran')\n"


def plant_bytecode(source: Path, text: str, to: Path | None = None) -> None:
    """Write bytecode that Python would use for an unchanged source."""
    status = source.stat()
    head = importlib.util.MAGIC_NUMBER + bytes(4)
    head += int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(
        4, "little"
    )
    path = to or Path(importlib.util.cache_from_source(str(source)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(head + marshal.dumps(compile(text, str(source), "exec")))


IMPORTS = {
    "a module": (
        INSERT + "import policy\nname = policy.NAME",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "a name of it": (
        INSERT + "from policy import NAME as name",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "in a package": (
        ROOT + "from tools import policy\nname = policy.NAME",
        {"tools/__init__.py": "", "tools/policy.py": "NAME = 'right'"},
    ),
    "in a folder": (
        ROOT + "import tools.policy\nname = tools.policy.NAME",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "relative": (
        ROOT + "from tools.policy import NAME as name",
        {
            "tools/__init__.py": "",
            "tools/policy.py": "from .words import NAME",
            "tools/words.py": "NAME = 'right'",
        },
    ),
    "relative, of the package": (
        ROOT + "from tools.policy import NAME as name",
        {
            "tools/__init__.py": "",
            "tools/policy.py": "from . import words\nNAME = words.NAME",
            "tools/words.py": "NAME = 'right'",
        },
    ),
    "all names": (
        ROOT + "from tools.policy import *",
        {"tools/policy.py": "__all__ = ['name']\nname = 'right'"},
    ),
    "appended": (
        "sys.path.append(str(PROJECT / 'tools'))\nfrom policy import NAME as name",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "another of the project's": (
        INSERT + "from policy import NAME as name",
        {
            "tools/policy.py": "from words import NAME",
            "tools/words.py": "NAME = 'right'",
        },
    ),
    "through importlib": (
        INSERT + "import importlib\nname = importlib.import_module('policy').NAME",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "by a path": (
        """import importlib.util
spec = importlib.util.spec_from_file_location('policy', PROJECT / 'tools' / 'policy.py')
policy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(policy)
name = policy.NAME""",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "beside the hook": (
        "sys.path.insert(0, str(Path(__file__).parent))\nfrom _policy import NAME as name",
        {".acp-agent/hooks/_policy.py": "NAME = 'right'"},
    ),
    "with dataclasses": (
        INSERT + "from policy import Rule\nname = Rule('right').name",
        {
            "tools/policy.py": """
                from __future__ import annotations
                from dataclasses import dataclass
                @dataclass
                class Rule:
                    name: str
            """
        },
    ),
    "run by its path": (
        "import runpy\nname = runpy.run_path(str(PROJECT / 'tools' / 'policy.py'))['NAME']",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "a folder run by its path": (
        "import runpy\nname = runpy.run_path(f'{PROJECT}/tools')['NAME']\n# tools/__main__.py",
        {"tools/__main__.py": "NAME = 'right'"},
    ),
    "run by its name": (
        INSERT + "from runpy import run_module\nname = run_module('policy')['NAME']",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "a loader of a path": (
        """from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
loader = SourceFileLoader('policy', str(PROJECT / 'tools' / 'policy.py'))
policy = module_from_spec(spec_from_loader('policy', loader))
loader.exec_module(policy)
name = policy.NAME""",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "a loader by another name": (
        """import importlib.machinery as machinery, importlib
assert machinery is importlib.machinery
from importlib._bootstrap_external import SourceFileLoader
assert SourceFileLoader is machinery.SourceFileLoader
name = SourceFileLoader('policy', str(PROJECT / 'tools' / 'policy.py')).load_module().NAME""",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "a loader of a spec": (
        """import importlib.machinery
import importlib.util
path = str(PROJECT / 'tools' / 'policy')
loader = importlib.machinery.SourceFileLoader('policy', path)
spec = importlib.util.spec_from_file_location('policy', path, loader=loader)
policy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(policy)
name = policy.NAME""",
        {"tools/policy": "#!/usr/bin/python3\nNAME = 'right'"},
    ),
    "by its own built-in": (
        INSERT + "name = __import__('policy').NAME",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "by the module of built-ins": (
        INSERT + "import builtins\nname = builtins.__import__('policy').NAME",
        {"tools/policy.py": "NAME = 'right'"},
    ),
    "in a folder in a folder": (
        "sys.path.insert(0, str(PROJECT / 'ci' / 'tools'))\nfrom policy import NAME as name",
        {"ci/tools/policy.py": "NAME = 'right'"},
    ),
}


@pytest.mark.parametrize("form", IMPORTS)
def test_a_hook_imports_the_sources_of_its_project_that_were_trusted(
    tmp_path: Path, form: str
) -> None:
    text, files = IMPORTS[form]
    write(tmp_path, files)
    found = imported(tmp_path, f"{text}\nassert name == 'right'")
    assert [hook.name for hook in found.hooks] == ["guard"]
    assert not found.errors


@pytest.mark.parametrize("form", IMPORTS)
def test_a_hook_imports_no_planted_bytecode_or_extension_module(
    tmp_path: Path, form: str
) -> None:
    text, files = IMPORTS[form]
    write(tmp_path, files)

    def spoil() -> None:
        for source in (tmp_path / name for name in files):
            plant_bytecode(source, evil(tmp_path))
            plant_bytecode(source, evil(tmp_path), source.with_suffix(".pyc"))
            source.with_suffix(".abi3.so").write_text("not ELF: loading it would fail")

    found = imported(tmp_path, f"{text}\nassert name == 'right'", spoil)
    assert not found.errors
    assert not (tmp_path / "ran").exists()
    assert sorted(tmp_path.rglob("*.pyc")) == sorted(
        path
        for name in files
        for path in ((tmp_path / name).with_suffix(".pyc"), _cache(tmp_path / name))
    )


def _cache(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))


@pytest.mark.parametrize("form", IMPORTS)
def test_a_source_that_changed_after_it_was_trusted_is_named_and_not_run(
    tmp_path: Path, form: str
) -> None:
    text, files = IMPORTS[form]
    write(tmp_path, files)
    last = list(files)[-1]
    found = imported(tmp_path, text, lambda: write(tmp_path, {last: evil(tmp_path)}))
    assert last in str(found.errors)
    assert "you trusted" in str(found.errors)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["xml.py", "xml/__init__.py", "xml.abi3.so", "xml.pyc", "__init__.py"]
)
def test_a_planted_module_shadows_no_import_of_a_hook_or_the_agent(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, {"tools/policy.py": "import xml.dom.minidom\nNAME = xml.__file__"})
    text = (
        INSERT
        + ROOT
        + f"import xml.sax, policy\nassert not xml.__file__.startswith({str(tmp_path)!r})"
    )
    found = imported(
        tmp_path,
        text,
        lambda: write(
            tmp_path, {f"tools/{name}": evil(tmp_path), name: evil(tmp_path)}
        ),
    )
    assert not found.errors
    assert not (tmp_path / "ran").exists()
    assert not [place for place in sys.path if place.startswith(str(tmp_path))]


def test_imports_inside_a_hook_s_functions_follow_the_same_rules(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"tools/policy.py": "NAME = 'right'"})
    text = "def late():\n    sys.path.insert(0, str(PROJECT / 'tools'))\n    import policy, other\n"
    found = imported(
        tmp_path, text, lambda: write(tmp_path, {"tools/other.py": evil(tmp_path)})
    )
    [hook] = found.hooks
    module = sys.modules[f"acp_agent_hooks:{hook.file}"]
    with pytest.raises(
        ImportError, match=r"other\.py is not among the sources that you trusted"
    ):
        module.late()
    assert not (tmp_path / "ran").exists()


def test_two_projects_can_have_modules_with_the_same_name(tmp_path: Path) -> None:
    for place in ("one", "two"):
        write(tmp_path / place, {"tools/policy.py": f"NAME = {place!r}"})
        found = imported(
            tmp_path / place,
            INSERT + f"from policy import NAME\nassert NAME == {place!r}",
        )
        assert not found.errors
    assert "policy" not in sys.modules


def test_a_changed_module_that_was_trusted_again_is_loaded_again(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        write(tmp_path, {"tools/policy.py": f"NAME = {name!r}"})
        assert not imported(
            tmp_path, INSERT + f"from policy import NAME\nassert NAME == {name!r}"
        ).errors


def test_a_missing_module_raises_the_usual_import_error(tmp_path: Path) -> None:
    text = "try:\n    import nothing_of_this_name\nexcept ModuleNotFoundError as error:\n    said = error.name\n"
    assert not imported(tmp_path, text + "assert said == 'nothing_of_this_name'").errors


EXECUTED = {
    "exec": "with open(PROJECT / 'tools' / 'policy.txt') as file: exec(file.read())",
    "exec of bytes": "exec((PROJECT / 'tools' / 'policy.txt').read_bytes())",
    "exec of compiled code": """
path = str(PROJECT / 'tools' / 'policy.txt')
exec(compile(Path(path).read_text(), path, 'exec'), globals())""",
    "in a dict": """
found = {}
exec((PROJECT / 'tools' / 'policy.txt').read_text(), found)
name = found['name']""",
    "by another name": """
import builtins as b
b.exec(b.compile((PROJECT / 'tools' / 'policy.txt').read_text(), 'policy', 'exec'))""",
    "in a function": """
def load():
    exec((PROJECT / 'tools' / 'policy.txt').read_text())
    return locals()['name'] if 'name' in locals() else 'right'
name = load()""",
    "exec of an exec": """exec("exec((PROJECT / 'tools' / 'policy.txt').read_text())")""",
}


@pytest.mark.parametrize("form", EXECUTED)
def test_the_text_of_a_file_is_run_only_if_it_was_trusted(
    tmp_path: Path, form: str
) -> None:
    write(tmp_path, {"tools/policy.txt": "name = 'right'\n"})
    text = f"{EXECUTED[form]}\nassert name == 'right'"
    assert not imported(tmp_path, text).errors

    def spoil() -> None:
        write(tmp_path, {"tools/policy.txt": evil(tmp_path)})

    found = imported(tmp_path, text, spoil)
    assert "not among the sources that you trusted" in str(found.errors)
    assert not (tmp_path / "ran").exists()


COMPUTED = {
    "a path": "import runpy\nrunpy.run_path(path)",
    "a loader": "from importlib.machinery import SourceFileLoader as L\nL('x', path).load_module()",
    "a spec": """
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location('x', path)
spec.loader.exec_module(module_from_spec(spec))""",
    "a text": "exec(Path(path).read_text())",
    "an expression": "eval('__import__(\"runpy\")' + '.run_path(path)')",
    "a syntax tree": """
import ast
exec(compile(ast.parse(Path(path).read_text()), path, 'exec'))""",
    "bytecode": """
import marshal
exec(marshal.loads(marshal.dumps(compile(Path(path).read_text(), path, 'exec'))))""",
    "a compiled file": "from importlib.machinery import SourcelessFileLoader as L\nL('x', path + 'c')",
    "an extension module": "from importlib.machinery import ExtensionFileLoader as L\nL('x', path)",
    "an archive": "from zipimport import zipimporter\nzipimporter(path)",
    "a module": "sys.path.insert(0, folder)\nimport importlib\nimportlib.import_module(stem)",
    "a built-in": "sys.path.insert(0, folder)\n__import__(stem)",
}


@pytest.mark.parametrize("form", COMPUTED)
@pytest.mark.parametrize("where", ["project", "elsewhere"])
def test_a_file_whose_name_a_hook_computes_is_not_run(
    tmp_path: Path, form: str, where: str
) -> None:
    """The file may be in the project, or in another folder that anybody can write to."""
    project = tmp_path / "project"
    folder = tmp_path / where / "".join(reversed("sloot"))
    write(folder, {"policy.py": evil(tmp_path)})
    if where == "elsewhere":
        folder.parent.chmod(0o777)
    text = (
        f"folder = str(PROJECT.parent / {where!r} / ''.join(reversed('sloot')))\n"
        "stem = ''.join(reversed('ycilop'))\npath = f'{folder}/{stem}.py'\n"
    )
    found = imported(project, text + COMPUTED[form])
    assert found.errors
    assert not (tmp_path / "ran").exists()


def test_ordinary_uses_of_exec_and_eval_work(tmp_path: Path) -> None:
    text = """
from __future__ import annotations
from collections import namedtuple
from dataclasses import dataclass
import ast, runpy, typing, sys as system
Pair = namedtuple('Pair', 'a b')
@dataclass
class Rule:
    name: str
    pair: Pair
assert typing.get_type_hints(Rule)['name'] is str
assert eval('1 + 1') == 2
assert eval(' Rule("x", 2).name') == 'x'
names = {}
exec('x = a + 1', {'a': 1}, names)
assert names == {'x': 2}
def inner(a):
    return eval('a + 1')
assert inner(2) == 3
for source in ('x = 1', 'x = (' + 'y)'):
    compile(source, 'x.py', 'exec')
assert ast.literal_eval('[1, ' + '2]') == [1, 2]
try:
    compile('x = (', 'x.py', 'exec')
except SyntaxError:
    pass
assert system.version_info
assert runpy.run_path(__import__('json.decoder').decoder.__file__)['JSONDecoder']
"""
    path = tmp_path / ".acp-agent" / "hooks" / "guard.py"
    head = "from __future__ import annotations\n" + HEAD
    text = text.replace("from __future__ import annotations\n", "")
    write(tmp_path, {".acp-agent/hooks/guard.py": head + text + TAIL})
    code = read_project_code(tmp_path / ".acp-agent")
    assert not load(path, "project", code).errors


def test_code_run_from_its_text_gets_the_same_built_in_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "tools/policy.txt": "import sys\nsys.path.insert(0, folder)\nimport other\n",
            "tools/hidden/other.py": evil(tmp_path),
        },
    )
    text = (
        "folder = str(PROJECT / 'tools' / ''.join(reversed('neddih')))\n"
        "exec((PROJECT / 'tools' / 'policy.txt').read_text(), {'folder': folder})"
    )
    found = imported(tmp_path, text)
    assert "other.py is not among the sources" in str(found.errors)
    assert not (tmp_path / "ran").exists()
